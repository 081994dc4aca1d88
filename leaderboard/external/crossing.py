"""Networks that turn the states of entities into those of relations and back (TRIX, Zhang et al. 2024).

A layer of relations has an edge from one to another for every entity that is the head of both, the tail of both, or one
for each, and the type of the edge is that entity. There are as many as pairs of relations at all entities, so that
nothing is summed over them: the relations at an entity are added up, and entities with the same ones are a pattern.

A query for entities begins at one: two layers later only what is two steps from it differs from what its relations give
for others of the same degrees, and a score depends on two steps around its end. A query for relations begins at two
entities, and every state differs; it is computed once for all entities with the same neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from leaderboard.external.propagation import Layer, RelationalSum, Start, Twins, sums
from mtbench.data.splits import unique
from mtbench.names import IntArray


class Projected(Layer, Protocol):
    """A layer whose map to its own weights has two linear maps, and what is between them."""

    relation_projection: nn.Sequential


def parts(layer: Projected) -> tuple[nn.Linear, nn.Module, nn.Linear]:
    """Return the linear maps of a layer's map to its weights, and what is between them."""
    first, between, last = layer.relation_projection
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    return first, between, last


class OfRelations(Protocol):
    """Layers of relations, each of four parts: by an entity that is the head or the tail of one and of the other."""

    layers_hh: Sequence[Projected]
    layers_ht: Sequence[Projected]
    layers_th: Sequence[Projected]
    layers_tt: Sequence[Projected]


class Mixing(OfRelations, Protocol):
    """Layers of relations with a map of the states of entities to their weights."""

    node_mlp: Callable[[Tensor], Tensor]


class OfEntities(Protocol):
    """Layers of entities, and what makes of the last states, beside the relation's, a score or the next states."""

    layers: Sequence[Layer]
    mlp: Callable[[Tensor], Tensor]


class ForEntities(Protocol):
    """A network that scores the ends of (h, r, ?)."""

    relation_model: Mixing
    entity_model_1: OfEntities
    entity_model_2: OfEntities


class ForRelations(Protocol):
    """A network that scores the relations of (h, ?, t)."""

    relation_model: Sequence[OfRelations]
    entity_model: Sequence[OfEntities]
    mlp: Callable[[Tensor], Tensor]


AT_ONCE = 16
"""Queries that are computed together."""

HELD = 2**30
"""Bytes of what is kept of queries for further ends; of those that do not fit it is computed again."""


class Graph:
    """A graph in which entities with the same neighbours are one, and how many edges of each type lead into them.

    ``degrees`` ``(k, kinds)`` are the distinct ones, ``alike`` ``(c,)`` which of them a class has, ``pattern`` ``(k,)``
    which pattern they are, and ``heads`` ``(kinds, p)`` which types those have.
    """

    def __init__(self, twins: Twins, kinds: int) -> None:
        self.twins, self.kinds = twins, kinds
        degrees = np.zeros((len(twins.sizes), kinds), dtype=np.float32)
        into = np.repeat(np.arange(len(degrees)), np.diff(twins.begin))
        np.add.at(degrees, (into, twins.kind), twins.number * twins.sizes[twins.source])
        distinct, self.alike = np.unique(degrees, axis=0, return_inverse=True)
        there, self.pattern = np.unique(distinct > 0, axis=0, return_inverse=True)
        self.degrees, self.heads = torch.from_numpy(distinct), torch.from_numpy(there.T.astype(np.float32))


def width(model: OfRelations) -> int:
    """Return how wide the states of a network are."""
    return model.layers_hh[0].linear.out_features


def changed(layer: Layer, state: Tensor, summed: Tensor) -> Tensor:
    """Return by how much a layer changes states ``(n, q, d)`` of which these are the sums."""
    return layer.activation(layer.layer_norm(layer.linear(torch.cat((state, summed), dim=-1))))


