"""What follows from rank counts under a protocol: the one place where protocols differ in their arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mtbench.metrics import closed, exact
from mtbench.names import HITS, METRICS, PARTS, Direction, FloatArray, IntArray, Part
from mtbench.ranking.candidates import PROTOCOLS, VOCABULARIES
from mtbench.ranking.ranks import Counts, Ranks


def per_list(ranks: Ranks, protocol: str, vocabulary: str) -> dict[Direction, dict[str, FloatArray]]:
    """Return every metric of every target ``(m,)`` in each of its lists, in expectation over the order of its ties.

    Under ``dual-exact`` the expectation is also over the draw of ``dual``; under every other protocol the
    counts of the parts of a list add up.
    """
    if not _is_expectation(protocol):
        return {way: closed.per_target(found.greater, found.equal) for way, found in ranks.lists.items()}
    pool, asked = VOCABULARIES.get(vocabulary), PROTOCOLS[protocol]
    sides: dict[Direction, list[exact.Side]] = {}
    for part, found in ranks.parts.items():
        way, side = PARTS[part]
        drawn = exact.Side(found.greater, found.equal, found.count, asked.number(side))
        sides.setdefault(way, []).append(drawn)
    replacement = pool is not None and pool.replacement
    return {way: exact.per_target(some, replacement=replacement) for way, some in sides.items()}


def per_target(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, FloatArray]:
    """Return every metric of every target ``(m,)``, as the mean over its lists; see `per_list`."""
    if not ranks.parts:
        return closed.per_target(ranks.greater, ranks.equal)
    lists = per_list(ranks, protocol, vocabulary).values()
    return {name: np.mean([values[name] for values in lists], axis=0) for name in METRICS}


def expected(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, float]:
    """Return the mean metrics, ties in random order: the headline; raises `UsageError` without targets."""
    if not _is_expectation(protocol):
        return closed.expected(ranks.greater, ranks.equal)
    return closed.mean(per_target(ranks, protocol, vocabulary))


def kinds(ranks: Ranks) -> dict[str, Ranks]:
    """Return the ranks behind ``metrics``, both orders of ties, and ``chance``: a scorer that ties everything."""

    def changed(change: Callable[[Counts], tuple[IntArray, IntArray]]) -> Ranks:
        return replace(ranks, parts={part: Counts(*change(one), one.count) for part, one in ranks.parts.items()})

    none = np.zeros(len(ranks), dtype=np.int64)
    return {
        "metrics": ranks,
        "optimistic": changed(lambda part: (part.greater, none)),
        "pessimistic": changed(lambda part: (part.greater + part.equal, none)),
        "chance": changed(lambda part: (none, part.count)),
    }


def figures(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, dict[str, float]]:
    """Return all that follows from rank counts: ``metrics``, ``optimistic``, ``pessimistic`` and ``chance``."""
    if not _is_expectation(protocol):
        return closed.figures(ranks.greater, ranks.equal, ranks.count)
    return {kind: expected(changed, protocol, vocabulary) for kind, changed in kinds(ranks).items()}


def chance(counts: Mapping[Part, IntArray], protocol: str, vocabulary: str) -> dict[str, float]:
    """Return the mean metrics of a scorer that knows nothing: all candidates, ``(m,)`` per part, tied."""
    tied = {part: Counts(np.zeros_like(number), number, number) for part, number in counts.items()}
    return expected(Ranks.unnamed(tied), protocol, vocabulary)


def _is_expectation(protocol: str) -> bool:
    # Names that a run directory holds may be anything; they are reported where it is verified.
    return protocol in PROTOCOLS and PROTOCOLS[protocol].expectation


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
    z-scores are then closer to 0 than they need be. They count ranks as independent, which those of one
    target or cluster are not: a large one is no test. ``chance`` is that of the task; where it is not the mean of the
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
