import math

import literal
import numpy as np
import pytest
import torch

from mtbench.names import HEAD, RELATION, TAIL
from reference_models.graphs.graph import TypedGraph
from reference_models.layers import propagation
from reference_models.layers.propagation import Neighbours, plan
from reference_models.nbfnet import NBFNetHomo, logits_of, pair_scores, queries_of, query_loss


def doubled(graph):
    """Return the graph with the inverse of every edge."""
    heads, tails = torch.cat([graph.heads, graph.tails]), torch.cat([graph.tails, graph.heads])
    slots = torch.cat([graph.slots, graph.slots + graph.num_slots])
    return TypedGraph(heads, slots, tails, graph.num_nodes, 2 * graph.num_slots, graph.dtype)


def by_tail(graph):
    order = torch.argsort(graph.tails, stable=True)
    parts = (graph.heads[order], graph.slots[order], graph.tails[order])
    return TypedGraph(*parts, graph.num_nodes, graph.num_slots, graph.dtype)


def path_graph(nodes, extra=()):
    """Return a path with further edges, on nodes of which the last is isolated, in both directions."""
    rows = [(node, node % 3, node + 1) for node in range(nodes - 2)] + list(extra)
    return doubled(TypedGraph(*torch.tensor(rows).unbind(dim=1), nodes, 3, torch.float64))


def network_of(layers=3, width=4, seed=0):
    torch.manual_seed(seed)
    network = NBFNetHomo(width, layers).double()
    with torch.no_grad():
        for layer in network.layers:
            layer.norm.weight.uniform_(0.5, 1.5)
            layer.norm.bias.normal_()
    return network


def literal_layer(layer, X, boundary, graph):
    senders = [
        [u for u, v in zip(graph.heads, graph.tails, strict=True) if v == node] for node in range(graph.num_nodes)
    ]
    logs = [math.log(len(into) + 1) for into in senders]
    mean_log = sum(logs) / len(logs)
    out = []
    for node, into in enumerate(senders):
        messages = torch.stack([X[u] * layer.relation for u in into] + [boundary[node]])
        mean = messages.mean(dim=0)
        deviation = (messages**2).mean(dim=0) - mean**2
        features = [mean, messages.max(dim=0)[0], messages.min(dim=0)[0], deviation.clamp(min=1e-6).sqrt()]
        scale = logs[node] / mean_log if mean_log else 0.0
        scaled = [torch.cat(features) * factor for factor in (1, scale, 1 / max(scale, 0.01))]
        linear = layer.linear.weight @ torch.cat([X[node], *scaled]) + layer.linear.bias
        normed = (linear - linear.mean()) / (linear.var(correction=0) + layer.norm.eps).sqrt()
        out.append(torch.relu(normed * layer.norm.weight + layer.norm.bias) + X[node])
    return torch.stack(out)


def literal_scores(network, graph):
    """Scores ``(N, N)`` of all pairs: one full propagation per head, every sum a loop."""
    rows = []
    for head in range(graph.num_nodes):
        boundary = torch.zeros(graph.num_nodes, len(network.query), dtype=graph.dtype)
        boundary[head] = network.query
        X = boundary
        for layer in network.layers:
            X = literal_layer(layer, X, boundary, graph)
        first, _, second = network.head
        hidden = torch.relu(literal.affine(first, torch.cat([X, network.query.expand_as(X)], dim=1)))
        rows.append(literal.affine(second, hidden).squeeze(1))
    return torch.stack(rows)


