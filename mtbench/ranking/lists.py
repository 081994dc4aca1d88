"""The targets ranked in the lists of a setting: among candidates that are listed, or among all, row by row.

With listed candidates, every distinct triple is scored once and counted wherever it stands. Rows of all candidates are
asked for, compared and forgotten, batch by batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mtbench.data.ragged import batches
from mtbench.data.splits import Split, unique
from mtbench.errors import DatasetError, UsageError
from mtbench.names import COLUMN, PARTS, BoolArray, Direction, IntArray, Part, ScoreArray, Side
from mtbench.ranking.again import Asked, sampled_targets
from mtbench.ranking.candidates import Filtered
from mtbench.ranking.ranks import Counts, count, count_rows
from mtbench.ranking.scorers import METHODS, Asker, Meter, Method, Progress, Scored, Seen, Ways, score_listed

GIVEN_SCORES = "scores that were given"


@dataclass(frozen=True, eq=False)
class RankedPart:
    """The counts of a part, each target's score behind them, ``(m,)``, and what was ``seen`` of all scores.

    ``asked`` holds a sample of the triples with their scores, to be asked for again.
    """

    counts: Counts
    own: ScoreArray
    seen: Seen
    method: str
    asked: Asked | None


@dataclass(frozen=True, eq=False)
class Layout:
    """The distinct triples of a task, and where its targets and their candidates are among them.

    ``candidates`` holds per side the ids ``(m, c)`` and which of them are not padding; both directions share them.
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
        # A triple is a single integer, with the head as leading digit: sorted integers are sorted triples, and a
        # candidate is its target plus a multiple of its column's step.
        steps = np.array([slots * nodes, nodes, 1])
        keys = [split.targets @ steps[:, None]]
        for side, (ids, valid) in self.candidates.items():
            column = COLUMN[side]
            moved = (ids - split.targets[:, column, None]) * steps[column]
            keys.append(keys[0] + np.where(valid, moved, 0))
        table = np.concatenate(keys, axis=1)
        distinct, inverse = np.unique(table, return_inverse=True)
        pairs, tails = np.divmod(distinct, nodes)
        triples = np.stack((pairs // slots, pairs % slots, tails), axis=1)
        # NumPy 1 gives the inverse flat, NumPy 2 in the shape of the table.
        rows = np.split(inverse.reshape(table.shape), np.cumsum([block.shape[1] for block in keys])[:-1], axis=1)
        return triples, rows[0][:, 0], dict(zip(self.candidates, rows[1:], strict=True))

    def asked(self, direction: Direction) -> IntArray:
        """Return the rows of the triples that the list of a direction asks for, ``(n,)``, in increasing order."""
        rows = [self.rows[side].ravel() for way, side in map(PARTS.__getitem__, self.parts) if way == direction]
        return unique(np.concatenate([self.targets, *rows]))

    def rank(self, scored: Mapping[Part, Scored]) -> dict[Part, RankedPart]:
        """Count the candidates above and tied with every target, by the scores of each part, ``(k,)``."""
        ranked: dict[tuple[Side, int], RankedPart] = {}
        # Parts of both directions that share a side and its scores are counted once.
        keys = {part: (PARTS[part][1], id(answer.scores)) for part, answer in scored.items()}
        for part, answer in scored.items():
            side, _ = key = keys[part]
            if key not in ranked:
                own, asked = answer.scores[self.targets], self._sample(side, answer)
                counts = count(answer.scores, self.targets, self.rows[side], self.candidates[side][1])
                ranked[key] = RankedPart(counts, own, answer.seen, answer.method, asked)
        return {part: ranked[key] for part, key in keys.items()}

    def _sample(self, side: Side, scored: Scored) -> Asked | None:
        """Return a sample of the targets, and a candidate of each, with their scores; None if nobody can be asked."""
        if scored.ask is None:
            return None
        number = len(self.targets)
        by_rows = scored.method in METHODS.values()
        sample = sampled_targets(number, rows=number) if by_rows else sampled_targets(number, triples=len(self.triples))
        valid = self.candidates[side][1][sample].sum(axis=1)
        # Padding comes last in a row and stands for the target, so any column below the number of candidates will do.
        rows = self.rows[side]
        candidates = rows[sample, sample % np.maximum(valid, 1)] if rows.shape[1] else self.targets[:0]
        asked = unique(np.concatenate((self.targets[sample], candidates)))
        return Asked(scored.method, scored.seen.kind, self.triples[asked], scored.scores[asked], scored.ask)


def rank_listed(
    scorer: Ways, layout: Layout, parts: Sequence[Part], size: int, progress: Progress | None
) -> dict[Part, RankedPart]:
    """Ask a scorer for parts of a layout, with at most ``size`` scores at a time, and rank the targets in them."""
    needed = {part: np.append(layout.rows[PARTS[part][1]], layout.targets) for part in parts}
    return layout.rank(score_listed(scorer, layout.split, layout.triples, needed, size, progress))


def rank_given(scores: Mapping[Direction, tuple[ScoreArray, str]], layout: Layout) -> dict[Part, RankedPart]:
    """Rank the targets by scores aligned with the triples of a layout, ``(k,)``, and their type, for each direction."""
    scored: dict[int, Scored] = {}
    for values, kind in scores.values():
        if id(values) not in scored:  # both directions may have the same
            seen = Seen(kind)
            seen.add(values)
            scored[id(values)] = Scored(GIVEN_SCORES, values, seen)
    return layout.rank({part: scored[id(scores[PARTS[part][0]][0])] for part in layout.parts})


def rank_all(
    scorer: Ways, split: Split, parts: Mapping[Part, Filtered], size: int, progress: Progress | None
) -> dict[Part, RankedPart]:
    """Rank every target among all candidates of each part, with at most ``size`` scores at a time.

    A row is asked for once, and a target's own score comes from the row of its candidates. Rows of the side itself
    are the cheapest; without them their triples are asked for, and relations are also read from rows of tails or
    heads. Raises `UsageError` for a scorer that offers none of these for a part.
    """
    methods = {part: _cheapest(scorer, part) for part in parts}
    # A target is no candidate of its own row, but is scored with it: once, even if the target is listed twice.
    distinct = len(np.unique(split.targets, axis=0))
    meter = Meter(sum(int(candidates.numbers.sum()) + distinct for candidates in parts.values()), progress)
    return {
        part: _rank_among_all(split, candidates, Asker(split, methods[part], size, meter, Seen()))
        for part, candidates in parts.items()
    }


def _cheapest(scorer: Ways, part: Part) -> Method:
    direction, side = PARTS[part]
    if side in scorer.rows:
        return Method(METHODS[side], scorer.rows[side], side)
    if (method := scorer.of_triples(part)) is not None:
        return method
    if side == "relation":
        return scorer.of_rows(direction)[0]
    # Entities could be read from rows of the opposite end too, but that takes a row of all entities per candidate.
    offered = ", ".join(METHODS[row_side] for row_side in scorer.rows)
    raise UsageError(
        f"ranking against every {side} needs {METHODS[side]} or score(triples), and the scorer has only {offered}"
    )


def _rank_among_all(split: Split, candidates: Filtered, asker: Asker) -> RankedPart:
    side, rows = candidates.side, candidates.row
    ids = split.targets[:, COLUMN[side]]
    greater, equal = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    own: ScoreArray = np.empty(0)
    number = {"rows": len(candidates.pairs)} if asker.method.rows else {"triples": int(candidates.numbers.sum())}
    sampled = np.zeros(len(rows), dtype=np.bool_)
    sampled[sampled_targets(len(rows), **number)] = True
    kept: list[tuple[IntArray, ScoreArray]] = []
    step = max(1, asker.size // candidates.width)
    for start, stop, targets in batches(rows, len(candidates.pairs), step):
        row, column = rows[targets] - start, ids[targets]
        allowed = candidates.allowed(start, stop)
        needed = allowed.copy()
        needed[row, column] = True
        scores = asker.score_rows(side, candidates.pairs[start:stop], needed)
        if not start:
            own = np.empty_like(scores, shape=len(rows))
        own[targets] = scores[row, column]
        greater[targets], equal[targets] = count_rows(own[targets], row, scores, allowed[:, : scores.shape[1]])
        # The row is forgotten after this batch, so what is to be asked for again is kept here.
        in_sample = sampled[targets]
        for target, place in zip(targets[in_sample].tolist(), row[in_sample].tolist(), strict=True):
            free = np.flatnonzero(allowed[place])
            picked = np.array([ids[target], *free[[target % len(free)] if len(free) else []]])
            triples = np.repeat(split.targets[target : target + 1], len(picked), axis=0)
            triples[:, COLUMN[side]] = picked
            kept.append((triples, scores[place, picked]))
    triples, scores = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    asker.meter = Meter(asker.meter.total)  # what is asked for again is no progress
    asked = Asked(asker.method.name, asker.seen.kind, triples, scores, asker.score)
    return RankedPart(Counts(greater, equal, candidates.numbers[rows]), own, asker.seen, asker.method.name, asked)
