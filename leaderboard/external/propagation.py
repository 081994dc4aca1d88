"""Networks of Bellman-Ford type (NBFNet, Zhu et al. 2021), computed only where a query makes a difference.

A layer computes the next state of a node from its state x and the sum of x_u * w_k over its in-edges of type k from u.
A query begins at one node: after a layer, only the neighbours of that node differ from the states that the relation has
without a start, and the score of an end only depends on a few layers of neighbours of its own. So the network is
computed once per relation on the whole graph, and per query only the difference, between the start and the ends; and it
is computed once for all nodes with the same neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, embedding_bag, linear

from mtbench.data.ragged import spread
from mtbench.data.splits import unique
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray

Edges: TypeAlias = tuple[IntArray, IntArray, IntArray, IntArray]
"""Edges ``(e,)``: where they lead, their types, the rows that they come from, and their multiplicities."""


CPU = torch.device("cpu")

Theirs: TypeAlias = Any
"""A network of the authors, or a layer of it; its parts have the names of their code."""


class RelationalSum:
    """The generalised relational sum of ``size`` nodes: the sum of weight times state over their in-edges.

    Edges ``(e,)``, each counted so many ``times``, have one of ``kinds`` types and come from rows of a table of states.
    """

    def __init__(self, edges: Edges, kinds: int, size: int, device: torch.device = CPU) -> None:
        into, kind, source, times = edges
        pairs = into * kinds + kind
        order = np.argsort(pairs, kind="stable")
        first = _first(pairs[order])
        self.source = torch.from_numpy(source[order]).to(device)
        self.times = torch.from_numpy(times[order].astype(np.float32)).to(device)
        self.first = torch.from_numpy(first).to(device)
        pairs = pairs[order][first]
        self.kind = torch.from_numpy(pairs % kinds).to(device)
        self.starts = torch.from_numpy(np.searchsorted(pairs, np.arange(size) * kinds)).to(device)

    def __call__(self, weights: Tensor, states: Tensor) -> Tensor:
        """Return the sums ``(size, *d)`` by the weights of all types ``(kinds, *d)`` and states ``(n, *d)``.

        States that enter a node by the same type are added first, and then multiplied once.
        """
        added = sums(self.source, self.first, states.flatten(1), self.times)
        weighted = added.mul_(weights.flatten(1).index_select(0, self.kind))
        every = torch.arange(len(weighted), device=weighted.device)
        return sums(every, self.starts, weighted).reshape(-1, *states.shape[1:])


def scatter_add(values: Tensor, index: Tensor, dim: int = 0, dim_size: int | None = None) -> Tensor:
    """Return the sums of values ``(n, *d)`` by index, like the function of that name in torch_scatter."""
    size = int(index.max()) + 1 if dim_size is None else dim_size
    return values.new_zeros(size, *values.shape[1:]).index_add_(dim, index, values)


def rspmm(edges: Tensor, kind: Tensor, _: Tensor, weights: Tensor, states: Tensor, **__: str) -> Tensor:
    """Return the relational sum of the kernel of ULTRA and TRIX; edge weights are 1 except in training."""
    into, source = edges.cpu().numpy()
    of_edges = into, kind.cpu().numpy(), source, np.ones_like(into)
    return RelationalSum(of_edges, len(weights), len(states), states.device)(weights, states)


def sums(rows: Tensor, starts: Tensor, values: Tensor, times: Tensor | None = None) -> Tensor:
    """Return the sums of ``values[rows]``, of values ``(n, w)``, from each start to the next; rows count ``times``.

    They are added in order, also by a CUDA device: nodes with the same edges have the same sum to the last bit.
    """
    return embedding_bag(rows, values, starts, mode="sum", per_sample_weights=times)


def _picked(values: Tensor, rows: IntArray, columns: IntArray) -> Tensor:
    """Return ``values[rows][:, columns]`` of values ``(n, q, d)``, in a tenth of that expression's time."""
    return embedding(torch.from_numpy(rows[:, None] * values.shape[1] + columns), values.flatten(0, 1))


