"""What is computed between a start and its ends alone is what loops over the whole graph give."""

import numpy as np
import pytest
import torch
from test_crossing import HALF, NODES, WIDTH, along_edges, beside, layer
from torch import nn

from leaderboard.external.propagation import Network, RelationalSum, twins

DEPTH = 3


@pytest.fixture
def made(tangled):
    torch.manual_seed(0)
    layers = [layer() for _ in range(DEPTH)]
    return Network(layers, nn.Linear(2 * WIDTH, 1), twins(tangled, NODES, 2 * HALF)), tangled


def literal(network, triples, representations, start, relation):
    """Return the scores of all nodes, edge by edge over the whole graph."""
    begun = torch.zeros(NODES, WIDTH)
    begun[start] = own = representations[relation]
    state = along_edges(network.layers, triples, representations, begun, begun)
    return network.mlp(beside(state, own)).squeeze(1)


@torch.inference_mode()
def test_a_score_is_that_of_the_whole_graph_whatever_is_asked_with_it(made):
    network, triples = made
    assert network.graph.of[[12, 14, 16]].tolist() == network.graph.of[[13, 15, 17]].tolist()
    representations = torch.randn(2 * HALF, 2 * HALF, WIDTH)  # of each type, as each relation sees it
    asked = torch.tensor([4, 0, 3, 1, 2, 5])
    shared = network.relations(representations, asked)
    for start in (0, 3, 9, 11, 12, 15, 17):
        for columns in (np.array([0, 2, 3]), np.array([1])):
            expected = torch.stack(
                [literal(network, triples, representations[:, column], start, asked[column]) for column in columns],
                dim=1,
            )
            for ends in (np.arange(NODES), *(np.array([end]) for end in (0, 3, 10, 12, 13, 15, 16))):
                found = network.scores(shared, columns, start, ends)
                torch.testing.assert_close(found, expected[ends], rtol=1e-5, atol=1e-5)


def test_the_sum_is_that_of_a_loop_over_edges():
    rng = np.random.default_rng(2)
    into, kind, source, times = (rng.integers(size, size=30) for size in (6, 3, 5, 4))
    weights, states = torch.randn(3, 2, 4), torch.randn(5, 2, 4)
    expected = torch.zeros(7, 2, 4)
    for one, by, other, often in zip(into, kind, source, times.tolist(), strict=True):
        expected[one] += often * weights[by] * states[other]
    torch.testing.assert_close(RelationalSum((into, kind, source, times), 3, 7)(weights, states), expected)
