"""What a soft layer does to its sums: a function of each row alone, for nodes and for single pairs alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from reference_models.layers.blocks import Products
from reference_models.layers.readings import Shares


class Rows:
    """The layer after its sums, for m groups of s rows that share T_k: all slots of a node, or a pair alone."""

    def __init__(self, maps: Sequence[Tensor]) -> None:
        self.own, self.same, *other = zip(*[iter(maps)] * 4, strict=True)
        self.other = other[0] if other else None

    def __call__(self, own: Tensor, rest: Tensor, reached: Tensor, apart: Tensor, shares: Shares) -> Products:
        """Map own and rest ``(m, s, d)``, reached and apart ``(m, K, d)`` to ``(m, s, width)``.

        ``own`` is what L1 sees; see `hidden` for the others.
        """
        return self.products([self.mine(own), *self.hidden(self.passed(rest), reached, apart, shares)], shares)

    def mine(self, own: Tensor) -> Tensor:
        """Return what the second map of L1 takes."""
        first, bias, _, _ = self.own
        return linear(own, first, bias).relu_()

    def passed(self, rest: Tensor) -> list[Tensor]:
        """Return ``rest`` through the first maps of L2 and, where there are other tasks, L3, without their biases."""
        return [rest @ maps[0].T for maps in (self.same, self.other) if maps is not None]

    def hidden(self, passed: Sequence[Tensor], reached: Tensor, apart: Tensor, shares: Shares) -> list[Tensor]:
        """Return what the second maps of L2 and, where there are other tasks, L3 take, each ``(m, s, width)``.

        L2 and L3 see ``apart`` plus the shares' factor times (``reached`` - alpha rest), of which ``passed`` is what
        `passed` makes of the rest. In a GIN layer these are sums of p_k, T_k and X_r over a node and the edges that
        reach it.
        """
        factor = shares.factor
        base, scaled, factors = apart, None, None
        if isinstance(factor, float):
            base = torch.add(apart, reached, alpha=factor)
        else:
            scaled, factors = reached, factor
        first, bias, _, _ = self.same
        contexts, within = base @ first.T + bias, _mapped(scaled, first)
        if shares.same is None:
            contexts = _at(contexts, shares.assigned)
            if within is not None and factors is not None:
                contexts = contexts + _at(within, shares.assigned) * factors.take_along_dim(shares.assigned, 2)
            hidden = plus_share(contexts, passed[0], shares.own.take_along_dim(shares.assigned, 2)).relu_()
        else:
            hidden = over_tasks(contexts, passed[0], shares.own, shares.same, within, factors)
        found = [hidden]
        if self.other is not None:
            first, bias, _, _ = self.other
            contexts, within = base @ first.T + bias, _mapped(scaled, first)
            found.append(over_tasks(contexts, passed[1], shares.own, shares.others(), within, factors))
        return found

    def products(self, hidden: Sequence[Tensor], shares: Shares) -> Products:
        """Return the second maps, with their biases, of what `mine` and `hidden` found."""
        return Products(self.biases(shares), self.factors(hidden))

    def factors(self, hidden: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Return hidden rows, the last ones of L1, L2 and L3 at least, with the weights of their second maps."""
        weights = [self.own[2], self.same[2], *([] if self.other is None else [self.other[2]])]
        return list(zip(hidden, weights[-len(hidden) :], strict=True))

    def biases(self, shares: Shares) -> Tensor:
        """Return the biases of the second maps, added up."""
        total: Tensor = self.own[3] + self.same[3]
        return total if self.other is None else total + (shares.attention.shape[2] - 1) * self.other[3]


def _mapped(scaled: Tensor | None, first: Tensor) -> Tensor | None:
    return None if scaled is None else scaled @ first.T


def _at(contexts: Tensor, assigned: Tensor) -> Tensor:
    """Return ``(m, s, d)``, the context of each row's own task, of ``(m, K, d)``."""
    if len(assigned) == 1:
        return contexts.index_select(1, assigned.view(-1))
    return contexts.gather(1, assigned.expand(-1, -1, contexts.shape[2]))


def over_tasks(
    contexts: Tensor,
    rest: Tensor,
    shares: Tensor,
    weights: Tensor,
    scaled: Tensor | None,
    factors: Tensor | None,
) -> Tensor:
    """Return the sum over k of weights_k relu(C_k + shares_k Q + factors_k D_k), the last term where there is one.

    C and D, ``contexts`` and ``scaled``, are ``(m, K, d)``, Q, ``rest``, is ``(m, s, d)``, and the rest
    ``(1, s, K)`` or ``(m, s, K)``. One task at a time, so that no array has a task axis.
    """
    return _OverTasks.apply(contexts, rest, shares, weights, scaled, factors)  # type: ignore[no-any-return, no-untyped-call]


