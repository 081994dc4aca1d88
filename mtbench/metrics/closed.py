"""Rank metrics in closed form, with ties resolved in three ways: realistic (averaged), optimistic, pessimistic.

A target with g candidates strictly above it and e equal to it takes each of the ranks g + 1 to
g + e + 1 with the same probability when the tied block is in random order. The expectation over that
order has a closed form for every metric, so the headline needs no random draw and favours no model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from mtbench.errors import UsageError
from mtbench.names import HITS as HITS
from mtbench.names import METRICS as METRICS
from mtbench.names import FloatArray, IntArray

NO_TARGETS = "metrics of no targets are undefined: choose a split or a stratum with targets"

DENSE_CODES = 1 << 16
"""Codes below this are counted in a table rather than sorted."""

HIGH_BITS = np.int64(-1 << 27)
"""Keeps the upper 26 of the 53 significant bits of a float64; see `_mean`."""


@dataclass(frozen=True)
class Metric:
    """A rank metric of targets ``(m,)``, as a function of rank counts, with its null distribution.

    ``of`` takes the candidates above and tied with each target, summed over the sides of a list, and returns the
    expectation over the order of the ties. ``null`` takes the number of ranks N a target can have and returns the mean
    and variance when each is equally likely; H is the harmonic number of N and H2 that of squares.
    """

    of: Callable[[IntArray, IntArray], FloatArray]
    null: Callable[[IntArray], tuple[FloatArray, FloatArray]]
    higher_is_better: bool = True


def _rank(greater: IntArray, equal: IntArray) -> FloatArray:
    """MR = g + 1 + e/2."""
    mean: FloatArray = greater + 1 + equal / 2
    return mean


def _rank_null(ranks: IntArray) -> tuple[FloatArray, FloatArray]:
    """(N + 1) / 2 and (N^2 - 1) / 12."""
    return (ranks + 1) / 2, (ranks**2 - 1) / 12


def _reciprocal(greater: IntArray, equal: IntArray) -> FloatArray:
    """MRR = (H(g + m) - H(g)) / m, where m = e + 1."""
    block = equal + 1
    harmonic = _harmonic(int(np.max(greater + block, initial=0)))
    # Without ties 1 / rank is exact, while a difference of two harmonic numbers has lost its last bits.
    return np.where(equal == 0, 1 / (greater + 1), (harmonic[greater + block] - harmonic[greater]) / block)


def _reciprocal_null(ranks: IntArray) -> tuple[FloatArray, FloatArray]:
    """H / N and H2 / N - (H / N)^2."""
    most = int(np.max(ranks, initial=0))
    mean, square = (_harmonic(most, power)[ranks] / ranks for power in (1, 2))
    # A target without candidates has variance 0, which rounding may take below it.
    return mean, np.maximum(square - mean**2, 0)


def _hits(greater: IntArray, equal: IntArray, k: int) -> FloatArray:
    """Hits@k = clip(k - g, 0, m) / m, where m = e + 1."""
    share: FloatArray = np.clip(k - greater, 0, equal + 1) / (equal + 1)
    return share


def _hits_null(ranks: IntArray, k: int) -> tuple[FloatArray, FloatArray]:
    """The share s = min(k, N) / N and s (1 - s)."""
    share = np.minimum(k, ranks) / ranks
    return share, share * (1 - share)


TABLE: Mapping[str, Metric] = MappingProxyType(
    dict(
        zip(
            METRICS,
            (
                Metric(_rank, _rank_null, higher_is_better=False),
                Metric(_reciprocal, _reciprocal_null),
                *(Metric(partial(_hits, k=k), partial(_hits_null, k=k)) for k in HITS),
            ),
            strict=True,
        )
    )
)
"""Every metric by its name, in the order of all tables."""


def per_target(greater: IntArray, equal: IntArray) -> dict[str, FloatArray]:
    """Return every metric of every target ``(m,)``, in expectation over the order of its ties; see `Metric`."""
    return {name: metric.of(greater, equal) for name, metric in TABLE.items()}


def expected(greater: IntArray, equal: IntArray) -> dict[str, float]:
    """Return the mean metrics with ties in random order: the headline; raises `UsageError` without targets."""
    return _averages(_distinct(greater, equal))


def mean(values: Mapping[str, FloatArray]) -> dict[str, float]:
    """Return the mean of every metric over targets ``(m,)``; raises `UsageError` without targets."""
    if not all(map(len, values.values())):
        raise UsageError(NO_TARGETS)
    # fsum is exactly rounded, so the mean does not depend on the order of the targets.
    return {name: math.fsum(target_values.tolist()) / len(target_values) for name, target_values in values.items()}


def chance(counts: IntArray) -> dict[str, float]:
    """Return the mean metrics of a scorer that knows nothing: all ``counts`` ``(m,)`` candidates tied."""
    candidates, numbers = _tabulated(counts)
    return _averages((np.zeros_like(candidates), candidates, numbers))


def figures(greater: IntArray, equal: IntArray, counts: IntArray) -> dict[str, dict[str, float]]:
    """Return ``metrics``, ``optimistic``, ``pessimistic`` and ``chance``: all that follows from rank counts.

    One pass over the targets: ``greater`` and ``equal`` as in `per_target`, ``counts`` ``(m,)`` the candidates of each.
    Optimistic ranks every target above its ties, pessimistic below them: the bounds over all orders.
    """
    pairs = _distinct(greater, equal)
    above, tied, weights = pairs
    none = np.zeros_like(tied)
    return {
        "metrics": _averages(pairs),
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


def _harmonic(last: int, power: int = 1) -> FloatArray:
    """Return the harmonic numbers H(0) to H(last), the sums of 1 / n**power."""
    return np.concatenate(([0.0], np.cumsum(1 / np.arange(1, last + 1) ** power)))


def _distinct(
    greater: IntArray, equal: IntArray, weights: IntArray | None = None
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the distinct pairs of ``greater`` and ``equal`` with the number of targets that have each.

    A million targets with 50 candidates have at most 1,326 pairs, and a closed form costs more than a count.
    """
    width = int(np.max(equal, initial=0)) + 1
    codes = greater * width
    codes += equal  # in place: with a million targets each temporary array is felt
    distinct, numbers = _tabulated(codes, weights)
    above, tied = np.divmod(distinct, width)
    return above, tied, numbers


