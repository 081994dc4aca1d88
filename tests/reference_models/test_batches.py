"""Mini-batches: what a positive is trained against, what is hidden while it is scored, distances, and the losses."""

import math
from collections import deque
from dataclasses import replace

import literal
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from reference_models.equivariant.network import Architecture, attention_logits
from reference_models.graphs.graph import TypedGraph
from reference_models.isdea import ISDEA
from reference_models.isdea_homo import ISDEAHomo
from reference_models.mtdea import MTDEA
from reference_models.training.batches import (
    Negatives,
    Stage,
    adjacency,
    concentration_penalty,
    dual_sampling,
    graph_stage,
    one_hot_penalty,
    pair_distances,
    pair_features,
    prepare,
    task_loss,
)
from reference_models.training.recipe import Recipe, read


def triples_of(graph):
    return torch.stack([graph.heads, graph.slots, graph.tails], dim=1).numpy()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(0, 3), st.integers(0, 3))
def test_no_corruption_is_observed_or_the_positive_and_tails_come_first(seed, tails, relations):
    graph = literal.random_graph(seed, nodes=9, slots=6, edges=20)
    positives = np.concatenate([triples_of(graph), [[8, 5, 0]]])
    kept = positives.copy()
    found = Negatives(graph).draw(positives, tails, relations, np.random.default_rng(seed))
    assert found.shape == (len(positives), tails + relations, 3)
    np.testing.assert_array_equal(positives, kept)
    known = set(map(tuple, triples_of(graph).tolist()))
    for positive, drawn in zip(positives, found, strict=True):
        for place, negative in enumerate(drawn):
            assert tuple(negative) not in known
            column = 2 if place < tails else 1
            changed = negative != positive
            assert changed.nonzero()[0].tolist() == [column]
            assert 0 <= negative[column] < (graph.num_nodes if column == 2 else graph.num_slots)


def test_a_graph_without_edges_has_corruptions():
    graph = literal.random_graph(0, nodes=3, slots=4, edges=0)
    found = Negatives(graph).draw(np.array([[0, 1, 2]]), 2, 2, np.random.default_rng(0))
    assert (found[0, :2, 2] != 2).all()
    assert (found[0, 2:, 1] != 1).all()


@pytest.mark.parametrize(("column", "tails", "relations"), [(2, 4, 0), (1, 0, 4)])
def test_corruptions_are_uniform_over_all_that_are_allowed(column, tails, relations):
    """Chi-square over the eight or seven values left; 26 lies beyond the 99.9th percentile of both."""
    heads, slots, ends = torch.tensor([0, 0]), torch.tensor([3, 5]), torch.tensor([4, 1])
    graph = TypedGraph(heads, slots, ends, 10, 9, torch.float32)
    size = {2: graph.num_nodes, 1: graph.num_slots}[column]
    allowed = set(range(size)) - {2: {1, 4}, 1: {3, 5}}[column]
    positives = np.tile([[0, 5, 4]], (2000, 1))
    drawn = Negatives(graph).draw(positives, tails, relations, np.random.default_rng(0))[..., column].ravel()
    counts = np.bincount(drawn, minlength=size)
    assert {value for value in range(size) if counts[value]} == allowed
    expected = len(drawn) / len(allowed)
    chi_square = sum((counts[value] - expected) ** 2 / expected for value in allowed)
    assert chi_square < 26


def nearly_complete(free):
    """All triples of 60 nodes and 50 types with head 0, but for tail ``free`` under type 0 and types of tail 7."""
    rows = [(0, 0, v) for v in range(60) if v != free] + [(0, r, 7) for r in range(1, 50) if r != free]
    return TypedGraph(*torch.tensor(rows).unbind(dim=1), 60, 50)


