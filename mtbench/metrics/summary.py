"""What follows from the rank counts of a task, list by list: metrics, bounds, chance, and how they compare with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mtbench.metrics import closed
from mtbench.names import METRICS, Direction, FloatArray, IntArray
from mtbench.ranking.ranks import Counts, Ranks

BEST = 1.0
"""The value every metric has when each target is ranked first."""

NOTHING = 1e-9
"""Where chance is this close to the best value, an index would divide by 0: it is undefined."""


def per_list(ranks: Ranks) -> dict[Direction, dict[str, FloatArray]]:
    """Return every metric of every target ``(m,)`` in each of its lists, in expectation over the order of its ties."""
    return {direction: closed.per_target(counts.greater, counts.equal) for direction, counts in ranks.lists.items()}


def per_target(ranks: Ranks) -> dict[str, FloatArray]:
    """Return every metric of every target ``(m,)``, as the mean over its lists; see `per_list`."""
    if not ranks.parts:  # a run that failed: every metric, of no targets
        return closed.per_target(ranks.greater, ranks.equal)
    lists = per_list(ranks).values()
    return {name: np.mean([values[name] for values in lists], axis=0) for name in METRICS}


def kinds(ranks: Ranks) -> dict[str, Ranks]:
    """Return the ranks behind ``metrics``, both orders of ties, and ``chance``: a scorer that ties everything."""

    def changed(change: Callable[[Counts], tuple[IntArray, IntArray]]) -> Ranks:
        changed_parts = {part: Counts(*change(counts), counts.count) for part, counts in ranks.parts.items()}
        return replace(ranks, parts=changed_parts)

    none = np.zeros(len(ranks), dtype=np.int64)
    return {
        "metrics": ranks,
        "optimistic": changed(lambda counts: (counts.greater, none)),
        "pessimistic": changed(lambda counts: (counts.greater + counts.equal, none)),
        "chance": changed(lambda counts: (none, counts.count)),
    }


@dataclass(frozen=True)
class Adjusted:
    """A metric beside its null: ``index`` is 0 at chance and 1 at best, ``z`` counts standard deviations.

    ``deviation`` is the standard deviation of the mean metric under the null. Higher is better for
    ``index`` and ``z`` of every metric, also of the mean rank, whose index is the AMRI. None stands for
    a value that is undefined because no target has a candidate.
    """

    observed: float
    chance: float
    deviation: float
    index: float | None
    z: float | None


def adjust(observed: Mapping[str, float], counts: IntArray) -> dict[str, Adjusted]:
    """Return every observed mean metric adjusted for chance, from the candidates of each target ``(m,)``.

    The index is (observed - chance) / (best - chance): the AMRI of the mean rank (Berrendorf et al. 2020),
    the adjusted MRR and Hits@k (Hoyt et al. 2022). An index compares datasets with lists of different
    lengths, a z-score says whether there is anything to compare. Where targets tie, the observed value is
    the expectation over the order of ties, whose spread under the null is smaller than that of ranks:
    z-scores are then closer to 0 than they need be. They count ranks as independent, which those of one
    target or cluster are not: a large one is no test.
    """
    adjusted, chance = {}, closed.chance(counts)
    for name, metric in closed.TABLE.items():
        _, variance = metric.null(counts + 1)
        # Of a mean of independent targets: their variances add up.
        deviation = math.sqrt(math.fsum(variance.tolist())) / len(counts)
        gain = observed[name] - chance[name]
        better = gain if metric.higher_is_better else -gain
        reach = abs(BEST - chance[name])
        adjusted[name] = Adjusted(
            observed=observed[name],
            chance=chance[name],
            deviation=deviation,
            index=better / reach if reach > NOTHING else None,
            z=better / deviation if deviation else None,
        )
    return adjusted
