"""Rank metrics in closed form, with ties resolved in three ways: realistic (averaged), optimistic, pessimistic.

A target with g candidates strictly above it and e equal to it takes each of the ranks g + 1 to
g + e + 1 with the same probability when the tied block is in random order. The expectation over that
order has a closed form for every metric, so the headline needs no random draw and favours no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mtbench.errors import UsageError
from mtbench.names import HITS as HITS
from mtbench.names import METRICS as METRICS
from mtbench.names import FloatArray, IntArray

NO_TARGETS = "metrics of no targets are undefined: choose a split or a stratum with targets"

DENSE_CODES = 1 << 16
"""Up to as many different pairs are counted in a table rather than sorted."""

HIGH_BITS = np.int64(-1 << 27)


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
    return _averages(_distinct(greater, equal))


def mean(values: Mapping[str, FloatArray]) -> dict[str, float]:
    """Return the mean of every metric over targets ``(m,)``; raises `UsageError` without targets."""
    if not all(map(len, values.values())):
        raise UsageError(NO_TARGETS)
    return {name: math.fsum(found.tolist()) / len(found) for name, found in values.items()}


def chance(counts: IntArray) -> dict[str, float]:
    """Return the mean metrics of a scorer that knows nothing: all ``counts`` ``(m,)`` candidates tied."""
    found, numbers = _tabulated(counts)
    return _averages((np.zeros_like(found), found, numbers))


def figures(greater: IntArray, equal: IntArray, counts: IntArray) -> dict[str, dict[str, float]]:
    """Return ``metrics``, ``optimistic``, ``pessimistic`` and ``chance``: all that follows from rank counts.

    One pass over the targets: ``greater`` and ``equal`` as in `per_target`, ``counts`` ``(m,)`` the candidates of each.
    Optimistic is every target above its ties, what no order of them can exceed; pessimistic every target below.
    """
    found = _distinct(greater, equal)
    above, tied, weights = found
    none = np.zeros_like(tied)
    return {
        "metrics": _averages(found),
        "optimistic": _averages(_distinct(above, none, weights)),
        "pessimistic": _averages(_distinct(above + tied, none, weights)),
        "chance": chance(counts),
    }


def tie_rate(equal: IntArray) -> float:
    """Return the share of targets tied with at least one candidate; not a number without targets."""
    return np.count_nonzero(equal) / len(equal) if len(equal) else math.nan


def spread(optimistic: Mapping[str, float], pessimistic: Mapping[str, float]) -> float:
    """Return how much of the MRR depends on how ties are broken."""
    return optimistic["mrr"] - pessimistic["mrr"]


def _harmonic(last: int) -> FloatArray:
    """Return the harmonic numbers H(0) to H(last)."""
    return np.concatenate(([0.0], np.cumsum(1 / np.arange(1, last + 1))))


def _distinct(
    greater: IntArray, equal: IntArray, weights: IntArray | None = None
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the distinct pairs of ``greater`` and ``equal`` with the number of targets that have each.

    A million targets with 50 candidates have at most 1,326 pairs, and a closed form costs more than a count.
    """
    width = int(np.max(equal, initial=0)) + 1
    codes = greater * width
    codes += equal
    found, numbers = _tabulated(codes, weights)
    above, tied = np.divmod(found, width)
    return above, tied, numbers


def _tabulated(codes: IntArray, weights: IntArray | None = None) -> tuple[IntArray, IntArray]:
    """Return the distinct codes of the targets, and how many targets have each."""
    if not len(codes):
        raise UsageError(NO_TARGETS)
    size = int(codes.max()) + 1
    if size <= max(DENSE_CODES, len(codes)):
        numbers = np.bincount(codes, weights, size).astype(np.int64, copy=False)
        found = np.flatnonzero(numbers)
        return found, numbers[found]
    found, inverse = np.unique(codes, return_inverse=True)
    return found, np.bincount(inverse, weights).astype(np.int64, copy=False)


def _averages(pairs: tuple[IntArray, IntArray, IntArray]) -> dict[str, float]:
    above, tied, numbers = pairs
    return {name: _mean(values, numbers) for name, values in per_target(above, tied).items()}


def _mean(values: FloatArray, numbers: IntArray) -> float:
    # An exactly rounded sum does not depend on the order of the targets, nor on how NumPy adds. Each value is
    # split in two halves of 26 bits, so that its product with the number of targets that have it is exact too.
    high = (values.view(np.int64) & HIGH_BITS).view(np.float64)
    terms = np.concatenate((high * numbers, (values - high) * numbers))
    return math.fsum(terms.tolist()) / int(numbers.sum())
