"""Metrics of a protocol that draws its candidates, in expectation over the draw, from the counts of all candidates.

A drawn list is one sample of what a protocol asks for; its figures carry the noise of that sample. With
all candidates counted, the distribution of the number drawn above the target, and of the number tied with
it, is known exactly, and the expectation of every metric is a finite sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mtbench.names import HITS, FloatArray, IntArray

ROWS = 1024
"""Distinct rows of counts worked on at once; bounds the memory."""


@dataclass(frozen=True, eq=False)
class Side:
    """One corrupted side: per target ``(m,)`` all candidates above it, tied with it and in all, and the draws."""

    greater: IntArray
    equal: IntArray
    count: IntArray
    draws: int


def per_target(sides: Sequence[Side], *, replacement: bool) -> dict[str, FloatArray]:
    """Return every metric of every target ``(m,)``, in expectation over the draw and over the order of ties.

    Each side draws its number of candidates from the ``count`` there are: with ``replacement``, or distinct
    ones, and then all where there are fewer. With a of A above the target and no ties, the rank is one plus
    a sum of Bin(draws, a/A) or of hypergeometric variables over the sides. Ties are in random order: given
    the target's position u, uniform in (0, 1), each tied candidate is above it with probability u, so the
    expectation is the integral of a polynomial in u, which Gauss-Legendre quadrature gives exactly.
    """
    table = np.stack([part for side in sides for part in (side.greater, side.equal, side.count)], axis=1)
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    draws = [side.draws for side in sides]
    weights = _weights(sum(draws))
    values = np.empty((len(rows), weights.shape[1]))
    # Rows of few ties need few nodes, and without ties nothing depends on u: they are kept apart.
    tied = rows[:, 1::3].max(axis=1, initial=0)
    order = np.argsort(tied, kind="stable")
    for part in np.split(order, np.searchsorted(tied[order], [1])):
        for start in range(0, len(part), ROWS):
            block = part[start : start + ROWS]
            values[block] = _above(rows[block], draws, replacement) @ weights
    names = ("mr", "mrr", *(f"hits@{k}" for k in HITS))
    return dict(zip(names, values[inverse.reshape(-1)].T, strict=True))


def _weights(last: int) -> FloatArray:
    """Return the metrics of a target with 0 to ``last`` candidates above it, ``(last + 1, metrics)``."""
    rank = np.arange(1, last + 2)
    return np.stack([rank, 1 / rank, *(rank <= k for k in HITS)], axis=1).astype(np.float64)


def _above(rows: IntArray, draws: Sequence[int], replacement: bool) -> FloatArray:
    """Return the probability of each number of drawn candidates above the target, ``(rows, sum of draws + 1)``."""
    joint = [_drawn(rows[:, 3 * side : 3 * side + 3], number, replacement) for side, number in enumerate(draws)]
    degree = sum(table.shape[2] - 1 for table in joint)
    nodes, masses = np.polynomial.legendre.leggauss(degree // 2 + 1)
    total = np.zeros((len(rows), sum(draws) + 1))
    for u, mass in zip((nodes + 1) / 2, masses / 2, strict=True):
        found = np.ones((len(rows), 1))
        for table in joint:
            found = _sum_of(found, _thinned(table, float(u)))
        total += mass * found
    return total


def _drawn(counts: IntArray, draws: int, replacement: bool) -> FloatArray:
    """Return the probability to draw i candidates above and j tied, ``(rows, draws + 1, most tied + 1)``.

    ``counts`` ``(rows, 3)`` holds the candidates above, tied and in all. Draw by draw, so that every
    term is a product of plain fractions, and no difference of large logarithms.
    """
    greater, equal, count = counts.T
    tied_at_most = int(equal.max(initial=0))
    most = draws if replacement and tied_at_most else min(draws, tied_at_most)
    table = np.zeros((len(count), draws + 1, most + 1))
    table[:, 0, 0] = 1
    above = greater[:, None, None] - (0 if replacement else np.arange(draws + 1)[:, None])
    tied = equal[:, None, None] - (0 if replacement else np.arange(most + 1))
    for number in range(draws):
        left = count if replacement else count - number
        active = left > 0
        size = np.maximum(left, 1)[:, None, None]
        # As many draws so far cannot have brought more than as many: all beyond is still 0.
        reached = table[:, : number + 2, : number + 2]
        is_above, is_tied = above[:, : number + 2], tied[:, :, : number + 2]
        moved = reached * (left[:, None, None] - is_above - is_tied) / size
        moved[:, 1:] += (reached * is_above / size)[:, :-1]
        moved[:, :, 1:] += (reached * is_tied / size)[:, :, :-1]
        np.copyto(reached, moved, where=active[:, None, None])
    return table


def _thinned(table: FloatArray, u: float) -> FloatArray:
    """Return the probability of each number above, ``(rows, draws + 1)``, where a tied one is above with chance u."""
    width, most = table.shape[1:]
    return table.reshape(len(table), -1) @ _heads(width, most, u)


@lru_cache(maxsize=256)
def _heads(width: int, most: int, u: float) -> FloatArray:
    """Return the probability of each number above for every number drawn above and tied, ``(width * most, width)``."""
    split = np.zeros((width, most, width))
    heads = np.zeros((most, most))
    heads[0, 0] = 1
    for number in range(1, most):
        heads[number] = (1 - u) * heads[number - 1]
        heads[number, 1:] += u * heads[number - 1, :-1]
    for above in range(width):
        for tied in range(min(most, width - above)):
            split[above, tied, above : above + tied + 1] = heads[tied, : tied + 1]
    split.flags.writeable = False
    return split.reshape(-1, width)


def _sum_of(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the distribution of the sum of two independent numbers, row by row."""
    total = np.zeros((len(first), first.shape[1] + second.shape[1] - 1))
    for shift in range(first.shape[1]):
        total[:, shift : shift + second.shape[1]] += first[:, shift, None] * second
    return total
