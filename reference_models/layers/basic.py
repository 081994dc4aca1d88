"""The small parts the layers are made of: initialisation, linear maps, a two-layer perceptron, batch norm over rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from reference_models.layers.blocks import Products, blockwise, node_blocks
from reference_models.layers.sums import moments


def uniform_(tensor: Tensor, fan_in: int, fan_out: int) -> Tensor:
    """Fill ``tensor`` from U(-a, a) with a = sqrt(6 / (fan_in + fan_out)), in place."""
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    with torch.no_grad():
        return tensor.uniform_(-bound, bound)


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return rows ``(*, a)`` times the transpose of a weight ``(b, a)``, plus a bias ``(b,)``: ``(*, b)``.

    PyTorch's function, computed in blocks of rows (`blockwise`), so that result and gradients are the same to the last
    bit with any number of threads.
    """
    base = weight.new_zeros(len(weight)) if bias is None else bias
    flat = rows.flatten(0, -2)
    blocks = [(block,) for block in node_blocks(max(1, len(flat)), max(weight.shape), rows.device)]
    return blockwise(_product, blocks, [flat], [weight, base]).view(*rows.shape[:-1], len(weight))


def _product(_: int, rows: Tensor, weight: Tensor, base: Tensor) -> Products:
    return Products(base, [(rows, weight)])


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
    """Linear, ReLU, Linear: the map inside a GIN layer. Layers use the halves apart, because sums commute with them."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.first = Linear(width_in, width)
        self.second = Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        """Map ``(*, width_in)`` to ``(*, width)``."""
        return self.second(torch.relu(self.first(features)))  # type: ignore[no-any-return]


class RowNorm(nn.BatchNorm1d):
    """Batch norm over all rows of ``(N, R, d)``, nodes and relation slots alike, as one affine map."""

    def as_affine(self, rows: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows ``(M, d)`` and their scale and shift ``(d,)``, row i standing for ``counts[i]`` equal ones.

        In training, scale and shift follow from the rows, and the running statistics are moved; else they follow from
        the running statistics. Go on with the rows that are returned, see `moments`.
        """
        if self.training:
            rows, mean, variance = moments(rows, counts)
            total = (torch.tensor(len(rows)) if counts is None else counts).sum(dtype=torch.float64)
            return rows, *self.of_moments(mean, variance, total)
        assert self.running_mean is not None
        assert self.running_var is not None
        return rows, *self._affine(self.running_mean, self.running_var)

    def of_moments(self, mean: Tensor, variance: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """Return scale and shift ``(d,)`` for ``total`` rows of this mean and variance, and move the statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum or 0.0)
            # As in PyTorch, the running variance is the unbiased one; the rows are scaled by the biased.
            self.running_var.lerp_(variance * (total / (total - 1).clamp(min=1)), self.momentum or 0.0)
        return self._affine(mean, variance)

    def _affine(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        scale = self.weight * (variance + self.eps).rsqrt()
        return scale, self.bias - mean * scale
