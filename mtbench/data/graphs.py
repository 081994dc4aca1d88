"""Shortest paths between many pairs of a graph at once."""

from __future__ import annotations

import numpy as np

from mtbench.names import HEAD, TAIL, BoolArray, IntArray

UNREACHABLE = -1
BLOCK_CELLS = 1 << 22


def distances(graph: IntArray, heads: IntArray, tails: IntArray, entities: int, limit: int) -> IntArray:
    """Return the length of the shortest path of each pair ``(m,)``, whatever the direction of its triples.

    ``graph`` is int64 ``(n, 3)``, ``heads`` and ``tails`` are ids ``(m,)`` below ``entities``. A node is
    at distance 0 from itself; `UNREACHABLE` says that there is no path at all, and ``limit + 1`` that the
    shortest is longer than ``limit``. Breadth-first searches from 64 heads at a time share one pass over
    the triples: a node holds one bit per search (multi-source BFS, Then et al. 2014).
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    ends = graph[:, (HEAD, TAIL)]
    first, second = np.concatenate((ends, ends[:, ::-1])).T
    adjacency = sparse.csr_array((np.ones(len(first), dtype=np.bool_), (first, second)), shape=(entities, entities))
    component = csgraph.connected_components(adjacency, directed=False)[1]
    found = np.where(component[heads] == component[tails], limit + 1, UNREACHABLE).astype(np.int64)
    found[heads == tails] = 0
    starts, neighbours = adjacency.indptr[:-1], adjacency.indices
    linked = np.flatnonzero(np.diff(adjacency.indptr))
    sources, source = np.unique(heads, return_inverse=True)
    words = max(1, BLOCK_CELLS // max(1, len(neighbours)))
    for begin in range(0, len(sources), 64 * words):
        block = sources[begin : begin + 64 * words]
        pairs = np.flatnonzero((source >= begin) & (source < begin + len(block)) & (found > limit))
        word, bit = np.divmod(source[pairs] - begin, 64)
        reached = np.zeros((entities, -(-len(block) // 64)), dtype=np.uint64)
        number = np.arange(len(block))
        reached[block, number // 64] = np.uint64(1) << (number % 64).astype(np.uint64)
        for length in range(1, limit + 1):
            if not len(pairs):
                break
            reached[linked] |= np.bitwise_or.reduceat(reached[neighbours], starts[linked], axis=0)
            arrived: BoolArray = (reached[tails[pairs], word] >> bit.astype(np.uint64)) & np.uint64(1) == 1
            found[pairs[arrived]] = length
            pairs, word, bit = pairs[~arrived], word[~arrived], bit[~arrived]
    return found
