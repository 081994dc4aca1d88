"""Soft layers that look at no neighbours: single linear maps in closed form, or perceptrons."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reference_models.equivariant.soft import Input, finish, soft_maps
from reference_models.layers.basic import Linear, Perceptron, uniform_
from reference_models.layers.blocks import Products, blockwise, node_blocks
from reference_models.layers.readings import Reading, Shares
from reference_models.layers.rows import Rows
from reference_models.layers.sums import task_sums


class SoftLinear(nn.Module):
    """A soft layer of single linear maps, in closed form: O(R N d^2 + R K N d), exact.

    With W1, W2, W3 for the own features, the own task and the others, and i = argmax_k alpha[r, k]:
    Out_r = X_r (W1 - W3 / c) - (a / c) X_r (W2 - W3) + (T_i / c + p_i) (W2 - W3)
    + (sum of X / c + sum of p) W3 + biases.
    """

    def __init__(self, width: int, tasks: int, reading: Reading | None = None) -> None:
        super().__init__()
        self.reading = reading or Reading()
        self.own = Linear(width, width)
        self.same_task = Linear(width, width)
        self.other_tasks = Linear(width, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width), 1, width))

    def forward(self, features: Input, attention: Tensor) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)`` given the attention ``(R, K)``."""
        modules = [self.own, self.same_task, self.other_tasks][: 3 if attention.shape[1] > 1 else 2]
        maps = [tensor for module in modules for tensor in (module.weight, module.bias)]
        return soft_linear(features, attention, maps, self.positions, self.reading)


class SoftPerceptron(nn.Module):
    """A soft layer of perceptrons: the GIN soft layer on a graph without edges."""

    def __init__(self, width: int, tasks: int, reading: Reading | None = None) -> None:
        super().__init__()
        self.reading = reading or Reading()
        self.own = Perceptron(width, width)
        self.same_task = Perceptron(width, width)
        self.other_tasks = Perceptron(width, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width), 1, width))

    def forward(self, features: Input, attention: Tensor) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)`` given the attention ``(R, K)``."""
        maps = soft_maps(self, attention.shape[1])
        return soft_perceptron(features, attention, maps, self.positions, self.reading)


def soft_linear(
    features: Input, attention: Tensor, maps: Sequence[Tensor], positions: Tensor, reading: Reading | None = None
) -> Tensor:
    """Return the soft linear layer of features ``(N, R, d)``; see `SoftLinear`."""
    values, affine, rectified, chosen = features.values, features.tensors(), features.rectified, reading or Reading()
    count = len(affine)  # the blocks, kept until the backward pass, must not keep the features

    def block(index: int, part: Tensor, attention: Tensor, positions: Tensor, *tensors: Tensor) -> Products:
        x = finish(part, tensors[:count], rectified=rectified)
        weight, bias, same, same_bias, *other = tensors[count:]
        shares, sums = Shares.of(attention, chosen), task_sums(x, attention)
        node = bias + same_bias
        if other:
            same = same - other[0]
            node = node + positions.sum(dim=0) @ other[0].T + (attention.shape[1] - 1) * other[1]
        if isinstance(shares.factor, Tensor):
            return _by_slot(x, sums, positions, shares, weight, same, other[0] if other else None, node)
        if other:
            weight = weight - shares.factor * other[0]
            node = node + shares.factor * x.sum(dim=1, keepdim=True) @ other[0].T
        contexts = torch.add(positions, sums, alpha=shares.factor) @ same.T + node
        if shares.same is None:
            own, tasks = shares.own.take_along_dim(shares.assigned, 2), shares.assigned.view(-1)
        else:
            own, tasks = (shares.own * shares.same).sum(dim=2), None
            contexts = shares.same @ contexts
        return Products(contexts, [(x, weight + own.view(-1, 1, 1) * same)], tasks)

    blocks = [(rows,) for rows in node_blocks(len(values), values[0].numel(), values.device)]
    return blockwise(block, blocks, [values], [attention, positions, *affine, *maps])


def soft_perceptron(
    features: Input, attention: Tensor, maps: Sequence[Tensor], positions: Tensor, reading: Reading | None = None
) -> Tensor:
    """Return the soft layer of perceptrons of features ``(N, R, d)``; see `SoftPerceptron`."""
    values, affine, rectified, chosen = features.values, features.tensors(), features.rectified, reading or Reading()
    count = len(affine)  # the blocks, kept until the backward pass, must not keep the features

    def block(index: int, part: Tensor, attention: Tensor, positions: Tensor, *tensors: Tensor) -> Products:
        x = finish(part, tensors[:count], rectified=rectified)
        shares = Shares.of(attention, chosen)
        apart = positions.expand(len(x), *positions.shape)
        return Rows(tensors[count:])(x, x, task_sums(x, attention), apart, shares)

    width = max(values.shape[2], maps[0].shape[0])
    blocks = [(rows,) for rows in node_blocks(len(values), values.shape[1] * width, values.device)]
    return blockwise(block, blocks, [values], [attention, positions, *affine, *maps])


def _by_slot(
    x: Tensor,
    sums: Tensor,
    positions: Tensor,
    shares: Shares,
    weight: Tensor,
    same: Tensor,
    other: Tensor | None,
    constant: Tensor,
) -> Products:
    """Return the layer where every slot and task has a factor of its own."""
    chosen = shares.same if shares.same is not None else 1 - shares.others()
    factors = shares.factor * torch.ones_like(chosen)
    base = chosen @ (positions @ same.T) + (chosen * factors) @ (sums @ same.T) + constant
    weight = weight + (chosen * shares.own).sum(dim=2).view(-1, 1, 1) * same
    if other is not None:
        base = base + factors @ (sums @ other.T)
        weight = weight + shares.own.sum(dim=2).view(-1, 1, 1) * other
    return Products(base, [(x, weight)])
