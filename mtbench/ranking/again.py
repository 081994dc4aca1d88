"""A score is a property of the triple: some triples are asked again among others, and have to score the same.

Within the batches of an evaluation a target is the only triple that shares its head with many others and its tail
with many others too, so that a scorer that looks at the company of a triple finds the targets without a model. Batch
statistics, a softmax over the batch and subgraphs around all candidates do the same by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.splits import Split
from mtbench.errors import BatchError
from mtbench.names import HEAD, RELATION, TAIL, IntArray, Part, ScoreArray

FEWEST, MOST = 4, 64
"""Targets of a part that are asked for again, each with one candidate."""

TRIPLES, ROWS = 400, 50
"""Between these it is a target for so many triples that are scored, or for so many whole rows: a few percent of all."""

BATCHES = 16
"""The most batches: what would need one more is left out."""

ROUNDING = 100
"""Scores that differ by up to as many roundings of the largest one are the same but for the order of additions."""

PASSED = 0.1
"""Of the other scores: a difference that carries a score past more of them moves ranks, however small it is."""

EPSILON = {"bfloat16": 2.0**-7}
"""Rounding of types that NumPy does not have, relative to a number."""

ADVICE = "look for batch statistics, dropout, padding and squeeze(), and call model.eval()"
PAIRS = ((HEAD, RELATION), (HEAD, TAIL), (RELATION, TAIL))


@dataclass(frozen=True, eq=False)
class Asked:
    """What one method was asked and answered: some triples ``(k, 3)``, their scores ``(k,)``, and how to ask again."""

    method: str
    kind: str
    triples: IntArray
    scores: ScoreArray
    ask: Callable[[IntArray], ScoreArray]


def chosen(number: int, *, triples: int = 0, rows: int = 0) -> IntArray:
    """Return the targets, of a ``number``, that are asked for again where so many triples or rows are scored."""
    size = min(number, MOST, max(FEWEST, triples // TRIPLES, rows // ROWS))
    return np.random.default_rng(number).choice(number, size, replace=False)


def apart(split: Split, triples: IntArray) -> list[IntArray]:
    """Divide triples ``(k, 3)`` into batches, none of which has two triples of one target's lists.

    A target's lists hold triples that share two of its three names: two triples stay apart where they share two names
    each with the same target. Triples are taken in random order; those that fit into none of `BATCHES` are left out.
    """
    owners: list[set[int]] = [set() for _ in triples]
    for columns in PAIRS:
        known = keys(split, split.targets, *columns)
        order = np.argsort(known, kind="stable")
        asked = keys(split, triples, *columns)
        first, last = (np.searchsorted(known[order], asked, side=side) for side in ("left", "right"))
        for row, (start, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            owners[row].update(order[start:stop].tolist())
    taken: list[set[int]] = []
    batches: list[list[int]] = []
    for row in np.random.default_rng(len(triples)).permutation(len(triples)).tolist():
        free = next((number for number, there in enumerate(taken) if not there & owners[row]), len(taken))
        if free == BATCHES:
            continue
        if free == len(taken):
            taken.append(set())
            batches.append([])
        taken[free] |= owners[row]
        batches[free].append(row)
    return [np.array(rows) for rows in batches]


def ask_again(found: Mapping[Part, Asked], split: Split) -> str:
    """Ask for the triples of every part again, in other batches and another order, and return how the scores compare.

    Raises `BatchError` where they differ by more than the rounding of their type.
    """
    largest = 0.0
    for asked in dict.fromkeys(found.values()):  # directions may share a part, and what was asked in it
        batches = apart(split, asked.triples)
        rows = np.concatenate(batches)
        again = np.concatenate([asked.ask(asked.triples[batch]) for batch in batches])
        largest = max(largest, compared(asked, rows, again, split))
    return f"the same within rounding: {largest:.1e} apart" if largest else "the same"


def compared(asked: Asked, rows: IntArray, again: ScoreArray, split: Split) -> float:
    """Return how far scores of some rows are from the first ones; raises `BatchError` beyond rounding."""
    largest, why = difference(asked.scores[rows], again, asked.kind)
    if why:
        raise BatchError(
            f"{split.dataset} {split.name}: {len(rows)} triples were asked for again in other batches, and scores of "
            f"{asked.method} differ by up to {largest:.2g}, {why}: a score must not "
            f"depend on what else is scored with it; {ADVICE}, or give batch_size=1 (ask_again=False leaves this check "
            f"out, which the result tells)"
        )
    return largest


def difference(first: ScoreArray, second: ScoreArray, kind: str) -> tuple[float, str]:
    """Return the largest difference of scores ``(k,)``, and why rounding does not explain it: nothing if it does."""
    ours, theirs = (scores.astype(np.float64) for scores in (first, second))
    largest, allowed = float(np.abs(ours - theirs).max(initial=0)), 0.0
    if first.dtype.kind == "f":
        most = float(np.abs(ours).max(initial=0))
        unit = EPSILON[kind] * most if kind in EPSILON else float(np.spacing(first.dtype.type(most)))
        allowed = ROUNDING * unit
    if largest > allowed:
        return largest, f"where rounding explains {allowed:.2g}"
    number = int(passed(first, second).max(initial=0))
    moves = number > max(1, PASSED * len(first))
    return largest, f"which carries one past {number} of {len(first)}" if moves else ""


def passed(first: ScoreArray, second: ScoreArray) -> IntArray:
    """Return how many of the first scores ``(k,)`` each one passes, or comes to tie with, on its way to the second."""
    ordered = np.sort(first)
    low, high = np.minimum(first, second), np.maximum(first, second)
    between = np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
    tied = np.searchsorted(ordered, first, side="right") - np.searchsorted(ordered, first, side="left")
    return between - tied
