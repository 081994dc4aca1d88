"""What holds for the readings of the paper's formula beyond being their formulas, which test_layers.py has."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import literal
import pytest
import torch
from test_layers import WIDTH, assert_equal_with_gradients, inputs, scrambled
from test_network import all_triples, logits_for, scores_of
from test_network import scrambled as scrambled_network

from mtbench.errors import UsageError
from mtbench.training.models import Context
from reference_models import isdea, isdea_homo, mtdea
from reference_models.equivariant.network import Architecture, attention_logits
from reference_models.equivariant.soft import SoftGIN
from reference_models.graphs.graph import TypedGraph
from reference_models.isdea import ISDEA
from reference_models.layers import blocks
from reference_models.layers.readings import ADJACENCIES, ASSIGNMENTS, MEANS, Reading
from reference_models.mtdea import MTDEA

READINGS = [Reading(*chosen) for chosen in product(ADJACENCIES, MEANS, ASSIGNMENTS)]
names = str


def layer_and_inputs(reading, tasks=3, seed=5, width=WIDTH):
    graph = literal.random_graph(seed, nodes=7, slots=5, edges=30)
    features, logits = inputs(graph, width, tasks, seed)
    return scrambled(SoftGIN(width, WIDTH, tasks, reading), seed), graph, features, logits


@pytest.mark.parametrize("perceptrons", [False, True])
@pytest.mark.parametrize("learn_epsilon", [False, True])
@pytest.mark.parametrize("adjacency", ["others", "tasks"])
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_one_task_at_position_zero_is_isdea(adjacency, mean, assignment, learn_epsilon, perceptrons):
    sizes = Architecture(4, 2, 1, 0, Reading(adjacency, mean, assignment), perceptrons)
    of_isdea = replace(sizes, reading=Reading(mean="sum" if mean == "sum" else "literal"))
    expected, found = (
        scrambled_network(ISDEA(of_isdea, learn_epsilon=True)),
        MTDEA(sizes, learn_epsilon=learn_epsilon),
    )
    found = scrambled_network(found, 1)
    with torch.no_grad():
        for layer in found.layers:
            layer.positions.zero_()
        for layer in expected.layers[:2]:
            layer.epsilon *= learn_epsilon
    weights = {name.replace("others.", "same_task."): value for name, value in expected.state_dict().items()}
    found.load_state_dict({name: value for name, value in weights.items() if name in found.state_dict()}, strict=False)
    graph = literal.random_graph(3, nodes=7, slots=4, edges=25)
    triples = all_triples(graph)
    scores = scores_of(expected, graph, None, triples)
    torch.testing.assert_close(scores_of(found, graph, logits_for(graph, 1), triples), scores, rtol=1e-8, atol=1e-8)
    assert scores.std() > 1e-3


def test_pairwise_messages_are_not_isdea_even_with_one_task():
    layer, graph, features, logits = layer_and_inputs(Reading(), tasks=1)
    attention = torch.softmax(logits, dim=1)
    expected = layer(features, graph.everyone, attention)
    layer.reading = Reading("pairwise")
    assert (layer(features, graph.everyone, attention) - expected).abs().max() > 0.1


@pytest.mark.parametrize("reading", READINGS, ids=names)
def test_renaming_nodes_and_relations_only_renames_the_layer(reading):
    layer, graph, features, logits = layer_and_inputs(reading)
    attention = torch.softmax(logits, dim=1)
    node, slot = torch.randperm(7, generator=torch.Generator().manual_seed(1)), torch.tensor([3, 0, 4, 2, 1])
    renamed = TypedGraph(node[graph.heads], slot[graph.slots], node[graph.tails], 7, 5, graph.dtype)
    moved, shares = torch.empty_like(features), torch.empty_like(attention)
    moved[node.unsqueeze(1), slot] = features
    shares[slot] = attention
    before, after = layer(features, graph.everyone, attention), layer(moved, renamed.everyone, shares)
    torch.testing.assert_close(after[node.unsqueeze(1), slot], before, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mean", ["literal", "normalised"])
def test_of_one_hot_tasks_summed_by_task_is_the_hard_layer_on_the_graphs_of_the_clusters(mean):
    """With a relation in one task alone, a context is the mean over a cluster, summed over the cluster's edges."""
    clusters = [[0, 2], [1, 3, 4]]
    layer, graph, features, _ = layer_and_inputs(Reading("tasks", mean), tasks=2)
    attention = torch.zeros(5, 2, dtype=torch.float64)
    for task, members in enumerate(clusters):
        attention[members, task] = 1
    A = literal.dense(graph)
    out = []
    for r in range(5):
        found = literal.gin(layer.own, features[:, r], A[r])
        for task, members in enumerate(clusters):
            cluster = [other for other in members if other != r]
            number = len(cluster) if mean == "normalised" else 4
            context = layer.positions[task] + features[:, cluster].sum(dim=1) / number
            module = layer.same_task if r in members else layer.other_tasks
            found = found + literal.gin(module, context, A[cluster].sum(dim=0))
        out.append(found)
    variables = [features, *layer.parameters()]
    assert_equal_with_gradients(layer(features, graph.everyone, attention), torch.stack(out, dim=1), variables)


