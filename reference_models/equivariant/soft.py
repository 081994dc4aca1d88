"""Soft multi-task double-equivariant layers (MTDEA), as an exact leave-one-out factorisation.

Computed as written, a layer sums over all other relations for every relation and task: O(R^2 K N d). Here each sum is
computed once over *all* relations, and the relation's own share is subtracted, which is exact because every map up to
the first ReLU is linear (`docs/models.md`, Soft layer). Notation: a = alpha[r, k], c = R - 1, T_k = sum over r of
alpha[r, k] X_r, S_rk = (T_k - a X_r) / c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.graphs.operators import Operator
from reference_models.graphs.reach import Kinds, Met, kinds
from reference_models.layers.basic import Linear, Perceptron, uniform_
from reference_models.layers.blocks import Block, Products, blockwise, node_blocks
from reference_models.layers.rows import Rows, Shares, fork, spread
from reference_models.layers.sums import aggregate, task_sums


@dataclass(frozen=True, eq=False)
class Input:
    """Features ``(N, R, d)``: ``values`` times ``scale`` plus ``shift``, if any, through a ReLU if ``rectified``.

    With ``nodes``, in increasing order, they are those of these nodes only.
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
    """Return values times scale plus shift, if ``affine`` has them, through a ReLU if ``rectified``."""
    if affine:
        values = torch.addcmul(affine[1], values, affine[0])
    return torch.relu(values) if rectified else values


class SoftGIN(nn.Module):
    """A GIN soft layer: L1 over a relation's own edges, L2 and L3 over those of all others.

    Out_r = L1(X_r; A_r) + L2(p_i + S_ri; M) + sum over k != i of L3(p_k + S_rk; M), where
    i = argmax_k alpha[r, k] (the lowest index on a tie) carries no gradient, M is A - A_r, each edge counted once, and
    each L is a GIN whose epsilon is 0. With one task there is no L3, and without positions p = 0.
    Source: equation 4 of the paper, as `docs/models.md`, What is open, reads it.
    """

    def __init__(self, width_in: int, width: int, tasks: int) -> None:
        super().__init__()
        self.own = Perceptron(width_in, width)
        self.same_task = Perceptron(width_in, width)
        self.other_tasks = Perceptron(width_in, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width_in), 1, width_in))

    def forward(self, features: Tensor, onto: Receivers, attention: Tensor) -> Tensor:
        """Map ``(N, R, width_in)`` to ``(M, R, width)`` for M receivers, given the attention ``(R, K)``."""
        return soft_gin(features, onto, attention, maps_of(self, attention), self.positions)

    def of_kinds(self, rows: Tensor, graph: TypedGraph, onto: Receivers, attention: Tensor) -> Tensor:
        """Map features that are a row per kind of the graph, ``(D, width_in)``, to ``(M, R, width)``."""
        return soft_gin_of_kinds(rows, kinds(graph), onto, attention, maps_of(self, attention), self.positions)

    def of_constant(self, graph: TypedGraph, attention: Tensor) -> Tensor:
        """Return the layer of the constant input 1 of width 1: ``(D, width)``, a row per kind of the graph.

        A row then depends on how many edges reach its node and how many of them have its type.
        """
        return soft_gin_of_constant(kinds(graph), attention, maps_of(self, attention), self.positions)


class SoftLinear(nn.Module):
    """A soft layer of single linear maps without neighbours, exact and in closed form: O(R N d^2 + R K N d).

    With W1, W2, W3 for the own features, the own task and the others, and i = argmax_k alpha[r, k]:
    Out_r = X_r (W1 - W3 / c) - (a / c) X_r (W2 - W3) + (T_i / c + p_i) (W2 - W3)
    + (sum of X / c + sum of p) W3 + biases.
    """

    def __init__(self, width: int, tasks: int) -> None:
        super().__init__()
        self.own = Linear(width, width)
        self.same_task = Linear(width, width)
        self.other_tasks = Linear(width, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width), 1, width))

    def forward(self, features: Input, attention: Tensor) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)`` given the attention ``(R, K)``."""
        return soft_linear(features, attention, maps_of(self, attention), self.positions)


def maps_of(layer: Any, attention: Tensor) -> list[Tensor]:
    """Return weights and biases of a layer's L1, L2 and, with several tasks, L3."""
    modules = (layer.own, layer.same_task, layer.other_tasks)[: 3 if attention.shape[1] > 1 else 2]
    return [tensor for module in modules for tensor in module.parameters()]


