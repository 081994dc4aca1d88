"""Ranking against every candidate: rows of scores are asked for, compared and forgotten, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.names import COLUMN, BoolArray, IntArray, ScoreArray, Side
from mtbench.ranking.filtered import Filtered, batches, joined
from mtbench.ranking.ranks import Counts, count_rows
from mtbench.ranking.scorers import METHODS, Asker, Meter, Progress, Seen, Ways

Ask: TypeAlias = Callable[[int, BoolArray], ScoreArray]


@dataclass(frozen=True, eq=False)
class RankedSide:
    """The counts of one side, the score of each target they were made with, ``(m,)``, and what was seen."""

    counts: Counts
    own: ScoreArray
    seen: Seen


def rank_all(
    found: Ways, split: Split, sides: Mapping[Side, Filtered], size: int, progress: Progress | None
) -> Mapping[Side, RankedSide]:
    """Rank every target among all candidates of each side, with at most ``size`` scores at a time.

    A row is asked for once, and a target's own score on a side comes from the row of its candidates. Rows
    of the side itself are the cheapest; without them their triples are asked for, and relations are also
    read from rows of tails or heads. Raises `UsageError` for a scorer that can serve a side in no such way.
    """
    distinct = len(np.unique(split.targets, axis=0))
    meter = Meter(sum(int(side.numbers.sum()) + distinct for side in sides.values()), progress)
    ranked: dict[Side, RankedSide] = {}
    for side, candidates in sides.items():
        asker = Asker(split, size, meter, Seen())
        ranked[side] = _rank(split, candidates, _ask(found, candidates, asker), asker)
    return ranked


def _ask(found: Ways, candidates: Filtered, asker: Asker) -> Ask:
    """Return the cheapest way to get a batch of rows, given its first row and which scores are needed."""
    side = candidates.side
    if side in found.rows:
        rows = found.rows[side]
        return lambda start, needed: asker.rows(side, rows, candidates.pairs[start : start + len(needed)], needed)
    listed = _listed(found, side, asker)

    def ask(start: int, needed: BoolArray) -> ScoreArray:
        pairs = candidates.pairs[start : start + len(needed)]
        values = listed(joined(side, pairs, *np.nonzero(needed)))
        scores = np.empty_like(values, shape=needed.shape)
        scores[~needed] = 0
        scores[needed] = values
        return scores

    return ask


def _listed(found: Ways, side: Side, asker: Asker) -> Callable[[IntArray], ScoreArray]:
    if (function := found.triples) is not None:
        return lambda triples: asker.triples(function, triples)
    if side == "relation":
        other: Side = "tail" if "tail" in found.rows else "head"
        rows = found.rows[other]
        return lambda triples: asker.gathered(other, rows, triples)
    given = ", ".join(METHODS[other] for other in found.rows)
    raise UsageError(
        f"ranking against every {side} needs {METHODS[side]} or score(triples), and the scorer has only {given}"
    )


def _rank(split: Split, candidates: Filtered, ask: Ask, asker: Asker) -> RankedSide:
    rows, ids = candidates.row, split.targets[:, COLUMN[candidates.side]]
    greater, equal = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    own: ScoreArray = np.empty(0)
    step = max(1, asker.size // candidates.width)
    for start, stop, chosen in batches(rows, len(candidates.pairs), step):
        row, column = rows[chosen] - start, ids[chosen]
        allowed = candidates.allowed(start, stop)
        needed = allowed.copy()
        needed[row, column] = True
        scores = ask(start, needed)
        if not start:
            own = np.empty_like(scores, shape=len(rows))
        own[chosen] = scores[row, column]
        greater[chosen], equal[chosen] = count_rows(own[chosen], row, scores, allowed[:, : scores.shape[1]])
    return RankedSide(Counts(greater, equal, candidates.numbers[rows]), own, asker.seen)