def test_what_is_hard_to_corrupt_repeats_a_valid_corruption_of_its_own(monkeypatch):
    monkeypatch.setattr("reference_models.training.batches.ROUNDS", 3)
    graph, positives = nearly_complete(free=9), np.tile([[0, 0, 7]], (40, 1))
    drawn = Negatives(graph).draw(positives, 12, 12, np.random.default_rng(0))
    for column, part in ((2, drawn[:, :12]), (1, drawn[:, 12:])):
        found = (part[..., column] == 9).any(axis=1)
        assert found.any()
        assert not found.all()
        assert (part[found][..., column] == 9).all()


def test_what_cannot_be_corrupted_ends_and_stays_in_range():
    graph = TypedGraph(torch.tensor([0, 0]), torch.tensor([0, 0]), torch.tensor([0, 1]), 2, 1)
    drawn = Negatives(graph).draw(np.array([[0, 0, 1]]), 2, 2, np.random.default_rng(0))
    assert set(drawn[..., 2].ravel().tolist()) <= {0, 1}
    assert set(drawn[..., 1].ravel().tolist()) == {0}


RECIPE = replace(read(Recipe, "mtdea", "any", {}), width=4, hops=2, tasks=2, inverses=True)
SIZES = Architecture(width=4, gin_layers=2, tasks=2, hops=2)


def doubled_graph(rows, nodes=8, slots=3):
    """Return the graph of triples in the first half of the edges and their inverses in the second."""
    triples = torch.tensor(rows)
    inverses = torch.stack([triples[:, 2], triples[:, 1] + slots, triples[:, 0]], dim=1)
    return TypedGraph(*torch.cat([triples, inverses]).unbind(dim=1), nodes, 2 * slots)


