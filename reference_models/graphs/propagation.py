"""Which node representations a conditional propagation needs, layer by layer: only those that can matter.

A propagation of T layers from a head gives every node one row per head, N x B x T rows in all. Few of them are
needed. What is scored are some nodes per head, and only their neighbours of T - t steps enter at layer t; and a
node that is more than t steps from the head has not heard of it by layer t: its row is that of a graph with
no head at all, the same for all heads. A plan therefore holds the rows of that *background* that are read once, and of
every head the rows that are both near enough to the head to differ from it and near enough to a scored node to be read.
Below the first layer the background is zero, as is the boundary that is counted as a message anyway: there, messages
from it are left out, and the background's rows after it differ by degree alone: one for every degree. Messages of one
row into another are computed once and counted: into a node with a thousand neighbours go those of some dozen degrees.
No row holds statistics of others, so the result is exactly that of the whole propagation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reference_models.graphs.graph import TypedGraph


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The edges by receiver, types left out: ``senders[starts[v] : starts[v + 1]]`` are those into node v.

    Edges count with multiplicity. The graph holds every edge in both directions, so that senders and
    receivers of a node are the same nodes.
    """

    senders: Tensor
    receivers: Tensor
    starts: Tensor

    @classmethod
    def of(cls, graph: TypedGraph) -> Neighbours:
        """Sort the edges of a graph with inverses by receiver."""
        order = by_receiver(graph)
        return cls.sorted_already(graph.heads[order], graph.tails[order], graph.num_nodes)

    @classmethod
    def sorted_already(cls, senders: Tensor, receivers: Tensor, num_nodes: int) -> Neighbours:
        """Index edges that are in the order of their receivers."""
        starts = torch.zeros(num_nodes + 1, dtype=torch.int64, device=senders.device)
        torch.cumsum(torch.bincount(receivers, minlength=num_nodes), 0, out=starts[1:])
        return cls(senders, receivers, starts)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are, isolated ones included."""
        return len(self.starts) - 1

    @property
    def degrees(self) -> Tensor:
        """In-edges per node, ``(N,)``."""
        return self.starts.diff()

    def into(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return all edges into ``nodes`` ``(m,)``: which of the m they enter, and their senders, both ``(e,)``."""
        counts = self.degrees[nodes]
        rows = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        first = self.starts[nodes] - (counts.cumsum(0) - counts)
        return rows, self.senders[first[rows] + torch.arange(len(rows), device=nodes.device)]


def by_receiver(graph: TypedGraph) -> Tensor:
    """Return an order of the edges ``(E,)`` by receiver; into each, senders of one degree, and copies, lie together."""
    degrees = torch.bincount(graph.heads, minlength=graph.num_nodes)
    order = torch.argsort(degrees[graph.heads] * graph.num_nodes + graph.heads, stable=True)
    return order[torch.argsort(graph.tails[order], stable=True)]


@dataclass(frozen=True, eq=False)
class Step:
    """One layer of a plan: m rows computed from the rows of the layer below.

    ``nodes`` and ``is_head`` ``(m,)`` say which node a row is and whether it is its own head; ``own`` ``(m,)`` is the
    same node's row below; edge i runs from row ``senders[i]`` below to row ``receivers[i]`` here, in increasing
    order, and stands for ``copies[i]`` of them.
    """

    nodes: Tensor
    is_head: Tensor
    own: Tensor
    senders: Tensor
    receivers: Tensor
    copies: Tensor


@dataclass(frozen=True, eq=False)
class Plan:
    """The rows of the input, ``(m,)`` bool: which are heads; and the steps, whose last has the rows asked for."""

    is_head: Tensor
    steps: tuple[Step, ...]


def plan(neighbours: Neighbours, heads: Tensor, wanted: Tensor, layers: int) -> Plan:
    """Plan the propagation from ``heads`` ``(B,)`` that gives the rows ``wanted``.

    ``wanted`` holds distinct increasing keys ``query * N + node``, the query being a number below B.
    """
    total = neighbours.num_nodes
    start = torch.arange(len(heads), device=heads.device) * total + heads
    reached = _reached(neighbours, start, len(heads), layers)
    steps, needed = [], wanted
    background = heads.new_empty(0)
    for layer in reversed(range(layers)):
        near, receiving = reached[layer], needed % total
        rows, senders = neighbours.into(receiving)
        sending, is_head = (needed - receiving)[rows] + senders, reached[0][needed]
        if layer == 0:
            kept = near[sending] | is_head[rows]
            rows, senders, sending = rows[kept], senders[kept], sending[kept]
        keys, nodes = torch.cat([needed, sending]), torch.cat([receiving, senders])
        apart, read_here = near[keys], torch.zeros_like(near)
        read_here[keys[apart]] = True
        around, by_background = neighbours.into(background[: None if layer else 0])
        read, place = _background(neighbours, torch.cat([background, by_background, nodes[~apart]]), layer)
        places = torch.where(apart, len(read) - 1 + read_here.cumsum(0)[keys], place[nodes])
        own, from_below = places.tensor_split([len(needed)])
        edges = torch.cat([place[by_background], from_below]), torch.cat([around, rows + len(background)])
        steps.append(
            Step(
                torch.cat([background, receiving]),
                torch.cat([torch.zeros_like(background, dtype=torch.bool), is_head]),
                torch.cat([place[background], own]),
                *_counted(*edges),
            )
        )
        needed, background = read_here.nonzero().squeeze(1), read
    is_head = torch.arange(len(background) + len(needed), device=heads.device) >= len(background)
    return Plan(is_head, tuple(reversed(steps)))


def _reached(neighbours: Neighbours, start: Tensor, queries: int, layers: int) -> list[Tensor]:
    """Return per layer which keys are at most so many steps from their head, bool ``(B * N,)`` each."""
    total, new = neighbours.num_nodes, start
    found = [torch.zeros(queries * total, dtype=torch.bool, device=start.device)]
    found[0][start] = True
    for _ in range(layers - 1):
        rows, senders = neighbours.into(new % total)
        further = found[-1].clone()
        further[(new - new % total)[rows] + senders] = True
        new = (further & ~found[-1]).nonzero().squeeze(1)
        found.append(further)
    return found


def _counted(senders: Tensor, receivers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return senders and receivers of edges, those that follow each other and are alike once, and how many they are."""
    change = torch.ones(len(senders) + 1, dtype=torch.bool, device=senders.device)
    change[1:-1] = (senders.diff() != 0) | (receivers.diff() != 0)
    cuts = change.nonzero().squeeze(1)
    return senders[cuts[:-1]], receivers[cuts[:-1]], cuts.diff()


def _background(neighbours: Neighbours, nodes: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """Return the nodes whose background rows are held below a layer that reads ``nodes``, and every node's row."""
    total = neighbours.num_nodes
    if layer == 0:
        return nodes.new_zeros(1), nodes.new_zeros(total)
    if layer == 1:
        ordered, order = torch.sort(neighbours.degrees, stable=True)
        levels = torch.unique_consecutive(ordered)
        return order[torch.searchsorted(ordered, levels)], torch.searchsorted(levels, neighbours.degrees)
    read = torch.zeros(total, dtype=torch.bool, device=nodes.device)
    read[nodes] = True
    return read.nonzero().squeeze(1), read.cumsum(0) - 1
