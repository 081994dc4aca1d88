"""Every candidate of a target: all that may take the place of one of its sides and is no known triple."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtbench.data.splits import Split, unique
from mtbench.names import COLUMN, RELATION, SIDES, BoolArray, IntArray, Side


@dataclass(frozen=True, eq=False)
class Filtered:
    """The candidates of one side, kept as what is left out of them.

    A row is one distinct pair of what stays fixed, such as (head, relation) for tails: ``pairs`` is int64
    ``(g, 2)`` in column order, and ``row`` ``(m,)`` the row of each target. ``universe`` ``(c,)`` holds the
    ids that may be candidates, in increasing order; those at ``members[starts[i]:starts[i + 1]]`` of it are
    known triples in row i, also in increasing order.
    """

    side: Side
    pairs: IntArray
    row: IntArray
    universe: IntArray
    starts: IntArray
    members: IntArray
    width: int

    @property
    def numbers(self) -> IntArray:
        """Candidates per row, ``(g,)``."""
        return len(self.universe) - np.diff(self.starts)

    def allowed(self, start: int, stop: int) -> BoolArray:
        """Return which ids are candidates in the rows from ``start`` to ``stop``, ``(stop - start, width)``."""
        found = np.zeros((stop - start, self.width), dtype=np.bool_)
        found[:, self.universe] = True
        known = self.members[self.starts[start] : self.starts[stop]]
        owner = np.repeat(np.arange(stop - start), np.diff(self.starts[start : stop + 1]))
        found[owner, self.universe[known]] = False
        return found

    def listed(self) -> tuple[IntArray, BoolArray]:
        """Return the ids of all candidates of every target ``(m, k)``, and which of them are not padding."""
        rows, ids = np.nonzero(self.allowed(0, len(self.pairs)))
        numbers = self.numbers[self.row, None]
        place = np.arange(int(numbers.max(initial=0)))
        valid = place < numbers
        starts = np.searchsorted(rows, self.row)[:, None]
        return np.where(valid, np.append(ids, -1)[np.where(valid, starts + place, -1)], -1), valid


def fixed(side: Side) -> tuple[Side, Side]:
    """Return the two sides that stay when one is corrupted, in column order."""
    first, second = (other for other in SIDES if other != side)
    return first, second


def joined(side: Side, pairs: IntArray, rows: IntArray, ids: IntArray) -> IntArray:
    """Return triples ``(k, 3)``: what stays fixed from rows ``(k,)`` of the pairs ``(b, 2)``, and ids of the side."""
    triples = np.empty((len(ids), 3), dtype=np.int64)
    for other, values in zip(fixed(side), pairs.T, strict=True):
        triples[:, COLUMN[other]] = values[rows]
    triples[:, COLUMN[side]] = ids
    return triples


def filter_side(split: Split, side: Side, *, empty_slots: bool) -> Filtered:
    """Return all candidates of one side of every target, filtered against the graph and the targets.

    Heads and tails are all entities; relations are those of the graph, or with ``empty_slots`` the whole
    dictionary.
    """
    sizes = {"head": split.num_entities, "relation": split.relation_slots, "tail": split.num_entities}
    universe = np.arange(sizes[side])
    if side == "relation" and not empty_slots:
        universe = unique(split.graph[:, RELATION])
    first, second = (COLUMN[other] for other in fixed(side))
    size = sizes[fixed(side)[1]]
    position = np.full(sizes[side], -1)
    position[universe] = np.arange(len(universe))
    known = np.concatenate((split.graph, split.targets))
    keys, members = known[:, first] * size + known[:, second], position[known[:, COLUMN[side]]]
    rows, row = np.unique(split.targets[:, first] * size + split.targets[:, second], return_inverse=True)
    owner = np.searchsorted(rows, keys)
    asked = (rows[np.minimum(owner, len(rows) - 1)] == keys) & (members >= 0)
    flat = unique(owner[asked] * len(universe) + members[asked])
    owner = flat // len(universe)
    return Filtered(
        side=side,
        pairs=np.stack(np.divmod(rows, size), axis=1),
        row=row,
        universe=universe,
        starts=np.searchsorted(owner, np.arange(len(rows) + 1)),
        members=flat - owner * len(universe),
        width=sizes[side],
    )
