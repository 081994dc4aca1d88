"""What a soft layer does to its sums: a function of each row alone, for nodes and for single pairs alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from reference_models.layers.tasks import Shares


class Rows:
    """The layer after its sums, for m groups of s rows that share T_k: all slots of a node, or a pair alone."""

    def __init__(self, maps: Sequence[Tensor]) -> None:
        self.own, self.same, *other = zip(*[iter(maps)] * 4, strict=True)
        self.other = other[0] if other else None

    def __call__(self, own: Tensor, rest: Tensor, reached: Tensor, apart: Tensor, shares: Shares) -> Tensor:
        """Map own and rest ``(m, s, d)``, reached and apart ``(m, K, d)`` to ``(m, s, width)``.

        ``own`` is what L1 sees, the others make up what L2 and L3 see: ``apart`` plus the shares' factor
        times (``reached`` - alpha ``rest``). In a GIN layer these are sums of p_k, T_k and X_r over a node
        and the edges that reach it.
        """
        first, bias, second, last = self.own
        seen, factor = torch.relu(linear(own, first, bias)), shares.factor
        total = last + self.same[3]
        if self.other is not None:
            total = total + (shares.attention.shape[2] - 1) * self.other[3]
        out = linear(seen, second, total)
        base, scaled, factors = apart, None, None
        if isinstance(factor, float):
            base = torch.add(apart, reached, alpha=factor)
        else:
            scaled, factors = reached, factor
        first, bias, second, _ = self.same
        contexts, within, passed = base @ first.T + bias, _mapped(scaled, first), rest @ first.T
        if shares.same is None:
            contexts = _at(contexts, shares.assigned)
            if within is not None and factors is not None:
                contexts = contexts + _at(within, shares.assigned) * factors.take_along_dim(shares.assigned, 2)
            hidden = torch.relu(plus_share(contexts, passed, shares.own.take_along_dim(shares.assigned, 2)))
        else:
            hidden = over_tasks(contexts, passed, shares.own, shares.same, within, factors)
        out = _plus(out, hidden, second)
        if self.other is not None:
            first, bias, second, _ = self.other
            contexts, within, passed = base @ first.T + bias, _mapped(scaled, first), rest @ first.T
            hidden = over_tasks(contexts, passed, shares.own, shares.others(), within, factors)
            out = _plus(out, hidden, second)
        return out


def _plus(out: Tensor, hidden: Tensor, weight: Tensor) -> Tensor:
    """Return ``out + hidden @ weight.T`` in one pass."""
    return torch.addmm(out.flatten(0, 1), hidden.flatten(0, 1), weight.T).view(out.shape)


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
        out = torch.zeros_like(rest)
        for task in range(contexts.shape[1]):
            out.addcmul_(_hidden(task, contexts, rest, shares, scaled, factors), weights[..., task : task + 1])
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        contexts, rest, shares, weights, scaled, factors = ctx.saved_tensors
        found: list[Any] = [None if tensor is None else torch.zeros_like(tensor) for tensor in ctx.saved_tensors]
        of_contexts, of_rest, of_shares, of_weights, of_scaled, of_factors = found
        for task in range(contexts.shape[1]):
            one = slice(task, task + 1)
            hidden = _hidden(task, contexts, rest, shares, scaled, factors)
            if ctx.needs_input_grad[3]:
                of_weights[..., task] = (gradient * hidden).sum(dim=2).sum_to_size(weights.shape[:2])
            passed = torch.ops.aten.threshold_backward(gradient * weights[..., one], hidden, 0)
            of_contexts[:, task] = passed.sum(dim=1)
            of_rest.addcmul_(passed, shares[..., one])
            of_shares[..., task] = (passed * rest).sum(dim=2).sum_to_size(shares.shape[:2])
            if scaled is not None:
                of_scaled[:, task] = (passed * factors[..., one]).sum(dim=1)
                of_factors[..., task] = (passed * scaled[:, one]).sum(dim=2).sum_to_size(factors.shape[:2])
        return tuple(found)


def _hidden(task: int, contexts: Any, rest: Any, shares: Any, scaled: Any, factors: Any) -> Tensor:
    one = slice(task, task + 1)
    base = contexts[:, one] if scaled is None else torch.addcmul(contexts[:, one], scaled[:, one], factors[..., one])
    return torch.addcmul(base, rest, shares[..., one]).relu_()


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
        of_shares = (gradient * rows).sum(dim=2).sum_to_size(shares.shape[:2]).unsqueeze(2)
        return gradient, gradient * shares, of_shares


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
