"""The part of a soft layer after its sums: a function of each row alone, for all slots of a node and single pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from reference_models.layers.blocks import Products


@dataclass(frozen=True, eq=False)
class Shares:
    """The weights of rows in each task: ``(1, R, K)`` for all slots of any node, ``(P, 1, K)`` for single pairs.

    S_rk, the mean over the other relations, is ``factor`` (T_k - alpha X_r), and ``own`` is -factor alpha. ``assigned``
    is the task of each row, int64 with a last axis of 1, without gradient.
    """

    factor: float
    own: Tensor
    assigned: Tensor

    @classmethod
    def of(cls, attention: Tensor) -> Shares:
        """Return the shares of all slots, given the attention alpha ``(R, K)``."""
        factor = share_of_others(len(attention))
        return cls(factor, -factor * attention.unsqueeze(0), attention.argmax(dim=1, keepdim=True).unsqueeze(0))

    def at(self, slots: Tensor) -> Shares:
        """Return the shares of single rows, given the slot of each, ``(P,)``."""
        assigned = self.assigned[0].index_select(0, slots).unsqueeze(1)
        return Shares(self.factor, spread(self.own[0], slots).unsqueeze(1), assigned)

    def others(self) -> Tensor:
        """Return the weights of L3: 1 for every task but the own."""
        return torch.ones_like(self.own).scatter(2, self.assigned, 0.0)


def share_of_others(slots: int) -> float:
    """Return the factor that makes the mean of a sum over all other slots, 1 for a single slot."""
    return 1.0 / max(slots - 1, 1)


def spread(attention: Tensor, slots: Tensor) -> Tensor:
    """Return ``attention[slots]``; its gradient is added up in the same order with any number of threads."""
    return attention.gather(0, slots.unsqueeze(1).expand(-1, attention.shape[1]))


class Rows:
    """The layer after its sums, for m groups of s rows with the same T_k: all slots of a node, or a single pair."""

    def __init__(self, maps: Sequence[Tensor]) -> None:
        self.own, self.same_task, *other_tasks = zip(*[iter(maps)] * 4, strict=True)
        self.other_tasks = other_tasks[0] if other_tasks else None

    def __call__(self, own: Tensor, rest: Tensor, reached: Tensor, apart: Tensor, shares: Shares) -> Products:
        """Map own and rest ``(m, s, d)``, reached and apart ``(m, K, d)`` to ``(m, s, width)``.

        ``own`` is what L1 sees; see `hidden` for the others.
        """
        return self.products([self.mine(own), *self.hidden(self.passed(rest), reached, apart, shares)], shares)

    def mine(self, own: Tensor) -> Tensor:
        """Return the input of the second map of L1."""
        first, bias, _, _ = self.own
        return linear(own, first, bias).relu_()

    def passed(self, rest: Tensor) -> list[Tensor]:
        """Return ``rest`` through the first maps of L2 and, with several tasks, L3, without their biases."""
        return [rest @ maps[0].T for maps in (self.same_task, self.other_tasks) if maps is not None]

    def hidden(self, passed: Sequence[Tensor], reached: Tensor, apart: Tensor, shares: Shares) -> list[Tensor]:
        """Return the inputs of the second maps of L2 and, with several tasks, L3, each ``(m, s, width)``.

        L2 and L3 see ``apart`` + factor (``reached`` - alpha rest); ``passed`` is what `passed` makes of the rest. In a
        GIN layer these are the sums of p_k, T_k and X_r over a node and the edges that reach it.
        """
        base = torch.add(apart, reached, alpha=shares.factor)
        first, bias, _, _ = self.same_task
        contexts = _at(base @ first.T + bias, shares.assigned)
        rows = [plus_share(contexts, passed[0], shares.own.take_along_dim(shares.assigned, 2)).relu_()]
        if self.other_tasks is not None:
            first, bias, _, _ = self.other_tasks
            rows.append(over_tasks(base @ first.T + bias, passed[1], shares.own, shares.others()))
        return rows

    def products(self, hidden: Sequence[Tensor], shares: Shares) -> Products:
        """Return the second maps, with their biases, of the results of `mine` and `hidden`."""
        return Products(self.biases(shares.own.shape[2]), self.factors(hidden))

    def factors(self, hidden: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Return hidden rows, of L1, L2 and L3 or the last of these alone, with the weights of their second maps."""
        weights = [self.own[2], self.same_task[2], *([] if self.other_tasks is None else [self.other_tasks[2]])]
        return list(zip(hidden, weights[-len(hidden) :], strict=True))

    def biases(self, tasks: int) -> Tensor:
        """Return the sum of the biases of the second maps; that of L3 counts for every task but one."""
        total: Tensor = self.own[3] + self.same_task[3]
        return total if self.other_tasks is None else total + (tasks - 1) * self.other_tasks[3]