@pytest.mark.parametrize("reading", READINGS, ids=names)
def test_a_relation_feels_its_own_task_within_a_layer_only_where_the_assignment_has_a_gradient(reading):
    layer, graph, features, logits = layer_and_inputs(reading)
    out = layer(features, graph.everyone, torch.softmax(logits, dim=1))
    for r in range(graph.num_slots):
        (gradient,) = torch.autograd.grad(out[:, r].square().sum(), logits, retain_graph=True)
        felt = gradient[r].abs().max() / gradient.abs().max()
        assert felt > 1e-4 if reading.assignment != "hard" else felt < 1e-8


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("mean", MEANS)
def test_straight_through_computes_what_hard_does(adjacency, mean):
    layer, graph, features, logits = layer_and_inputs(Reading(adjacency, mean))
    attention = torch.softmax(logits, dim=1)
    expected = layer(features, graph.everyone, attention)
    layer.reading = Reading(adjacency, mean, "straight-through")
    torch.testing.assert_close(layer(features, graph.everyone, attention), expected, rtol=1e-12, atol=1e-12)
    layer.reading = Reading(adjacency, mean, "soft")
    assert (layer(features, graph.everyone, attention) - expected).abs().max() > 0.1


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("adjacency", ["others", "tasks"])
def test_the_first_layer_sees_typed_degrees_weighed_by_task(adjacency, mean):
    """On the constant input a context is one number per node: what the others weigh, times the edges that count."""
    layer, graph, _, logits = layer_and_inputs(Reading(adjacency, mean), tasks=2, width=1)
    attention = torch.softmax(logits, dim=1)
    ones = torch.ones(7, 5, 1, dtype=torch.float64)
    degrees = literal.dense(graph).sum(dim=2)
    weights = attention if adjacency == "tasks" else torch.ones_like(attention)
    divisor = {"literal": 4, "sum": 1}
    out = layer(ones, graph.everyone, attention)
    for v, r in product(range(7), range(5)):
        rest = [other for other in range(5) if other != r]
        expected = literal.mapped(layer.own, 1 + degrees[r, v].view(1))
        for k in range(2):
            weighed = 1.0 if mean == "normalised" else attention[rest, k].sum() / divisor[mean]
            reach = 1 + (weights[rest, k] * degrees[rest, v]).sum()
            module = layer.same_task if k == literal.assigned(attention, r) else layer.other_tasks
            expected = expected + literal.mapped(module, (layer.positions[k] + weighed) * reach)
        torch.testing.assert_close(out[v, r], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("cells", [1, 50, 10_000])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_size_of_a_block_changes_nothing(adjacency, cells, monkeypatch):
    monkeypatch.setitem(blocks.CELLS, "cpu", cells)
    layer, graph, features, logits = layer_and_inputs(Reading(adjacency, "normalised", "soft"))
    attention = torch.softmax(logits, dim=1)
    expected = literal.soft_gin(layer, features, graph, attention)
    found = layer(features, graph.everyone, attention)
    assert_equal_with_gradients(found, expected, [features, logits, *layer.parameters()])


@pytest.mark.parametrize("reading", READINGS, ids=names)
def test_a_layer_onto_some_nodes_is_that_part_of_the_layer(reading):
    layer, graph, features, logits = layer_and_inputs(reading)
    attention, nodes = torch.softmax(logits, dim=1), torch.tensor([0, 2, 5])
    part, whole = layer(features, graph.onto(nodes), attention), layer(features, graph.everyone, attention)
    assert_equal_with_gradients(part, whole[nodes], [features, logits, *layer.parameters()])


@pytest.mark.parametrize("reading", READINGS, ids=names)
def test_nothing_with_an_axis_for_tasks_and_one_for_relations_is_kept_for_the_backward_pass(reading):
    layer, graph, features, logits = layer_and_inputs(reading, tasks=6)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: sizes.append(kept.numel()) or kept, lambda kept: kept):
        layer(features, graph.everyone, torch.softmax(logits, dim=1))
    pairs, nodes = len(graph.everyone.pairs.keys), graph.num_nodes
    assert max(sizes) <= max(nodes * graph.num_slots, 6 * max(pairs, nodes)) * WIDTH < 6 * nodes * 5 * WIDTH


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_with_checkpointing_a_layer_is_computed_twice_and_the_gradients_are_the_same(adjacency, monkeypatch):
    graph = literal.random_graph(4, nodes=7, slots=4, edges=25)
    sizes = Architecture(width=4, gin_layers=3, tasks=2, hops=0, reading=Reading(adjacency))
    found, calls = [], []
    for name in ("forward", "of_kinds"):
        apply = getattr(SoftGIN, name)
        monkeypatch.setattr(SoftGIN, name, lambda *inputs, apply=apply: calls.append(1) or apply(*inputs))
    for checkpointing in (False, True):
        network = scrambled_network(MTDEA(replace(sizes, checkpointing=checkpointing))).train()
        logits = logits_for(graph, 2)
        loss = scores_of(network, graph, logits, all_triples(graph)).square().sum()
        found.append(torch.autograd.grad(loss, [logits, *network.parameters()]))
    assert len(calls) == 2 + 4
    assert all(torch.equal(left, right) for left, right in zip(*found, strict=True))


