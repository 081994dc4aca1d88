"""Principal neighbourhood aggregation over messages and a boundary condition (NBFNet's layer)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from reference_models.graphs.propagation import Step
from reference_models.layers.basic import RowLinear, linear
from reference_models.layers.blocks import EDGES
from reference_models.layers.threads import in_threads

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
