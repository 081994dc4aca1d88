"""Principal neighbourhood aggregation over messages and a boundary condition (NBFNet's layer)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from reference_models.graphs.propagation import Step
from reference_models.layers.basic import RowLinear, linear

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
        gathered = aggregate((below * self.relation).index_select(0, step.senders), step, query, degrees)
        scale = scales[step.nodes].unsqueeze(1)
        plain, scaled, damped = (
            linear(gathered, self.linear.weight[:, place : place + 4 * width])
            for place in range(width, 13 * width, 4 * width)
        )
        mixed = linear(own, self.linear.weight[:, :width]) + plain
        mixed = mixed + scale * scaled + damped / scale.clamp(min=SCALE_FLOOR)
        return torch.relu(self.norm(mixed + self.linear.bias)) + own


def aggregate(messages: Tensor, step: Step, query: Tensor, degrees: Tensor) -> Tensor:
    """Return mean, maximum, minimum and deviation ``(m, 4 d)`` over the messages ``(e, d)`` and each row's boundary."""
    boundary = step.is_head.unsqueeze(1) * query
    count = degrees[step.nodes].unsqueeze(1) + 1
    mean = boundary.index_add(0, step.receivers, messages) / count
    squares = (boundary * boundary).index_add(0, step.receivers, messages * messages) / count
    largest, smallest = (_Extreme.apply(boundary, messages, step.receivers, which) for which in ("amax", "amin"))  # type: ignore[no-untyped-call]
    return torch.cat([mean, largest, smallest, (squares - mean * mean).clamp(min=VARIANCE_FLOOR).sqrt()], dim=1)


class _Extreme(torch.autograd.Function):
    """The largest or smallest of each row's boundary and messages; those that are equally so share its gradient.

    The gradient is the library's, which takes three times as long.
    """

    @staticmethod
    def forward(ctx: Any, boundary: Tensor, messages: Tensor, receivers: Tensor, which: str) -> Tensor:
        out = boundary.scatter_reduce(0, receivers.unsqueeze(1).expand_as(messages), messages, which)
        ctx.save_for_backward(boundary, messages, receivers, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        boundary, messages, receivers, out = ctx.saved_tensors
        of_messages = out.index_select(0, receivers)
        torch.eq(messages, of_messages, out=of_messages)
        of_boundary = (boundary == out).to(out.dtype)
        shares = gradient / of_boundary.index_add(0, receivers, of_messages)
        return of_boundary.mul_(shares), of_messages.mul_(shares.index_select(0, receivers)), None, None


def degree_scales(degrees: Tensor) -> Tensor:
    """Return s = ln(degree + 1) over its mean ``(N,)``, zero in a graph without edges."""
    logs = torch.log(degrees + 1)
    return logs / logs.mean().clamp(min=torch.finfo(logs.dtype).tiny)
