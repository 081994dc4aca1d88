from dataclasses import replace

import literal
import numpy as np
import pytest
import torch
from literal import scrambled
from ranking_toys import random_split

from reference_models.double_equivariant import representations, score
from reference_models.equivariant.network import Architecture, attention_logits
from reference_models.equivariant.soft import Input, SoftGIN
from reference_models.graphs.graph import TypedGraph, typed_graph
from reference_models.isdea import ISDEA
from reference_models.isdea_homo import ISDEAHomo
from reference_models.mtdea import MTDEA
from reference_models.training.batches import pair_features

CPU = torch.device("cpu")
SIZES = Architecture(width=4, gin_layers=2, tasks=3, hops=2)


def logits_for(graph, tasks, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(graph.num_slots, tasks, generator=generator, dtype=torch.float64, requires_grad=True)


def all_triples(graph):
    sizes = (graph.num_nodes, graph.num_slots, graph.num_nodes)
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1).reshape(-1, 3)


def scores_of(network, graph, logits, triples):
    attention = None if logits is None else torch.softmax(logits, dim=1)
    features = network.represent(graph, attention)
    return network.score(features, torch.from_numpy(triples), pair_features(graph, triples, network.architecture.hops))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", [lambda: ISDEA(SIZES), lambda: ISDEAHomo(SIZES), lambda: MTDEA(SIZES)])
def test_renaming_nodes_and_relations_only_renames_the_scores(make, training):
    network = scrambled(make()).train(training)
    graph = literal.random_graph(9, nodes=7, slots=5, edges=25)
    logits = logits_for(graph, SIZES.tasks) if network.uses_attention else None
    rng = np.random.default_rng(2)
    nodes, slots = rng.permutation(graph.num_nodes), rng.permutation(graph.num_slots)
    new_node, new_slot = torch.from_numpy(nodes), torch.from_numpy(slots)
    renamed = TypedGraph(
        new_node[graph.heads],
        new_slot[graph.slots],
        new_node[graph.tails],
        graph.num_nodes,
        graph.num_slots,
        graph.dtype,
    )
    moved = None
    if logits is not None:
        moved = torch.empty_like(logits)
        moved = moved.index_copy(0, new_slot, logits)
    triples = all_triples(graph)
    renamed_triples = np.stack([nodes[triples[:, 0]], slots[triples[:, 1]], nodes[triples[:, 2]]], axis=1)
    before = scores_of(network, graph, logits, triples)
    after = scores_of(network, renamed, moved, renamed_triples)
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)
    assert before.std() > 1e-3