def distinct_rows(seed, count=14, nodes=8, slots=3):
    picked = np.random.default_rng(seed).choice(nodes * nodes * slots, count, replace=False)
    return np.stack([picked // (nodes * slots), picked // nodes % slots, picked % nodes], axis=1).tolist()


def batch_of(graph, stage, numbers, chosen):
    return prepare(stage, chosen, np.array(numbers), Negatives(graph), np.random.default_rng(3))


def shown_in(graph, numbers, chosen):
    """Return the edges that a batch of the graph's own edges may look at, and the triples it scores."""
    batch = batch_of(graph, graph_stage("train", graph), numbers, chosen)
    return rows_of(batch.graph), batch.triples.numpy()


def logits_of(batch, make):
    """Return the logits that the loss of a training step on a batch is computed from."""
    torch.manual_seed(0)
    network = make(SIZES).train()
    logits = attention_logits(batch.graph.num_slots, 2, torch.device("cpu")) if network.uses_attention else None
    kept, score = [], network.score
    network.score = lambda *inputs: kept.append(score(*inputs)) or kept[-1]
    task_loss(network, logits, batch, RECIPE)
    return kept[0].detach().numpy()


def rows_of(graph):
    return list(zip(graph.heads.tolist(), graph.slots.tolist(), graph.tails.tolist(), strict=True))


@pytest.mark.parametrize(
    "make",
    [
        MTDEA,
        lambda sizes: MTDEA(replace(sizes, adjacency="tasks", mean="normalised")),
        lambda sizes: ISDEA(sizes),
        lambda sizes: ISDEAHomo(replace(sizes, width=32)),
    ],
    ids=["mtdea", "mtdea-by-task", "isdea", "isdea-homo"],
)
@pytest.mark.parametrize("place", [0, 5, 13])
@pytest.mark.parametrize("inverse", [False, True])
def test_a_positive_is_scored_as_if_its_edge_had_never_been_there(make, place, inverse):
    rows = distinct_rows(place)
    whole, without = doubled_graph(rows), doubled_graph(rows[:place] + rows[place + 1 :])
    number = place + inverse * len(rows)
    positive = np.array([rows_of(whole)[number]])
    hidden = batch_of(whole, graph_stage("train", whole), [number], RECIPE)
    never = batch_of(without, Stage("train", without, positive, masked=False), [0], RECIPE)
    assert hidden.triples[0, 0].tolist() == never.triples[0, 0].tolist() == positive[0].tolist()
    assert hidden.distances[0, 0].tolist() == never.distances[0, 0].tolist()
    expected = logits_of(never, make)[0, 0]
    assert logits_of(hidden, make)[0, 0] == pytest.approx(expected, abs=1e-6)
    leaking = batch_of(whole, graph_stage("train", whole), [number], replace(RECIPE, mask="none"))
    assert abs(logits_of(leaking, make)[0, 0] - expected) > 1e-4


def test_the_triple_mask_hides_the_positives_and_their_inverses_and_nothing_else():
    rows = [[1, 0, 2], [1, 1, 2], [2, 0, 1], [3, 0, 3], *distinct_rows(1)]
    rows = [list(row) for row in dict.fromkeys(map(tuple, rows))]
    graph, count = doubled_graph(rows), len(rows)
    batch = [0, 3, count + 5]
    shown, _ = shown_in(graph, batch, RECIPE)
    hidden = {0, 3, 5, count, count + 3, count + 5}
    assert shown == [row for place, row in enumerate(rows_of(graph)) if place not in hidden]


def test_without_inverses_the_triple_mask_hides_the_positives_alone():
    graph = literal.random_graph(2, nodes=7, slots=6, edges=9, dtype=torch.float32)
    shown, _ = shown_in(graph, [1, 7], replace(RECIPE, inverses=False))
    hidden = {rows_of(graph)[1], rows_of(graph)[7]}
    assert len(hidden) == 2
    assert shown == [row for row in rows_of(graph) if row not in hidden]


def test_the_triple_mask_hides_every_copy_of_a_positive():
    graph = doubled_graph([[0, 0, 1], [2, 1, 3], [0, 0, 1]])
    shown, _ = shown_in(graph, [0], RECIPE)
    assert shown == [(2, 1, 3), (3, 4, 2)]


def test_the_pair_mask_hides_all_edges_between_scored_pairs_in_their_direction():
    graph = doubled_graph([[1, 0, 2], [1, 1, 2], [2, 0, 1], *distinct_rows(1, count=20)])
    shown, triples = shown_in(graph, [0, 9], replace(RECIPE, mask="pair"))
    scored = {(head, tail) for head, _, tail in triples.reshape(-1, 3).tolist()}
    assert len(scored) > 2
    assert shown == [row for row in rows_of(graph) if (row[0], row[2]) not in scored]
    assert len(shown) < len(graph.heads)


def test_positives_that_are_missing_anyway_leave_the_graph_whole():
    graph = doubled_graph(distinct_rows(4))
    stage = Stage("train", graph, np.array([[0, 1, 7], [7, 4, 0]]), None)
    for mask in ("triple", "pair", "none"):
        assert rows_of(batch_of(graph, stage, [0, 1], replace(RECIPE, mask=mask)).graph) == rows_of(graph)


def test_distances_go_through_no_hidden_edge_either():
    """On the path 0 - 1 - 2 - ... a hidden edge is the only way from one side of it to the other."""
    graph = doubled_graph([[node, node % 3, node + 1] for node in range(7)])
    batch = batch_of(graph, graph_stage("train", graph), [0, 3], replace(RECIPE, tail_negatives=30))
    triples = batch.triples.numpy()
    found = batch.distances
    assert torch.equal(found, pair_features(batch.graph, triples, RECIPE.hops))
    assert not torch.equal(found, pair_features(graph, triples, RECIPE.hops))
    pieces = np.array([0, 1, 1, 1, 2, 2, 2, 2])
    apart = pieces[triples[..., 0]] != pieces[triples[..., 2]]
    assert apart.any()
    assert (found.numpy()[apart] == RECIPE.hops + 1).all()


def searched(graph, start, end, hops):
    """Search breadth first on the graph without any edge between the two nodes."""
    edges = [(u, v) for u, v in zip(graph.heads.tolist(), graph.tails.tolist(), strict=True) if {u, v} != {start, end}]
    lengths, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for u, v in edges:
            if u == node and v not in lengths:
                lengths[v] = lengths[node] + 1
                waiting.append(v)
    return min(lengths.get(end, hops + 1), hops + 1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(0, 16), st.integers(1, 4))
def test_distances_are_those_without_the_edges_of_the_pair(seed, nodes, edges, hops):
    graph = literal.random_graph(seed, nodes=nodes, edges=edges)
    heads, tails = np.divmod(np.random.default_rng(seed).permutation(np.arange(2 * nodes**2) // 2), nodes)
    before = adjacency(graph).toarray().copy()
    found = pair_distances(adjacency(graph), heads, tails, hops)
    assert found.dtype == np.int64
    assert found.tolist() == [searched(graph, u, v, hops) for u, v in zip(heads, tails, strict=True)]
    np.testing.assert_array_equal(adjacency(graph).toarray(), before)


def test_the_features_of_a_pair_are_the_distances_there_and_back():
    graph = TypedGraph(torch.tensor([0, 1]), torch.tensor([0, 0]), torch.tensor([1, 2]), 3, 1)
    found = pair_features(graph, np.array([[[0, 0, 2], [2, 0, 0]]]), 3)
    assert found.tolist() == [[[2, 4], [4, 2]]]
    assert pair_features(graph, np.array([[0, 0, 2]]), 0) is None


def test_no_pairs_have_no_distances():
    nothing = np.empty(0, dtype=np.int64)
    assert pair_distances(adjacency(literal.random_graph(0)), nothing, nothing, 3).shape == (0,)


def softplus(number):
    return math.log1p(math.exp(number))


POSITIVES, TAILS, RELATIONS = [0.5, -1.0], [[0.0, 1.0], [2.0, -2.0]], [[0.25, -0.5, 3.0], [0.0, 0.0, -1.0]]


def logits():
    return (torch.tensor(part, dtype=torch.float64) for part in (POSITIVES, TAILS, RELATIONS))


def test_the_papers_loss_weighs_positives_to_negatives_as_one_to_two():
    expected = 0.0
    for positive, tails, relations in zip(POSITIVES, TAILS, RELATIONS, strict=True):
        expected += softplus(-positive) + sum(map(softplus, tails)) / 2 + sum(map(softplus, relations)) / 3
    assert float(dual_sampling(*logits(), "paper")) == pytest.approx(expected / 2, rel=1e-12)


def test_the_joint_loss_is_a_cross_entropy_that_weighs_one_to_one():
    scores = torch.cat([part.reshape(2, -1) for part in logits()], dim=1)
    labels = torch.zeros_like(scores)
    labels[:, 0] = 1
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        scores, labels, pos_weight=torch.tensor(5.0, dtype=torch.float64)
    )
    assert float(dual_sampling(*logits(), "joint")) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("weighting", ["paper", "joint"])
def test_extreme_logits_give_finite_losses_and_gradients(weighting):
    parts = [
        torch.full(shape, value, requires_grad=True) for shape, value in (((1,), -1e4), ((1, 2), 1e4), ((1, 2), 1e4))
    ]
    loss = dual_sampling(*parts, weighting)
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(bool(torch.isfinite(part.grad).all()) for part in parts)


def numpy_softmax(values):
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_the_regularisers_are_entropy_and_log_gamma(tasks):
    values = np.random.default_rng(tasks).normal(size=(7, tasks))
    attention = numpy_softmax(values)
    logits = torch.from_numpy(values)
    entropy = -(attention * np.log(attention)).sum()
    assert float(one_hot_penalty(logits)) == pytest.approx(entropy, rel=1e-12, abs=1e-14)
    assert float(concentration_penalty(logits)) == pytest.approx(-gammaln(1 + attention.sum(axis=0)).sum(), rel=1e-12)
