"""Graphs as sparse operators, which slots a network has, and its inverses."""

from dataclasses import replace

import literal
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import mtbench
from mtbench.data.splits import Split
from mtbench.names import InverseScorer
from mtbench.training.models import Context, factory
from reference_models.graphs.graph import Slots, typed_graph
from reference_models.graphs.reach import kinds, reach
from reference_models.layers.sums import expand

CPU = torch.device("cpu")


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4), st.integers(0, 20))
def test_operators_are_dense_matrices_and_so_are_their_gradients(seed, nodes, slots, edges):
    graph = literal.random_graph(seed, nodes=nodes, slots=slots, edges=edges)
    A = literal.dense(graph)
    everyone = graph.everyone
    pairs = everyone.pairs
    keys = torch.nonzero(A.sum(dim=2).T.flatten()).flatten()
    assert pairs.keys.tolist() == keys.tolist()
    assert (pairs.nodes * slots + pairs.slots).tolist() == keys.tolist()
    torch.testing.assert_close(pairs.degrees, A.sum(dim=2).T.flatten()[keys])
    torch.testing.assert_close(graph.everyone.degrees, A.sum(dim=(0, 2)))
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(nodes, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    typed = A.permute(1, 0, 2).reshape(nodes * slots, nodes)[keys]
    for operator, dense in ((everyone.union, A.sum(dim=0)), (pairs.from_nodes, typed)):
        found, expected = operator @ X, dense @ X
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        weights = torch.randn(found.shape, generator=generator, dtype=torch.float64)
        left, right = (torch.autograd.grad((part * weights).sum(), X)[0] for part in (found, expected))
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4), st.integers(0, 20))
def test_pairs_have_a_row_of_their_own_where_their_slot_reaches_the_node_or_its_neighbours(seed, nodes, slots, edges):
    graph = literal.random_graph(seed, nodes=nodes, slots=slots, edges=edges)
    A = literal.dense(graph)
    wanted = A.sum(dim=2).T > 0
    for reached in reach(graph, 3).layers:
        assert reached.keys.tolist() == torch.nonzero(wanted.flatten()).flatten().tolist()
        assert reached.counts.sum() == nodes * slots
        assert torch.equal(reached.counts[reached.defaults], slots - wanted.double().sum(dim=1))
        wanted = wanted | (A.sum(dim=0) @ wanted.double() > 0)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4), st.integers(1, 20), st.data())
def test_where_edges_are_hidden_the_patterns_of_the_whole_graph_count_what_is_left(seed, nodes, slots, edges, data):
    graph = literal.random_graph(seed, nodes=nodes, slots=slots, edges=edges)
    whole = reach(graph, 2)
    dropped = torch.tensor(data.draw(st.lists(st.booleans(), min_size=edges, max_size=edges)))
    left = graph.without(dropped)
    A, part = literal.dense(left), reach(left, 2)
    assert part.layers is whole.layers
    torch.testing.assert_close(part.degrees, A.sum(dim=(0, 2)))
    torch.testing.assert_close(part.own_degrees, A.sum(dim=2).T.flatten()[whole.layers[0].keys])
    (links,) = part.links
    first = links.before
    typed = torch.zeros(len(first.owners), nodes, dtype=torch.float64)
    typed[first.pairs] = A.permute(1, 0, 2).reshape(nodes * slots, nodes)[first.keys]
    own = links.own.matrix.to_dense()
    torch.testing.assert_close(own @ first.spread.matrix.to_dense(), typed)
    for operator, dense in ((links.union, A.sum(dim=0)), (links.own, own)):
        torch.testing.assert_close(operator.matrix.to_dense(), dense)
        torch.testing.assert_close(operator.transposed.to_dense(), dense.T)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 4), st.integers(0, 20), st.integers(0, 5))
def test_kinds_tell_apart_what_degrees_tell_apart_and_nothing_else(seed, nodes, slots, edges, hidden):
    whole = literal.random_graph(seed, nodes=nodes, slots=slots, edges=edges)
    graph = whole.without(torch.arange(edges) < hidden) if hidden else whole
    typed = literal.dense(graph).sum(dim=2).T
    found_kinds = kinds(graph)
    rows = torch.stack([found_kinds.slots.double(), found_kinds.degrees, found_kinds.own], dim=1)
    places = torch.arange(len(rows), dtype=torch.float64).unsqueeze(1)
    found = expand(torch.cat([rows, places], dim=1), found_kinds)
    slot = torch.arange(slots, dtype=torch.float64).expand(nodes, slots)
    expected = torch.stack([slot, typed.sum(dim=1, keepdim=True).expand(nodes, slots), typed], dim=2)
    torch.testing.assert_close(found[..., :3], expected)
    assert found_kinds.counts.tolist() == torch.bincount(found[..., 3].flatten().long(), minlength=len(rows)).tolist()
    of_pairs = rows[len(rows) - len(found_kinds.places) :]
    assert len(torch.unique(of_pairs, dim=0)) == len(of_pairs)
    assert len(found_kinds.of_pairs) == len(reach(whole, 1).layers[0].keys)
    assert "union" not in vars(graph)  # no sum over all edges is prepared for it


