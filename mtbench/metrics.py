"""Rank metrics in closed form, with every tie resolved three ways: expected, optimistic, pessimistic.

A target with g candidates strictly above it and e equal to it takes each of the ranks g + 1 to
g + e + 1 with the same probability when the tied block is in random order. The expectation over that
order has a closed form for every metric, so the headline needs no random draw and favours no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mtbench.errors import UsageError
from mtbench.names import FloatArray, IntArray

HITS = (1, 3, 5, 10)
METRICS = ("mr", "mrr", *(f"hits@{k}" for k in HITS))


def per_target(greater: IntArray, equal: IntArray) -> dict[str, FloatArray]:
    """Return every metric of every target, in expectation over the order of its ties.

    ``greater`` and ``equal`` are integers ``(m,)``: candidates above and tied with each target, summed
    over the sides, because the rank in a list of tails and relations is one plus all that are above.
    With H the harmonic numbers and m = e + 1 the values are MR = g + 1 + e/2,
    MRR = (H(g + m) - H(g)) / m and Hits@k = clip(k - g, 0, m) / m.
    """
    block = equal + 1
    harmonic = _harmonic(int(np.max(greater + block, initial=0)))
    values = {
        "mr": greater + 1 + equal / 2,
        "mrr": np.where(equal == 0, 1 / (greater + 1), (harmonic[greater + block] - harmonic[greater]) / block),
    }
    for k in HITS:
        values[f"hits@{k}"] = np.clip(k - greater, 0, block) / block
    return values


def expected(greater: IntArray, equal: IntArray) -> dict[str, float]:
    """Return the mean metrics with ties in random order: the headline; raises `UsageError` without targets."""
    return mean(per_target(greater, equal))


def mean(values: Mapping[str, FloatArray]) -> dict[str, float]:
    """Return the mean of every metric over targets ``(m,)``; raises `UsageError` without targets."""
    if not all(map(len, values.values())):
        raise UsageError("metrics of no targets are undefined: choose a split or a stratum with targets")
    return {name: _mean(found) for name, found in values.items()}


def optimistic(greater: IntArray, equal: IntArray) -> dict[str, float]:
    """Return the mean metrics with every target above its ties: what no order of the ties can exceed."""
    return expected(greater, np.zeros_like(equal))


def pessimistic(greater: IntArray, equal: IntArray) -> dict[str, float]:
    """Return the mean metrics with every target below its ties: what any order of the ties attains."""
    return expected(greater + equal, np.zeros_like(equal))


def chance(counts: IntArray) -> dict[str, float]:
    """Return the mean metrics of a scorer that knows nothing: all ``counts`` ``(m,)`` candidates tied."""
    return expected(np.zeros_like(counts), counts)


def tie_rate(equal: IntArray) -> float:
    """Return the share of targets tied with at least one candidate; not a number without targets."""
    return np.count_nonzero(equal) / len(equal) if len(equal) else math.nan


def spread(optimistic: Mapping[str, float], pessimistic: Mapping[str, float]) -> float:
    """Return how much of the MRR depends on how ties are broken."""
    return optimistic["mrr"] - pessimistic["mrr"]


def _harmonic(last: int) -> FloatArray:
    """Return the harmonic numbers H(0) to H(last)."""
    return np.concatenate(([0.0], np.cumsum(1 / np.arange(1, last + 1))))


def _mean(values: FloatArray) -> float:
    # An exactly rounded sum does not depend on the order of the targets, nor on how NumPy adds.
    return math.fsum(values.tolist()) / len(values)