def _first(ordered: IntArray) -> IntArray:
    """Return the first place of each distinct number in increasing order."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


@dataclass(frozen=True, eq=False)
class Relations:
    """The common part of all queries by some relations, which are the second axis of all tensors.

    ``own`` ``(1, q, d)`` is the first state of a start. Of each layer, ``weights`` ``(kinds, q, d)`` are those of the
    types, and ``before`` ``(c, q, d)`` is the result without a start, before the norm; ``last`` are the final states.
    """

    own: Tensor
    weights: Sequence[Tensor]
    before: Sequence[Tensor]
    last: Tensor

    @property
    def bytes(self) -> int:
        """The memory they take, in bytes."""
        return sum(tensor.nbytes for tensor in (self.own, *self.weights, *self.before, self.last))


@dataclass(frozen=True, eq=False)
class Twins:
    """A graph of classes of nodes: nodes with the same neighbours by the same types have the same state.

    ``of`` ``(n,)`` is the class of a node, ``sizes`` ``(c,)`` the number of nodes in a class. Edges ``(e,)`` lead into
    a node of a class, those into class i from ``begin[i]`` to ``begin[i + 1]``; ``number`` come from each node of the
    class ``source``.
    """

    of: IntArray
    sizes: IntArray
    begin: IntArray
    kind: IntArray
    source: IntArray
    number: IntArray


def twins(triples: IntArray, nodes: int, kinds: int) -> Twins:
    """Return the classes of a graph whose type r leads from tail to head, and r + ``kinds`` / 2 from head to tail."""
    heads, relations, tails = triples[:, HEAD], triples[:, RELATION], triples[:, TAIL]
    into, ends = np.concatenate((heads, tails)), np.concatenate((tails, heads)) * kinds
    ends += np.concatenate((relations, relations + kinds // 2))
    order = np.lexsort((ends, into))
    ends, begin = ends[order], np.searchsorted(into[order], np.arange(nodes + 1))
    # The bytes of a node's sorted edges are the key of its class.
    classes: dict[bytes, int] = {}
    of = np.array(
        [classes.setdefault(ends[i:j].tobytes(), len(classes)) for i, j in itertools.pairwise(begin.tolist())]
    )
    _, first, sizes = np.unique(of, return_index=True, return_counts=True)
    rows, owner = spread(begin[first], begin[first + 1])
    edges = owner * len(first) * kinds + of[ends[rows] // kinds] * kinds + ends[rows] % kinds
    edges, counts = np.unique(edges, return_counts=True)
    source = edges // kinds % len(first)
    place = np.searchsorted(edges // kinds // len(first), np.arange(len(first) + 1))
    # Edges from all nodes of a class were counted: divided by their number, those from each of them.
    return Twins(of, sizes, place, edges % kinds, source, counts // sizes[source])


@dataclass(frozen=True, eq=False)
class Network:
    """Layers with residual connections on a graph, and the map that scores an end by its last state."""

    layers: Sequence[Theirs]
    mlp: Callable[[Tensor], Tensor]
    graph: Twins

    def relations(self, representations: Tensor, asked: Tensor) -> Relations:
        """Return the common part of queries by some relations ``(q,)``.

        Representations are ``(kinds, q, d)``: those of all types, relative to each relation that is asked for.
        """
        own, graph = representations[asked, torch.arange(len(asked))][None], self.graph
        into = np.repeat(np.arange(len(graph.sizes)), np.diff(graph.begin))
        edges = into, graph.kind, graph.source, graph.number * graph.sizes[graph.source]
        summing = RelationalSum(edges, len(representations), len(graph.sizes))
        state = torch.zeros(len(graph.sizes), *own.shape[1:])
        weights, before = list[Tensor](), list[Tensor]()
        for layer in self.layers:
            weights.append(layer.relation_projection(representations))
            summed = summing(weights[-1], state)
            before.append(layer.linear(torch.cat((state, summed), dim=-1)))
            state = state + layer.activation(layer.layer_norm(before[-1]))
        return Relations(own, weights, before, state)

    def scores(self, shared: Relations, columns: IntArray, start: int, ends: IntArray) -> Tensor:
        """Return the scores ``(e, q)`` of some ends for queries from a start by the relations in some ``columns``."""
        graph, own = self.graph, shared.own[:, torch.from_numpy(columns)]
        from_start = Start(graph, start)
        rows, place = np.unique(np.where(ends == start, from_start.row, graph.of[ends]), return_inverse=True)
        within = from_start.between(rows, len(self.layers))
        there = within[0]
        changed = own[: len(there)]
        position, every = np.full(len(graph.sizes) + 1, -1), np.arange(len(shared.weights[0]))
        for layer, weights, before, nodes in zip(self.layers, shared.weights, shared.before, within[1:], strict=True):
            position[there] = np.arange(len(there))
            into, kind, source, times = from_start.edges(nodes)
            near = position[source] >= 0
            edges = into[near], kind[near], position[source[near]], times[near]
            summed = RelationalSum(edges, len(every), len(nodes))(_picked(weights, every, columns), changed)
            summed[nodes == from_start.row] += own
            stays = position[nodes]
            position[there] = -1
            here = torch.from_numpy(np.flatnonzero(stays >= 0))
            stayed = changed.index_select(0, torch.from_numpy(stays[stays >= 0]))
            # The linear map of the difference is added to ``before``: only what the start changes is computed.
            of_state, of_sum = layer.linear.weight.chunk(2, dim=1)
            without = _picked(before, from_start.of[nodes], columns)
            now = linear(summed, of_sum).add_(without).index_add_(0, here, linear(stayed, of_state))
            changed = layer.activation(layer.layer_norm(now)).sub_(layer.activation(layer.layer_norm(without)))
            changed.index_add_(0, here, stayed)
            there = nodes
        last = _picked(shared.last, from_start.of[rows], columns)
        last.index_add_(0, torch.from_numpy(np.searchsorted(rows, there)), changed)
        return self.mlp(torch.cat((last, own.expand_as(last)), dim=-1)).squeeze(-1)[torch.from_numpy(place)]


class Whole:
    """The layers of such networks on all nodes of a graph at once, for queries from different starts.

    Where every end of a query is asked for, it takes the place of `Network`: a query is a column of all tensors.
    """

    def __init__(self, graph: Twins, kinds: int, device: torch.device) -> None:
        members = np.argsort(graph.of, kind="stable")
        place = np.cumsum(graph.sizes) - graph.sizes
        first, second = members[place], members[place + (graph.sizes > 1)]
        self.of, self.first, self.second = (torch.from_numpy(rows).to(device) for rows in (graph.of, first, second))
        edges, into = spread(graph.begin[graph.of], graph.begin[graph.of + 1])
        # An edge from a class of nodes is one from each of them.
        begin = place[graph.source[edges]]
        nodes, edge = spread(begin, begin + graph.sizes[graph.source[edges]])
        self.edges: Edges = into[edge], graph.kind[edges][edge], members[nodes], graph.number[edges][edge]
        self.summing = RelationalSum(self.edges, kinds, len(graph.of), device)
        self.width = 2 * len(self.summing.kind) + 8 * len(graph.of)
        """The most numbers that a layer holds for each query and each of its dimensions."""

    def states(self, layers: Sequence[Theirs], weights: Sequence[Tensor], begun: Tensor) -> Tensor:
        """Return the last states ``(n, q, d)`` from the first ones, by the weights of all types in each layer."""
        state = begun
        for layer, weight in zip(layers, weights, strict=True):
            summed = self.summing(weight, state) + begun
            state = state + layer.activation(layer.layer_norm(layer.linear(torch.cat((state, summed), dim=-1))))
        return state

    def begun(self, own: Tensor, starts: Tensor) -> Tensor:
        """Return the first states ``(n, q, d)`` of queries from some starts, which have states ``(q, d)``."""
        state = own.new_zeros(len(self.of), *own.shape)
        state[starts, torch.arange(len(starts), device=own.device)] = own
        return state

    def alike(self, scores: Tensor, starts: Tensor) -> Tensor:
        """Return scores ``(q, n)`` in which nodes with the same neighbours have one score: they differ by rounding."""
        first, column = self.first[self.of], torch.arange(len(starts), device=starts.device)
        # A start is no longer like its class, whose score then is that of another node.
        own = self.first[self.of[starts]] == starts
        others = scores[column, self.second[self.of[starts]]][:, None]
        same = torch.where(own[:, None] & (self.of == self.of[starts][:, None]), others, scores[:, first])
        same[column, starts] = scores[column, starts]
        return same


class Start:
    """A graph as a query sees it: the start leaves its class and has a ``row`` of its own after all classes.

    ``of`` is the class of each row, whose edges it has. A start that is alone in its class keeps the row of the class.
    A query may begin at several nodes: ``rows`` has the row of each, ``row`` is the first.
    """

    def __init__(self, graph: Twins, *nodes: int) -> None:
        self.graph, number = graph, len(graph.sizes)
        self.rows = {node: int(graph.of[node]) for node in nodes}
        own = {node: row for node, row in self.rows.items() if graph.sizes[row] > 1}
        self.twins = list(zip(own.values(), itertools.count(number)))
        self.rows |= dict(zip(own, itertools.count(number)))
        self.row = self.rows[nodes[0]]
        classes = np.array(list(own.values()), dtype=np.int64)
        self.of = np.append(np.arange(number), classes)
        self.sizes = np.append(graph.sizes - np.bincount(classes, minlength=number), np.ones_like(classes))

    def edges(self, rows: IntArray) -> Edges:
        """Return the edges into some rows, each by its place among them."""
        graph, classes = self.graph, self.of[rows]
        edges, into = spread(graph.begin[classes], graph.begin[classes + 1])
        source = graph.source[edges]
        # Edges from the class of a start are those of its other nodes; the start's own are added.
        for own, row in self.twins:
            twin = np.flatnonzero(source == own)
            edges, into = np.append(edges, edges[twin]), np.append(into, into[twin])
            source = np.append(source, np.full(len(twin), row))
        return into, graph.kind[edges], source, graph.number[edges] * self.sizes[source]

    def between(self, ends: IntArray, steps: int) -> list[IntArray]:
        """Return for 0 to ``steps`` steps the rows that the start reaches in so many and an end is reached from in
        the rest.
        """
        ahead, behind = self.reached(np.array([self.row]), steps), self.reached(ends, steps)
        return [np.flatnonzero(some & others) for some, others in zip(ahead, reversed(behind), strict=True)]

    def reached(self, rows: IntArray, steps: int) -> list[BoolArray]:
        """Return which rows some rows reach in up to 0, 1, ... ``steps`` steps, bool each."""
        within = [np.zeros(len(self.of), dtype=np.bool_)]
        within[0][rows] = True
        for _ in range(steps):
            near = self.edges(rows)[2]
            rows = unique(near[~within[-1][near]])
            within.append(within[-1].copy())
            within[-1][rows] = True
        return within