class _OverTasks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor | None) -> Tensor:
        ctx.save_for_backward(*tensors)
        contexts, rest, shares, weights, scaled, factors = tensors
        assert contexts is not None
        assert rest is not None
        assert weights is not None
        out, before = torch.zeros_like(rest), torch.empty_like(rest)
        for task in range(contexts.shape[1]):
            _before(task, contexts, rest, shares, scaled, factors, before)
            out.addcmul_(before.relu_(), weights[..., task : task + 1])
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        contexts, rest, shares, weights, scaled, factors = ctx.saved_tensors
        found: list[Any] = [None if tensor is None else torch.zeros_like(tensor) for tensor in ctx.saved_tensors]
        of_contexts, of_rest, of_shares, of_weights, of_scaled, of_factors = found
        before, passed = torch.empty_like(rest), torch.empty_like(rest)  # one for all tasks: they stay in the cache
        for task in range(contexts.shape[1]):
            one = slice(task, task + 1)
            _before(task, contexts, rest, shares, scaled, factors, before)
            torch.ops.aten.threshold_backward.grad_input(gradient, before, 0, grad_input=passed)
            if ctx.needs_input_grad[3]:
                of_weights[..., task] = _by_row(before.mul_(passed), weights)
            passed *= weights[..., one]
            of_contexts[:, task] = passed.sum(dim=1)
            of_rest.addcmul_(passed, shares[..., one])
            if scaled is not None:
                of_scaled[:, task] = (passed * factors[..., one]).sum(dim=1)
                of_factors[..., task] = _by_row(passed * scaled[:, one], factors)
            of_shares[..., task] = _by_row(passed.mul_(rest), shares)
        return tuple(found)


def _before(task: int, contexts: Any, rest: Any, shares: Any, scaled: Any, factors: Any, out: Tensor) -> None:
    """Write what the ReLU of one task is applied to into ``out``."""
    one = slice(task, task + 1)
    base = contexts[:, one] if scaled is None else torch.addcmul(contexts[:, one], scaled[:, one], factors[..., one])
    torch.addcmul(base, rest, shares[..., one], out=out)


def _by_row(terms: Tensor, like: Tensor) -> Tensor:
    """Return the sum of ``(m, s, d)`` over d, and over m if ``like`` is ``(1, s, K)``."""
    return (terms.sum(dim=0, keepdim=True) if like.shape[0] == 1 else terms).sum(dim=2)


def plus_share(base: Tensor, rows: Tensor, shares: Tensor) -> Tensor:
    """Return base + shares rows for ``(m, s, d)``, ``(m, s, d)`` and ``(1, s, 1)`` or ``(m, s, 1)``.

    What the library derives for the gradient of the shares is many times slower.
    """
    return _PlusShare.apply(base, rows, shares)  # type: ignore[no-any-return, no-untyped-call]


class _PlusShare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, base: Tensor, rows: Tensor, shares: Tensor) -> Tensor:
        ctx.save_for_backward(rows, shares)
        return torch.addcmul(base, rows, shares)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, shares = ctx.saved_tensors
        return gradient, gradient * shares, _by_row(gradient * rows, shares).unsqueeze(2)


def take(rows: Tensor, places: Tensor) -> Tensor:
    """Return ``rows[places]`` for distinct places."""
    return _Take.apply(rows, places)  # type: ignore[no-any-return, no-untyped-call]


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.shape = rows.shape
        ctx.save_for_backward(places)
        return rows[places]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        out = gradient.new_zeros(ctx.shape)
        out[places] = gradient
        return out, None


def fork(rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``rows`` ``(m, s, d)`` and, ``(P, d)``, those at distinct places of its first two axes taken as one.

    The gradient of the latter is added to that of the former in place: use the former in products only, whose
    gradients nobody else holds.
    """
    return _Fork.apply(rows, places)  # type: ignore[no-any-return, no-untyped-call]


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(places)
        return rows.view_as(rows), rows.flatten(0, 1)[places]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, more: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        rows = gradient.view(-1, gradient.shape[-1])
        rows[places] = rows[places] + more
        return gradient, None


def factor_of(near: Tensor | None, which: int) -> Tensor | float:
    """Return 1 + epsilon of L1 (0) or of L2 and L3 (1), ``near`` being both, or None where epsilon is 0."""
    return 1.0 if near is None else near[which]


def times(near: Tensor | None, which: int, rows: Tensor) -> Tensor:
    """Return ``rows`` times `factor_of`."""
    return rows if near is None else near[which] * rows
