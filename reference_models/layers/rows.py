"""What a soft GIN layer does to its sums: a function of each row alone, for nodes and for single pairs alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Rows:
    """The layer after its sums, for m groups of s rows that share T_k: all slots of a node, or a pair alone."""

    def __init__(self, slots: int, positions: Tensor, maps: Sequence[Tensor]) -> None:
        self.others = max(slots - 1, 1)
        self.positions = positions
        self.own, self.same, *other = zip(*[iter(maps)] * 4, strict=True)
        self.other = other[0] if other else None

    def __call__(
        self, own: Tensor, rest: Tensor, reached: Tensor, reach: Tensor, attention: Tensor, assigned: Tensor
    ) -> Tensor:
        """Map own and rest ``(m, s, d)``, reached ``(m, K, d)`` and reach ``(m,)`` to ``(m, s, width)``.

        ``own`` is (1 + eps) X_r + A_r X_r, ``rest`` (1 + eps) X_r + (A - A_r) X_r, ``reached`` the same of
        T_k and ``reach`` of ones; ``attention`` is ``(1, s, K)`` or ``(m, s, K)``, ``assigned`` the task
        of each row, ``(s,)`` or ``(m, 1)``.
        """
        first, bias, second, last = self.own
        out = torch.relu(own @ first.T + bias) @ second.T
        first, bias, second, same_last = self.same
        contexts = self._contexts(reached, reach, first, bias)
        share = attention.take_along_dim(assigned.view(*attention.shape[:2], 1), 2) / -self.others
        if assigned.dim() == 1:
            chosen = contexts.index_select(1, assigned)
        else:
            chosen = contexts.gather(1, assigned.unsqueeze(2).expand(-1, -1, contexts.shape[2]))
        out = out + torch.relu(torch.addcmul(chosen, rest @ first.T, share)) @ second.T
        total = last + same_last
        if self.other is not None:
            first, bias, second, last = self.other
            is_other = torch.ones_like(attention).scatter(2, assigned.view(*attention.shape[:2], 1), 0.0)
            contexts = self._contexts(reached, reach, first, bias)
            hidden = _other_tasks(contexts, rest @ first.T, attention / -self.others, is_other)
            out = out + hidden @ second.T
            total = total + (attention.shape[2] - 1) * last
        return out + total  # type: ignore[no-any-return]

    def _contexts(self, reached: Tensor, reach: Tensor, first: Tensor, bias: Tensor) -> Tensor:
        """Return ``(m, K, width)``: what a row's pre-activation in each task is before its own share."""
        positions = self.positions @ first.T
        return reached @ first.T / self.others + reach.view(-1, 1, 1) * positions + bias


def _other_tasks(contexts: Tensor, rest: Tensor, shares: Tensor, is_other: Tensor) -> Tensor:
    return _OtherTasks.apply(contexts, rest, shares, is_other)  # type: ignore[no-any-return, no-untyped-call]


class _OtherTasks(torch.autograd.Function):
    """Sum over k of other_k relu(C_k + a_k Q): one task at a time, so that no array has a task axis.

    C is ``(m, K, d)``, Q ``(m, s, d)``, a and other ``(1, s, K)`` or ``(m, s, K)``.
    """

    @staticmethod
    def forward(ctx: Any, contexts: Tensor, rest: Tensor, shares: Tensor, is_other: Tensor) -> Tensor:
        ctx.save_for_backward(contexts, rest, shares, is_other)
        out = torch.zeros_like(rest)
        for task in range(contexts.shape[1]):
            one = slice(task, task + 1)
            hidden = torch.addcmul(contexts[:, one], rest, shares[..., one]).relu_()
            out.addcmul_(hidden, is_other[..., one])
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        contexts, rest, shares, is_other = ctx.saved_tensors
        of_contexts, of_rest, of_shares = (torch.zeros_like(tensor) for tensor in (contexts, rest, shares))
        for task in range(contexts.shape[1]):
            one = slice(task, task + 1)
            hidden = torch.addcmul(contexts[:, one], rest, shares[..., one])
            passed = torch.ops.aten.threshold_backward(gradient * is_other[..., one], hidden, 0)
            of_contexts[:, task] = passed.sum(dim=1)
            of_rest.addcmul_(passed, shares[..., one])
            of_shares[..., task] = (passed * rest).sum(dim=2).sum_to_size(shares.shape[:2])
        return of_contexts, of_rest, of_shares, None


def spread(attention: Tensor, slots: Tensor) -> Tensor:
    """Return ``attention[slots]``; its gradient is added up in one order, whatever the number of threads."""
    return attention.gather(0, slots.unsqueeze(1).expand(-1, attention.shape[1]))


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
