"""How well two groupings of the same things agree: the adjusted Rand index and normalised mutual information."""

from __future__ import annotations

import numpy as np

from mtbench.names import FloatArray, IntArray

_NOTHING = 1e-12


def adjusted_rand(truth: IntArray, shares: FloatArray) -> float:
    """Return the adjusted Rand index of groups ``(n,)`` and of shares ``(n, K)`` whose rows sum to 1.

    1 means the same groups, 0 what a random grouping of the same sizes gives in expectation. Hard groups are
    rows of zeros and a one. For soft ones the numbers of pairs are expectations over drawing each thing's
    group from its row, independently. Two groupings that both put everything together, or everything
    apart, agree by definition. Source: Hubert and Arabie 1985.
    """
    table = _table(truth, shares)
    own = np.square(shares).sum(axis=1)
    both = (np.square(table).sum() - own.sum()) / 2
    one = (np.square(table.sum(axis=1)).sum() - len(truth)) / 2
    other = (np.square(table.sum(axis=0)).sum() - own.sum()) / 2
    pairs = len(truth) * (len(truth) - 1) / 2
    expected = one * other / pairs if pairs else 0.0
    most = (one + other) / 2
    return 1.0 if abs(most - expected) < _NOTHING else float((both - expected) / (most - expected))


def normalised_mutual_information(truth: IntArray, shares: FloatArray) -> float:
    """Return the mutual information of groups ``(n,)`` and of shares ``(n, K)`` over the mean of their entropies.

    1 means the same groups and 0 independent ones; unlike the adjusted Rand index it is not corrected for chance, so
    that many small groups get some of it for nothing. Soft shares count as fractions of a thing. Two groupings of
    a single group agree by definition.
    """
    joint = _table(truth, shares) / len(truth)
    first, second, together = (_entropy(part) for part in (joint.sum(axis=1), joint.sum(axis=0), joint.ravel()))
    mean = (first + second) / 2
    return 1.0 if mean < _NOTHING else max(0.0, float((first + second - together) / mean))


def _table(truth: IntArray, shares: FloatArray) -> FloatArray:
    """Return how much of each true group ``(T,)`` every other group ``(K,)`` holds, ``(T, K)``."""
    names, group = np.unique(truth, return_inverse=True)
    table = np.zeros((len(names), shares.shape[1]))
    np.add.at(table, group, shares)
    return table


def _entropy(shares: FloatArray) -> float:
    held = shares[shares > 0]
    return float(-(held * np.log(held)).sum())
