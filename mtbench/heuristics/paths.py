"""Heuristic baselines on the graph without relation types: how close head and tail are to each other.

Both see the simple undirected graph (an edge wherever any triple links two different entities), so they
tie all relations of a pair. Both are columns of a matrix with one row per entity, made for a block of
entities at a time: memory does not grow with the number of triples asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import batches
from mtbench.data.splits import Split
from mtbench.heuristics.formulas import Baseline
from mtbench.names import FloatArray, IntArray

DAMPING = 0.85
STEPS = 20
"""The walk is cut off after this many steps: 0.85 ** 21 = 3 % of its weight, which no longer moves the metrics."""

KEPT_BITS = 12
"""Bits of a score that count: its rounding errors are smaller, and would break ties between equal places."""

BLOCK = 64
"""Entities per block: 10,000 rows of single precision then stay in the processor's cache."""

Columns: TypeAlias = Callable[[IntArray], NDArray[np.float32]]
"""From entities ``(b,)`` to their columns, ``(num_entities, b)``."""


def common_neighbours(split: Split) -> Baseline:
    """Return the scorer of how many entities are neighbours of both head and tail, float64 ``(m,)``.

    Where it does well, triangles give the target away whatever their relations are.
    """
    adjacency = Doubled.of(split).links

    def columns(entities: IntArray) -> NDArray[np.float32]:
        found: NDArray[np.float32] = adjacency @ adjacency[:, entities].toarray()
        return found

    return Baseline(split, lambda heads, relations, tails: _between(heads, tails, columns)[0])


def personalised_pagerank(split: Split) -> Baseline:
    """Return the scorer of the weight a random walk with restart from the head has at the tail, float64 ``(m,)``.

    The walk goes on with probability `DAMPING` to a uniform neighbour, else back to the head, and is
    followed for `STEPS` steps: the sum over k up to `STEPS` of ``DAMPING ** k`` times the probability of
    being at the tail after k steps. Scores are rounded to `KEPT_BITS` bits. It knows no relation, and still
    beats learned models on some splits ranked against a few random tails; where it does well, predicting
    a close tail is enough.
    """
    adjacency = Doubled.of(split).links
    degrees = np.maximum(adjacency.sum(axis=0), 1)
    step = adjacency.multiply(np.float32(DAMPING) / degrees[None, :]).tocsr().astype(np.float32)

    def columns(entities: IntArray) -> NDArray[np.float32]:
        place = entities, np.arange(len(entities))
        weights = np.zeros((split.num_entities, len(entities)), dtype=np.float32)
        weights[place] = 1
        for _ in range(STEPS):
            weights = step @ weights
            weights[place] += 1
        return weights

    def formula(heads: IntArray, relations: IntArray, tails: IntArray) -> FloatArray:
        found, swapped = _between(heads, tails, columns)
        if swapped:
            # A walk of an undirected graph and its reverse are equally likely up to the degrees of their ends.
            found *= degrees[tails] / degrees[heads]
        mantissa, exponent = np.frexp(found)
        rounded: FloatArray = np.ldexp(np.round(mantissa * 2**KEPT_BITS), exponent - KEPT_BITS)
        return rounded

    return Baseline(split, formula)


def _between(heads: IntArray, tails: IntArray, columns: Columns) -> tuple[FloatArray, bool]:
    """Return the entry of each head and tail, in the row of one and the column of the other.

    Columns are made for heads or for tails, whichever are fewer; says whether it is tails.
    """
    (heads_once, head), (tails_once, tail) = (np.unique(ids, return_inverse=True) for ids in (heads, tails))
    swapped = len(tails_once) < len(heads_once)
    rows, sources, column = (heads, tails_once, tail) if swapped else (tails, heads_once, head)
    if heads.shape != tails.shape:  # few columns, of which most is asked for
        made = np.concatenate([columns(sources[k : k + BLOCK]) for k in range(0, len(sources), BLOCK)], axis=1)
        return made[rows, column.reshape((tails if swapped else heads).shape)].astype(np.float64), swapped
    rows, column = rows.ravel(), column.ravel()
    found = np.empty(rows.shape)
    for start, stop, members in batches(column, len(sources), BLOCK):
        found[members] = columns(sources[start:stop])[rows[members], column[members] - start]
    return found.reshape(heads.shape), swapped