GRAPHS = {
    "random": lambda: doubled(literal.random_graph(3, nodes=8, slots=3, edges=9)),
    "path": lambda: path_graph(9),
    "loops and copies": lambda: path_graph(9, [(2, 0, 2), (2, 0, 2), (5, 1, 6), (0, 2, 7)]),
    "no edges": lambda: doubled(literal.random_graph(0, nodes=4, slots=3, edges=0)),
}


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_planned_rows_give_the_scores_and_gradients_of_the_whole_propagation(name, layers):
    graph, network = GRAPHS[name](), network_of(layers)
    pairs = torch.cartesian_prod(torch.arange(graph.num_nodes), torch.arange(graph.num_nodes))
    picked = pairs[torch.from_numpy(np.random.default_rng(0).permutation(len(pairs))[:12])]
    expected = literal_scores(network, graph)[picked[:, 0], picked[:, 1]]
    found = network(Neighbours.of(graph), picked[:, 0], picked[:, 1])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    weights, parameters = torch.arange(12, dtype=torch.float64), list(network.parameters())
    slopes, wanted = (
        torch.autograd.grad((weights * scores).sum(), parameters, retain_graph=True, materialize_grads=True)
        for scores in (found, expected)
    )
    torch.testing.assert_close(slopes, wanted, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("edges", [1, 5])
def test_rows_computed_by_blocks_are_those_computed_at_once(monkeypatch, edges):
    graph, network = GRAPHS["loops and copies"](), network_of()
    pairs = torch.cartesian_prod(torch.arange(graph.num_nodes), torch.arange(graph.num_nodes))

    def scores_and_slopes():
        scores = network(Neighbours.of(graph), *pairs.unbind(dim=1))
        return [scores, *torch.autograd.grad(scores.square().sum(), list(network.parameters()))]

    expected = scores_and_slopes()
    monkeypatch.setitem(propagation.EDGES, "cpu", edges)
    torch.testing.assert_close(scores_and_slopes(), expected, rtol=1e-9, atol=1e-9)


def test_a_plan_leaves_out_what_cannot_matter():
    """On a long path only the nodes between a head and a scored node three steps on have rows of their own."""
    neighbours = Neighbours.of(path_graph(50))

    def nodes(tail):
        planned = plan(neighbours, torch.tensor([10]), torch.tensor([tail]), 3)
        return planned.is_head.tolist(), [step.nodes.tolist() for step in planned.steps]

    # The background's rows come first: below, a zero; after the first layer, one for each of the degrees 0, 1 and 2.
    assert nodes(13) == ([False, True], [[49, 0, 1, 11], [13, 14, 12], [13]])
    assert nodes(20) == ([False], [[49, 0, 1], [19, 20, 21], [20]])


def test_messages_of_one_row_into_another_are_computed_once_and_counted():
    """The hub's twenty neighbours are all of degree one, so that after the first layer they share a row."""
    star = [(0, leaf % 3, leaf) for leaf in range(1, 21)]
    graph = doubled(TypedGraph(*torch.tensor([*star, (21, 0, 22)]).unbind(dim=1), 23, 3, torch.float64))
    second = plan(Neighbours.of(graph), torch.tensor([21]), torch.tensor([0]), 3).steps[1]
    into_hub = second.nodes[second.receivers] == 0
    assert second.copies[into_hub].tolist() == [20]
    assert second.copies[~into_hub].tolist() == [1] * 20


def test_every_relation_has_the_same_score_to_the_last_bit_however_it_is_asked_for():
    graph = doubled(literal.random_graph(1, nodes=9, slots=5, edges=16, dtype=torch.float32))
    score = pair_scores(network_of(width=8).float(), Neighbours.of(graph))
    sizes = (9, 5, 9)
    triples = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1).reshape(-1, 3)
    triples = np.random.default_rng(0).permutation(triples)
    found = np.concatenate([score(part).numpy() for part in np.array_split(triples, 7)])
    table = np.empty(sizes, dtype=np.float32)
    table[tuple(triples.T)] = found
    assert (table == table[:, :1]).all()
    assert len(np.unique(table[:, 0])) > 40


@pytest.mark.parametrize("place", [0, 4])
def test_a_positive_is_scored_as_if_its_edge_had_never_been_there(place):
    rows = [(0, 0, 1), (1, 1, 2), (0, 2, 1), (2, 0, 3), (3, 1, 0), (4, 0, 3)]
    network = network_of()

    def graph_of(kept):
        return by_tail(doubled(TypedGraph(*torch.tensor(kept).unbind(dim=1), 6, 3, torch.float64)))

    positive = np.array([rows[place]])
    asked = np.concatenate([positive, positive[:, [TAIL, RELATION, HEAD]] + np.array([0, 3, 0])])[:, None]
    whole, never = graph_of(rows), graph_of(rows[:place] + rows[place + 1 :])
    nothing = np.empty((0, 3), dtype=np.int64)
    expected = logits_of(network, never, nothing, asked)
    torch.testing.assert_close(logits_of(network, whole, positive, asked), expected, rtol=1e-12, atol=1e-12)
    assert (logits_of(network, whole, nothing, asked) - expected).abs().min() > 1e-6


def test_a_loss_and_its_gradients_are_the_same_bits_with_one_thread_and_with_two(same_bits):
    graph = doubled(literal.random_graph(4, nodes=900, slots=3, edges=4000, dtype=torch.float32))
    network = network_of(width=16).float()
    pairs = torch.from_numpy(np.random.default_rng(0).integers(0, 900, size=(600, 2)))

    def loss_and_gradients():
        loss = query_loss(network(Neighbours.of(graph), *pairs.unbind(dim=1)).view(200, 3), 1.0)
        return [loss, *torch.autograd.grad(loss, list(network.parameters()))]

    same_bits(loss_and_gradients)


def test_half_of_a_batch_asks_for_tails_and_half_for_heads():
    positives = np.arange(15).reshape(5, 3)
    expected = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [11, 110, 9], [14, 113, 12]]
    assert queries_of(positives, 100).tolist() == expected


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_the_loss_weighs_negatives_by_their_own_scores_without_gradient(temperature):
    logits = torch.tensor([[0.3, -0.2, 1.5], [2.0, 0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    total, gradient = 0.0, []
    for positive, *negatives in logits.tolist():
        weights = np.exp(np.array(negatives) / temperature)
        weights /= weights.sum()
        losses = np.log1p(np.exp(negatives))
        total += (math.log1p(math.exp(-positive)) + (weights * losses).sum()) / 2 / 2
        slopes = weights / (1 + np.exp(-np.array(negatives)))
        gradient.append([-1 / (1 + math.exp(positive)) / 4, *(slopes / 4)])
    loss = query_loss(logits, temperature)
    assert loss.item() == pytest.approx(total)
    (found,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(found, torch.tensor(gradient, dtype=torch.float64))
