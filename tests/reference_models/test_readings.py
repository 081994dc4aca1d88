"""Every reading of the paper's layers: its formula, what follows from it, and training; of the usual one more is in
`test_layers`."""

from dataclasses import replace
from itertools import product

import literal
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from literal import scrambled
from planned import Plan, run
from resumed import assert_same_run
from test_layers import (
    WIDTH,
    assert_equal_with_gradients,
    at_once,
    cases,
    graphs,
    inputs,
    linked,
    seeds,
    tables,
    trainable,
    widths,
)
from test_network import all_triples, logits_for, scores_of

from mtbench.runs.result import load
from mtbench.training.models import Context
from reference_models import isdea, isdea_homo, mtdea
from reference_models.equivariant.mean import EquivariantLinear, EquivariantPerceptron, Table
from reference_models.equivariant.network import Architecture, attention_logits
from reference_models.equivariant.slotwise import SlotwiseGIN, SlotwiseNodes
from reference_models.equivariant.soft import Input, SoftGIN, SoftLinear
from reference_models.isdea import ISDEA
from reference_models.layers.basic import RowNorm
from reference_models.mtdea import MTDEA

SIZES = Architecture(width=WIDTH, gin_layers=2, tasks=3, hops=0)
USUAL = "usual"
"""The reading that is factorised: others' edges, the literal mean, no epsilon, single linear layers."""
GIN = list(product(("others", "tasks"), ("literal", "normalised"), (False, True)))
NODES = list(product(("literal", "normalised"), ("single", "perceptron")))
of_gin = pytest.mark.parametrize("reading", [USUAL, *GIN], ids=str)
of_nodes = pytest.mark.parametrize("reading", [USUAL, *NODES], ids=str)


def gin_of(reading, tasks=3, width=WIDTH, seed=5):
    if reading == USUAL:
        return scrambled(SoftGIN(width, WIDTH, tasks), seed)
    adjacency, mean, learned = reading
    sizes = replace(SIZES, tasks=tasks, adjacency=adjacency, mean=mean)
    return scrambled(SlotwiseGIN(sizes, width, learn_epsilon=learned), seed)


def nodes_of(reading, tasks=3, seed=5):
    if reading == USUAL:
        return scrambled(SoftLinear(WIDTH, tasks), seed)
    mean, linear_layers = reading
    return scrambled(SlotwiseNodes(replace(SIZES, tasks=tasks, mean=mean, linear_layers=linear_layers)), seed)


def layer_and_inputs(reading, tasks=3, seed=5):
    graph = literal.random_graph(seed, nodes=7, slots=5, edges=30)
    return gin_of(reading, tasks), graph, *inputs(graph, WIDTH, tasks, seed)


@of_gin
@cases
@given(graphs(), widths, st.integers(1, 4), seeds)
def test_a_gin_of_any_reading_is_its_formula(reading, graph, width, tasks, seed):
    layer = gin_of(reading, tasks, width, seed)
    features, logits = inputs(graph, width, tasks, seed)
    attention = torch.softmax(logits, dim=1)
    expected = literal.soft_gin(layer, features, graph, attention)
    variables = [features, logits, *layer.parameters()]
    assert_equal_with_gradients(layer(features, graph.everyone, attention), expected, variables)
    assert_equal_with_gradients(layer(features, graph.everyone, attention.detach()), expected, variables[:1])
    some = torch.arange(0, graph.num_nodes, 2)
    assert_equal_with_gradients(layer(features, graph.onto(some), attention), expected[some], variables)


@of_nodes
@cases
@given(graphs(), st.integers(1, 4), seeds)
def test_a_layer_without_neighbours_of_any_reading_is_its_formula(reading, graph, tasks, seed):
    layer = nodes_of(reading, tasks, seed)
    features, logits = inputs(graph, WIDTH, tasks, seed)
    attention = torch.softmax(logits, dim=1)
    expected = literal.soft_nodewise(layer, torch.relu(features), attention)
    found = layer(Input(features, rectified=True), attention)
    assert_equal_with_gradients(found, expected, [features, logits, *layer.parameters()])


@pytest.mark.parametrize("kind", [EquivariantLinear, EquivariantPerceptron])
@cases
@given(graphs(), seeds, st.booleans(), at_once)
def test_an_equivariant_layer_without_neighbours_is_its_formula(kind, graph, seed, rectified, rows):
    layer, reached = scrambled(kind(WIDTH), seed), linked(graph, 1, rows).layers[0]
    values, *affine = variables = [tables(reached, WIDTH, seed), *scrambled(RowNorm(WIDTH), seed).parameters()]
    table = Table(values, reached, affine, rectified)
    expected = literal.equivariant_nodewise(layer, table.whole())
    assert_equal_with_gradients(layer(table).whole(), expected, [*variables, *trainable(layer)])


@pytest.mark.parametrize("tasks", [2, 3])
@pytest.mark.parametrize(
    ("of", "reading"), [*((gin_of, one) for one in (USUAL, *GIN)), *((nodes_of, one) for one in (USUAL, *NODES))]
)
def test_within_a_layer_a_relation_does_not_feel_its_own_task(of, reading, tasks):
    _, graph, features, logits = layer_and_inputs(USUAL, tasks)
    layer, attention = of(reading, tasks), torch.softmax(logits, dim=1)
    out = layer(features, graph.everyone, attention) if of is gin_of else layer(Input(features), attention)
    for r in range(graph.num_slots):
        (gradient,) = torch.autograd.grad(out[:, r].square().sum(), logits, retain_graph=True)
        assert gradient.abs().max() > 1e-3
        assert gradient[r].abs().max() < 1e-8 * gradient.abs().max()