class Crossing:
    """Layers of relations on a graph whose entities have some states ``(n, q, d)``.

    A row of these counts so many ``times``, and is of the pattern ``of`` ``(n,)``.
    """

    def __init__(
        self, graph: Graph, model: OfRelations, layers: Sequence[int], states: Tensor, times: IntArray, of: IntArray
    ) -> None:
        self.heads = graph.heads
        four = model.layers_hh, model.layers_ht, model.layers_th, model.layers_tt
        self.layers = [[part[number] for part in four] for number in layers]
        first, between, last = zip(*(parts(part) for layer in self.layers for part in layer), strict=True)
        weight, bias = torch.cat([one.weight for one in first]), torch.cat([one.bias for one in first])
        hidden = between[0](linear(states, weight, bias))
        order = np.argsort(of, kind="stable")
        starts = np.searchsorted(of[order], np.arange(graph.heads.shape[1]))
        often = torch.from_numpy(times[order].astype(np.float32))
        added = sums(order, starts, hidden.flatten(1), often).reshape(-1, *hidden.shape[1:])
        number = sums(order, starts, torch.ones(len(states), 1), often)[:, None]
        found = zip(last, added.chunk(len(last), dim=-1), strict=True)
        self.weights = [linear(some, one.weight) + one.bias * number for one, some in found]

    def __call__(self, state: Tensor, begun: Tensor) -> Tensor:
        """Return the last states of relations from the first ones ``(kinds, q, d)``; every layer begins anew."""
        half = len(state) // 2
        for number, layers in enumerate(self.layers):
            by = self.weights[4 * number :][:4]
            at_head, at_tail = self._added(state), self._added(state.roll(half, 0))
            joined = by[0] * at_head, by[1] * at_tail, by[2] * at_head, by[3] * at_tail, by[0], by[3]
            of_head = (self.heads @ torch.cat([one.flatten(1) for one in joined], dim=1)).reshape(half * 2, 6, -1)
            hh, ht, th, tt, h, t = (one.reshape(state.shape) for one in of_head.unbind(1))
            summed = hh - h * state, ht, th.roll(half, 0), tt.roll(half, 0) - t.roll(half, 0) * state
            changes = [changed(layer, state, some + begun) for layer, some in zip(layers, summed, strict=True)]
            state = state + torch.stack(changes).sum(0)
        return state

    def _added(self, states: Tensor) -> Tensor:
        """Return the sum of states ``(kinds, q, d)`` over the types of each pattern."""
        return (self.heads.T @ states.flatten(1)).reshape(-1, *states.shape[1:])


class Around:
    """A graph as queries of one start see it: what is two steps from it, beside those of the same degrees elsewhere.

    States of both, the latter first, are a table: ``place`` says where in it a row is.
    """

    def __init__(self, graph: Graph, start: int) -> None:
        self.graph, self.start, self.view = graph, start, Start(graph.twins, start)
        _, once, twice = self.view.reached(np.array([self.view.row]), 2)
        self.once, self.twice, elsewhere = np.flatnonzero(once), np.flatnonzero(twice), len(graph.degrees)
        self.alike = graph.alike[self.view.of]
        self.place = self.alike.copy()
        self.place[self.twice] = np.arange(elsewhere, elsewhere + len(self.twice))
        self.begun, self.within = (np.searchsorted(rows, self.view.row) for rows in (self.once, self.twice))
        self.stays = torch.from_numpy(np.searchsorted(self.twice, self.once))
        into, kind, source, times = self.view.edges(self.once)
        near = source == self.view.row
        first = into[near], kind[near], np.zeros_like(into[near]), times[near]
        self.first = RelationalSum(first, graph.kinds, len(self.once))
        into, kind, source, times = self.view.edges(self.twice)
        near = once[source]
        second = into[near], kind[near], np.searchsorted(self.once, source[near]), times[near]
        self.second = RelationalSum(second, graph.kinds, len(self.twice))
        times = self.view.sizes[self.twice]
        every = np.bincount(graph.alike, weights=graph.twins.sizes, minlength=elsewhere)
        without = np.bincount(self.alike[self.twice], weights=times, minlength=elsewhere)
        self.times = np.append(every - without, times)
        self.pattern = graph.pattern[np.append(np.arange(elsewhere), self.alike[self.twice])]

    def states(self, layers: Sequence[Layer], weights: Sequence[Tensor], own: Tensor) -> Tensor:
        """Return the table of states after two layers of which the weights and what begins at the start are given."""
        rest = layers[0].activation(layers[0].layer_norm(layers[0].linear.bias))
        state = own.new_zeros(len(self.once), *own.shape)
        state[self.begun] = own
        summed = self.first(weights[0], own[None])
        summed[self.begun] += own
        state += changed(layers[0], state, summed)
        summed = (self.graph.degrees @ weights[1].flatten(1)).reshape(-1, *own.shape).mul_(rest)
        near = summed[self.alike[self.twice]] + self.second(weights[1], state - rest)
        near[self.within] += own
        states = rest.expand(len(summed) + len(near), *own.shape).clone()
        states[len(summed) + self.stays] = state
        return states.add_(changed(layers[1], states, torch.cat((summed, near))))

    def at(
        self, ends: IntArray, layers: Sequence[Layer], weights: Sequence[Tensor], own: Tensor, table: Tensor
    ) -> Tensor:
        """Return the states of some ends two layers later."""
        rows, place = np.unique(
            np.where(ends == self.start, self.view.row, self.graph.twins.of[ends]), return_inverse=True
        )
        near = unique(np.append(rows, self.view.edges(rows)[2]))
        state = self._later(near, layers[0], weights[0], own, table, self.place)
        places = np.zeros_like(self.place)
        places[near] = np.arange(len(near))
        return self._later(rows, layers[1], weights[1], own, state, places)[place]

    def _later(
        self, rows: IntArray, layer: Layer, weights: Tensor, own: Tensor, states: Tensor, place: IntArray
    ) -> Tensor:
        into, kind, source, times = self.view.edges(rows)
        summed = RelationalSum((into, kind, place[source], times), self.graph.kinds, len(rows))(weights, states)
        summed[rows == self.view.row] += own
        state = states[torch.from_numpy(place[rows])]
        return state.add_(changed(layer, state, summed))


