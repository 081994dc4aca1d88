"""Ranking against every candidate: rows of scores are asked for, compared and forgotten, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mtbench.data.ragged import batches
from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.names import COLUMN, PARTS, BoolArray, IntArray, Part, ScoreArray, Side
from mtbench.ranking.again import Asked, chosen
from mtbench.ranking.filtered import Filtered, joined
from mtbench.ranking.ranks import Counts, count_rows
from mtbench.ranking.scorers import METHODS, Asker, Meter, Progress, RankedPart, Seen, Ways


@dataclass(frozen=True, eq=False)
class _Way:
    """How the rows of a side are had: by which method, from a batch's first row and the scores that are needed.

    ``rows`` says whether the method gives whole rows; ``again`` asks it for single triples.
    """

    method: str
    rows: bool
    ask: Callable[[int, BoolArray], ScoreArray]
    again: Callable[[IntArray], ScoreArray]


def rank_all(
    found: Ways, split: Split, parts: Mapping[Part, Filtered], size: int, progress: Progress | None
) -> Mapping[Part, RankedPart]:
    """Rank every target among all candidates of each part, with at most ``size`` scores at a time.

    A row is asked for once, also for both directions where they have one method, and a target's own score in a
    part comes from the row of its candidates. Rows of the side itself are the cheapest; without them their
    triples are asked for, and relations are also read from rows of tails or heads. Raises `UsageError` for a
    scorer that can serve a part in no such way.
    """
    distinct = len(np.unique(split.targets, axis=0))
    methods = {part: _method(found, part) for part in parts}
    alone = {(PARTS[part][1], method): part for part, method in reversed(methods.items())}
    meter = Meter(sum(int(parts[part].numbers.sum()) + distinct for part in alone.values()), progress)
    ranked: dict[tuple[Side, str], RankedPart] = {}
    for part, method in methods.items():
        key = (PARTS[part][1], method)
        if key not in ranked:
            asker = Asker(split, size, meter, Seen())
            ranked[key] = _rank(split, parts[part], _way(found, part, parts[part], asker), asker)
    return {part: ranked[PARTS[part][1], method] for part, method in methods.items()}


def _method(found: Ways, part: Part) -> str:
    """Return the cheapest method that serves a part."""
    direction, side = PARTS[part]
    if side in found.rows and (part != "head_relation" or found.inverses is None):
        return METHODS[side]
    if (given := found.function(part)) is not None:
        return given[0]
    if side == "relation":
        return METHODS[found.kinds(direction)[0]]
    given_rows = ", ".join(METHODS[other] for other in found.rows)
    raise UsageError(
        f"ranking against every {side} needs {METHODS[side]} or score(triples), and the scorer has only {given_rows}"
    )


def _way(found: Ways, part: Part, candidates: Filtered, asker: Asker) -> _Way:
    side, method = PARTS[part][1], _method(found, part)
    silent = Asker(asker.split, asker.size, Meter(asker.meter.total), asker.seen)
    kind = next((kind for kind in found.rows if METHODS[kind] == method), None)
    if kind == side:
        rows = found.rows[side]
        return _Way(
            method,
            True,
            lambda start, needed: asker.rows(side, rows, candidates.pairs[start : start + len(needed)], needed),
            lambda triples: silent.gathered(triples, side=side, function=rows),
        )

    def listed(triples: IntArray, asks: Asker = asker) -> ScoreArray:
        if kind is not None:
            return asks.gathered(triples, side=kind, function=found.rows[kind])
        given = found.function(part)
        assert given is not None
        return asks.triples(triples, function=given[1])

    def ask(start: int, needed: BoolArray) -> ScoreArray:
        pairs = candidates.pairs[start : start + len(needed)]
        values = listed(joined(side, pairs, *np.nonzero(needed)))
        scores = np.empty_like(values, shape=needed.shape)
        scores[~needed] = 0
        scores[needed] = values
        return scores

    return _Way(method, kind is not None, ask, lambda triples: listed(triples, silent))


def _rank(split: Split, candidates: Filtered, way: _Way, asker: Asker) -> RankedPart:
    rows, ids = candidates.row, split.targets[:, COLUMN[candidates.side]]
    greater, equal = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    own: ScoreArray = np.empty(0)
    again = np.zeros(len(rows), dtype=np.bool_)
    number = {"rows": len(candidates.pairs)} if way.rows else {"triples": int(candidates.numbers.sum())}
    again[chosen(len(rows), **number)] = True
    kept: list[tuple[IntArray, ScoreArray]] = []
    step = max(1, asker.size // candidates.width)
    for start, stop, here in batches(rows, len(candidates.pairs), step):
        row, column = rows[here] - start, ids[here]
        allowed = candidates.allowed(start, stop)
        needed = allowed.copy()
        needed[row, column] = True
        scores = way.ask(start, needed)
        if not start:
            own = np.empty_like(scores, shape=len(rows))
        own[here] = scores[row, column]
        greater[here], equal[here] = count_rows(own[here], row, scores, allowed[:, : scores.shape[1]])
        for target, place in zip(here[again[here]].tolist(), row[again[here]].tolist(), strict=True):
            free = np.flatnonzero(allowed[place])
            picked = np.array([ids[target], *free[[target % len(free)] if len(free) else []]])
            triples = np.repeat(split.targets[target : target + 1], len(picked), axis=0)
            triples[:, COLUMN[candidates.side]] = picked
            kept.append((triples, scores[place, picked]))
    triples, scores = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    asked = Asked(way.method, asker.seen.kind, triples, scores, way.again)
    return RankedPart(Counts(greater, equal, candidates.numbers[rows]), own, asker.seen, way.method, asked)