def _at(contexts: Tensor, assigned: Tensor) -> Tensor:
    """Return ``(m, s, d)``, the context of each row's own task, of ``(m, K, d)``."""
    if len(assigned) == 1:
        return contexts.index_select(1, assigned.view(-1))
    return contexts.gather(1, assigned.expand(-1, -1, contexts.shape[2]))


def over_tasks(contexts: Tensor, rest: Tensor, shares: Tensor, weights: Tensor) -> Tensor:
    """Return the sum over k of weights_k relu(C_k + shares_k Q).

    C, ``contexts``, is ``(m, K, d)``, Q, ``rest``, is ``(m, s, d)``; shares and weights are ``(1, s, K)`` or
    ``(m, s, K)``. Tasks are computed one by one, so that no array is ``(m, s, K, d)``.
    """
    return _OverTasks.apply(contexts, rest, shares, weights)  # type: ignore[no-any-return, no-untyped-call]


class _OverTasks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, contexts: Tensor, rest: Tensor, shares: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(contexts, rest, shares, weights)
        out, before = torch.zeros_like(rest), torch.empty_like(rest)
        for task in range(contexts.shape[1]):
            column = slice(task, task + 1)
            torch.addcmul(contexts[:, column], rest, shares[..., column], out=before)
            out.addcmul_(before.relu_(), weights[..., column])
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        contexts, rest, shares, weights = ctx.saved_tensors
        of_contexts, of_rest, of_shares = (torch.zeros_like(tensor) for tensor in (contexts, rest, shares))
        before, passed = torch.empty_like(rest), torch.empty_like(rest)  # used by all tasks: they stay in the cache
        for task in range(contexts.shape[1]):
            column = slice(task, task + 1)
            torch.addcmul(contexts[:, column], rest, shares[..., column], out=before)
            torch.ops.aten.threshold_backward.grad_input(gradient, before, 0, grad_input=passed)
            passed *= weights[..., column]
            of_contexts[:, task] = passed.sum(dim=1)
            of_rest.addcmul_(passed, shares[..., column])
            of_shares[..., task] = _by_row(passed.mul_(rest), shares)
        return of_contexts, of_rest, of_shares, None  # the weights are constants


def _by_row(terms: Tensor, like: Tensor) -> Tensor:
    """Return the sum of ``(m, s, d)`` over d, and over m if ``like`` is ``(1, s, K)``."""
    return (terms.sum(dim=0, keepdim=True) if like.shape[0] == 1 else terms).sum(dim=2)


def plus_share(base: Tensor, rows: Tensor, shares: Tensor) -> Tensor:
    """Return base + shares rows for ``(m, s, d)``, ``(m, s, d)`` and ``(1, s, 1)`` or ``(m, s, 1)``.

    PyTorch's own gradient of the shares takes many times as long.
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


def fork(rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``rows`` ``(m, s, d)``, and the rows ``(P, d)`` at distinct places of its first two axes flattened.

    The gradient of the latter is added into that of the former, in place. So use the former in products only, whose
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
