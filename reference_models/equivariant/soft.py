"""Soft multi-task double-equivariant layers (MTDEA), as an exact leave-one-out factorisation.

A literal layer sums, for every relation and every task, over all other relations: O(R^2 K N d). Here each
sum is taken once over *all* relations and the relation's own share is taken off again, which is exact
because every map up to the first ReLU is linear (`docs/models.md`, Soft layer). Notation: a = alpha[r, k],
c = R - 1, T_k = sum over r of alpha[r, k] X_r, S_rk = (T_k - a X_r) / c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from reference_models.equivariant.second import soft_gin_of_kinds
from reference_models.equivariant.weighted import join, soft_gin_by_task
from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.graphs.kinds import kinds
from reference_models.layers.basic import Perceptron, uniform_
from reference_models.layers.blocks import Block, Products, blockwise, node_blocks
from reference_models.layers.readings import Reading, Shares, spread
from reference_models.layers.rows import Rows, factor_of, fork, times
from reference_models.layers.sums import aggregate, aggregate_pairs, expand


@dataclass(frozen=True, eq=False)
class Input:
    """Features ``(N, R, d)`` as the layer before left them: times ``scale``, plus ``shift``, through a ReLU or not.

    With ``nodes``, in increasing order, they are those of some nodes only.
    """

    values: Tensor
    scale: Tensor | None = None
    shift: Tensor | None = None
    rectified: bool = False
    nodes: Tensor | None = None

    def tensors(self) -> list[Tensor]:
        """Return scale and shift, if any."""
        return [] if self.scale is None or self.shift is None else [self.scale, self.shift]

    def at(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the features ``(*, d)`` of nodes ``(*,)`` under slots ``(*,)``."""
        if self.nodes is not None:
            nodes = torch.searchsorted(self.nodes, nodes)
        _, total, width = self.values.shape
        places = nodes * total + slots
        rows = self.values.view(-1, width).index_select(0, places.reshape(-1)).view(*places.shape, -1)
        return finish(rows, self.tensors(), rectified=self.rectified)

    def whole(self) -> Tensor:
        """Return the features themselves."""
        return finish(self.values, self.tensors(), rectified=self.rectified)


def finish(values: Tensor, affine: Sequence[Tensor], *, rectified: bool) -> Tensor:
    """Apply scale and shift, if any, and ReLU, if asked for, to a part of an input's values."""
    if affine:
        values = torch.addcmul(affine[1], values, affine[0])
    return torch.relu(values) if rectified else values


class SoftGIN(nn.Module):
    """A GIN soft layer: L1 over a relation's own edges, L2 and L3 over those of all others.

    Out_r = L1(X_r; A_r) + L2(p_i + S_ri; M) + sum over k != i of L3(p_k + S_rk; M), where
    i = argmax_k alpha[r, k] (the lowest index on a tie) carries no gradient, M is A - A_r, and each L is a
    GIN whose epsilon is 0 unless it is learned. With one task there is no L3, and without positions p = 0.
    Source: equation 4 of the paper; other readings of M, S and i are a `Reading` away (`docs/models.md`, What
    is open).
    """

    def __init__(
        self,
        width_in: int,
        width: int,
        tasks: int,
        reading: Reading | None = None,
        *,
        learn_epsilon: bool = False,
    ) -> None:
        super().__init__()
        self.reading = reading or Reading()
        self.own = Perceptron(width_in, width)
        self.same_task = Perceptron(width_in, width)
        self.other_tasks = Perceptron(width_in, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width_in), 1, width_in))
        self.epsilon = nn.Parameter(torch.zeros(2)) if learn_epsilon else None

    def forward(self, features: Tensor, onto: Receivers, attention: Tensor) -> Tensor:
        """Map ``(N, R, width_in)`` to ``(M, R, width)`` for M receivers, given the attention ``(R, K)``."""
        maps = soft_maps(self, attention.shape[1])
        return soft_gin(features, onto, attention, maps, self.positions, self.epsilon, self.reading)

    def of_kinds(self, rows: Tensor, graph: TypedGraph, onto: Receivers, attention: Tensor) -> Tensor:
        """Map features that are a row per kind of the graph, ``(D, width_in)``, to ``(M, R, width)``."""
        found = kinds(graph)
        if self.reading.adjacency != "others" or self.epsilon is not None:
            return self(expand(rows, found), onto, attention)  # type: ignore[no-any-return]
        maps = soft_maps(self, attention.shape[1])
        return soft_gin_of_kinds(rows, found, onto, attention, maps, self.positions, self.reading)

    def of_constant(self, graph: TypedGraph, attention: Tensor) -> Tensor:
        """Return the layer of the constant input 1 of width 1: ``(D, width)``, a row per kind of the graph.

        Kinds are what an unweighted sum over neighbours can tell apart; under other readings than the
        adjacency ``others`` all rows are returned, ``(N, R, width)``.
        """
        maps = soft_maps(self, attention.shape[1])
        if self.reading.adjacency == "others":
            return soft_gin_of_constant(graph, attention, maps, self.positions, self.epsilon, self.reading)
        ones = attention.new_ones(graph.num_nodes, graph.num_slots, 1)
        return soft_gin(ones, graph.everyone, attention, maps, self.positions, self.epsilon, self.reading)


