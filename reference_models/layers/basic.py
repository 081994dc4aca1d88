"""The small parts the layers are made of: initialisation, a two-layer perceptron, batch norm over rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def uniform_(tensor: Tensor, fan_in: int, fan_out: int) -> Tensor:
    """Fill ``tensor`` from U(-a, a) with a = sqrt(6 / (fan_in + fan_out)), in place."""
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    with torch.no_grad():
        return tensor.uniform_(-bound, bound)


class Linear(nn.Linear):
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


class RowNorm(nn.BatchNorm1d):
    """Batch norm over all rows of ``(N, R, d)``, nodes and relation slots alike."""

    def forward(self, features: Tensor) -> Tensor:
        """Normalise ``(N, R, d)`` over its first two axes."""
        return super().forward(features.reshape(-1, features.shape[-1])).view(features.shape)