def soft_gin(features: Tensor, onto: Receivers, attention: Tensor, maps: Sequence[Tensor], positions: Tensor) -> Tensor:
    """Return the soft GIN layer of features ``(N, R, d)`` for M receivers, ``(M, R, width)``.

    A row of the result depends on X_r, A X_r and A_r X_r at its node, and on T_k, A T_k and A_r T_k. The terms with A_r
    are zero except at the graph's pairs: all rows are computed without them, and those of the pairs once more with
    them.
    """
    everything, own, sums = aggregate(features, attention, onto)  # A X, A_r X_r at the pairs, and T
    pairs = onto.pairs
    own_sums = (pairs.from_nodes @ sums.flatten(1)).view(-1, *sums.shape[1:])
    reached = onto.of(sums) + (onto.union @ sums.flatten(1)).view(onto.number, *sums.shape[1:])
    nodes, of_nodes, keys = _pair_blocks(onto, len(attention), maps[0].shape[0])
    blocks: list[Block] = [
        (rows, rows, rows, paired, paired, rows, paired) for rows, paired in zip(nodes, of_nodes, strict=True)
    ]

    def block(index: int, *tensors: Any) -> Products:
        x, ax, reached, own, own_sums, degrees, pair_degrees, attention, positions, *maps = tensors
        rows, shares = Rows(maps), Shares.of(attention)
        node, slot = keys[index] // len(attention), keys[index] % len(attention)
        reach = (1.0 + degrees).view(-1, 1, 1)
        # Used twice, as all rows and as those at pairs: fork adds up both gradients in place.
        first, own_at = fork(x, keys[index])
        rest, rest_at = fork(x + ax, keys[index])
        usual = rows(first, rest, reached, reach * positions, shares)
        if not len(slot):
            return usual
        # At a pair, the edges of the slot itself move from what L2 and L3 see to what L1 sees.
        beyond = reach.index_select(0, node) - pair_degrees.view(-1, 1, 1)
        special = rows(
            (own_at + own).unsqueeze(1),
            (rest_at - own).unsqueeze(1),
            reached.index_select(0, node) - own_sums,
            beyond * positions,
            shares.at(slot),
        )
        return replace(usual, places=keys[index], apart=special)

    parts = [onto.of(features), everything, reached, own, own_sums, onto.degrees, pairs.degrees]
    return blockwise(block, blocks, parts, [attention, positions, *maps])


def soft_gin_of_constant(kinds: Kinds, attention: Tensor, maps: Sequence[Tensor], positions: Tensor) -> Tensor:
    """Return the soft GIN layer of the constant input 1 of width 1, one row per kind of a graph: ``(D, d)``."""

    def block(index: int, *tensors: Any) -> Products:
        own, degrees, slots, attention, positions, *maps = tensors
        reach = (1.0 + degrees - own).view(-1, 1, 1)
        reached, apart = reach * attention.sum(dim=0).view(1, -1, 1), reach * positions
        shares = Shares.of(attention).at(slots)
        return Rows(maps)((1.0 + own).view(-1, 1, 1), reach, reached, apart, shares)

    blocks = [(rows,) * 3 for rows in node_blocks(len(kinds.slots), maps[0].shape[0], kinds.slots.device)]
    parts = [kinds.own, kinds.degrees, kinds.slots]
    return blockwise(block, blocks, parts, [attention, positions, *maps]).squeeze(1)


