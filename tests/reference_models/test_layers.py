from __future__ import annotations

import literal
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_models.layers import blocks
from reference_models.layers.equivariant import EquivariantGIN, EquivariantLinear
from reference_models.layers.soft import Input, SoftGIN, SoftLinear
from reference_models.layers.sums import aggregate, expand, moments

WIDTH = 3
cases = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
widths = st.sampled_from([1, 2, 5])


@st.composite
def graphs(draw):
    return literal.random_graph(
        draw(seeds), nodes=draw(st.integers(1, 6)), slots=draw(st.integers(1, 5)), edges=draw(st.integers(0, 25))
    )


def scrambled(layer, seed):
    """Give every parameter of a layer a random value, biases and the like included, in float64."""
    layer = layer.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return layer


def inputs(graph, width, tasks, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(graph.num_nodes, graph.num_slots, width, generator=generator, dtype=torch.float64)
    logits = torch.randn(graph.num_slots, tasks, generator=generator, dtype=torch.float64)
    return features.requires_grad_(), logits.requires_grad_()


def assert_equal_with_gradients(ours, expected, variables):
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    found = torch.autograd.grad((ours * weights).sum(), variables, allow_unused=True, retain_graph=True)
    wanted = torch.autograd.grad((expected * weights).sum(), variables, allow_unused=True, retain_graph=True)
    for variable, left, right in zip(variables, found, wanted, strict=True):
        left, right = (torch.zeros_like(variable) if part is None else part for part in (left, right))
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-9)


def trainable(layer):
    return [parameter for parameter in layer.parameters() if parameter.requires_grad]


@cases
@given(graphs(), widths, seeds, st.booleans())
def test_the_equivariant_gin_is_its_formula(graph, width, seed, learn_epsilon):
    layer = scrambled(EquivariantGIN(width, WIDTH, learn_epsilon=learn_epsilon), seed)
    assert layer.epsilon.requires_grad is learn_epsilon
    features, _ = inputs(graph, width, 1, seed)
    expected = literal.equivariant_gin(layer, features, graph)
    assert_equal_with_gradients(layer(features, graph.everyone), expected, [features, *trainable(layer)])


@cases
@given(graphs(), seeds)
def test_the_equivariant_linear_layer_is_its_formula(graph, seed):
    layer = scrambled(EquivariantLinear(WIDTH), seed)
    features, _ = inputs(graph, WIDTH, 1, seed)
    assert_equal_with_gradients(
        layer(Input(features)), literal.equivariant_linear(layer, features), [features, *trainable(layer)]
    )


@cases
@given(graphs(), widths, st.integers(1, 4), seeds)
def test_the_soft_gin_is_its_formula(graph, width, tasks, seed):
    layer = scrambled(SoftGIN(width, WIDTH, tasks), seed)
    features, logits = inputs(graph, width, tasks, seed)
    attention = torch.softmax(logits, dim=1)
    expected = literal.soft_gin(layer, features, graph, attention)
    assert_equal_with_gradients(
        layer(features, graph.everyone, attention), expected, [features, logits, *layer.parameters()]
    )


@cases
@given(graphs(), st.integers(1, 4), seeds)
def test_the_soft_linear_layer_is_its_formula(graph, tasks, seed):
    layer = scrambled(SoftLinear(WIDTH, tasks), seed)
    features, logits = inputs(graph, WIDTH, tasks, seed)
    attention = torch.softmax(logits, dim=1)
    expected = literal.soft_linear(layer, features, attention)
    assert_equal_with_gradients(layer(Input(features), attention), expected, [features, logits, *layer.parameters()])


@cases
@given(graphs(), st.integers(1, 4), seeds)
def test_of_a_constant_the_first_layer_needs_one_row_per_kind(graph, tasks, seed):
    ones = torch.ones(graph.num_nodes, graph.num_slots, 1, dtype=torch.float64)
    _, logits = inputs(graph, 1, tasks, seed)
    attention = torch.softmax(logits, dim=1)
    soft = scrambled(SoftGIN(1, WIDTH, tasks), seed)
    expected = literal.soft_gin(soft, ones, graph, attention)
    assert_equal_with_gradients(
        expand(soft.of_constant(graph, attention), graph), expected, [logits, *soft.parameters()]
    )
    hard = scrambled(EquivariantGIN(1, WIDTH, learn_epsilon=True), seed)
    expected = literal.equivariant_gin(hard, ones, graph)
    assert_equal_with_gradients(expand(hard.of_constant(graph), graph), expected, trainable(hard))


