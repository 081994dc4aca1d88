"""Shortest distances between the two nodes of a scored pair, the pair's own edges set aside."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mtbench.names import IntArray
from reference_models.graphs.graph import TypedGraph


def adjacency(graph: TypedGraph) -> sparse.csr_array:
    """Return which node has an edge to which, types and repeats ignored, self-loops left out: bool ``(N, N)``."""
    heads, tails = graph.heads.cpu().numpy(), graph.tails.cpu().numpy()
    apart = heads != tails
    shape = (graph.num_nodes, graph.num_nodes)
    entries = (np.ones(int(apart.sum()), dtype=np.float32), (heads[apart], tails[apart]))
    matrix = sparse.coo_array(entries, shape=shape).tocsr()
    matrix.data[:] = 1
    return matrix


def pair_distances(edges: sparse.csr_array, heads: IntArray, tails: IntArray, hops: int) -> IntArray:
    """Return per pair the length of the shortest directed path from head to tail, at most ``hops``.

    ``edges`` is the adjacency ``(N, N)``, ``heads`` and ``tails`` have shape ``(m,)`` as has the result:
    0 for a node and itself, ``hops + 1`` where no path of at most ``hops`` edges exists. Every edge
    between the two nodes, in either direction, is taken away first, for each pair on its own, so that
    the presence of the scored triple (or of its inverse) cannot be read off. A shortest path starts at
    the head and ends at the tail, so only a first step straight to the tail could use such an edge:
    leaving out that step is the same as deleting the edges. Source: `docs/models.md`, Distances.
    """
    pairs, inverse = np.unique(heads * edges.shape[0] + tails, return_inverse=True)
    starts, ends = np.divmod(pairs, edges.shape[0])
    rows = np.arange(len(pairs))
    ones = np.ones(len(pairs), dtype=np.float32)
    into_end = edges.T.tocsr()[ends]

    found = np.where(starts == ends, 0, hops + 1)
    visited = sparse.coo_array((ones, (rows, starts)), shape=(len(pairs), edges.shape[0])).tocsr()
    at_end = sparse.coo_array((ones, (rows, ends)), shape=visited.shape).tocsr()
    frontier = _without(edges[starts], at_end)
    for length in range(2, hops + 1):
        reached = np.asarray(frontier.multiply(into_end).sum(axis=1)).ravel() > 0
        found = np.where(reached & (found > length), length, found)
        if length < hops:
            visited = visited + frontier
            frontier = _without(frontier @ edges, visited)
    return found[inverse].astype(np.int64)


def _without(matrix: sparse.csr_array, excluded: sparse.csr_array) -> sparse.csr_array:
    """Return the entries of ``matrix`` that ``excluded`` does not have, each as 1."""
    matrix.data[:] = 1
    excluded = excluded.copy()
    excluded.data[:] = 1
    left = sparse.csr_array(matrix - matrix.multiply(excluded))
    left.eliminate_zeros()
    return left
