"""Where the paper is open: how a soft layer reads it, and what a reading makes of the attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ADJACENCIES = ("others", "tasks", "pairwise")
MEANS = ("literal", "normalised", "sum")
ASSIGNMENTS = ("hard", "straight-through", "soft")
SMALLEST = 1e-6


@dataclass(frozen=True)
class Reading:
    """The rows of `docs/models.md`, What is open, that change the formula of a soft layer.

    ``adjacency`` says which edges the contexts are summed over, ``mean`` what the sum over the other
    relations is divided by, ``assignment`` how a relation's own attention chooses between L2 and L3.
    """

    adjacency: str = "others"
    mean: str = "literal"
    assignment: str = "hard"


@dataclass(frozen=True, eq=False)
class Shares:
    """What rows take of each task: ``(1, R, K)`` for all slots of any node, ``(P, 1, K)`` for single pairs.

    ``attention`` is alpha; S_rk, the mean over the other relations, is ``factor`` (T_k - alpha X_r), and
    ``own`` is minus factor times alpha. ``same`` weighs L2 and one minus it L3; None means one-hot at
    ``assigned``, without a gradient.
    """

    attention: Tensor
    factor: float | Tensor
    own: Tensor
    assigned: Tensor
    same: Tensor | None

    @classmethod
    def of(cls, attention: Tensor, reading: Reading) -> Shares:
        """Return the shares of all slots, given the attention ``(R, K)``."""
        assigned = attention.argmax(dim=1, keepdim=True)
        factor: float | Tensor = share_of_others(reading.mean, len(attention))
        if reading.mean == "normalised" and len(attention) == 1:
            factor = 0.0  # there are no others: a rounding error must not be divided by next to nothing
        elif reading.mean == "normalised":
            factor = (attention.sum(dim=0) - attention).clamp_min(SMALLEST).reciprocal().unsqueeze(0)
        same = attention
        if reading.assignment == "straight-through":
            one_hot = torch.zeros_like(attention).scatter(1, assigned, 1.0)
            same = one_hot + (attention - attention.detach())
        rows = attention.unsqueeze(0)
        hard = reading.assignment == "hard"
        return cls(rows, factor, -factor * rows, assigned.unsqueeze(0), None if hard else same.unsqueeze(0))

    def at(self, slots: Tensor) -> Shares:
        """Return the shares of single rows, given the slot of each, ``(P,)``."""
        factor = self.factor if isinstance(self.factor, float) else _spread(self.factor, slots)
        return Shares(
            _spread(self.attention, slots),
            factor,
            _spread(self.own, slots),
            self.assigned[0].index_select(0, slots).unsqueeze(1),
            None if self.same is None else _spread(self.same, slots),
        )

    def others(self) -> Tensor:
        """Return the weights of L3."""
        if self.same is not None:
            return 1 - self.same
        return torch.ones_like(self.attention).scatter(2, self.assigned, 0.0)


def share_of_others(mean: str, slots: int) -> float:
    """Return what a sum over the other slots is multiplied by."""
    return 1.0 if mean == "sum" else 1.0 / max(slots - 1, 1)


def spread(attention: Tensor, slots: Tensor) -> Tensor:
    """Return ``attention[slots]``; its gradient is added up in one order, whatever the number of threads."""
    return attention.gather(0, slots.unsqueeze(1).expand(-1, attention.shape[1]))


def _spread(weights: Tensor, slots: Tensor) -> Tensor:
    return spread(weights[0], slots).unsqueeze(1)
