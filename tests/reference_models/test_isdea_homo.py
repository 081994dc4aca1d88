import literal
import numpy as np
import pytest
import torch
from test_network import all_triples

from mtbench.names import HEAD, TAIL
from reference_models.double_equivariant import triple_scores
from reference_models.equivariant.network import Architecture
from reference_models.isdea_homo import ISDEAHomo
from reference_models.training.batches import pair_features


def network_of(gin_layers=2, hops=0, seed=0):
    return literal.scrambled(ISDEAHomo(Architecture(8, gin_layers, 1, hops)), seed)


def scores_of(network, graph, triples):
    return triple_scores(network, graph, None, lambda rows: pair_features(graph, rows, network.architecture.hops))(
        triples
    )


@pytest.mark.parametrize("gin_layers", [1, 2, 3])
def test_a_network_is_a_plain_gin_on_the_edges_without_their_types(gin_layers):
    network, graph = network_of(gin_layers), literal.random_graph(5, nodes=6, slots=4, edges=20)
    A = literal.dense(graph).sum(dim=0)
    X = torch.ones(graph.num_nodes, 1, dtype=torch.float64)
    for index, layer in enumerate(network.layers):
        X = literal.gin(layer, torch.relu(X) if index else X, A, network.epsilon[index])
    torch.testing.assert_close(network.represent(graph, None).whole(), X.unsqueeze(1), rtol=1e-10, atol=1e-10)
    triples = all_triples(graph)
    first, _, second = network.head
    ends = torch.cat([X[triples[:, HEAD]], X[triples[:, TAIL]]], dim=1)
    expected = literal.affine(second, torch.relu(literal.affine(first, ends))).squeeze(1)
    torch.testing.assert_close(scores_of(network, graph, triples), expected, rtol=1e-9, atol=1e-9)
    assert expected.std() > 1e-3


@pytest.mark.parametrize("hops", [0, 2])
def test_every_relation_has_the_same_score_to_the_last_bit(hops):
    network, graph = network_of(hops=hops).float(), literal.random_graph(1, nodes=9, slots=5, dtype=torch.float32)
    triples = np.random.default_rng(0).permutation(all_triples(graph))
    found = scores_of(network, graph, triples).numpy()
    table = np.empty((9, 5, 9), dtype=np.float32)
    table[tuple(triples.T)] = found
    assert (table == table[:, :1]).all()
    assert len(np.unique(table[:, 0])) > 5
