"""Is a difference real: a paired two-level bootstrap, Holm's correction, ranks that remain possible, tied groups.

The bootstrap draws targets by cluster, the same for all models, and the seeds of each model independently
(Davison and Hinkley 1997, section 3.8). Three corrections matter because seeds and clusters are few. Deviations are
scaled so that their variance is unbiased for any number. The means of seeds also differ because the targets are few,
which the draw of targets shows already, so that part is not counted twice. And quantiles are stretched from the normal
distribution's to Student's with Welch-Satterthwaite degrees of freedom: without that, the intervals of three seeds are
far too short.
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
    """The bootstrap of a quantity: its estimate, and how far every draw was from it.

    ``both`` and ``targets`` are ``(draws,)`` deviations from the estimate, the latter with the seeds held
    fixed. ``seeds`` holds for every model with several seeds the variance of its mean over them, how much
    of it the few targets explain, and the degrees of freedom; ``freedom`` is that of the clusters.
    """

    estimate: float
    both: FloatArray
    targets: FloatArray
    seeds: tuple[tuple[float, float, float], ...]
    freedom: float

    def minus(self, subtrahend: Drawn) -> Drawn:
        """Return the paired difference: both quantities saw the same targets in every draw."""
        return Drawn(
            self.estimate - subtrahend.estimate,
            self.both - subtrahend.both,
            self.targets - subtrahend.targets,
            self.seeds + subtrahend.seeds,  # variances of independent seeds add up, also in a difference
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
        # An estimate of a drift may exceed its variance; the seeds cannot take anything off the targets' variance.
        total = max(base, base + sum(variance - drift for variance, drift, _ in self.seeds))
        weight = base**2 / self.freedom + sum(variance**2 / freedom for variance, _, freedom in self.seeds)
        return max(1.0, total**2 / weight) if weight > 0 else self.freedom

    def interval(self, level: float) -> tuple[float, float]:
        """Return the confidence interval of the estimate: percentiles, stretched for few seeds or clusters."""
        upper = (1 + level) / 2
        # Quantiles of the draws, rather than the standard error alone, keep an interval's asymmetry.
        stretch = float(stdtrit(self.degrees, upper) / ndtri(upper))
        low, high = np.quantile(self.both, (1 - upper, upper)) * stretch
        return self.estimate + float(low), self.estimate + float(high)

    def p_value(self) -> float:
        """Return the two-sided p-value of the estimate being 0, by Student's distribution."""
        if abs(self.estimate) < NOTHING:
            return 1.0
        if self.error < NOTHING:  # a difference that no draw changes, as of two models without any spread
            return 0.0
        return float(2 * stdtr(self.degrees, -abs(self.estimate) / self.error))

    def detectable(self, level: float) -> float:
        """Return the difference that a test at this level detects with a power of 80 %."""
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
    values = np.concatenate([per_seed for _, per_seed in models])
    means = _cluster_draws(values, clusters, draws, seed)
    sizes = np.bincount(clusters)
    # Clusters of unequal size are worth fewer clusters of equal size (Carter et al. 2017).
    freedom = max(1.0, len(clusters) ** 2 / float((sizes.astype(float) ** 2).sum()) - 1)
    drawn, start = [], 0
    for name, per_seed in models:
        number = len(per_seed)
        drawn_means, own_means = means[:, start : start + number], per_seed.mean(axis=1)
        start += number
        targets = drawn_means.mean(axis=1) - own_means.mean()
        spread: tuple[tuple[float, float, float], ...] = ()
        both = targets
        # The spread over a single seed is unknown: its interval covers the targets alone.
        if number > 1:
            # How far the seeds' means lie apart because the targets are few is in the draw of targets already.
            apart = (drawn_means - own_means) - targets[:, None]
            drift, variance = float(apart.var(axis=0).sum()) / (number - 1), float(own_means.var(ddof=1))
            spread = ((variance / number, drift / number, number - 1.0),)
            share = max(0.0, 1 - drift / variance) if variance > 0 else 0.0
            both = targets + math.sqrt(share) * (_seed_weights(name, number, draws, seed) @ own_means)
        drawn.append(Drawn(float(own_means.mean()), both, targets, spread, freedom))
    return drawn


def _cluster_draws(values: FloatArray, clusters: IntArray, draws: int, seed: int) -> FloatArray:
    """Return the mean of every row of values in every draw of clusters, ``(draws, rows)``."""
    order = np.argsort(clusters, kind="stable")
    sizes = np.bincount(clusters)
    number = len(sizes)
    # A draw of clusters needs only their sums and sizes: one matrix product for all models and many draws.
    sums = np.add.reduceat(values[:, order], np.cumsum(sizes) - sizes, axis=1).T
    random = np.random.default_rng(seed)
    means = np.empty((draws, len(values)))
    rows = max(1, BLOCK_CELLS // number)
    for start in range(0, draws, rows):
        block = min(rows, draws - start)
        # Shifted by the draw, so that a single bincount counts the clusters of every draw in the block.
        picks = random.integers(0, number, (block, number)) + number * np.arange(block)[:, None]
        counts = np.bincount(picks.reshape(-1), minlength=block * number).reshape(block, number).astype(np.float64)
        means[start : start + block] = counts @ sums / (counts @ sizes)[:, None]
    centre = values.mean(axis=1)
    # The bootstrap's variance is (n - 1) / n of the unbiased variance: that is made good.
    means += (means - centre) * (math.sqrt(number / (number - 1)) - 1)
    return means


def _seed_weights(name: str, number: int, draws: int, seed: int) -> FloatArray:
    """Return weights ``(draws, number)`` that add up to 0: how much more often than once each seed was drawn.

    They are scaled as the means in `_cluster_draws` are, for an unbiased variance.
    """
    # Seeded by a hash of the name: hash() of a text differs from process to process.
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    counts = np.random.default_rng([seed, key]).multinomial(number, np.full(number, 1 / number), size=draws)
    weights: FloatArray = (counts - 1) / math.sqrt(number * (number - 1))
    return weights


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in the same order (Holm 1979).

    Where all corrected values below alpha are called different, the probability of even one error is at most alpha.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        # Never below the corrected value of a smaller p-value, so that correction keeps their order.
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        corrected[index] = largest
    return corrected


def rank_intervals(number: int, worse: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the best and the worst rank each model can have; ``worse`` pairs a better model with a worse one.

    The best is one plus the models shown to be better, the worst all models less those shown to be worse: with
    corrected comparisons all intervals hold at once (Mogstad et al. 2024).
    """
    best, worst = [1] * number, [number] * number
    for upper, lower in worse:
        worst[upper] -= 1
        best[lower] += 1
    return list(zip(best, worst, strict=True))


def letters(number: int, different: Iterable[tuple[int, int]]) -> list[str]:
    """Return letters per model, best model first: two models share a letter exactly if they do not differ.

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
        groups = [group for group in distinct if not any(group < larger for larger in distinct)]
    groups.sort(key=sorted)
    # a to z, then a1 to z1: more than 26 groups are rare, but there are boards with many models.
    names = [f"{letter}{turn or ''}" for turn in range(1 + len(groups) // 26) for letter in ascii_lowercase]
    marked = list(zip(names, groups, strict=False))
    return ["".join(name for name, group in marked if model in group) for model in range(number)]
