from dataclasses import replace

import literal
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from literal import scrambled

import reference_models.graphs.reach as reaches
from reference_models.equivariant.mean import EquivariantGIN, EquivariantLinear, Table
from reference_models.equivariant.soft import Input, SoftGIN, SoftLinear
from reference_models.graphs.reach import kinds, reach
from reference_models.layers import blocks
from reference_models.layers.basic import RowNorm
from reference_models.layers.sums import expand, moments

WIDTH = 3
cases = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
widths = st.sampled_from([1, 2, 5])
at_once = st.sampled_from([1, 4, 1000])


@st.composite
def graphs(draw):
    return literal.random_graph(
        draw(seeds), nodes=draw(st.integers(1, 6)), slots=draw(st.integers(1, 5)), edges=draw(st.integers(0, 25))
    )


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


def tables(reached, width, seed):
    """Draw features that differ from the default of their node only where a pair is reached."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(reached.counts), width, generator=generator, dtype=torch.float64).requires_grad_()


def linked(graph, layers, rows):
    """Find the reach of a graph, with ``rows`` rows of a table in a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(reaches.ROWS, "cpu", rows)
        found = reach(graph, layers)
        assert all(len(reached.parts) == len(reached.blocks) for reached in found.layers)
    return found


@cases
@given(graphs(), widths, seeds, at_once)
def test_the_equivariant_gin_is_its_formula(graph, width, seed, rows):
    links = linked(graph, 3, rows).links
    layer = scrambled(EquivariantGIN(width, WIDTH), seed)
    for link in links:
        table = tables(link.before, width, seed)
        found = layer(Table(table, link.before), link).whole()
        expected = literal.equivariant_gin(layer, Table(table, link.before).whole(), graph)
        assert_equal_with_gradients(found, expected, [table, *trainable(layer)])


@cases
@given(graphs(), seeds, st.booleans(), at_once)
def test_a_layer_taken_late_is_its_formula_and_the_norm_of_all_its_rows(graph, seed, rectified, rows):
    assume(graph.num_nodes * graph.num_slots > 1)
    layer, reached = scrambled(EquivariantLinear(WIDTH), seed), linked(graph, 1, rows).layers[0]
    norm, same = (scrambled(RowNorm(WIDTH), seed) for _ in range(2))
    values, *affine = variables = [tables(reached, WIDTH, seed), *scrambled(RowNorm(WIDTH), seed + 1).parameters()]
    table = Table(values, reached, affine, rectified)
    found = layer.late(table, norm).whole()
    all_rows = literal.equivariant_nodewise(layer, table.whole())
    expected = torch.nn.functional.batch_norm(
        all_rows.flatten(0, 1), same.running_mean, same.running_var, norm.weight, norm.bias, training=True
    ).view_as(all_rows)
    assert_equal_with_gradients(found, expected, [*variables, *trainable(layer), *norm.parameters()])
    torch.testing.assert_close(list(norm.buffers())[:2], list(same.buffers())[:2])


@cases
@given(graphs(), seeds, st.booleans())
def test_a_layer_of_a_row_per_kind_is_that_of_its_rows(graph, seed, rectified):
    found = reach(graph, 2)
    constant = scrambled(EquivariantGIN(1, WIDTH), seed).of_constant(found)
    _, *affine = RowNorm(WIDTH).double().as_affine(constant.values, constant.counts)
    kinds = replace(constant, affine=affine, rectified=rectified)
    rows = kinds.by_row()
    assert constant.counts.sum() == rows.counts.sum() == graph.num_nodes * graph.num_slots
    assert len(constant.values) == len(torch.unique(constant.kinds))
    layers = EquivariantGIN(WIDTH, 2), EquivariantLinear(WIDTH)
    gin, last = (scrambled(layer, seed) for layer in layers)
    torch.testing.assert_close(kinds.whole(), rows.whole())
    torch.testing.assert_close(gin(kinds, *found.links).whole(), gin(rows, *found.links).whole())
    torch.testing.assert_close(last(kinds).whole(), last(rows).whole())


