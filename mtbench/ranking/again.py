"""A score is a property of the triple: a sample is asked for again in other batches, and has to score the same.

In the batches of an evaluation a target is the only triple that shares its head with many others and its tail with
many others too, so a scorer that looks at the rest of the batch can tell the targets without a model. Batch
statistics, a softmax over the batch and subgraphs around all candidates do so by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.splits import Split
from mtbench.errors import BatchError
from mtbench.names import HEAD, RELATION, TAIL, IntArray, ScoreArray

FEWEST, MOST = 4, 64
"""Targets of a part that are asked for again, each with one candidate."""

TRIPLES, ROWS = 400, 50
"""Between the two, a target for every 400 triples or 50 whole rows that are scored: a few percent of all."""

BATCHES = 16
"""The most batches: triples that fit into none of them are left out."""

ROUNDING = 100
"""Scores that differ by up to this many roundings of the largest score are the same but for the order of additions."""

PASSED = 0.1
"""Share of the other scores: a difference that moves a score past more of them moves ranks, however small it is."""

EPSILON = {"bfloat16": 2.0**-7}
"""Rounding of types that NumPy does not have, relative to a number."""

ADVICE = "look for batch statistics, dropout, padding and squeeze(), and call model.eval()"
PAIRS = ((HEAD, RELATION), (HEAD, TAIL), (RELATION, TAIL))


@dataclass(frozen=True, eq=False)
class Asked:
    """What a method was asked and answered: triples ``(k, 3)``, their scores ``(k,)``, and how to ask again."""

    method: str
    kind: str
    triples: IntArray
    scores: ScoreArray
    ask: Callable[[IntArray], ScoreArray]


def sampled_targets(number: int, *, triples: int = 0, rows: int = 0) -> IntArray:
    """Return which of ``number`` targets are asked for again, by how many triples or whole rows are scored in all."""
    size = min(number, MOST, max(FEWEST, triples // TRIPLES, rows // ROWS))
    # The seed is the number of targets, so that a task always asks for the same ones again.
    return np.random.default_rng(number).choice(number, size, replace=False)


def apart(split: Split, triples: IntArray) -> list[IntArray]:
    """Divide triples ``(k, 3)`` into batches, none of which has two triples of the same target's lists.

    A target's lists hold triples that share two of its three names, so two triples that each share two names with the
    same target stay apart. Triples are taken in random order; those that fit into none of `BATCHES` are left out.
    """
    owners: list[set[int]] = [set() for _ in triples]
    for columns in PAIRS:
        known = keys(split, split.targets, *columns)
        order = np.argsort(known, kind="stable")
        asked = keys(split, triples, *columns)
        first, last = (np.searchsorted(known[order], asked, side=side) for side in ("left", "right"))
        for row, (start, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            owners[row].update(order[start:stop].tolist())
    # Greedy: a triple goes into the first batch that has nothing of its targets, as in colouring a graph.
    batch_owners: list[set[int]] = []
    batches: list[list[int]] = []
    for row in np.random.default_rng(len(triples)).permutation(len(triples)).tolist():
        free = next((number for number, there in enumerate(batch_owners) if not there & owners[row]), len(batches))
        if free == BATCHES:
            continue
        if free == len(batches):
            batch_owners.append(set())
            batches.append([])
        batch_owners[free] |= owners[row]
        batches[free].append(row)
    return [np.array(rows) for rows in batches]


def ask_again(samples: Iterable[Asked], split: Split) -> str:
    """Ask for samples again, in other batches and another order, and return how the scores compare.

    Raises `BatchError` where they differ by more than the rounding of their type.
    """
    largest = 0.0
    for asked in dict.fromkeys(samples):  # directions may share a part and its sample
        batches = apart(split, asked.triples)
        rows = np.concatenate(batches)
        again = np.concatenate([asked.ask(asked.triples[batch]) for batch in batches])
        largest = max(largest, compared(asked, rows, again, split))
    return f"the same within rounding: {largest:.1e} apart" if largest else "the same"


def compared(asked: Asked, rows: IntArray, again: ScoreArray, split: Split) -> float:
    """Return how far the scores of ``rows`` are from the first ones; raises `BatchError` beyond rounding."""
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
        # Relative to the largest score, not to each: a sum near 0 has the rounding of its large terms.
        most = float(np.abs(ours).max(initial=0))
        unit = EPSILON[kind] * most if kind in EPSILON else float(np.spacing(first.dtype.type(most)))
        allowed = ROUNDING * unit
    if largest > allowed:
        return largest, f"where rounding explains {allowed:.2g}"
    # Where scores lie close together, mere rounding may carry a score past many others.
    number = int(passed(first, second).max(initial=0))
    moves = number > max(1, PASSED * len(first))
    return largest, f"which carries one past {number} of {len(first)}" if moves else ""


def passed(first: ScoreArray, second: ScoreArray) -> IntArray:
    """Return how many of the first scores ``(k,)`` each score passes, or comes to tie with, on its way to the second.

    Not counted are the score itself and those it was tied with from the beginning.
    """
    ordered = np.sort(first)
    low, high = np.minimum(first, second), np.maximum(first, second)
    between = np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
    tied = np.searchsorted(ordered, first, side="right") - np.searchsorted(ordered, first, side="left")
    return between - tied
