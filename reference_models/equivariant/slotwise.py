"""Soft layers computed slot by slot, for the readings of the formula that `soft` cannot factorise.

Slots share no sum but T_k: each sends its own contexts along the edges, and once more in the backward pass. Memory is
that of one slot per thread; time grows with R (P + N) K d, for P pairs of a node and a slot that reaches it.
`docs/models.md` says what is open in the formula.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from reference_models.equivariant.network import Architecture
from reference_models.equivariant.soft import Input, maps_of
from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.layers.basic import Linear, Perceptron, uniform_
from reference_models.layers.blocks import Products, blockwise
from reference_models.layers.rows import share_of_others, spread
from reference_models.layers.sums import task_sums

SMALLEST = 1e-6
"""The smallest divisor of a normalised mean: in a task of one relation alone, the others weigh nothing."""


class SlotwiseLayer(nn.Module):
    """The common part of both layers: the maps L1, L2 and L3, each a ``kind`` of module, and a position per task.

    ``adjacency`` says over which edges a context is summed: ``others`` counts every edge of another slot once,
    ``tasks`` counts those of r' alpha[r', k] times. ``mean`` is the divisor of S_rk: R - 1 (``literal``), or the sum of
    alpha[r', k] over the others (``normalised``). ``epsilon`` ``(2,)`` is that of L1 and that of L2 and L3, None for
    zeros.
    """

    def __init__(self, sizes: Architecture, width_in: int, kind: type[Linear] | type[Perceptron]) -> None:
        super().__init__()
        self.adjacency, self.mean = sizes.adjacency, sizes.mean
        self.own, self.same_task, self.other_tasks = (kind(width_in, sizes.width) for _ in range(3))
        self.positions = nn.Parameter(uniform_(torch.empty(sizes.tasks, width_in), 1, width_in))
        self.epsilon: nn.Parameter | None = None

    def of(self, features: Tensor, attention: Tensor, onto: Receivers | None) -> Tensor:
        """Return the layer of ``(N, R, width_in)`` for M receivers, ``(M, R, width)``; without neighbours for None."""
        slots, tasks = attention.shape
        maps, size = maps_of(self, attention), len(list(self.own.parameters()))
        assigned = attention.argmax(dim=1).tolist()
        by_task, normalised = self.adjacency == "tasks", self.mean == "normalised"
        pairs, of_pairs = (None, None) if onto is None else (onto.pairs, onto.of_pairs)

        def block(slot: int, x: Tensor, sums: Tensor, attention: Tensor, positions: Tensor, *tensors: Any) -> Products:
            epsilon, x = tensors[0], x.transpose(0, 1)
            own, same, *other_task = zip(*[iter(tensors[1:])] * size, strict=True)
            factor: float | Tensor = share_of_others(slots)
            if normalised:
                factor = (attention.sum(dim=0) - attention[slot]).clamp_min(SMALLEST).reciprocal().unsqueeze(1)
            if slots == 1:
                factor = 0.0  # without other slots, a rounding error would be divided by next to nothing
            seen = torch.cat([x, positions + factor * (sums - attention[slot].unsqueeze(1) * x)], dim=1)
            if onto is not None and pairs is not None and of_pairs is not None:
                # L1 sees the pairs of the slot itself, the contexts those of all others.
                mine = (pairs.slots == slot).to(x.dtype).unsqueeze(1)
                shares = spread(attention, pairs.slots) if by_task else attention.new_ones(1, tasks)
                sent = (pairs.from_nodes @ seen.flatten(1)).view(-1, *seen.shape[1:])
                met = torch.cat([mine, (1 - mine) * shares], dim=1).unsqueeze(2) * sent
                near = onto.of(seen)
                if epsilon is not None:
                    near = near * (1 + torch.cat([epsilon[:1], epsilon[1:].expand(tasks)])).unsqueeze(1)
                seen = near + (of_pairs @ met.flatten(1)).view(near.shape)
            result = _mapped(seen[:, 0], own) + _mapped(seen[:, 1 + assigned[slot]], same)
            for task in range(tasks):
                if task != assigned[slot]:
                    result = result + _mapped(seen[:, 1 + task], other_task[0])
            return Products(result.unsqueeze(0))

        blocks = [(slice(slot, slot + 1),) for slot in range(slots)]
        shared = [task_sums(features, attention), attention, self.positions, self.epsilon, *maps]
        return blockwise(block, blocks, [features.transpose(0, 1)], shared).transpose(0, 1).contiguous()


def _mapped(rows: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """Return rows ``(m, d)`` through a linear map (weight, bias) or a perceptron (weight, bias, weight, bias)."""
    first = linear(rows, maps[0], maps[1])
    return first if len(maps) == 2 else linear(torch.relu(first), maps[2], maps[3])


class SlotwiseGIN(SlotwiseLayer):
    """The GIN soft layer of `soft.SoftGIN` in any reading; its epsilons can be learned."""

    def __init__(self, sizes: Architecture, width_in: int, *, learn_epsilon: bool = False) -> None:
        super().__init__(sizes, width_in, Perceptron)
        if learn_epsilon:
            self.epsilon = nn.Parameter(torch.zeros(2))

    def forward(self, features: Tensor, onto: Receivers, attention: Tensor) -> Tensor:
        """Map ``(N, R, width_in)`` to ``(M, R, width)`` for M receivers, given the attention ``(R, K)``."""
        return self.of(features, attention, onto)

    def of_constant(self, graph: TypedGraph, attention: Tensor) -> Tensor:
        """Return the layer of the constant input 1 of width 1: ``(N, R, width)``, all rows and no kinds of them."""
        ones = attention.new_ones(graph.num_nodes, graph.num_slots, 1)
        return self.of(ones, attention, graph.everyone)


class SlotwiseNodes(SlotwiseLayer):
    """The soft layer without neighbours in any reading, of linear maps or, if the sizes say so, of perceptrons."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__(sizes, sizes.width, Perceptron if sizes.linear_layers == "perceptron" else Linear)

    def forward(self, features: Input, attention: Tensor) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)`` given the attention ``(R, K)``."""
        return self.of(features.whole(), attention, None)