def soft_gin_of_kinds(
    rows: Tensor,
    kinds: Kinds,
    onto: Receivers,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
) -> Tensor:
    """Return the soft GIN layer of features that are ``rows`` ``(D, d)``, one per kind: ``(M, R, width)``.

    The second layer has such features: those of a node under a slot are its level's unless edges of the slot reach it.
    Sums over neighbours are then sums over L levels and not N nodes, plus what the few other pairs add, and L1 of a
    slot that does not reach the node is that of its level. The first maps of L2 and L3 commute with sums, and are
    applied to levels.
    """
    slots, width = len(attention), maps[0].shape[0]
    met, pairs = Met.by(onto, kinds), onto.pairs
    base, apart = kinds.split(rows)
    sums = _task_sums(base, apart, kinds, attention)
    own = pairs.from_sources @ rows.index_select(0, met.sources)
    parts = [
        (onto.of(sums) + onto.union @ sums).view(onto.number, *positions.shape),
        onto.degrees,
        met.extras @ apart,
        rows.index_select(0, met.kinds) + own,
        own,
        (pairs.from_nodes @ sums).view(-1, *positions.shape),
        pairs.degrees,
    ]
    nodes, special, own_keys = _pair_blocks(onto, slots, width)
    borders = torch.tensor([part.start for part in nodes] + [onto.number], device=rows.device)
    reached = [slice(*ends) for ends in pairwise(torch.searchsorted(met.keys, borders * slots).tolist())]
    levels = kinds.level if onto.nodes is None else kinds.level[onto.nodes]
    meets = _meets(met, nodes, borders, kinds.levels)
    keys = [met.keys[part] - node.start * slots for node, part in zip(nodes, reached, strict=True)]
    count = 2 if len(maps) > 8 else 1  # first maps of L2, and of L3 where there are several tasks

    def block(index: int, *tensors: Any) -> Products:
        reached, degrees, extras, mine, own, own_sums, own_degrees, attention, positions, of_level, *rest = tensors
        through, layer, shares = rest[:count], Rows(rest[count:]), Shares.of(attention)
        node, slot = own_keys[index] // slots, own_keys[index] % slots
        reach = (1 + degrees).view(-1, 1, 1)
        passed, at_pairs = [], []
        for sent, more, less in zip(through, layer.passed(extras), layer.passed(own), strict=True):
            summed = meets[index] @ sent.flatten(1)
            summed = summed.view(-1, width).index_add_(0, keys[index], more).view(len(degrees), slots, width)
            summed, there = fork(summed, own_keys[index])
            passed.append(summed)
            at_pairs.append((there - less).unsqueeze(1))
        hidden = layer.hidden(passed, reached, reach * positions, shares)
        usual = Products(of_level.index_select(0, levels[nodes[index]]), layer.factors(hidden))
        if not len(slot):
            return usual
        beyond = reach.index_select(0, node) - own_degrees.view(-1, 1, 1)
        hidden = layer.hidden(at_pairs, reached.index_select(0, node) - own_sums, beyond * positions, shares.at(slot))
        return replace(
            usual,
            places=own_keys[index],
            apart=layer.products([layer.mine(mine.unsqueeze(1)), *hidden], shares),
        )

    blocks = [
        (node, node, met_pairs, own, own, own, own)
        for node, met_pairs, own in zip(nodes, reached, special, strict=True)
    ]
    shared = [attention, positions, _of_levels(base, attention, maps), *_passed(base, maps), *maps]
    return blockwise(block, blocks, parts, shared)


def _task_sums(base: Tensor, apart: Tensor, kinds: Kinds, attention: Tensor) -> Tensor:
    """Return T_k of every node, ``(N, K d)``."""
    shares = spread(attention, kinds.places % kinds.pairs.num_slots)
    more = kinds.pairs_of_nodes @ (shares.unsqueeze(2) * apart.unsqueeze(1)).flatten(1)
    return task_sums(base, attention).flatten(1).index_select(0, kinds.level) + more


