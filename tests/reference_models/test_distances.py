from __future__ import annotations

from collections import deque

import literal
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_models.graphs.graph import TypedGraph
from reference_models.training.batches import adjacency, pair_distances, pair_features


def searched(graph, start, end, hops):
    """Search breadth first on the graph without any edge between the two nodes."""
    edges = [(u, v) for u, v in zip(graph.heads.tolist(), graph.tails.tolist(), strict=True) if {u, v} != {start, end}]
    lengths, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for u, v in edges:
            if u == node and v not in lengths:
                lengths[v] = lengths[node] + 1
                waiting.append(v)
    return min(lengths.get(end, hops + 1), hops + 1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(0, 16), st.integers(1, 4))
def test_distances_are_those_without_the_edges_of_the_pair(seed, nodes, edges, hops):
    graph = literal.random_graph(seed, nodes=nodes, edges=edges)
    heads, tails = np.divmod(np.random.default_rng(seed).permutation(np.arange(2 * nodes**2) // 2), nodes)
    before = adjacency(graph).toarray().copy()
    found = pair_distances(adjacency(graph), heads, tails, hops)
    assert found.dtype == np.int64
    assert found.tolist() == [searched(graph, u, v, hops) for u, v in zip(heads, tails, strict=True)]
    np.testing.assert_array_equal(adjacency(graph).toarray(), before)


@pytest.mark.parametrize(("hops", "far"), [(1, 2), (2, 3), (3, 3), (4, 3)])
def test_a_triangle_closed_by_its_own_edge_is_as_long_as_its_other_way(hops, far):
    """0 -> 1 -> 2 -> 3 with a shortcut 0 -> 3, its inverse and a second type of it, which do not count."""
    heads, tails = torch.tensor([0, 1, 2, 0, 3, 0]), torch.tensor([1, 2, 3, 3, 0, 3])
    graph = TypedGraph(heads, torch.tensor([0, 0, 0, 0, 2, 1]), tails, 4, 3)
    ways = np.array([[0, 3], [3, 0], [2, 2], [1, 0]])
    found = pair_distances(adjacency(graph), ways[:, 0], ways[:, 1], hops)
    back = 3 if hops >= 3 else hops + 1
    assert found.tolist() == [far, hops + 1, 0, back]


def test_the_features_of_a_pair_are_the_distances_there_and_back():
    graph = TypedGraph(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([1, 2]), 3, 1)
    found = pair_features(graph, np.array([[[0, 0, 2], [2, 0, 0]]]), 3)
    assert found.tolist() == [[[2, 4], [4, 2]]]
    assert pair_features(graph, np.array([[0, 0, 2]]), 0) is None


def test_no_pairs_have_no_distances():
    nothing = np.empty(0, dtype=np.int64)
    assert pair_distances(adjacency(literal.random_graph(0)), nothing, nothing, 3).shape == (0,)
