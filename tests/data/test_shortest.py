"""Shortest paths of many pairs at once, beside SciPy's searches one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csgraph

from mtbench.data import graphs as shortest
from mtbench.data.doubled import Doubled
from mtbench.data.graphs import UNREACHABLE, distances, keys
from mtbench.errors import DatasetError


def reference(graph, heads, tails, entities, limit):
    matrix = sparse.csr_array((np.ones(len(graph)), (graph[:, 0], graph[:, 2])), shape=(entities, entities))
    found = csgraph.dijkstra(matrix, directed=False, unweighted=True)[heads, tails]
    return np.where(np.isinf(found), UNREACHABLE, np.minimum(found, limit + 1)).astype(np.int64)


def path(length):
    """A path whose triples point in alternating directions."""
    steps = [(i, 0, i + 1) if i % 2 else (i + 1, 0, i) for i in range(length)]
    return np.array(steps, dtype=np.int64)


def test_the_direction_of_triples_does_not_matter():
    heads, tails = np.zeros(6, dtype=np.int64), np.arange(6)
    assert distances(path(5), heads, tails, 6, 9).tolist() == [0, 1, 2, 3, 4, 5]
    assert distances(path(5), tails, heads, 6, 9).tolist() == [0, 1, 2, 3, 4, 5]


def test_beyond_the_limit_and_without_a_path_are_told_apart():
    heads, tails = np.zeros(4, dtype=np.int64), np.array([2, 3, 5, 6])
    assert distances(path(5), heads, tails, 7, 2).tolist() == [2, 3, 3, UNREACHABLE]


def test_an_entity_is_at_no_distance_from_itself_whatever_the_graph():
    alone = np.array([[1, 0, 1]])
    nodes = np.arange(3)
    assert distances(alone, nodes, nodes, 3, 2).tolist() == [0, 0, 0]
    assert distances(np.empty((0, 3), dtype=np.int64), nodes, nodes[::-1], 3, 2).tolist() == [-1, 0, -1]


@pytest.mark.parametrize("cells", [1, shortest.BLOCK_CELLS])
@given(seed=st.integers(0, 10**6), entities=st.integers(2, 200), edges=st.integers(0, 300), limit=st.integers(1, 5))
def test_they_are_scipys(cells, seed, entities, edges, limit):
    rng = np.random.default_rng(seed)
    graph = rng.integers(0, [entities, 3, entities], size=(edges, 3))
    heads, tails = rng.integers(0, entities, size=(2, 150))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortest, "BLOCK_CELLS", cells)
        found = distances(graph, heads, tails, entities, limit)
    np.testing.assert_array_equal(found, reference(graph, heads, tails, entities, limit))


def test_a_graph_of_more_triples_than_63_bits_tell_apart_is_refused():
    graph = np.array([[0, 1, 2]])
    huge = SimpleNamespace(dataset="huge", num_entities=2**28, relation_slots=2**8, graph=graph)
    with pytest.raises(DatasetError, match=r"huge: 268,435,456 entities and 256 relation ids make more triples than"):
        keys(huge, graph)
    with pytest.raises(DatasetError, match="take a part of the graph"):
        Doubled.of(huge)
    assert keys(huge, graph, 0, 2).dtype == np.int64
