"""Networks of Bellman-Ford type (NBFNet, Zhu et al. 2021), computed only where a query makes a difference.

A layer turns the state x of a node and the sum of x_u * w_k, over the edges of type k that lead to it from u, into its
next state. A query begins at one node: a layer later only its neighbours differ from what the relation gives without
any beginning, and the score of an end depends on few layers of neighbours of its own. So the network is computed once
per relation on the whole graph, and per query, as the difference from that, between the start and the ends alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag, linear

from mtbench.data.splits import unique
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray
from mtbench.statistics.ragged import spread


class Layer(Protocol):
    """One layer: maps of the state beside the sum and of the relations to its own weights, a norm and what follows."""

    linear: nn.Linear
    relation_projection: Callable[[Tensor], Tensor]
    layer_norm: nn.LayerNorm
    activation: Callable[[Tensor], Tensor]


def relational_sum(
    into: IntArray, kind: IntArray, source: IntArray, weights: Tensor, states: Tensor, size: int
) -> Tensor:
    """Return the generalised relational sum of ``size`` nodes: weight times state over all edges that lead into them.

    Edges ``(e,)`` come from rows of ``states`` ``(n, *d)`` and have a row of ``weights`` ``(kinds, *d)`` by their type.
    States that enter a node by the same type are added first, and multiplied once.
    """
    pairs = into * len(weights) + kind
    order = np.argsort(pairs, kind="stable")
    first = _first(pairs[order])
    pairs = pairs[order][first]
    added = _sums(source[order], first, states.flatten(1))
    weighted = added.mul_(weights.flatten(1).index_select(0, torch.from_numpy(pairs % len(weights))))
    starts = np.searchsorted(pairs, np.arange(size) * len(weights))
    return _sums(np.arange(len(pairs)), starts, weighted).reshape(size, *states.shape[1:])


def _sums(rows: IntArray, starts: IntArray, values: Tensor) -> Tensor:
    """Return the sums of values ``(n, w)`` over the rows from each start to the next."""
    return embedding_bag(torch.from_numpy(rows), values, torch.from_numpy(starts), mode="sum")


def _picked(values: Tensor, rows: IntArray, columns: IntArray) -> Tensor:
    """Return ``values[rows][:, columns]`` of values ``(n, q, d)``, which takes a tenth of the time this way."""
    return embedding(torch.from_numpy(rows[:, None] * values.shape[1] + columns), values.flatten(0, 1))


def _first(ordered: IntArray) -> IntArray:
    """Return where a number in increasing order is not the one before."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


@dataclass(frozen=True, eq=False)
class Relations:
    """What every query of some relations shares, the relations in the second axis of all tensors.

    ``own`` ``(1, q, d)`` is what begins at a start, ``weights`` ``(kinds, q, d)`` are those of each layer, ``before``
    ``(n, q, d)`` is what each layer gives without a start, before its norm, and ``last`` the states after all of them.
    """

    own: Tensor
    weights: Sequence[Tensor]
    before: Sequence[Tensor]
    last: Tensor

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        return sum(tensor.nbytes for tensor in (self.own, *self.weights, *self.before, self.last))


@dataclass(frozen=True, eq=False)
class Network:
    """Layers with residual connections on a graph, and what scores the last state of an end beside the relation's.

    Type r of the ``triples`` ``(m, 3)`` leads from tail to head, type r + ``kinds`` / 2 from head to tail.
    """

    layers: Sequence[Layer]
    mlp: Callable[[Tensor], Tensor]
    triples: IntArray
    nodes: int
    kinds: int

    @cached_property
    def _edges(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return types and sources of all edges by the node they lead to, and where those of a node begin."""
        heads, relations, tails = self.triples[:, HEAD], self.triples[:, RELATION], self.triples[:, TAIL]
        into = np.concatenate((heads, tails))
        order = np.argsort(into, kind="stable")
        kind = np.concatenate((relations, relations + self.kinds // 2))[order]
        begin = np.searchsorted(into[order], np.arange(self.nodes + 1))
        return kind, np.concatenate((tails, heads))[order], begin

    def relations(self, representations: Tensor, asked: Tensor) -> Relations:
        """Return what queries of some relations ``(q,)`` share, by the representations of all types for each.

        These are ``(kinds, q, d)``: a type is represented in relation to the one that is asked for.
        """
        own = representations[asked, torch.arange(len(asked))][None]
        kind, source, begin = self._edges
        into = np.repeat(np.arange(self.nodes), np.diff(begin))
        state = torch.zeros(self.nodes, *own.shape[1:])
        weights, before = list[Tensor](), list[Tensor]()
        for layer in self.layers:
            weights.append(layer.relation_projection(representations))
            summed = relational_sum(into, kind, source, weights[-1], state, self.nodes)
            before.append(layer.linear(torch.cat((state, summed), dim=-1)))
            state = state + layer.activation(layer.layer_norm(before[-1]))
        return Relations(own, weights, before, state)

    def scores(self, shared: Relations, columns: IntArray, start: int, ends: IntArray) -> Tensor:
        """Return the scores ``(e, q)`` of ends in increasing order for queries by the relations in some ``columns``."""
        own = shared.own[:, torch.from_numpy(columns)]
        within = self._between(start, ends)
        there = within[0]
        changed = own[: len(there)]
        kind, source, begin = self._edges
        position, every = np.full(self.nodes, -1), np.arange(self.kinds)
        for layer, weights, before, nodes in zip(self.layers, shared.weights, shared.before, within[1:], strict=True):
            position[there] = np.arange(len(there))
            edges, owner = spread(begin[nodes], begin[nodes + 1])
            at = position[source[edges]]
            near = at >= 0
            of_kinds = _picked(weights, every, columns)
            summed = relational_sum(owner[near], kind[edges[near]], at[near], of_kinds, changed, len(nodes))
            summed[nodes == start] += own
            stays = position[nodes]
            position[there] = -1
            here = torch.from_numpy(np.flatnonzero(stays >= 0))
            stayed = changed.index_select(0, torch.from_numpy(stays[stays >= 0]))
            of_state, of_sum = layer.linear.weight.chunk(2, dim=1)
            without = _picked(before, nodes, columns)
            now = linear(summed, of_sum).add_(without).index_add_(0, here, linear(stayed, of_state))
            changed = layer.activation(layer.layer_norm(now)).sub_(layer.activation(layer.layer_norm(without)))
            changed.index_add_(0, here, stayed)
            there = nodes
        last = _picked(shared.last, ends, columns)
        last.index_add_(0, torch.from_numpy(np.searchsorted(ends, there)), changed)
        return self.mlp(torch.cat((last, own.expand_as(last)), dim=-1)).squeeze(-1)

    def _between(self, start: int, ends: IntArray) -> list[IntArray]:
        """Return the nodes ``(k,)`` that the start reaches within each number of layers and that reach an end after."""
        ahead, behind = self._reached(np.array([start])), self._reached(ends)
        return [np.flatnonzero(some & others) for some, others in zip(ahead, reversed(behind), strict=True)]

    def _reached(self, nodes: IntArray) -> list[BoolArray]:
        _, source, begin = self._edges
        found = [np.zeros(self.nodes, dtype=np.bool_)]
        found[0][nodes] = True
        for _ in self.layers:
            near = source[spread(begin[nodes], begin[nodes + 1])[0]]
            nodes = unique(near[~found[-1][near]])
            found.append(found[-1].copy())
            found[-1][nodes] = True
        return found
