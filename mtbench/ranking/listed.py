"""Ranking against candidates that are listed: every distinct triple is scored once, and counted wherever it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mtbench.data.splits import Split, unique
from mtbench.errors import DatasetError
from mtbench.names import COLUMN, PARTS, BoolArray, Direction, IntArray, Part, ScoreArray, Side
from mtbench.ranking.again import Asked, chosen
from mtbench.ranking.ranks import count
from mtbench.ranking.scorers import METHODS, Progress, RankedPart, Scored, Seen, Ways, score_listed

GIVEN_SCORES = "scores that were given"


@dataclass(frozen=True, eq=False)
class Layout:
    """The distinct triples of a task, and where its targets and their candidates are among them.

    ``candidates`` holds per side the ids ``(m, c)`` and which of them are no padding; directions share a side's.
    """

    split: Split
    parts: tuple[Part, ...]
    candidates: Mapping[Side, tuple[IntArray, BoolArray]]

    @property
    def triples(self) -> IntArray:
        """The distinct triples ``(k, 3)``, sorted by head, relation and tail."""
        return self._places[0]

    @property
    def targets(self) -> IntArray:
        """The row of each target ``(m,)`` in the triples."""
        return self._places[1]

    @property
    def rows(self) -> Mapping[Side, IntArray]:
        """The rows of the candidates ``(m, c)`` of each side in the triples; where there is padding, the target's."""
        return self._places[2]

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray, Mapping[Side, IntArray]]:
        split = self.split
        slots, nodes = split.relation_slots, split.num_entities
        if nodes * nodes * slots >= 2**63:
            where = f"{split.dataset} {split.name}"
            raise DatasetError(f"{where}: {nodes} entities and {slots} relation slots give more triples than int64")
        steps = np.array([slots * nodes, nodes, 1])
        keys = [split.targets @ steps[:, None]]
        for side, (ids, valid) in self.candidates.items():
            column = COLUMN[side]
            moved = (ids - split.targets[:, column, None]) * steps[column]
            keys.append(keys[0] + np.where(valid, moved, 0))
        table = np.concatenate(keys, axis=1)
        distinct, inverse = np.unique(table, return_inverse=True)
        pairs, found_tails = np.divmod(distinct, nodes)
        triples = np.stack((pairs // slots, pairs % slots, found_tails), axis=1)
        rows = np.split(inverse.reshape(table.shape), np.cumsum([part.shape[1] for part in keys])[:-1], axis=1)
        return triples, rows[0][:, 0], dict(zip(self.candidates, rows[1:], strict=True))

    def asked(self, direction: Direction) -> IntArray:
        """Return the rows of the triples that the list of a direction asks for, ``(n,)``, in increasing order."""
        rows = [self.rows[side].ravel() for way, side in map(PARTS.__getitem__, self.parts) if way == direction]
        return unique(np.concatenate([self.targets, *rows]))

    def rank(self, scored: Mapping[Part, Scored]) -> dict[Part, RankedPart]:
        """Count the candidates above and tied with every target, by the scores of each part, ``(k,)``."""
        ranked: dict[tuple[Side, int], RankedPart] = {}
        keys = {part: (PARTS[part][1], id(one.scores)) for part, one in scored.items()}
        for part, one in scored.items():
            side, _ = key = keys[part]
            if key not in ranked:
                counts = count(one.scores, self.targets, self.rows[side], self.candidates[side][1])
                own, asked = one.scores[self.targets], self._sample(side, one)
                ranked[key] = RankedPart(counts, own, one.seen, one.method, asked)
        return {part: ranked[key] for part, key in keys.items()}

    def _sample(self, side: Side, scored: Scored) -> Asked | None:
        """Return some targets, and a candidate of each, as they were asked; None for scores that were given."""
        if scored.ask is None:
            return None
        number = len(self.targets)
        if scored.method in METHODS.values():
            some = chosen(number, rows=number)
        else:
            some = chosen(number, triples=len(self.triples))
        valid = self.candidates[side][1][some].sum(axis=1)
        there = self.rows[side][some, some % np.maximum(valid, 1)] if self.rows[side].shape[1] else self.targets[:0]
        asked = unique(np.concatenate((self.targets[some], there)))
        return Asked(scored.method, scored.seen.kind, self.triples[asked], scored.scores[asked], scored.ask)


def rank_listed(
    found: Ways, layout: Layout, parts: Sequence[Part], size: int, progress: Progress | None
) -> dict[Part, RankedPart]:
    """Ask a scorer for some parts of a layout, with at most ``size`` scores at a time, and rank the targets in them."""
    needed = {part: np.append(layout.rows[PARTS[part][1]], layout.targets) for part in parts}
    return layout.rank(score_listed(found, layout.split, layout.triples, needed, size, progress))


def given(
    scores: Mapping[Direction, ScoreArray], kinds: Mapping[Direction, str], layout: Layout
) -> dict[Part, RankedPart]:
    """Rank the targets by scores aligned with the triples of a layout, ``(k,)`` for each direction."""
    of: dict[int, Scored] = {}
    for way, values in scores.items():
        if id(values) not in of:  # both directions may have the same
            seen = Seen(kinds[way])
            seen.add(values)
            of[id(values)] = Scored(GIVEN_SCORES, values, seen)
    return layout.rank({part: of[id(scores[PARTS[part][0]])] for part in layout.parts})
