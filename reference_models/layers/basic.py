"""The small parts the layers are made of: initialisation, linear maps, a two-layer perceptron, batch norm over rows."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import torch
from torch import Tensor, nn

from reference_models.layers.sums import moments
from reference_models.layers.threads import in_threads

ROWS = {"cpu": 2560, "cuda": 1 << 22}
"""How many rows a dense product takes at once, by the kind of device."""


def uniform_(tensor: Tensor, fan_in: int, fan_out: int) -> Tensor:
    """Fill ``tensor`` from U(-a, a) with a = sqrt(6 / (fan_in + fan_out)), in place."""
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    with torch.no_grad():
        return tensor.uniform_(-bound, bound)


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return rows ``(*, a)`` times the transpose of a weight ``(b, a)``, plus a bias ``(b,)``: ``(*, b)``.

    That is the library's function, by blocks of rows (`in_threads`): with any number of threads, result and
    gradients are the same to the last bit.
    """
    return _Linear.apply(rows, weight, bias)  # type: ignore[no-any-return, no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        flat = rows.flatten(0, -2)
        blocks, out = _blocks(flat), flat.new_empty(len(flat), len(weight))

        def write(index: int) -> None:
            block = blocks[index]
            if bias is None:
                torch.mm(flat[block], weight.T, out=out[block])
            else:
                torch.addmm(bias, flat[block], weight.T, out=out[block])

        deque(in_threads(write, len(blocks), rows.device), maxlen=0)
        return out.view(*rows.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        flat, passed = rows.flatten(0, -2), gradient.flatten(0, -2)
        blocks, (of_rows, of_weight, of_bias) = _blocks(flat), ctx.needs_input_grad
        found = torch.empty_like(flat) if of_rows else None

        def gradients(index: int) -> list[Tensor]:
            block, own = blocks[index], passed[blocks[index]]
            if found is not None:
                torch.mm(own, weight, out=found[block])
            return [*([own.T @ flat[block]] if of_weight else []), *([own.sum(dim=0)] if of_bias else [])]

        wholes, *rest = in_threads(gradients, len(blocks), gradient.device)
        for parts in rest:
            for whole, part in zip(wholes, parts, strict=True):
                whole += part
        others = iter(wholes)
        return (
            None if found is None else found.view(rows.shape),
            next(others) if of_weight else None,
            next(others) if of_bias else None,
        )


def _blocks(rows: Tensor) -> list[slice]:
    """Return slices of about as many rows each, one at least."""
    number = max(1, -(-len(rows) // ROWS[rows.device.type]))
    size = max(1, -(-len(rows) // number))
    return [slice(start, start + size) for start in range(0, max(1, len(rows)), size)]


class RowLinear(nn.Linear):
    """The library's linear map, computed by `linear`."""

    def forward(self, rows: Tensor) -> Tensor:
        """Map ``(*, in)`` to ``(*, out)``."""
        return linear(rows, self.weight, self.bias)


class Linear(RowLinear):
    """A linear map with weights from U(+-sqrt(6 / (in + out))) and zero biases."""

    def reset_parameters(self) -> None:
        """Draw the weights anew and set the biases to zero."""
        uniform_(self.weight, self.in_features, self.out_features)
        nn.init.zeros_(self.bias)


class Perceptron(nn.Module):
    """Linear, ReLU, Linear, the map inside a GIN layer; the halves are public because sums commute with them."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.first = Linear(width_in, width)
        self.second = Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        """Map ``(*, width_in)`` to ``(*, width)``."""
        return self.second(torch.relu(self.first(features)))  # type: ignore[no-any-return]

    def weights(self) -> list[Tensor]:
        """Return weight and bias of the first map, then of the second."""
        return [self.first.weight, self.first.bias, self.second.weight, self.second.bias]


class RowNorm(nn.BatchNorm1d):
    """Batch norm over all rows of ``(N, R, d)``, nodes and relation slots alike, as one affine map."""

    def as_affine(self, rows: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows ``(M, d)`` and their scale and shift ``(d,)``, row i standing for ``counts[i]`` equal ones.

        In training scale and shift follow from the rows, which also move the running statistics; else from
        those. The rows are to be used as they are returned: see `moments`.
        """
        assert self.running_mean is not None
        assert self.running_var is not None
        mean, variance = self.running_mean, self.running_var
        if self.training:
            rows, mean, variance = moments(rows, counts)
            total = (torch.tensor(len(rows)) if counts is None else counts).sum(dtype=torch.float64)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum or 0.0)
                self.running_var.lerp_(variance * (total / (total - 1).clamp(min=1)), self.momentum or 0.0)
        scale = self.weight * (variance + self.eps).rsqrt()
        return rows, scale, self.bias - mean * scale