def soft_maps(layer: nn.Module, tasks: int) -> list[Tensor]:
    """Return weights and biases of L1, L2 and, where there are other tasks, L3."""
    names = ("own", "same_task", "other_tasks")[: 3 if tasks > 1 else 2]
    return [tensor for name in names for tensor in getattr(layer, name).weights()]


def soft_gin(
    features: Tensor,
    onto: Receivers,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    epsilon: Tensor | None = None,
    reading: Reading | None = None,
) -> Tensor:
    """Return the soft GIN layer of features ``(N, R, d)``; ``epsilon`` ``(2,)`` is that of L1 and of L2 and L3."""
    reading = reading or Reading()
    near = None if epsilon is None else 1 + epsilon
    layers = {"others": _soft_gin_by_union, "tasks": soft_gin_by_task, "pairwise": _soft_gin_by_pair}
    return layers[reading.adjacency](features, onto, attention, maps, positions, near, reading)


def _soft_gin_by_union(
    features: Tensor,
    onto: Receivers,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    near: Tensor | None,
    reading: Reading,
) -> Tensor:
    """Sum every context over the edges of all other relations, each edge counted once ("reading A").

    A row of the result depends on X_r, A X_r and A_r X_r at its node, and on T_k, A T_k and A_r T_k. The
    terms with A_r are zero except at the graph's pairs: all rows are computed without them, those of the
    pairs again with them.
    """
    everything, own, sums = aggregate(features, attention, onto)
    pairs = onto.pairs
    own_sums = (pairs.from_nodes @ sums.flatten(1)).view(-1, *sums.shape[1:])
    reached = times(near, 1, onto.of(sums)) + (onto.union @ sums.flatten(1)).view(onto.number, *sums.shape[1:])
    blocks, local = _pair_blocks(onto, len(attention), maps[0].shape[0], "nnnppnp")

    def block(index: int, *tensors: Any) -> Products:
        x, ax, reached, own, own_sums, degrees, pair_degrees, attention, positions, near, *maps = tensors
        keys, slots = local[index]
        rows, shares = Rows(maps), Shares.of(attention, reading)
        reach = factor_of(near, 1) + degrees
        first, own_at = fork(times(near, 0, x), keys)
        rest, rest_at = fork(times(near, 1, x) + ax, keys)
        usual = rows(first, rest, reached, _apart(reach, positions), shares)
        if not len(keys):
            return usual
        nodes = keys // len(attention)
        special = rows(
            (own_at + own).unsqueeze(1),
            (rest_at - own).unsqueeze(1),
            reached.index_select(0, nodes) - own_sums,
            _apart(reach.index_select(0, nodes) - pair_degrees, positions),
            shares.at(slots),
        )
        return replace(usual, places=keys, apart=special)

    parts = [onto.of(features), everything, reached, own, own_sums, onto.degrees, pairs.degrees]
    return blockwise(block, blocks, parts, [attention, positions, near, *maps])


