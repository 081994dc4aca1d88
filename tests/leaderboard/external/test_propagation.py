"""What is computed between a start and its ends alone is what loops over the whole graph give."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from leaderboard.external.propagation import Network, RelationalSum, twins

NODES, HALF, WIDTH, DEPTH = 18, 2, 4, 3


@pytest.fixture
def made(tangled):
    torch.manual_seed(0)
    layers = [
        SimpleNamespace(
            linear=nn.Linear(2 * WIDTH, WIDTH),
            layer_norm=nn.LayerNorm(WIDTH),
            relation_projection=nn.Linear(WIDTH, WIDTH),
            activation=torch.relu,
        )
        for _ in range(DEPTH)
    ]
    return Network(layers, nn.Linear(2 * WIDTH, 1), twins(tangled, NODES, 2 * HALF)), tangled


def literal(network, triples, representations, start, relation):
    """Return the scores of all nodes, edge by edge over the whole graph."""
    own = representations[relation]
    state = torch.zeros(NODES, WIDTH)
    state[start] = own
    begun = state
    for layer in network.layers:
        weights, summed = layer.relation_projection(representations), begun.clone()
        for head, kind, tail in triples.tolist():
            summed[head] += state[tail] * weights[kind]
            summed[tail] += state[head] * weights[kind + HALF]
        state = torch.relu(layer.layer_norm(layer.linear(torch.cat((state, summed), dim=1)))) + state
    return network.mlp(torch.cat((state, own.expand_as(state)), dim=1)).squeeze(1)


@torch.inference_mode()
def test_a_score_is_that_of_the_whole_graph_whatever_is_asked_with_it(made):
    network, triples = made
    assert network.graph.of[[12, 14, 16]].tolist() == network.graph.of[[13, 15, 17]].tolist()
    representations = torch.randn(2 * HALF, 2 * HALF, WIDTH)  # of each type, as each relation sees it
    asked = torch.tensor([3, 0, 2, 1])
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
