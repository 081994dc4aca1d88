"""Double-equivariant layers: one relation against the mean of all others (ISDEA)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_models.graph import TypedGraph
from reference_models.layers.basic import Linear, Perceptron


def mean_of_others(features: Tensor) -> Tensor:
    """Return for every slot the mean of all *other* slots, ``(N, R, d)``; empty slots count."""
    others = max(features.shape[1] - 1, 1)
    return (features.sum(dim=1, keepdim=True) - features) / others


class EquivariantGIN(nn.Module):
    """Out_r = GIN1(X_r; A_r) + GIN2(S_r; A - A_r) with S_r the mean of the other slots' features.

    Source: Gao et al. 2023, as in `docs/models.md`, ISDEA layer. ``epsilon`` is learnable if asked for.
    """

    def __init__(self, width_in: int, width: int, *, learn_epsilon: bool) -> None:
        super().__init__()
        self.own = Perceptron(width_in, width)
        self.others = Perceptron(width_in, width)
        self.epsilon = nn.Parameter(torch.zeros(2), requires_grad=learn_epsilon)

    def forward(self, features: Tensor, graph: TypedGraph) -> Tensor:
        """Map ``(N, R, width_in)`` to ``(N, R, width)``."""
        context = mean_of_others(features)
        own = (1 + self.epsilon[0]) * features + graph.sum_own(features)
        others = (1 + self.epsilon[1]) * context + graph.sum_all(context) - graph.sum_own(context)
        return self.own(own) + self.others(others)  # type: ignore[no-any-return]


class EquivariantLinear(nn.Module):
    """Out_r = X_r W1 + S_r W2 with biases, S_r the mean of the other slots' features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = Linear(width, width)
        self.others = Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)``."""
        return self.own(features) + self.others(mean_of_others(features))  # type: ignore[no-any-return]
