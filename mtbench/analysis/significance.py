"""Is a difference real: a paired two-level bootstrap, Holm's correction, ranks that remain possible, tied groups.

The bootstrap draws targets by cluster, the same for all models, and each model's seeds on their own
(Davison and Hinkley 1997, section 3.8). Three corrections matter because seeds and clusters are few. Deviations are
scaled so that their variance is unbiased for any number. The means of seeds also lie apart because the targets are
few, which the draw of targets shows already, so that part is not counted again. And quantiles are stretched from those
of the normal distribution to Student's with Welch-Satterthwaite degrees of freedom: without that, three seeds give
intervals far too short.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from mtbench.names import FloatArray, IntArray

BLOCK_CELLS = 1 << 22
POWER = 0.8
NOTHING = 1e-12
"""Differences and standard errors below this are rounding."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What was drawn of one quantity: its estimate and what every draw made of it.

    ``both`` and ``targets`` are ``(draws,)`` deviations from the estimate, the second with the seeds held
    fixed. ``seeds`` holds for every model with several seeds the variance of its mean over them, how much
    of it the few targets explain, and the degrees of freedom; ``freedom`` is that of the clusters.
    """

    estimate: float
    both: FloatArray
    targets: FloatArray
    seeds: tuple[tuple[float, float, float], ...]
    freedom: float

    def minus(self, other: Drawn) -> Drawn:
        """Return the paired difference: both quantities saw the same targets in every draw."""
        return Drawn(
            self.estimate - other.estimate,
            self.both - other.both,
            self.targets - other.targets,
            self.seeds + other.seeds,
            self.freedom,
        )

    @property
    def error(self) -> float:
        """The standard error of the estimate."""
        return float(self.both.std())

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the standard error (Welch-Satterthwaite), at least 1."""
        base = float(self.targets.var())
        total = max(base, base + sum(variance - drift for variance, drift, _ in self.seeds))
        weight = base**2 / self.freedom + sum(variance**2 / freedom for variance, _, freedom in self.seeds)
        return max(1.0, total**2 / weight) if weight > 0 else self.freedom

    def interval(self, level: float) -> tuple[float, float]:
        """Return the confidence interval of the estimate: percentiles, stretched for few seeds or clusters."""
        upper = (1 + level) / 2
        stretch = float(stdtrit(self.degrees, upper) / ndtri(upper))
        low, high = np.quantile(self.both, (1 - upper, upper)) * stretch
        return self.estimate + float(low), self.estimate + float(high)

    def p_value(self) -> float:
        """Return the two-sided p-value of the estimate being 0, by Student's distribution."""
        if abs(self.estimate) < NOTHING:
            return 1.0
        if self.error < NOTHING:
            return 0.0
        return float(2 * stdtr(self.degrees, -abs(self.estimate) / self.error))

    def detectable(self, level: float) -> float:
        """Return the difference that a test at this level finds with a power of 80 %."""
        return multiplier(level, self.degrees) * self.error


def multiplier(level: float, degrees: float = math.inf) -> float:
    """Return how many standard errors a difference needs for a power of 80 %: t(1 - alpha/2) + t(0.8)."""
    quantiles = ((1 + level) / 2, POWER)
    return sum(float(ndtri(q) if math.isinf(degrees) else stdtrit(degrees, q)) for q in quantiles)


