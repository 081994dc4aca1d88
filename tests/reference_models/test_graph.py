from __future__ import annotations

import literal
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.data.splits import Split
from reference_models.graphs.graph import typed_graph
from reference_models.graphs.kinds import kinds
from reference_models.graphs.reach import reach
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


def test_dropped_edges_are_gone_and_the_rest_keeps_its_order():
    graph = literal.random_graph(1, edges=12)
    before = graph.heads.clone()
    dropped = torch.zeros(12, dtype=torch.bool)
    dropped[[2, 7]] = True
    left = graph.without(dropped)
    kept = [place for place in range(12) if place not in (2, 7)]
    for name in ("heads", "slots", "tails"):
        assert getattr(left, name).tolist() == [getattr(graph, name).tolist()[place] for place in kept]
    assert (left.num_nodes, left.num_slots, left.dtype) == (graph.num_nodes, graph.num_slots, graph.dtype)
    assert torch.equal(graph.heads, before)
    assert int(literal.dense(graph).sum() - literal.dense(left).sum()) == 2
    torch.testing.assert_close(left.everyone.degrees, literal.dense(left).sum(dim=(0, 2)))


@pytest.mark.parametrize("inverses", [False, True])
def test_a_split_becomes_its_observable_triples_over_all_slots(inverses):
    rows = np.array([[0, 0, 1], [2, 1, 0], [1, 1, 1]])
    names = np.array(["a", "b", "c", "d"])
    split = Split("any", "test", rows, rows[:1, ::-1] * 0, names, names[:2], 5)
    graph = typed_graph(split, inverses=inverses, device=CPU)
    expected = rows.tolist() + ([[1, 5, 0], [0, 6, 2], [1, 6, 1]] if inverses else [])
    assert torch.stack([graph.heads, graph.slots, graph.tails], dim=1).tolist() == expected
    assert (graph.num_nodes, graph.num_slots) == (4, 10 if inverses else 5)
