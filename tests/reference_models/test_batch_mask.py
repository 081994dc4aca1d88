from __future__ import annotations

from dataclasses import replace

import literal
import numpy as np
import pytest
import torch

from reference_models.equivariant.network import Architecture, attention_logits
from reference_models.graphs.graph import TypedGraph
from reference_models.isdea import ISDEA
from reference_models.isdea_homo import ISDEAHomo
from reference_models.mtdea import MTDEA
from reference_models.training import recipe
from reference_models.training.batches import Negatives, Stage, graph_stage, pair_features, prepare, task_loss

RECIPE = replace(recipe.load("mtdea", "any", {}), width=4, hops=2, tasks=2, inverses=True)
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
        lambda sizes: ISDEA(sizes, learn_epsilon=True),
        lambda sizes: ISDEAHomo(replace(sizes, width=32), learn_epsilon=True),
    ],
    ids=["mtdea", "isdea", "isdea-homo"],
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


def test_without_a_mask_the_whole_graph_is_shown():
    graph = doubled_graph(distinct_rows(1))
    shown, _ = shown_in(graph, [0, 3, 20], replace(RECIPE, mask="none"))
    assert shown == rows_of(graph)


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
    for mask in ("triple", "none"):
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
