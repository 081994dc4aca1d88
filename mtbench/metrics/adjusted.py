"""Metrics adjusted for chance, and how far from chance they are, under the exact null of the ranks.

A target with n candidates that a scorer knows nothing about takes each of the ranks 1 to N = n + 1 with
the same probability, independently of other targets. Mean and variance of every metric follow in closed
form, target by target, so that lists of different lengths are adjusted exactly, not on average.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mtbench.names import HITS, FloatArray, IntArray

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
