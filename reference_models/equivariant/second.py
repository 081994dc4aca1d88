"""The soft GIN layer that follows the first one: its input is one row per kind, so nearly all of a row is a level's.

A node's features under a slot are those of its level unless edges of the slot reach it. Sums over neighbours are then
sums over the levels they are of, L of them and not N, plus what the few other pairs add; and L1 of a slot that does
not reach the node is that of its level. The first maps of L2 and L3 commute with sums and are applied to levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from reference_models.graphs.graph import Receivers
from reference_models.graphs.kinds import Kinds, Met
from reference_models.graphs.operators import Operator
from reference_models.layers.blocks import Products, blockwise, node_blocks
from reference_models.layers.readings import Reading, Shares, spread
from reference_models.layers.rows import Rows, fork
from reference_models.layers.sums import task_sums


def soft_gin_of_kinds(
    rows: Tensor,
    kinds: Kinds,
    onto: Receivers,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    reading: Reading,
) -> Tensor:
    """Return the soft GIN layer, epsilon 0, of features that are ``rows`` ``(D, d)``, one per kind: ``(M, R, width)``.

    Contexts are summed over all other relations' edges; see `soft.SoftGIN`.
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
    nodes = node_blocks(onto.number, slots * width, rows.device)
    borders = torch.tensor([part.start for part in nodes] + [onto.number], device=rows.device)
    reached, special = (
        [slice(*ends) for ends in pairwise(torch.searchsorted(keys, borders * slots).tolist())]
        for keys in (met.keys, pairs.keys)
    )
    levels = kinds.level if onto.nodes is None else kinds.level[onto.nodes]
    meets = _meets(met, nodes, borders, kinds.levels)
    keys = [met.keys[part] - node.start * slots for node, part in zip(nodes, reached, strict=True)]
    own_keys = [pairs.keys[part] - node.start * slots for node, part in zip(nodes, special, strict=True)]
    count = 2 if len(maps) > 8 else 1

    def block(index: int, *tensors: Any) -> Products:
        reached, degrees, extras, mine, own, own_sums, own_degrees, attention, positions, of_level, *rest = tensors
        through, layer, shares = rest[:count], Rows(rest[count:]), Shares.of(attention, reading)
        node, slot = own_keys[index] // slots, own_keys[index] % slots
        reach = (1 + degrees).view(-1, 1, 1)
        passed, at_pairs = [], []
        for sent, more, less in zip(through, layer.passed(extras), layer.passed(own), strict=True):
            found = meets[index] @ sent.flatten(1)
            found = found.view(-1, width).index_add_(0, keys[index], more).view(len(degrees), slots, width)
            found, there = fork(found, own_keys[index])
            passed.append(found)
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

    blocks = [(node, node, some, own, own, own, own) for node, some, own in zip(nodes, reached, special, strict=True)]
    shared = [attention, positions, _of_levels(base, attention, maps, reading), *_passed(base, maps), *maps]
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


def _of_levels(base: Tensor, attention: Tensor, maps: Sequence[Tensor], reading: Reading) -> Tensor:
    """Return L1 of the levels, with the biases of the whole layer, ``(L, R, width)``."""

    def block(index: int, base: Tensor, attention: Tensor, *maps: Tensor) -> Products:
        layer = Rows(maps)
        return Products(layer.biases(Shares.of(attention, reading)), [(layer.mine(base), layer.own[2])])

    return blockwise(block, _blocks(base, maps), [base], [attention, *maps])


def _passed(base: Tensor, maps: Sequence[Tensor]) -> list[Tensor]:
    """Return the levels through the first maps of L2 and, where there are other tasks, of L3, ``(L, R, width)``."""

    def block(index: int, base: Tensor, weight: Tensor) -> Products:
        return Products(weight.new_zeros(len(weight)), [(base, weight)])

    return [blockwise(block, _blocks(base, maps), [base], [weight]) for weight in maps[4::4]]


def _blocks(base: Tensor, maps: Sequence[Tensor]) -> list[tuple[slice]]:
    return [(part,) for part in node_blocks(len(base), base.shape[1] * maps[0].shape[0], base.device)]
