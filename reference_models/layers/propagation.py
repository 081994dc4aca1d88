"""NBFNet's layer, and a plan of the node representations that its propagation needs, layer by layer.

A propagation of T layers from B heads has a row per node, head and layer, N x B x T in all, of which few are needed.
Only some nodes per head are scored, and layer t only matters within T - t steps of these. A node more than t steps
from the head has not heard of it by layer t: its row is that of a graph without any head, the same for all heads. So a
plan holds these *background* rows once, and per head only the rows that are near enough to the head to differ from the
background and near enough to a scored node to be read.

Below the first layer the background is zero, and so is the boundary, which counts as a message anyway. Messages from
the background are left out there, and the background rows after the first layer depend on the degree alone: there is
one for each degree. Equal messages into a row are computed once and counted: a node with a thousand neighbours gets
those of some dozen degrees. No row depends on statistics of others, so the result is exactly that of the whole
propagation.
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
    """The edges by receiver, without types: ``senders[starts[v] : starts[v + 1]]`` send to node v.

    Edges count with multiplicity. The graph has every edge in both directions, so that a node's senders are also its
    receivers.
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
        """Index edges that are sorted by receiver."""
        starts = torch.zeros(num_nodes + 1, dtype=torch.int64, device=senders.device)
        torch.cumsum(torch.bincount(receivers, minlength=num_nodes), 0, out=starts[1:])
        return cls(senders, receivers, starts)

    @property
    def num_nodes(self) -> int:
        """The number of nodes, isolated ones included."""
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
    """Return an order of the edges ``(E,)`` by receiver, then by the degree of the sender, then by sender."""
    degrees = torch.bincount(graph.heads, minlength=graph.num_nodes)
    order = torch.argsort(degrees[graph.heads] * graph.num_nodes + graph.heads, stable=True)
    return order[torch.argsort(graph.tails[order], stable=True)]


@dataclass(frozen=True, eq=False)
class Step:
    """One layer of a plan: m rows computed from the rows of the layer below.

    ``nodes`` and ``is_head`` ``(m,)`` say which node a row is of, and whether that is the row's own head; ``own``
    ``(m,)`` is the row of the same node below. Edge i runs from row ``senders[i]`` below to row ``receivers[i]`` here
    (increasing) and stands for ``copies[i]`` equal ones.
    """

    nodes: Tensor
    is_head: Tensor
    own: Tensor
    senders: Tensor
    receivers: Tensor
    copies: Tensor


@dataclass(frozen=True, eq=False)
class Plan:
    """Which rows of the input are heads, bool ``(m,)``, and the steps; the last one has the rows asked for."""

    is_head: Tensor
    steps: tuple[Step, ...]


def plan(neighbours: Neighbours, heads: Tensor, wanted: Tensor, layers: int) -> Plan:
    """Plan the propagation from ``heads`` ``(B,)`` that gives the rows ``wanted``.

    ``wanted`` holds distinct keys ``query * N + node`` in increasing order, with queries from 0 to B - 1.
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
            # A message of zeros adds nothing where the boundary is zero too. Only at a head, where the boundary is the
            # query, does it limit maximum and minimum.
            kept = near[sending] | is_head[rows]
            rows, senders, sending = rows[kept], senders[kept], sending[kept]
        keys, nodes = torch.cat([needed, sending]), torch.cat([receiving, senders])
        apart, read_here = near[keys], torch.zeros_like(near)
        read_here[keys[apart]] = True
        # Below the first layer the background sends nothing but zeros.
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
    """Return for 0 to ``layers - 1`` steps which keys are at most so far from their head, bool ``(B * N,)`` each."""
    total, new = neighbours.num_nodes, start
    within = [torch.zeros(queries * total, dtype=torch.bool, device=start.device)]
    within[0][start] = True
    for _ in range(layers - 1):
        rows, senders = neighbours.into(new % total)
        further = within[-1].clone()
        further[(new - new % total)[rows] + senders] = True
        new = (further & ~within[-1]).nonzero().squeeze(1)
        within.append(further)
    return within


def _counted(senders: Tensor, receivers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return senders and receivers of edges, equal ones in a row as one, and how many each stands for."""
    change = torch.ones(len(senders) + 1, dtype=torch.bool, device=senders.device)
    change[1:-1] = (senders.diff() != 0) | (receivers.diff() != 0)
    cuts = change.nonzero().squeeze(1)
    return senders[cuts[:-1]], receivers[cuts[:-1]], cuts.diff()