@pytest.mark.parametrize("inverses", [False, True])
def test_a_split_becomes_its_observable_triples_over_all_slots(inverses):
    rows = np.array([[0, 0, 1], [2, 1, 0], [1, 1, 1]])
    names = np.array(["a", "b", "c", "d"])
    split = Split("any", "test", rows, rows[:1, ::-1] * 0, names, names[:2], 5)
    graph = typed_graph(split, inverses=inverses, device=CPU)
    expected = rows.tolist() + ([[1, 5, 0], [0, 6, 2], [1, 6, 1]] if inverses else [])
    assert torch.stack([graph.heads, graph.slots, graph.tails], dim=1).tolist() == expected
    assert (graph.num_nodes, graph.num_slots) == (4, 10 if inverses else 5)


@pytest.fixture
def split(small):
    """A split with 29 slots, of which one is empty, and two more."""
    found = mtbench.load(small).test
    return replace(found, relation_slots=found.relation_slots + 2)


def mtdea_scorer(split, **settings):
    model = factory("mtdea")(Context("metafam", 0, "cpu", None, {"width": "4", "adaptation_epochs": "0", **settings}))
    return model.scorer(split.observable()), model


def empty(split):
    return np.setdiff1d(np.arange(split.relation_slots), split.graph[:, 1])


def test_all_slots_are_themselves(split):
    slots = Slots.of(split, "all")
    assert slots.split(split) is split
    assert np.array_equal(slots(split.targets), split.targets)


def test_present_slots_keep_their_order_and_one_stands_for_all_that_are_empty(split):
    slots = Slots.of(split, "present")
    seen, none = slots.split(split), empty(split)
    assert len(none) > 1
    assert seen.relation_slots == split.relation_slots - len(none) + 1 == len(seen.relations)
    assert [seen.relation_name(relation) for relation in seen.targets[:, 1]] == [
        split.relation_name(relation) for relation in split.targets[:, 1]
    ]
    assert np.array_equal(seen.graph[:, [0, 2]], split.graph[:, [0, 2]])
    assert {*slots.places[none]} == {seen.relation_slots - 1}
    triples = np.array([[0, split.relation_slots + relation, 1] for relation in range(split.relation_slots)])
    assert np.array_equal(slots(triples)[:, 1], slots.places + slots.number)


def test_a_split_without_empty_slots_comes_out_as_it_is(split):
    present = Slots.of(split, "present").split(split)
    full = replace(present, relation_slots=present.relation_slots)
    dense = replace(full, relations=full.relations[:-1], relation_slots=full.relation_slots - 1)
    assert Slots.of(dense, "present").split(dense) is dense


@pytest.mark.parametrize("empty_slots", [[1], [1, 3]], ids=["one", "two"])
def test_slots_that_are_empty_between_others_leave_every_relation_its_name(empty_slots):
    relations = np.setdiff1d(np.arange(5), empty_slots)
    graph = np.array([[0, relation, 1] for relation in relations])
    names = np.array([f"r{relation}" for relation in range(5)])
    split = Split("toy", "test", graph, graph[:0], np.array(["a", "b"]), names, 5, known=graph[::-1])
    slots = Slots.of(split, "present")
    seen = slots.split(split)
    assert [seen.relations[relation] for relation in seen.graph[:, 1]] == [names[relation] for relation in relations]
    np.testing.assert_array_equal(slots(graph), seen.graph)
    np.testing.assert_array_equal(seen.known, seen.graph[::-1])


def test_a_network_of_present_slots_scores_all_empty_ones_alike(split):
    none, (score, model) = empty(split), mtdea_scorer(split, slots="present")
    first = split.targets[:5].repeat(len(none), axis=0)
    first[:, 1] = np.tile(none, 5)
    for found in (score(first), score.score_inverses(first)):
        assert np.array_equal(found.view(5, -1), found.view(5, -1)[:, :1].expand(-1, len(none)))
    assert len(model.assignments()["test"].relations) == 2 * (split.relation_slots - len(none) + 1)
    every, _ = mtdea_scorer(split)
    assert every(first).view(5, -1).std(dim=1).max() > 0


MODELS = ("isdea", "isdea-homo")


def scorer_of(model, split, **settings):
    made = factory(model)(Context("metafam", 0, "cpu", None, {"width": "8", "gin_layers": "2", **settings}))
    return made.scorer(split.observable())


def turned(triples):
    return triples[:, [2, 1, 0]]


@pytest.mark.parametrize("hops", ["0", "2"])
@pytest.mark.parametrize("model", MODELS)
def test_inverses_are_the_relations_of_the_graph_with_every_edge_turned(small, model, hops):
    split = mtbench.load(small).test
    own = scorer_of(model, split, inverses="true", hops=hops)
    other = replace(split, graph=turned(split.graph), targets=turned(split.targets))
    opposite = scorer_of(model, other, inverses="true", hops=hops)
    triples = split.targets
    found = own.score_inverses(triples)
    torch.testing.assert_close(found, opposite(turned(triples)), rtol=1e-4, atol=1e-4)
    assert (found - own(triples)).abs().max() > 1e-3
    np.testing.assert_array_equal(triples, split.targets)


@pytest.mark.parametrize("model", MODELS)
def test_without_inverse_relations_there_is_nothing_to_ask_for(small, model):
    split = mtbench.load(small).test
    assert isinstance(scorer_of(model, split, inverses="true"), InverseScorer)
    assert not isinstance(scorer_of(model, split, inverses="false"), InverseScorer)