def context(**settings):
    return Context("metafam", device="cpu", settings={key: str(value) for key, value in settings.items()})


@pytest.mark.parametrize(("build", "model"), [(isdea.build, "isdea"), (isdea_homo.build, "isdea-homo")])
@pytest.mark.parametrize(("key", "value"), [("adjacency", "tasks"), ("assignment", "soft")])
def test_a_model_without_tasks_refuses_readings_of_them(build, model, key, value):
    with pytest.raises(UsageError, match=f"{model} has {key}=.* only"):
        build(context(**{key: value}))


def test_isdea_refuses_tasks():
    with pytest.raises(UsageError, match=r"^isdea has one task, not 2: run mtdea with --set tasks=2$"):
        isdea.build(context(tasks=2))


def test_settings_reach_the_layers():
    settings = {"adjacency": "tasks", "mean": "sum", "assignment": "soft", "linear_layers": "perceptron"}
    layers = mtdea.build(context(**settings, learn_epsilon="true")).network.layers
    assert layers[0].reading == layers[-1].reading == Reading("tasks", "sum", "soft")
    assert layers[0].epsilon.requires_grad
    assert layers[-1].own.second.weight.shape == (32, 32)
    assert isdea.build(context(mean="sum")).network.layers[-1].mean == "sum"


@pytest.mark.parametrize("decayed", [True, False])
def test_weight_decay_holds_for_the_task_logits_unless_they_are_left_out(decayed):
    model = mtdea.build(context(decay_attention=decayed, weight_decay=0.25))
    attention = attention_logits(29, 2, torch.device("cpu"))
    weights = list(model.network.parameters())
    groups = model._state(attention, [*weights, attention]).optimizer.param_groups
    decays = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert decays == {id(weight): 0.25 for weight in weights} | {id(attention): 0.25 * decayed}