def _meets(met: Met, nodes: Sequence[slice], borders: Tensor, levels: int) -> list[Operator]:
    """Return, for every block of receivers ``(m,)``, the operator ``(m, L)`` that sums over the levels they meet."""
    order = torch.argsort(met.tails, stable=True)
    tails, of_edges = met.tails[order], met.levels[order]
    ends = pairwise(torch.searchsorted(tails, borders).tolist())
    return [
        Operator.from_edges(
            tails[start:end] - block.start,
            of_edges[start:end],
            (block.stop - block.start, levels),
            met.extras.matrix.dtype,
        )
        for block, (start, end) in zip(nodes, ends, strict=True)
    ]


def _of_levels(base: Tensor, attention: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """Return L1 of the levels, with the biases of the whole layer, ``(L, R, width)``."""

    def block(index: int, base: Tensor, attention: Tensor, *maps: Tensor) -> Products:
        layer = Rows(maps)
        return Products(layer.biases(attention.shape[1]), [(layer.mine(base), layer.own[2])])

    return blockwise(block, _blocks(base, maps), [base], [attention, *maps])


def _passed(base: Tensor, maps: Sequence[Tensor]) -> list[Tensor]:
    """Return the levels through the first maps of L2 and, where there are other tasks, of L3, ``(L, R, width)``."""

    def block(index: int, base: Tensor, weight: Tensor) -> Products:
        return Products(weight.new_zeros(len(weight)), [(base, weight)])

    return [blockwise(block, _blocks(base, maps), [base], [weight]) for weight in maps[4::4]]


def _blocks(base: Tensor, maps: Sequence[Tensor]) -> list[tuple[slice]]:
    return [(part,) for part in node_blocks(len(base), base.shape[1] * maps[0].shape[0], base.device)]


def soft_linear(features: Input, attention: Tensor, maps: Sequence[Tensor], positions: Tensor) -> Tensor:
    """Return the soft linear layer of features ``(N, R, d)``; see `SoftLinear`."""
    values, affine, rectified = features.values, features.tensors(), features.rectified
    count = len(affine)  # block must not refer to the features, as it is kept until the backward pass

    def block(index: int, part: Tensor, attention: Tensor, positions: Tensor, *tensors: Tensor) -> Products:
        x = finish(part, tensors[:count], rectified=rectified)
        weight, bias, same, same_bias, *other_task = tensors[count:]
        shares, sums = Shares.of(attention), task_sums(x, attention)
        node = bias + same_bias
        if other_task:
            # The sum over other tasks is the sum over all of them less the relation's own.
            same = same - other_task[0]
            node = node + positions.sum(dim=0) @ other_task[0].T + (attention.shape[1] - 1) * other_task[1]
            weight = weight - shares.factor * other_task[0]
            node = node + shares.factor * x.sum(dim=1, keepdim=True) @ other_task[0].T
        contexts = torch.add(positions, sums, alpha=shares.factor) @ same.T + node
        own = shares.own.take_along_dim(shares.assigned, 2).view(-1, 1, 1)
        return Products(contexts, [(x, weight + own * same)], shares.assigned.view(-1))

    blocks = [(rows,) for rows in node_blocks(len(values), values[0].numel(), values.device)]
    return blockwise(block, blocks, [values], [attention, positions, *affine, *maps])


def _pair_blocks(onto: Receivers, slots: int, width: int) -> tuple[list[slice], list[slice], list[Tensor]]:
    """Return slices of the receivers, slices of their pairs, and for each the pairs' keys, counted within the slice."""
    keys = onto.pairs.keys
    nodes = node_blocks(onto.number, slots * width, keys.device)
    borders = torch.tensor([rows.start * slots for rows in nodes] + [onto.number * slots], device=keys.device)
    pairs = [slice(*ends) for ends in pairwise(torch.searchsorted(keys, borders).tolist())]
    return nodes, pairs, [keys[part] - rows.start * slots for rows, part in zip(nodes, pairs, strict=True)]
