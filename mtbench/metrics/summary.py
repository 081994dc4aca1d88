"""What follows from rank counts under a protocol: the one place where protocols differ in their arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mtbench.metrics import closed as metrics
from mtbench.metrics import exact
from mtbench.names import HITS, FloatArray, IntArray, Side
from mtbench.ranking.candidates import PROTOCOLS, VOCABULARIES, Protocol
from mtbench.ranking.ranks import Counts, Ranks


def per_target(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, FloatArray]:
    """Return every metric of every target ``(m,)``, in expectation over the order of its ties.

    Under ``dual-exact`` the expectation is also over the draw of ``dual``; under every other protocol the
    counts of the sides add up to one list.
    """
    return _per_target(ranks.sides, len(ranks), protocol, vocabulary)


def expected(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, float]:
    """Return the mean metrics, ties in random order: the headline; raises `UsageError` without targets."""
    return metrics.mean(per_target(ranks, protocol, vocabulary))


def figures(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, dict[str, float]]:
    """Return all that follows from rank counts: ``metrics``, ``optimistic``, ``pessimistic`` and ``chance``."""
    if not _is_expectation(protocol):
        return metrics.figures(ranks.greater, ranks.equal, ranks.count)
    best = {side: _ties(counts, above=False) for side, counts in ranks.sides.items()}
    worst = {side: _ties(counts, above=True) for side, counts in ranks.sides.items()}
    return {
        "metrics": expected(ranks, protocol, vocabulary),
        "optimistic": metrics.mean(_per_target(best, len(ranks), protocol, vocabulary)),
        "pessimistic": metrics.mean(_per_target(worst, len(ranks), protocol, vocabulary)),
        "chance": chance({side: counts.count for side, counts in ranks.sides.items()}, protocol, vocabulary),
    }


def chance(numbers: Mapping[Side, IntArray], protocol: str, vocabulary: str) -> dict[str, float]:
    """Return the mean metrics of a scorer that knows nothing: all candidates, ``(m,)`` per side, tied."""
    tied = {side: Counts(np.zeros_like(number), number, number) for side, number in numbers.items()}
    targets = max((len(number) for number in numbers.values()), default=0)
    return metrics.mean(_per_target(tied, targets, protocol, vocabulary))


def _is_expectation(protocol: str) -> bool:
    # Names that a run directory holds may be anything; they are reported where it is verified.
    return protocol in PROTOCOLS and PROTOCOLS[protocol].expectation


def _per_target(sides: Mapping[Side, Counts], targets: int, protocol: str, vocabulary: str) -> dict[str, FloatArray]:
    pool = VOCABULARIES.get(vocabulary)
    if _is_expectation(protocol) and sides:
        return exact.per_target(
            [_exact(PROTOCOLS[protocol], side, counts) for side, counts in sides.items()],
            replacement=pool is not None and pool.replacement,
        )
    greater, equal = np.zeros(targets, dtype=np.int64), np.zeros(targets, dtype=np.int64)
    for counts in sides.values():
        greater += counts.greater
        equal += counts.equal
    return metrics.per_target(greater, equal)


def _exact(protocol: Protocol, side: Side, counts: Counts) -> exact.Side:
    return exact.Side(counts.greater, counts.equal, counts.count, protocol.number(side))


def _ties(counts: Counts, *, above: bool) -> Counts:
    return Counts(counts.greater + counts.equal * above, np.zeros_like(counts.equal), counts.count)


BEST = 1.0
"""The value every metric has when each target is ranked first."""

SAME = 1e-9


@dataclass(frozen=True)
class Adjusted:
    """One metric beside its null: ``index`` is 0 at chance and 1 at best, ``z`` counts standard deviations.

    ``deviation`` is the standard deviation of the mean metric under the null. Higher is better for
    ``index`` and ``z`` of every metric, also of the mean rank, whose index is the AMRI. None stands for
    what is undefined: no target has a candidate, or the null of the protocol is not that of single ranks.
    """

    observed: float
    chance: float
    deviation: float | None
    index: float | None
    z: float | None


def null(counts: IntArray) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return the mean and the variance ``(m,)`` of every metric of targets with ``counts`` ``(m,)`` candidates.

    With N = n + 1 slots, H the harmonic numbers and H2 those of squares: MR has the mean (N + 1) / 2 and
    the variance (N^2 - 1) / 12; MRR H(N) / N and H2(N) / N - (H(N) / N)^2; Hits@k p = min(k, N) / N and
    p (1 - p).
    """
    slots = counts + 1
    first, second = (
        np.concatenate(([0.0], np.cumsum(1 / np.arange(1, int(np.max(slots, initial=0)) + 1) ** power)))[slots] / slots
        for power in (1, 2)
    )
    moments = {"mr": ((slots + 1) / 2, (slots**2 - 1) / 12), "mrr": (first, np.maximum(second - first**2, 0))}
    for k in HITS:
        share = np.minimum(k, slots) / slots
        moments[f"hits@{k}"] = share, share * (1 - share)
    return moments


def adjust(observed: Mapping[str, float], counts: IntArray, chance: Mapping[str, float]) -> dict[str, Adjusted]:
    """Return every observed mean metric adjusted for chance, from the candidates of each target ``(m,)``.

    The index is (observed - chance) / (best - chance): the AMRI of the mean rank (Berrendorf et al. 2020),
    the adjusted MRR and Hits@k (Hoyt et al. 2022). An index compares datasets with lists of different
    lengths, a z-score says whether there is anything to compare. Where targets tie, the observed value is
    the expectation over the order of ties, whose spread under the null is smaller than that of ranks:
    z-scores are then closer to 0 than they need be. They count targets as independent, which those of one
    cluster are not: a large one is no test. ``chance`` is that of the task; where it is not the mean of the
    null, as for a protocol that takes expectations over draws, there is an index but no z-score.
    """
    found = {}
    for name, (mean, variance) in null(counts).items():
        expected, total = chance[name], len(counts)
        agrees = math.isclose(math.fsum(mean.tolist()) / total, expected, rel_tol=SAME)
        deviation = math.sqrt(math.fsum(variance.tolist())) / total if agrees else None
        better = (expected - observed[name]) if name == "mr" else (observed[name] - expected)
        reach = abs(BEST - expected)
        found[name] = Adjusted(
            observed=observed[name],
            chance=expected,
            deviation=deviation,
            index=better / reach if reach > SAME else None,
            z=better / deviation if deviation else None,
        )
    return found