def _background(neighbours: Neighbours, nodes: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """Return the nodes with a background row below a layer that reads ``nodes``, and the row of every node ``(N,)``."""
    total = neighbours.num_nodes
    if layer == 0:
        return nodes.new_zeros(1), nodes.new_zeros(total)
    if layer == 1:  # a row per degree
        ordered, order = torch.sort(neighbours.degrees, stable=True)
        levels = torch.unique_consecutive(ordered)
        return order[torch.searchsorted(ordered, levels)], torch.searchsorted(levels, neighbours.degrees)
    read = torch.zeros(total, dtype=torch.bool, device=nodes.device)
    read[nodes] = True
    return read.nonzero().squeeze(1), read.cumsum(0) - 1


# As in the authors' code: a root has no finite gradient at 0, and the scale of an isolated node, divided by, is 0.
VARIANCE_FLOOR = 1e-6
SCALE_FLOOR = 0.01


class LayerNorm(nn.LayerNorm):
    """Layer norm whose weights' gradients are added up in the same order with any number of threads."""

    def forward(self, rows: Tensor) -> Tensor:
        """Map ``(m, d)`` to the same shape."""
        return layer_norm(rows, self.normalized_shape, eps=self.eps) * self.weight + self.bias


class BoundaryPNA(nn.Module):
    """x' = ReLU(LayerNorm(W [x, aggregate])) + x, the aggregate taken over messages and the boundary alike.

    A message is the sender's row times the relation, elementwise; with one relation for all edges that is a product per
    row and not per edge. The aggregate is mean, maximum, minimum and standard deviation over the messages into a node
    and its boundary (the query at the head, zero elsewhere), each times 1, s and 1 / s with s = ln(degree + 1) over its
    mean: 12 features per channel. The scales are the same for a whole row and are applied after the linear map, which
    then reads 4 features. Source: Zhu et al. 2021, as in `docs/models.md`, NBFNet-homo.
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

    Row i of ``messages`` is the message that row i below sends along each of its edges.
    """
    boundary = step.is_head.unsqueeze(1) * query
    count = degrees[step.nodes].unsqueeze(1) + 1
    total, squares, largest, smallest = _Gather.apply(messages, boundary, step)  # type: ignore[no-untyped-call]
    mean = total / count
    return torch.cat([mean, largest, smallest, (squares / count - mean * mean).clamp(min=VARIANCE_FLOOR).sqrt()], dim=1)


class _Gather(torch.autograd.Function):
    """Sum, sum of squares, maximum and minimum of each row's boundary and messages, ``(m, d)`` each.

    Values that tie for maximum or minimum share the gradient. Blocks of rows, whose messages stay in a processor's
    cache, are computed side by side, and the backward pass gathers the messages again.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, boundary: Tensor, step: Step) -> tuple[Tensor, ...]:
        blocks, copies = _blocks(step), step.copies.to(table.dtype).unsqueeze(1)
        out = tuple(torch.empty_like(boundary) for _ in range(4))

        def gather_block(number: int) -> None:
            rows, edges = blocks[number]
            own, into = boundary[rows], step.receivers[edges] - rows.start
            messages = table.index_select(0, step.senders[edges])
            weighted = messages * copies[edges]
            total, squares, largest, smallest = (part[rows] for part in out)
            total.copy_(own).index_add_(0, into, weighted)
            torch.mul(own, own, out=squares).index_add_(0, into, weighted.mul_(messages))
            for part, which in ((largest, "amax"), (smallest, "amin")):
                part.copy_(own).scatter_reduce_(0, into.unsqueeze(1).expand_as(messages), messages, which)

        for _ in in_threads(gather_block, len(blocks), table.device):
            pass
        ctx.step, ctx.blocks = step, blocks
        ctx.save_for_backward(table, boundary, copies, *out[2:])
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        table, boundary, copies, *extremes = ctx.saved_tensors
        step, blocks = ctx.step, ctx.blocks
        of_boundary = torch.empty_like(boundary)

        def descend_block(number: int) -> Tensor:
            rows, edges = blocks[number]
            own, into = boundary[rows], step.receivers[edges] - rows.start
            messages = table.index_select(0, step.senders[edges])
            of_sum, of_squares, *of_extremes = (gradient[rows] for gradient in gradients)
            of_messages = torch.addcmul(
                of_sum.index_select(0, into), messages, of_squares.index_select(0, into), value=2
            )
            of_own = torch.addcmul(of_sum, own, of_squares, value=2, out=of_boundary[rows])
            for gradient, extreme in zip(of_extremes, extremes, strict=True):
                at_messages = extreme[rows].index_select(0, into)
                torch.eq(messages, at_messages, out=at_messages)
                at_own = (own == extreme[rows]).to(own.dtype)
                shares = gradient / at_own.index_add(0, into, at_messages * copies[edges])
                of_own.addcmul_(at_own, shares)
                of_messages.addcmul_(at_messages, shares.index_select(0, into))
            return of_messages.mul_(copies[edges])

        of_table = torch.zeros_like(table)
        # Here and not in the threads: rows of different blocks have the same senders, and are added up in one order.
        parts = in_threads(descend_block, len(blocks), table.device)
        for (_, edges), of_messages in zip(blocks, parts, strict=True):
            of_table.index_add_(0, step.senders[edges], of_messages)
        return of_table, of_boundary, None


def _blocks(step: Step) -> list[tuple[slice, slice]]:
    """Return slices of rows and of the edges into them: about `EDGES` of both together, or a single row with more."""
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