@pytest.mark.parametrize("cells", [1, 50, 10_000])
def test_the_size_of_a_block_changes_nothing(cells, monkeypatch):
    monkeypatch.setitem(blocks.CELLS, "cpu", cells)
    graph = literal.random_graph(2, nodes=9, slots=5, edges=40)
    features, logits = inputs(graph, WIDTH, 3, 2)
    attention = torch.softmax(logits, dim=1)
    gin, linear = scrambled(SoftGIN(WIDTH, WIDTH, 3), 2), scrambled(SoftLinear(WIDTH, 3), 2)
    scale, shift = (torch.randn(WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert_equal_with_gradients(
        gin(features, graph.everyone, attention),
        literal.soft_gin(gin, features, graph, attention),
        [features, logits, *gin.parameters()],
    )
    assert_equal_with_gradients(
        linear(Input(features, scale, shift, rectified=True), attention),
        literal.soft_linear(linear, torch.relu(features * scale + shift), attention),
        [features, logits, scale, shift, *linear.parameters()],
    )
    counts = torch.arange(1, 46, dtype=torch.float64)
    rows = features.flatten(0, 1)
    repeated = rows.repeat_interleave(counts.long(), dim=0)
    for ours, expected in zip(moments(rows, counts), (repeated.mean(0), repeated.var(0, correction=0)), strict=True):
        assert_equal_with_gradients(ours, expected, [features])


@cases
@given(graphs(), st.integers(1, 4), seeds)
def test_sums_are_dense_products(graph, tasks, seed):
    features, logits = inputs(graph, WIDTH, tasks, seed)
    A = literal.dense(graph)
    own = torch.einsum("rvu,urd->vrd", A, features).flatten(0, 1)[graph.everyone.pairs.keys]
    expected = (
        torch.einsum("rvu,usd->vsd", A, features),
        own,
        torch.einsum("nrd,rk->nkd", features, logits),
    )
    for left, right in zip(aggregate(features, logits, graph.everyone), expected, strict=True):
        assert_equal_with_gradients(left, right, [features, logits])


@cases
@given(graphs(), st.integers(1, 3), seeds, st.data())
def test_a_layer_onto_some_nodes_is_that_part_of_the_layer(graph, tasks, seed, data):
    chosen = data.draw(st.sets(st.integers(0, graph.num_nodes - 1), min_size=1))
    nodes = torch.tensor(sorted(chosen))
    layer = scrambled(SoftGIN(WIDTH, WIDTH, tasks), seed)
    features, logits = inputs(graph, WIDTH, tasks, seed)
    attention = torch.softmax(logits, dim=1)
    whole = layer(features, graph.everyone, attention)
    part = layer(features, graph.onto(nodes), attention)
    assert_equal_with_gradients(part, whole[nodes], [features, logits, *layer.parameters()])


def test_equal_shares_go_to_the_lowest_task():
    graph = literal.random_graph(1)
    features, _ = inputs(graph, 2, 3, 1)
    attention = torch.full((graph.num_slots, 3), 1 / 3, dtype=torch.float64)
    gin, linear = scrambled(SoftGIN(2, WIDTH, 3), 1), scrambled(SoftLinear(WIDTH, 3), 1)
    torch.testing.assert_close(
        gin(features, graph.everyone, attention), literal.soft_gin(gin, features, graph, attention)
    )
    wide = torch.randn(6, 4, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(linear(Input(wide), attention), literal.soft_linear(linear, wide, attention))


def test_the_first_soft_layer_sees_typed_degrees_alone():
    """On the constant input each map is fed one number per node: a degree times what the task weighs."""
    graph = literal.random_graph(5, nodes=7, slots=4, edges=30)
    layer = scrambled(SoftGIN(1, WIDTH, 2), 5)
    ones, logits = inputs(graph, 1, 2, 5)
    ones = torch.ones_like(ones)
    attention = torch.softmax(logits, dim=1)
    degrees = [[0.0] * graph.num_slots for _ in range(graph.num_nodes)]
    for r, v in zip(graph.slots.tolist(), graph.tails.tolist(), strict=True):
        degrees[v][r] += 1

    def mapped(perceptron, number):
        return literal.gin(perceptron, number.view(1), torch.zeros(1, 1, dtype=torch.float64))

    out = layer(ones, graph.everyone, attention)
    for v in range(graph.num_nodes):
        for r in range(graph.num_slots):
            expected = mapped(layer.own, torch.tensor(1 + degrees[v][r], dtype=torch.float64))
            reach = 1 + sum(degrees[v]) - degrees[v][r]
            for k in range(2):
                weight = layer.positions[k, 0] + (attention[:, k].sum() - attention[r, k]) / (graph.num_slots - 1)
                best = k == literal.assigned(attention, r)
                expected = expected + mapped(layer.same_task if best else layer.other_tasks, weight * reach)
            torch.testing.assert_close(out[v, r], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tasks", [2, 3])
@pytest.mark.parametrize("kind", ["gin", "linear"])
def test_within_a_layer_a_relation_does_not_feel_its_own_task(kind, tasks):
    graph = literal.random_graph(11)
    features, logits = inputs(graph, WIDTH, tasks, 11)
    attention = torch.softmax(logits, dim=1)
    if kind == "gin":
        out = scrambled(SoftGIN(WIDTH, WIDTH, tasks), 11)(features, graph.everyone, attention)
    else:
        out = scrambled(SoftLinear(WIDTH, tasks), 11)(Input(features), attention)
    for r in range(graph.num_slots):
        (gradient,) = torch.autograd.grad(out[:, r].square().sum(), logits, retain_graph=True)
        scale = gradient.abs().max()
        assert scale > 1e-3
        assert gradient[r].abs().max() < 1e-10 * scale
