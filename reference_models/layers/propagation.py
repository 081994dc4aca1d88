"""NBFNet's layer, and which node representations its propagation needs, layer by layer: only those that can matter.

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
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from reference_models.graphs.graph import TypedGraph
from reference_models.layers.basic import RowLinear, linear
from reference_models.layers.blocks import EDGES, in_threads


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


VARIANCE_FLOOR = 1e-6
SCALE_FLOOR = 0.01


class LayerNorm(nn.LayerNorm):
    """Layer norm; the gradients of its weights are added up in one order, whatever the number of threads."""

    def forward(self, rows: Tensor) -> Tensor:
        """Map ``(m, d)`` to the same shape."""
        return layer_norm(rows, self.normalized_shape, eps=self.eps) * self.weight + self.bias


class BoundaryPNA(nn.Module):
    """x' = ReLU(LayerNorm(W [x, aggregate])) + x, the aggregate taken over messages and the boundary alike.

    A message is the sender's row times the relation's, elementwise; with one relation for all that is
    one product per row, not one per edge. Mean, maximum, minimum and standard deviation over the messages into a
    node and its boundary (the query at the head, zero elsewhere), each times 1, s and 1 / s with
    s = ln(degree + 1) over its mean: 12 features per channel. The scales belong to rows, so they are applied
    after the linear map, which then reads 4 features. Source: Zhu et al. 2021, as in `docs/models.md`, NBFNet-homo.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.relation = nn.Parameter(torch.randn(width))
        self.linear = RowLinear(13 * width, width)
        self.norm = LayerNorm(width)

    def forward(self, below: Tensor, step: Step, query: Tensor, degrees: Tensor, scales: Tensor) -> Tensor:
        """Map the rows below ``(m', d)`` to the step's ``(m, d)``; ``degrees`` and ``scales`` are per node ``(N,)``."""
        own, width = below.index_select(0, step.own), below.shape[1]
        gathered = aggregate(below * self.relation, step, query, degrees)
        scale = scales[step.nodes].unsqueeze(1)
        plain, scaled, damped = (
            linear(gathered, self.linear.weight[:, place : place + 4 * width])
            for place in range(width, 13 * width, 4 * width)
        )
        mixed = linear(own, self.linear.weight[:, :width]) + plain
        mixed = mixed + scale * scaled + damped / scale.clamp(min=SCALE_FLOOR)
        return torch.relu(self.norm(mixed + self.linear.bias)) + own


def aggregate(messages: Tensor, step: Step, query: Tensor, degrees: Tensor) -> Tensor:
    """Return mean, maximum, minimum and deviation ``(m, 4 d)`` over each row's messages and its boundary.

    Row i of ``messages`` is what row i below sends along each of its edges.
    """
    boundary = step.is_head.unsqueeze(1) * query
    count = degrees[step.nodes].unsqueeze(1) + 1
    total, squares, largest, smallest = _Gather.apply(messages, boundary, step)  # type: ignore[no-untyped-call]
    mean = total / count
    return torch.cat([mean, largest, smallest, (squares / count - mean * mean).clamp(min=VARIANCE_FLOOR).sqrt()], dim=1)


class _Gather(torch.autograd.Function):
    """Sum, sum of squares, largest and smallest of each row's boundary and messages, ``(m, d)`` each.

    Those that are equally large, or small, share the gradient. Rows are computed by blocks, whose messages stay in a
    processor's cache, and blocks side by side; the backward pass gathers the messages again.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, boundary: Tensor, step: Step) -> tuple[Tensor, ...]:
        blocks, copies = _blocks(step), step.copies.to(table.dtype).unsqueeze(1)
        out = tuple(torch.empty_like(boundary) for _ in range(4))

        def one(number: int) -> None:
            rows, edges = blocks[number]
            own, into = boundary[rows], step.receivers[edges] - rows.start
            messages = table.index_select(0, step.senders[edges])
            weighted = messages * copies[edges]
            total, squares, largest, smallest = (part[rows] for part in out)
            total.copy_(own).index_add_(0, into, weighted)
            torch.mul(own, own, out=squares).index_add_(0, into, weighted.mul_(messages))
            for part, which in ((largest, "amax"), (smallest, "amin")):
                part.copy_(own).scatter_reduce_(0, into.unsqueeze(1).expand_as(messages), messages, which)

        for _ in in_threads(one, len(blocks), table.device):
            pass
        ctx.step, ctx.blocks = step, blocks
        ctx.save_for_backward(table, boundary, copies, *out[2:])
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        table, boundary, copies, *extremes = ctx.saved_tensors
        step, blocks = ctx.step, ctx.blocks
        of_boundary = torch.empty_like(boundary)

        def one(number: int) -> Tensor:
            rows, edges = blocks[number]
            own, into = boundary[rows], step.receivers[edges] - rows.start
            messages = table.index_select(0, step.senders[edges])
            of_sum, of_squares, *of_extremes = (gradient[rows] for gradient in gradients)
            of_messages = torch.addcmul(
                of_sum.index_select(0, into), messages, of_squares.index_select(0, into), value=2
            )
            of_own = torch.addcmul(of_sum, own, of_squares, value=2, out=of_boundary[rows])
            for gradient, extreme in zip(of_extremes, extremes, strict=True):
                found = extreme[rows].index_select(0, into)
                torch.eq(messages, found, out=found)
                at_own = (own == extreme[rows]).to(own.dtype)
                shares = gradient / at_own.index_add(0, into, found * copies[edges])
                of_own.addcmul_(at_own, shares)
                of_messages.addcmul_(found, shares.index_select(0, into))
            return of_messages.mul_(copies[edges])

        of_table = torch.zeros_like(table)
        for (_, edges), found in zip(blocks, in_threads(one, len(blocks), table.device), strict=True):
            of_table.index_add_(0, step.senders[edges], found)
        return of_table, of_boundary, None


def _blocks(step: Step) -> list[tuple[slice, slice]]:
    """Return slices of the rows and of the edges into them, about `EDGES` of both together or those of one row."""
    number = torch.arange(len(step.nodes) + 1, device=step.nodes.device)
    starts = torch.searchsorted(step.receivers, number)
    ends = torch.arange(0, len(step.nodes) + len(step.receivers), EDGES[step.nodes.device.type], device=number.device)
    cuts = torch.unique_consecutive(torch.cat([torch.searchsorted(starts + number, ends), number[-1:]]))
    bounds = torch.stack([cuts, starts[cuts]], dim=1).tolist()
    return [(slice(row, rows), slice(edge, edges)) for (row, edge), (rows, edges) in pairwise(bounds)]


def degree_scales(degrees: Tensor) -> Tensor:
    """Return s = ln(degree + 1) over its mean ``(N,)``, zero in a graph without edges."""
    logs = torch.log(degrees + 1)
    return logs / logs.mean().clamp(min=torch.finfo(logs.dtype).tiny)