def normalised(norm, rows, training):
    """Batch norm by its formula, over nodes and relations alike; the running statistics outside training."""
    flat = rows.reshape(-1, rows.shape[-1])
    mean, variance = (
        (flat.mean(dim=0), flat.var(dim=0, correction=0)) if training else (norm.running_mean, norm.running_var)
    )
    return (rows - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def plainly(network, graph, attention, training, nodes=None):
    """Return what a network makes of a graph, layer by layer; behind the first layer of some nodes alone."""
    layers, soft = network.architecture.gin_layers, attention is not None
    X = torch.ones(graph.num_nodes, graph.num_slots, 1, dtype=torch.float64)
    for number, (layer, norm) in enumerate(zip(network.layers, network.norms, strict=True), 1):
        if number <= layers:
            X = literal.soft_gin(layer, X, graph, attention) if soft else literal.equivariant_gin(layer, X, graph)
            if nodes is not None and number == layers > 1:
                X = X[nodes]
        else:
            X = literal.soft_nodewise(layer, X, attention) if soft else literal.equivariant_nodewise(layer, X)
        X = normalised(norm, X, training)
        if nodes is not None and number == layers == 1:
            X = X[nodes]
        # There is an activation between layers, but never after the last of a kind.
        X = X if number in (layers, layers + 2) else torch.relu(X)
    return X


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gin_layers", [1, 2, 3])
@pytest.mark.parametrize("soft", [False, True])
def test_a_network_is_its_layers_with_norms_and_activations_between(soft, gin_layers, training):
    sizes = Architecture(width=3, gin_layers=gin_layers, tasks=2, hops=0)
    network = scrambled(MTDEA(sizes) if soft else ISDEA(sizes)).train(training)
    graph = literal.random_graph(6, nodes=6, slots=4, edges=18)
    attention = torch.softmax(logits_for(graph, 2), dim=1) if soft else None
    expected = plainly(network, graph, attention, training)
    torch.testing.assert_close(network.represent(graph, attention).whole(), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("gin_layers", [1, 2, 3])
def test_in_training_batch_norm_behind_the_first_layer_is_over_the_nodes_that_are_asked_for(gin_layers):
    network = scrambled(MTDEA(Architecture(width=3, gin_layers=gin_layers, tasks=2, hops=0))).train()
    graph, nodes = literal.random_graph(6, nodes=8, slots=4, edges=25), torch.tensor([1, 4, 6])
    attention = torch.softmax(logits_for(graph, 2), dim=1)
    expected = plainly(network, graph, attention, True, nodes)
    torch.testing.assert_close(network.represent(graph, attention, nodes).whole(), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("gin_layers", [1, 2, 3])
def test_outside_training_some_nodes_can_be_had_without_the_others(gin_layers):
    network = scrambled(MTDEA(Architecture(width=3, gin_layers=gin_layers, tasks=2, hops=0))).eval()
    graph = literal.random_graph(8, nodes=8, slots=4, edges=25)
    attention = torch.softmax(logits_for(graph, 2), dim=1)
    nodes = torch.tensor([1, 4, 6])
    whole, part = network.represent(graph, attention), network.represent(graph, attention, nodes)
    torch.testing.assert_close(part.whole(), whole.whole()[nodes], rtol=1e-10, atol=1e-10)
    triples = torch.tensor([[[1, 0, 6], [4, 3, 1]], [[6, 2, 6], [1, 1, 4]]])
    torch.testing.assert_close(network.score(part, triples, None), network.score(whole, triples, None))


@pytest.mark.parametrize("hops", [0, 2])
def test_the_head_reads_both_nodes_under_the_relation_and_both_distances(hops):
    network = scrambled(ISDEA(Architecture(width=3, gin_layers=1, tasks=1, hops=hops)))
    features = torch.randn(5, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    triple, distances = torch.tensor([[1, 2, 4]]), torch.tensor([[2, 3]])
    parts = [features[1, 2], features[4, 2]]
    if hops:
        parts += [network.distances[2], network.distances[3]]
    first, _, second = network.head
    hidden = torch.relu(first.weight @ torch.cat(parts) + first.bias)
    expected = second.weight @ hidden + second.bias
    found = network.score(Input(features), triple, distances if hops else None)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert network.head[0].in_features == (12 if hops else 6)


def test_parameters_are_as_many_as_the_formula_says():
    for tasks, slots in ((2, 29), (4, 100)):
        network = MTDEA(Architecture(width=32, gin_layers=2, tasks=tasks, hops=0))
        weights = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
        assert weights + tasks * slots == 18_401 + tasks * (1 + 32 * 3) + slots * tasks


def test_first_weights_are_uniform_within_their_bounds_and_biases_zero():
    torch.manual_seed(0)
    network = MTDEA(Architecture(width=32, gin_layers=2, tasks=2, hops=3))
    linear = [module for module in network.modules() if isinstance(module, torch.nn.Linear)]
    assert linear
    for module in linear:
        bound = (6 / (module.in_features + module.out_features)) ** 0.5
        assert not module.bias.any()
        assert module.weight.abs().max() <= bound
        assert module.weight.abs().max() > 0.8 * bound or module.weight.numel() < 32
    for layer in network.layers:
        positions = layer.positions
        assert positions.abs().max() <= (6 / (1 + positions.shape[1])) ** 0.5
        assert not torch.equal(positions[0], positions[1])
    logits, bound = attention_logits(100, 3, torch.device("cpu")), (6 / 103) ** 0.5
    assert logits.shape == (100, 3)
    assert 0.95 * bound < logits.abs().max() <= bound


@pytest.mark.parametrize("hops", [0, 2])
def test_a_score_has_the_same_bits_whatever_it_is_scored_with(hops):
    sizes = Architecture(width=32, gin_layers=2, tasks=2, hops=hops)
    rng = np.random.default_rng(0)
    graph = typed_graph(
        random_split(0, entities=40, relations=4, slots=4, graph=300, targets=10), inverses=False, device=CPU
    )
    network = ISDEA(sizes).eval()
    features = representations(network, graph, None)
    triples = rng.integers([40, 4, 40], size=(5000, 3))
    distances = pair_features(graph, triples, hops)
    once = score(network, features, triples, distances)
    for size in (1, 7, 300):
        some = rng.permutation(5000)[:size]
        apart = None if distances is None else distances[some]
        assert torch.equal(score(network, features, triples[some], apart), once[some])
    assert torch.equal(score(network, features, triples[:0], None if distances is None else distances[:0]), once[:0])


def test_with_checkpointing_a_layer_is_computed_twice_and_the_gradients_are_the_same(monkeypatch):
    graph = literal.random_graph(4, nodes=7, slots=4, edges=25)
    sizes = Architecture(width=4, gin_layers=3, tasks=2, hops=0)
    found, calls = [], []
    for name in ("forward", "of_kinds"):
        apply = getattr(SoftGIN, name)
        monkeypatch.setattr(SoftGIN, name, lambda *inputs, apply=apply: calls.append(1) or apply(*inputs))
    for checkpointing in (False, True):
        network = scrambled(MTDEA(replace(sizes, checkpointing=checkpointing))).train()
        logits = logits_for(graph, 2)
        loss = scores_of(network, graph, logits, all_triples(graph)).square().sum()
        found.append(torch.autograd.grad(loss, [logits, *network.parameters()]))
    assert len(calls) == 2 + 4
    assert all(torch.equal(left, right) for left, right in zip(*found, strict=True))