@cases
@given(graphs(), st.integers(1, 4), seeds)
def test_of_a_constant_the_first_layer_needs_one_row_per_kind(graph, tasks, seed):
    ones = torch.ones(graph.num_nodes, graph.num_slots, 1, dtype=torch.float64)
    _, logits = inputs(graph, 1, tasks, seed)
    attention = torch.softmax(logits, dim=1)
    soft = scrambled(SoftGIN(1, WIDTH, tasks), seed)
    expected = literal.soft_gin(soft, ones, graph, attention)
    found = expand(soft.of_constant(graph, attention), kinds(graph))
    assert_equal_with_gradients(found, expected, [logits, *soft.parameters()])
    hard = scrambled(EquivariantGIN(1, WIDTH), seed)
    expected, reached = literal.equivariant_gin(hard, ones, graph), reach(graph, 1)
    assert_equal_with_gradients(hard.of_constant(reached).whole(), expected, trainable(hard))


@cases
@given(graphs(), st.integers(1, 4), seeds, st.data())
def test_of_a_row_per_kind_the_second_layer_is_its_formula(graph, tasks, seed, data):
    layer = scrambled(SoftGIN(WIDTH, WIDTH, tasks), seed)
    _, logits = inputs(graph, WIDTH, tasks, seed)
    attention, found = torch.softmax(logits, dim=1), kinds(graph)
    rows = torch.randn(len(found.slots), WIDTH, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows.requires_grad_()
    expected = literal.soft_gin(layer, expand(rows, found), graph, attention)
    chosen = torch.tensor(sorted(data.draw(st.sets(st.integers(0, graph.num_nodes - 1), min_size=1))))
    for onto, part in ((graph.everyone, expected), (graph.onto(chosen), expected[chosen])):
        ours = layer.of_kinds(rows, graph, onto, attention)
        assert_equal_with_gradients(ours, part, [rows, logits, *layer.parameters()])


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
    rows = torch.randn(len(kinds(graph).slots), WIDTH, dtype=torch.float64, requires_grad=True)
    assert_equal_with_gradients(
        gin.of_kinds(rows, graph, graph.everyone, attention),
        literal.soft_gin(gin, expand(rows, kinds(graph)), graph, attention),
        [rows, logits, *gin.parameters()],
    )
    assert_equal_with_gradients(
        linear(Input(features, scale, shift, rectified=True), attention),
        literal.soft_nodewise(linear, torch.relu(features * scale + shift), attention),
        [features, logits, scale, shift, *linear.parameters()],
    )
    counts = torch.arange(1, 46, dtype=torch.float64)
    rows = features.flatten(0, 1)
    for weights, every in ((counts, rows.repeat_interleave(counts.long(), dim=0)), (None, rows)):
        expected = (rows, every.mean(0), every.var(0, correction=0))
        for ours, theirs in zip(moments(rows, weights), expected, strict=True):
            assert_equal_with_gradients(ours, theirs, [features])
        kept, mean, variance = moments(rows, weights)
        assert_equal_with_gradients(kept * variance + mean, expected[0] * expected[2] + expected[1], [features])


@pytest.mark.parametrize("counted", [False, True])
def test_the_norm_over_rows_and_its_running_statistics_are_the_librarys_batch_norm(counted):
    generator = torch.Generator().manual_seed(0)
    rows = 3 + torch.randn(7, WIDTH, generator=generator, dtype=torch.float64)
    counts = torch.tensor([1, 2, 1, 5, 1, 3, 1]) if counted else None
    every = rows if counts is None else rows.repeat_interleave(counts, dim=0)
    ours, theirs = RowNorm(WIDTH).double(), torch.nn.BatchNorm1d(WIDTH).double()
    with torch.no_grad():
        for norm in (ours, theirs):
            norm.weight.copy_(torch.tensor([0.5, -1.0, 2.0]))
            norm.bias.copy_(torch.tensor([1.0, 0.0, -3.0]))
    for training in (True, True, False):
        ours.train(training)
        theirs.train(training)
        _, scale, shift = ours.as_affine(rows, None if counts is None else counts.double())
        torch.testing.assert_close(every * scale + shift, theirs(every), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-10, atol=1e-10)


def test_equal_shares_go_to_the_lowest_task():
    graph = literal.random_graph(1)
    features, _ = inputs(graph, 2, 3, 1)
    attention = torch.full((graph.num_slots, 3), 1 / 3, dtype=torch.float64)
    gin, linear = scrambled(SoftGIN(2, WIDTH, 3), 1), scrambled(SoftLinear(WIDTH, 3), 1)
    torch.testing.assert_close(
        gin(features, graph.everyone, attention), literal.soft_gin(gin, features, graph, attention)
    )
    wide = torch.randn(6, 4, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(linear(Input(wide), attention), literal.soft_nodewise(linear, wide, attention))