def _soft_gin_by_pair(
    features: Tensor,
    onto: Receivers,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    near: Tensor | None,
    reading: Reading,
) -> Tensor:
    """Sum the features of relation r' over the edges of r' alone, weighted by its share ("reading C").

    L2 and L3 see (1 + eps) (p_k + S_rk) + sum over r' != r of alpha[r', k] A_r' (p_k + X_r'). No A X_r is
    needed.
    """
    own, sums = aggregate_pairs(features, attention, onto)
    pairs = onto.pairs
    weights = spread(attention, pairs.slots)
    reach = factor_of(near, 1) + join(onto, weights, pairs.degrees.view(-1, 1, 1)).squeeze(2)
    reached, apart = times(near, 1, onto.of(sums)), join(onto, weights, own.unsqueeze(1)) + _apart(reach, positions)
    blocks, local = _pair_blocks(onto, len(attention), maps[0].shape[0], "nnnpp")

    def block(index: int, *tensors: Any) -> Products:
        x, reached, apart, own, pair_degrees, attention, positions, near, *maps = tensors
        keys, slots = local[index]
        rows, shares = Rows(maps), Shares.of(attention, reading)
        first, own_at = fork(times(near, 0, x), keys)
        rest, rest_at = fork(times(near, 1, x), keys)
        usual = rows(first, rest, reached, apart, shares)
        if not len(keys):
            return usual
        nodes, pair = keys // len(attention), shares.at(slots)
        share = pair.attention.transpose(1, 2)
        special = rows(
            (own_at + own).unsqueeze(1),
            rest_at.unsqueeze(1),
            reached.index_select(0, nodes),
            apart.index_select(0, nodes) - share * (own.unsqueeze(1) + _apart(pair_degrees, positions)),
            pair,
        )
        return replace(usual, places=keys, apart=special)

    parts = [onto.of(features), reached, apart, own, pairs.degrees]
    return blockwise(block, blocks, parts, [attention, positions, near, *maps])


def soft_gin_of_constant(
    graph: TypedGraph,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    epsilon: Tensor | None = None,
    reading: Reading | None = None,
) -> Tensor:
    """Return the soft GIN layer of the constant input 1 of width 1, one row per kind of the graph: ``(D, d)``.

    The contexts are summed over all other relations' edges; see `SoftGIN.of_constant`.
    """
    found, chosen = kinds(graph), reading or Reading()
    near = None if epsilon is None else 1 + epsilon
    blocks = [(rows,) * 3 for rows in node_blocks(len(found.slots), maps[0].shape[0], found.slots.device)]

    def block(index: int, *tensors: Any) -> Products:
        own, degrees, slots, attention, positions, near, *maps = tensors
        reach = (factor_of(near, 1) + degrees - own).view(-1, 1, 1)
        reached, apart = reach * attention.sum(dim=0).view(1, -1, 1), reach * positions
        shares = Shares.of(attention, chosen).at(slots)
        return Rows(maps)((factor_of(near, 0) + own).view(-1, 1, 1), reach, reached, apart, shares)

    parts = [found.own, found.degrees, found.slots]
    return blockwise(block, blocks, parts, [attention, positions, near, *maps]).squeeze(1)


def _apart(reach: Tensor, positions: Tensor) -> Tensor:
    """Return what positions come to, ``(m, K, d)``, where ``reach`` ``(m,)`` or ``(m, K)`` of them are summed."""
    return reach.view(len(reach), -1, 1) * positions


def _pair_blocks(
    onto: Receivers, slots: int, width: int, letters: str
) -> tuple[list[Block], list[tuple[Tensor, Tensor]]]:
    """Return the slices of the parts per block, and its pairs: key within the block, and slot.

    ``letters`` has one for each part: ``n`` where it has a row per node, ``p`` where it has one per pair.
    """
    keys = onto.pairs.keys
    nodes = node_blocks(onto.number, slots * width, keys.device)
    borders = torch.tensor([rows.start * slots for rows in nodes] + [onto.number * slots], device=keys.device)
    ends = torch.searchsorted(keys, borders).tolist()
    pairs = [slice(start, end) for start, end in pairwise(ends)]
    blocks: list[Block] = [
        tuple(rows if letter == "n" else part for letter in letters) for rows, part in zip(nodes, pairs, strict=True)
    ]
    local = [(keys[part] - rows.start * slots, onto.pairs.slots[part]) for rows, part in zip(nodes, pairs, strict=True)]
    return blocks, local