def _tabulated(codes: IntArray, weights: IntArray | None = None) -> tuple[IntArray, IntArray]:
    """Return the distinct codes of the targets, and how many targets have each."""
    if not len(codes):
        raise UsageError(NO_TARGETS)
    size = int(codes.max()) + 1
    # Counting in a table is linear; where the largest code is far above their number, sorting takes less memory.
    if size <= max(DENSE_CODES, len(codes)):
        numbers = np.bincount(codes, weights, size).astype(np.int64, copy=False)
        distinct = np.flatnonzero(numbers)
        return distinct, numbers[distinct]
    distinct, inverse = np.unique(codes, return_inverse=True)
    return distinct, np.bincount(inverse, weights).astype(np.int64, copy=False)


def _averages(pairs: tuple[IntArray, IntArray, IntArray]) -> dict[str, float]:
    above, tied, numbers = pairs
    return {name: _mean(values, numbers) for name, values in per_target(above, tied).items()}


def _mean(values: FloatArray, numbers: IntArray) -> float:
    # An exactly rounded sum does not depend on the order of the targets, nor on how NumPy adds. Each value is split in
    # two halves of 26 or 27 bits, so that its product with the number of targets that have it is exact too.
    high = (values.view(np.int64) & HIGH_BITS).view(np.float64)
    terms = np.concatenate((high * numbers, (values - high) * numbers))
    return math.fsum(terms.tolist()) / int(numbers.sum())
