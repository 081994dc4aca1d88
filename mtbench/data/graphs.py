"""Questions about a graph: degrees, half-links, and shortest paths between many pairs at once."""

from __future__ import annotations

import math

import numpy as np

from mtbench.data.splits import Split, among
from mtbench.errors import DatasetError
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray

HALF_LINKS = ("both", "head only", "tail only", "neither")
"""Is (head, relation, .) observable, is (., relation, tail): the four cases."""

UNREACHABLE = -1
LARGEST = 2**63 - 1
BLOCK_CELLS = 1 << 22


def distances(graph: IntArray, heads: IntArray, tails: IntArray, entities: int, limit: int) -> IntArray:
    """Return the length of the shortest path of each pair ``(m,)``, whatever the direction of its triples.

    ``graph`` is int64 ``(n, 3)``, ``heads`` and ``tails`` are ids ``(m,)`` below ``entities``. A node is
    at distance 0 from itself; `UNREACHABLE` says that there is no path at all, and ``limit + 1`` that the
    shortest is longer than ``limit``. Breadth-first searches from 64 heads at a time share one pass over
    the triples: a node holds one bit per search (multi-source BFS, Then et al. 2014).
    """
    from scipy import sparse

    ends = graph[:, (HEAD, TAIL)]
    first, second = np.concatenate((ends, ends[:, ::-1])).T
    adjacency = sparse.csr_array((np.ones(len(first), dtype=np.bool_), (first, second)), shape=(entities, entities))
    component = components(graph, entities)
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


def components(graph: IntArray, entities: int) -> IntArray:
    """Return the component of each entity ``(entities,)``, whatever the direction of the triples ``(n, 3)``."""
    from scipy import sparse
    from scipy.sparse import csgraph

    edges = sparse.coo_array((np.ones(len(graph), dtype=np.bool_), graph[:, (HEAD, TAIL)].T), shape=(entities,) * 2)
    return csgraph.connected_components(edges, directed=False)[1].astype(np.int64)


def degrees(split: Split) -> IntArray:
    """Return how many ends of observable triples each entity is, ``(num_entities,)``."""
    ends = split.graph[:, (HEAD, TAIL)].ravel()
    return np.bincount(ends, minlength=split.num_entities).astype(np.int64)


def repeated(triples: IntArray) -> int:
    """Return how many rows repeat an earlier one."""
    return len(triples) - len(np.unique(triples, axis=0))


def half_links(split: Split) -> IntArray:
    """Return for each target which of the four cases of `HALF_LINKS` it is, ``(m,)``."""
    by_head = _observable(split, HEAD)
    by_tail = _observable(split, TAIL)
    return np.select([by_head & by_tail, by_head, by_tail], [0, 1, 2], default=3).astype(np.int64)


def keys(split: Split, triples: IntArray, *columns: int) -> IntArray:
    """Return one number per triple ``(n,)`` that tells apart, and sorts, what stands in its columns, or some of them.

    ``keys(split, triples, TAIL, HEAD)`` of the graph and ``keys(split, triples, HEAD, TAIL)`` of the targets are
    equal where a pair is observable the other way round.
    """
    sizes = {HEAD: split.num_entities, RELATION: split.relation_slots, TAIL: split.num_entities}
    expect_distinct(split, *(sizes[column] for column in columns or sizes))
    found = np.zeros(len(triples), dtype=np.int64)
    for column in columns or (HEAD, RELATION, TAIL):
        found = found * sizes[column] + triples[:, column]
    return found


def expect_distinct(split: Split, *sizes: int) -> None:
    """Raise `DatasetError` where a number of 64 bits cannot tell apart all that may stand in columns of such sizes."""
    if math.prod(sizes) > LARGEST:
        raise DatasetError(
            f"{split.dataset}: {split.num_entities:,} entities and {split.relation_slots:,} relation ids make more "
            "triples than 63 bits tell apart: take a part of the graph"
        )


def _observable(split: Split, column: int) -> BoolArray:
    return among(keys(split, split.targets, column, RELATION), keys(split, split.graph, column, RELATION))
