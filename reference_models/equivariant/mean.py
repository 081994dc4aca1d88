"""Double-equivariant layers: one relation against the mean of all others (ISDEA)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_models.equivariant.linear import soft_linear, soft_perceptron
from reference_models.equivariant.soft import Input, soft_gin, soft_gin_of_constant
from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.layers.basic import Linear, Perceptron
from reference_models.layers.readings import Reading


class EquivariantGIN(nn.Module):
    """Out_r = GIN1(X_r; A_r) + GIN2(S_r; A - A_r) with S_r the mean of the other slots' features.

    It is the soft layer of a single task without a position. Source: Gao et al. 2023, as in
    `docs/models.md`, ISDEA layer. ``epsilon`` is learnable if asked for; with ``mean`` ``sum`` S_r is the sum.
    """

    def __init__(self, width_in: int, width: int, *, learn_epsilon: bool, mean: str = "literal") -> None:
        super().__init__()
        self.reading = Reading(mean=mean)
        self.own = Perceptron(width_in, width)
        self.others = Perceptron(width_in, width)
        self.epsilon = nn.Parameter(torch.zeros(2), requires_grad=learn_epsilon)

    def forward(self, features: Tensor, onto: Receivers) -> Tensor:
        """Map ``(N, R, width_in)`` to ``(M, R, width)`` for M receivers."""
        single, nowhere = _one_task(features.shape[1], features)
        return soft_gin(features, onto, single, self._maps(), nowhere, self.epsilon, self.reading)

    def of_constant(self, graph: TypedGraph) -> Tensor:
        """Return the layer of the constant input 1 of width 1, a row per kind of the graph: ``(D, width)``."""
        single, nowhere = _one_task(graph.num_slots, self.own.first.weight[:1])
        return soft_gin_of_constant(graph, single, self._maps(), nowhere, self.epsilon, self.reading)

    def _maps(self) -> list[Tensor]:
        return [*self.own.weights(), *self.others.weights()]


class EquivariantLinear(nn.Module):
    """Out_r = X_r W1 + S_r W2 with biases, S_r the mean of the other slots' features."""

    def __init__(self, width: int, mean: str = "literal") -> None:
        super().__init__()
        self.reading = Reading(mean=mean)
        self.own = Linear(width, width)
        self.others = Linear(width, width)

    def forward(self, features: Input) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)``."""
        single, nowhere = _one_task(features.values.shape[1], features.values)
        maps = [self.own.weight, self.own.bias, self.others.weight, self.others.bias]
        return soft_linear(features, single, maps, nowhere, self.reading)


class EquivariantPerceptron(nn.Module):
    """Out_r = MLP1(X_r) + MLP2(S_r), S_r the mean of the other slots' features."""

    def __init__(self, width: int, mean: str = "literal") -> None:
        super().__init__()
        self.reading = Reading(mean=mean)
        self.own = Perceptron(width, width)
        self.others = Perceptron(width, width)

    def forward(self, features: Input) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)``."""
        single, nowhere = _one_task(features.values.shape[1], features.values)
        maps = [*self.own.weights(), *self.others.weights()]
        return soft_perceptron(features, single, maps, nowhere, self.reading)


def _one_task(slots: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the attention of every slot to one task, and the position 0 of that task."""
    return like.new_ones(slots, 1), like.new_zeros(1, like.shape[-1])