def draw(models: Sequence[tuple[str, FloatArray]], clusters: IntArray, draws: int, seed: int) -> list[Drawn]:
    """Draw targets and seeds with replacement and return the mean of each model.

    ``models`` pairs a name with the values ``(seeds, m)`` of every target, ``clusters`` ``(m,)`` numbers
    the cluster of every target from 0. The name seeds the draw of a model's own seeds, so that its
    interval does not depend on which other models are compared.
    """
    values = np.concatenate([rows for _, rows in models])
    means = _cluster_draws(values, clusters, draws, seed)
    sizes = np.bincount(clusters)
    # Clusters of unequal size tell less than as many equal ones (Carter et al. 2017).
    freedom = max(1.0, len(clusters) ** 2 / float((sizes.astype(float) ** 2).sum()) - 1)
    found, start = [], 0
    for name, rows in models:
        number = len(rows)
        part, own = means[:, start : start + number], rows.mean(axis=1)
        start += number
        targets = part.mean(axis=1) - own.mean()
        spread: tuple[tuple[float, float, float], ...] = ()
        both = targets
        if number > 1:
            # How far the seeds' means lie apart because the targets are few is in the draw of targets already.
            apart = (part - own) - targets[:, None]
            drift, variance = float(apart.var(axis=0).sum()) / (number - 1), float(own.var(ddof=1))
            spread = ((variance / number, drift / number, number - 1.0),)
            share = max(0.0, 1 - drift / variance) if variance > 0 else 0.0
            both = targets + math.sqrt(share) * (_seed_weights(name, number, draws, seed) @ own)
        found.append(Drawn(float(own.mean()), both, targets, spread, freedom))
    return found


def _cluster_draws(values: FloatArray, clusters: IntArray, draws: int, seed: int) -> FloatArray:
    """Return the mean of every row of values in every draw of clusters, ``(draws, rows)``."""
    order = np.argsort(clusters, kind="stable")
    sizes = np.bincount(clusters)
    number = len(sizes)
    sums = np.add.reduceat(values[:, order], np.cumsum(sizes) - sizes, axis=1).T
    random = np.random.default_rng(seed)
    means = np.empty((draws, len(values)))
    rows = max(1, BLOCK_CELLS // number)
    for start in range(0, draws, rows):
        block = min(rows, draws - start)
        picks = random.integers(0, number, (block, number)) + number * np.arange(block)[:, None]
        counts = np.bincount(picks.reshape(-1), minlength=block * number).reshape(block, number).astype(np.float64)
        means[start : start + block] = counts @ sums / (counts @ sizes)[:, None]
    centre = values.mean(axis=1)
    means += (means - centre) * (math.sqrt(number / (number - 1)) - 1)
    return means


def _seed_weights(name: str, number: int, draws: int, seed: int) -> FloatArray:
    """Return weights ``(draws, number)`` that add up to 0: how much more often than once a seed was drawn."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    counts = np.random.default_rng([seed, key]).multinomial(number, np.full(number, 1 / number), size=draws)
    weights: FloatArray = (counts - 1) / math.sqrt(number * (number - 1))
    return weights


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in the same order (Holm 1979).

    Calling those below alpha different is wrong in any place at all with a probability of at most alpha.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        corrected[index] = largest
    return corrected


def rank_intervals(number: int, worse: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the best and the worst rank each model can have; ``worse`` pairs a better model with a worse one.

    One plus the models shown to be better, and the number less the models shown to be worse: with
    corrected comparisons all intervals hold at once (Mogstad et al. 2024).
    """
    best, worst = [1] * number, [number] * number
    for upper, lower in worse:
        worst[upper] -= 1
        best[lower] += 1
    return list(zip(best, worst, strict=True))


def letters(number: int, different: Iterable[tuple[int, int]]) -> list[str]:
    """Return letters per model, best model first: two models share one exactly if they do not differ.

    The compact letter display of Piepho 2004: start with one group, split every group that holds a
    different pair, and drop groups that lie within another.
    """
    groups = [frozenset(range(number))]
    for first, second in sorted(different):
        split = [
            part
            for group in groups
            for part in ((group - {first}, group - {second}) if {first, second} <= group else (group,))
        ]
        distinct = list(dict.fromkeys(split))
        groups = [group for group in distinct if not any(group < other for other in distinct)]
    groups.sort(key=sorted)
    names = [f"{letter}{turn or ''}" for turn in range(1 + len(groups) // 26) for letter in ascii_lowercase]
    marked = list(zip(names, groups, strict=False))
    return ["".join(name for name, group in marked if model in group) for model in range(number)]