class Entities:
    """A network for (h, r, ?) on a graph. What it makes of a relation before a start is known, is computed once.

    What it makes of the relations for a query is kept, for further ends that are asked for later.
    """

    def __init__(self, model: ForEntities, graph: Graph) -> None:
        self.model, self.graph, relations = model, graph, model.relation_model
        kinds, patterns = graph.heads.shape
        sizes = np.bincount(graph.pattern[graph.alike], weights=graph.twins.sizes, minlength=patterns)
        first = list[Tensor]()
        for begin in range(0, kinds // 2, AT_ONCE):
            begun = torch.eye(kinds, kinds // 2)[:, begin : begin + AT_ONCE, None].expand(-1, -1, width(relations))
            every = torch.ones(patterns, *begun.shape[1:])
            first.append(Crossing(graph, relations, [0], every, sizes, np.arange(patterns))(begun, begun))
        self.first = torch.cat(first, dim=1)
        self.known: dict[tuple[int, int], Tensor] = {}

    def scores(self, start: int, asked: IntArray, ends: IntArray) -> Tensor:
        """Return the scores ``(e, q)`` of some ends for queries from a start by the types ``asked`` ``(q,)``.

        Relations are represented as seen from the relation, also where its inverse is asked.
        """
        two, around = self.model.entity_model_2, Around(self.graph, start)
        new = np.array([kind for kind in asked.tolist() if (start, kind) not in self.known], dtype=np.int64)
        made = dict(zip(new.tolist(), self._relations(around, new).unbind(1), strict=True)) if len(new) else {}
        last = torch.stack([made[kind] if kind in made else self.known[start, kind] for kind in asked.tolist()], dim=1)
        if (len(self.known) + len(made)) * last[:, 0].nbytes <= HELD:
            self.known |= {(start, kind): states for kind, states in made.items()}
        own = last[torch.from_numpy(asked), torch.arange(len(asked))]
        weights = [layer.relation_projection(last) for layer in two.layers]
        table = around.states(two.layers[:2], weights[:2], own)
        state = around.at(ends, two.layers[2:], weights[2:], own, table)
        return two.mlp(torch.cat((state, own.expand_as(state)), dim=-1)).squeeze(-1)

    def _relations(self, around: Around, asked: IntArray) -> Tensor:
        """Return the last states of relations ``(kinds, q, d)`` for queries from a start."""
        one, relations = self.model.entity_model_1, self.model.relation_model
        kinds, column = torch.from_numpy(asked), torch.arange(len(asked))
        seen_from = kinds % (self.graph.kinds // 2)
        first = self.first[:, seen_from]
        own = first[kinds, column]
        table = around.states(one.layers, [layer.relation_projection(first) for layer in one.layers], own)
        table = relations.node_mlp(torch.cat((table, own.expand_as(table)), dim=-1))
        begun = torch.zeros_like(first)
        begun[seen_from, column] = 1
        return Crossing(self.graph, relations, [1, 2], table, around.times, around.pattern)(first, begun)


class Relations:
    """A network for (h, ?, t) on a graph."""

    def __init__(self, model: ForRelations, graph: Graph) -> None:
        self.model, self.graph = model, graph

    def scores(self, head: int, tail: int) -> Tensor:
        """Return the scores of all types that are no inverses."""
        view, kinds = Start(self.graph.twins, head, tail), self.graph.kinds
        rows = len(view.of)
        summed = RelationalSum(view.edges(np.arange(rows)), kinds, rows)
        pattern = self.graph.pattern[self.graph.alike[view.of]]
        ones = torch.ones(kinds, 1, width(self.model.relation_model[0]))
        begun = ones.new_zeros(rows, *ones.shape[1:])
        begun[view.rows[head]] += 1
        begun[view.rows[tail]] -= 1
        state, types = begun, ones
        for entities, relations in zip(self.model.entity_model, self.model.relation_model, strict=True):
            for layer in entities.layers:
                state = state + changed(layer, state, summed(layer.relation_projection(types), state) + begun)
            state = entities.mlp(torch.cat((state, torch.ones_like(state)), dim=-1))
            types = Crossing(self.graph, relations, [0, 1], state, view.sizes, pattern)(types, ones)
        return self.model.mlp(types)[: kinds // 2].flatten()
