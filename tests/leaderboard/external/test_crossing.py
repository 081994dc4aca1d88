"""What is computed near a start and around ends, and by patterns, is what loops over both graphs give."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from leaderboard.external import trix
from leaderboard.external.propagation import twins
from leaderboard.external.trix import Entities, Graph, Relations

NODES, HALF, WIDTH = 18, 3, 4
PARTS = {"hh": (0, 0), "ht": (0, 1), "th": (1, 0), "tt": (1, 1)}


def layer():
    projection = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    norm = nn.LayerNorm(WIDTH)
    nn.init.normal_(norm.bias)
    linear = nn.Linear(2 * WIDTH, WIDTH)
    return SimpleNamespace(linear=linear, layer_norm=norm, relation_projection=projection, activation=torch.relu)


def of_relations(depth):
    layers = {f"layers_{part}": [layer() for _ in range(depth)] for part in PARTS}
    return SimpleNamespace(node_mlp=nn.Linear(2 * WIDTH, WIDTH), **layers)


def of_entities(depth, out):
    return SimpleNamespace(layers=[layer() for _ in range(depth)], mlp=nn.Linear(2 * WIDTH, out))


@pytest.fixture
def triples(tangled):
    return tangled  # of type 2 there is none


@pytest.fixture
def graph(triples):
    torch.manual_seed(0)
    return Graph(twins(triples, NODES, 2 * HALF), 2 * HALF)


def later(one, state, summed):
    return torch.relu(one.layer_norm(one.linear(torch.cat((state, summed), dim=1))))


def along_edges(layers, triples, types, begun, state):
    """Return the states of all entities after some layers, edge by edge."""
    for one in layers:
        weights, summed = one.relation_projection(types), begun.clone()
        for head, kind, tail in triples.tolist():
            summed[head] += state[tail] * weights[kind]
            summed[tail] += state[head] * weights[kind + HALF]
        state = later(one, state, summed) + state
    return state


def across(model, numbers, triples, entities, begun, state):
    """Return the states of all relations after some layers, by every pair of relations at every entity."""
    ends = [[set(), set()] for _ in range(NODES)]
    for head, kind, tail in triples.tolist():
        for place, by in ((head, kind), (tail, kind + HALF)):
            ends[place][0].add(by)
            ends[place][1].add((by + HALF) % (2 * HALF))
    for number in numbers:
        changes = torch.zeros_like(state)
        for part, (first, second) in PARTS.items():
            one = getattr(model, f"layers_{part}")[number]
            weights, summed = one.relation_projection(entities), begun.clone()
            for node, there in enumerate(ends):
                for into in there[first]:
                    for source in there[second]:
                        if first != second or into != source:
                            summed[into] += state[source] * weights[node]
            changes += later(one, state, summed)
        state = state + changes
    return state


def beside(state, own):
    return torch.cat((state, own.expand_as(state)), dim=1)


@torch.inference_mode()
@pytest.mark.parametrize("held", [trix.HELD, 0])
def test_ends_score_as_on_the_whole_graph_whatever_is_asked_with_them(triples, graph, monkeypatch, held):
    monkeypatch.setattr(trix, "HELD", held)
    one, two, relations = of_entities(2, 1), of_entities(4, 1), of_relations(3)
    network = Entities(SimpleNamespace(relation_model=relations, entity_model_1=one, entity_model_2=two), graph)

    def literal(start, asked):
        begun, at_start = torch.zeros(2 * HALF, WIDTH), torch.zeros(NODES, WIDTH)
        begun[asked % HALF] = 1
        types = across(relations, [0], triples, torch.ones(NODES, WIDTH), begun, begun)
        at_start[start] = types[asked]
        entities = relations.node_mlp(beside(along_edges(one.layers, triples, types, at_start, at_start), types[asked]))
        types = across(relations, [1, 2], triples, entities, begun, types)
        at_start[start] = types[asked]
        return two.mlp(beside(along_edges(two.layers, triples, types, at_start, at_start), types[asked]))[:, 0]

    for start in (0, 3, 9, 11, 12, 15, 17) if held else (0, 12):
        for asked in (np.array([0, 3, 4]), np.array([5])):
            expected = torch.stack([literal(start, kind) for kind in asked.tolist()], dim=1)
            for ends in (np.arange(NODES), *(np.array([end]) for end in (0, 3, 10, 12, 13, 15, 16))):
                found = network.scores(start, asked, ends)
                torch.testing.assert_close(found, expected[ends], rtol=1e-4, atol=1e-4)
    assert bool(network.known) == bool(held)


@torch.inference_mode()
def test_relations_score_as_on_the_whole_graph(triples, graph):
    relations, entities = [of_relations(2) for _ in range(3)], [of_entities(2, WIDTH) for _ in range(3)]
    mlp = nn.Linear(WIDTH, 1)
    network = Relations(SimpleNamespace(relation_model=relations, entity_model=entities, mlp=mlp), graph)
    for head, tail in ((0, 3), (12, 13), (15, 14), (9, 9)):
        types, begun = torch.ones(2 * HALF, WIDTH), torch.zeros(NODES, WIDTH)
        begun[head] += 1
        begun[tail] -= 1
        state = begun
        for one, other in zip(entities, relations, strict=True):
            state = along_edges(one.layers, triples, types, begun, state)
            state = one.mlp(beside(state, torch.ones(WIDTH)))
            types = across(other, range(2), triples, state, torch.ones(2 * HALF, WIDTH), types)
        torch.testing.assert_close(network.scores(head, tail), mlp(types)[:HALF, 0], rtol=1e-4, atol=1e-4)