@pytest.mark.parametrize("reading", [USUAL, ("tasks", "normalised", True)])
def test_nothing_with_an_axis_for_tasks_and_one_for_relations_is_kept_for_the_backward_pass(reading):
    layer, graph, features, logits = layer_and_inputs(reading, tasks=6)
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: sizes.append(kept.numel()) or kept, lambda kept: kept):
        layer(features, graph.everyone, torch.softmax(logits, dim=1))
    nodes = graph.num_nodes
    rows = max(nodes, len(graph.everyone.pairs.keys)) if reading == USUAL else nodes
    assert max(sizes) <= max(nodes * graph.num_slots, 6 * rows) * WIDTH < 6 * nodes * 5 * WIDTH


@pytest.mark.parametrize("gin_layers", [1, 2])
@pytest.mark.parametrize("linear_layers", ["single", "perceptron"])
@pytest.mark.parametrize("reading", GIN, ids=str)
def test_one_task_at_position_zero_is_isdea(reading, linear_layers, gin_layers):
    adjacency, mean, learned = reading
    sizes = Architecture(4, gin_layers, 1, hops=3, linear_layers=linear_layers)
    expected = scrambled(ISDEA(sizes, learn_epsilon=learned))
    read = replace(sizes, adjacency=adjacency, mean=mean, checkpointing=gin_layers > 1)
    found = scrambled(MTDEA(read, learn_epsilon=learned), 1)
    with torch.no_grad():
        for layer in found.layers:
            layer.positions.zero_()
        for layer in expected.layers[:gin_layers]:
            layer.epsilon *= learned
    weights = {name.replace("others.", "same_task."): value for name, value in expected.state_dict().items()}
    left_alone = set(found.state_dict()) - set(weights)
    assert all("other_tasks." in name or name.endswith("positions") for name in left_alone)
    found.load_state_dict({name: value for name, value in weights.items() if name in found.state_dict()}, strict=False)
    graph = literal.random_graph(3, nodes=7, slots=4, edges=25)
    logits, triples = logits_for(graph, 1), all_triples(graph)
    for mode in (True, False):
        scores = scores_of(expected.train(mode), graph, None, triples)
        ours = scores_of(found.train(mode), graph, logits, triples)
        torch.testing.assert_close(ours, scores, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close([*found.norms.buffers()], [*expected.norms.buffers()], rtol=1e-8, atol=1e-8)
        gradients = [
            torch.autograd.grad(logit.square().sum(), [*network.norms.parameters()])
            for logit, network in ((ours, found), (scores, expected))
        ]
        torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-6)
    assert scores.std() > 1e-3


def built(build, **settings):
    return build(Context("metafam", device="cpu", settings=settings)).network


def test_settings_reach_the_layers():
    layers = built(mtdea.build, adjacency="tasks", mean="normalised", linear_layers="perceptron").layers
    assert [(layer.adjacency, layer.mean) for layer in layers] == len(layers) * [("tasks", "normalised")]
    assert layers[-1].own.second.weight.shape == (32, 32)
    assert layers[0].epsilon is None
    assert built(mtdea.build, learn_epsilon="true").layers[0].epsilon.requires_grad
    assert {type(layer) for layer in built(mtdea.build).layers} == {SoftGIN, SoftLinear}
    assert isinstance(built(isdea.build, linear_layers="perceptron").layers[-1], EquivariantPerceptron)
    for build in (isdea.build, isdea_homo.build):
        epsilons = [
            [one.requires_grad for name, one in built(build, learn_epsilon=learned).named_parameters() if "eps" in name]
            for learned in ("true", "false")
        ]
        assert [set(found) for found in epsilons] == [{True}, {False}]


@pytest.mark.parametrize("decayed", [True, False])
def test_weight_decay_holds_for_the_task_logits_unless_they_are_left_out(decayed):
    settings = {"decay_attention": str(decayed), "weight_decay": "0.25"}
    model = mtdea.build(Context("metafam", device="cpu", settings=settings))
    attention = attention_logits(29, 2, torch.device("cpu"))
    weights = list(model.network.parameters())
    groups = model._state(attention, [*weights, attention]).optimizer.param_groups
    decays = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert decays == {id(weight): 0.25 for weight in weights} | {id(attention): 0.25 * decayed}


READ = {"adjacency": "tasks", "mean": "normalised", "linear_layers": "perceptron", "learn_epsilon": "true"}
TOY = {"width": "8", "tasks": "3", "gin_layers": "2", "epochs": "1", "adaptation_epochs": "1", "batch": "1200"}


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("mtdea", TOY | READ | {"decay_attention": "false", "mask": "pair", "checkpointing": "true"}),
        ("mtdea", TOY | {"adjacency": "tasks", "gin_layers": "1", "statistics": "batch"}),
        ("isdea", {"linear_layers": "perceptron", "learn_epsilon": "false", "epochs": "1", "width": "8"}),
    ],
)
def test_a_run_of_another_reading_has_the_same_bits_with_one_thread_and_with_two(
    two_threads, small, tmp_path, model, settings
):
    for threads in (1, 2):
        torch.set_num_threads(threads)
        run(Plan(model, tmp_path / str(threads), dataset=str(small), device="cpu", settings=settings))
    assert_same_run(tmp_path / "1", tmp_path / "2")
    recorded = load(tmp_path / "1").run.hyperparameters
    assert {key: str(recorded[key]).lower() for key in settings} == settings
