"""Soft multi-task double-equivariant layers (MTDEA), as an exact leave-one-out factorisation.

A literal layer sums, for every relation and every task, over all other relations: O(R^2 K N d). Here each
sum is taken once over *all* relations and the relation's own share is taken off again, which is exact
because every map up to the first ReLU is linear (`docs/models.md`, Soft layer). Notation: a = alpha[r, k],
c = R - 1, T_k = sum over r of alpha[r, k] X_r, S_rk = (T_k - a X_r) / c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from reference_models.graph import Receivers, TypedGraph
from reference_models.layers.basic import Linear, Perceptron, uniform_
from reference_models.layers.blocks import Block, blockwise, node_blocks
from reference_models.layers.rows import Rows, spread, take
from reference_models.layers.sums import aggregate, task_sums


@dataclass(frozen=True, eq=False)
class Input:
    """Features ``(N, R, d)`` as the layer before left them: times ``scale``, plus ``shift``, through a ReLU or not.

    With ``nodes``, in increasing order, they are those of some nodes only.
    """

    values: Tensor
    scale: Tensor | None = None
    shift: Tensor | None = None
    rectified: bool = False
    nodes: Tensor | None = None

    def tensors(self) -> list[Tensor]:
        """Return scale and shift, if any."""
        return [] if self.scale is None or self.shift is None else [self.scale, self.shift]

    def finish(self, values: Tensor, affine: Sequence[Tensor]) -> Tensor:
        """Apply scale, shift and ReLU to a part of the values."""
        if affine:
            values = torch.addcmul(affine[1], values, affine[0])
        return torch.relu(values) if self.rectified else values

    def whole(self) -> Tensor:
        """Return the features themselves."""
        return self.finish(self.values, self.tensors())


class SoftGIN(nn.Module):
    """A GIN soft layer under reading A: contexts aggregate over the edges of all other relations.

    Out_r = L1(X_r; A_r) + L2(p_i + S_ri; A - A_r) + sum over k != i of L3(p_k + S_rk; A - A_r), where
    i = argmax_k alpha[r, k] (the lowest index on a tie) carries no gradient and each L is a GIN, its
    epsilon 0 unless it is learned. With one task there is no L3, and without positions p = 0. Source:
    equation 4 of the paper, adjacency as in `docs/models.md`, Soft layer.
    """

    def __init__(self, width_in: int, width: int, tasks: int) -> None:
        super().__init__()
        self.own = Perceptron(width_in, width)
        self.same_task = Perceptron(width_in, width)
        self.other_tasks = Perceptron(width_in, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width_in), 1, width_in))

    def forward(self, features: Tensor, onto: Receivers, attention: Tensor) -> Tensor:
        """Map ``(N, R, width_in)`` to ``(M, R, width)`` for M receivers, given the attention ``(R, K)``."""
        return soft_gin(features, onto, attention, self.maps(attention.shape[1]), self.positions)

    def of_constant(self, graph: TypedGraph, attention: Tensor) -> Tensor:
        """Return the layer of the constant input 1 of width 1, a row per kind of the graph: ``(D, width)``."""
        return soft_gin_of_constant(graph, attention, self.maps(attention.shape[1]), self.positions)

    def maps(self, tasks: int) -> list[Tensor]:
        """Return the weights of L1, L2 and, where there are other tasks, L3."""
        modules = [self.own, self.same_task, self.other_tasks][: 3 if tasks > 1 else 2]
        return [tensor for module in modules for tensor in module.weights()]


def soft_gin(
    features: Tensor,
    onto: Receivers,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    epsilon: Tensor | None = None,
) -> Tensor:
    """Return the soft GIN layer of features ``(N, R, d)``; ``epsilon`` ``(2,)`` is that of L1 and of L2 and L3.

    A row of the result depends on X_r, A X_r and A_r X_r at its node, and on T_k, A T_k and A_r T_k. The
    terms with A_r are zero except at the graph's pairs: all rows are computed without them, those of the
    pairs again with them.
    """
    everything, own, sums = aggregate(features, attention, onto)
    pairs = onto.pairs
    own_sums = (pairs.from_nodes @ sums.flatten(1)).view(-1, *sums.shape[1:])
    near = attention.new_ones(2) if epsilon is None else 1 + epsilon
    reached = near[1] * onto.of(sums) + (onto.union @ sums.flatten(1)).view(onto.number, *sums.shape[1:])
    assigned = attention.argmax(dim=1)
    blocks, local = _pair_blocks(onto, len(attention), maps[0].shape[0])

    def block(index: int, *tensors: Tensor) -> Tensor:
        x, ax, reached, own, own_sums, degrees, pair_degrees, attention, positions, near, *maps = tensors
        keys, slots = local[index]
        rows = Rows(attention.shape[0], positions, maps)
        x_flat, ax_flat = (tensor.view(-1, tensor.shape[-1]) for tensor in (x, ax))
        out = rows(near[0] * x, near[1] * x + ax, reached, near[1] + degrees, attention.unsqueeze(0), assigned)
        if not len(keys):
            return out
        nodes = keys // len(attention)
        at, around = take(x_flat, keys), take(ax_flat, keys)
        special = rows(
            (near[0] * at + own).unsqueeze(1),
            (near[1] * at + around - own).unsqueeze(1),
            reached.index_select(0, nodes) - own_sums,
            near[1] + degrees.index_select(0, nodes) - pair_degrees,
            spread(attention, slots).unsqueeze(1),
            assigned.index_select(0, slots).unsqueeze(1),
        )
        flat = out.view(-1, out.shape[-1])
        return flat.index_put((keys,), special.squeeze(1)).view(out.shape)

    parts = [onto.of(features), everything, reached, own, own_sums, onto.degrees, pairs.degrees]
    return blockwise(block, blocks, parts, [attention, positions, near, *maps])


def soft_gin_of_constant(
    graph: TypedGraph,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    epsilon: Tensor | None = None,
) -> Tensor:
    """Return the soft GIN layer of the constant input 1 of width 1, one row per kind of the graph: ``(D, d)``."""
    kinds = graph.kinds
    near = attention.new_ones(2) if epsilon is None else 1 + epsilon
    reach = near[1] + kinds.degrees - kinds.own
    rows = Rows(len(attention), positions, maps)
    out = rows(
        (near[0] + kinds.own).view(-1, 1, 1),
        reach.view(-1, 1, 1),
        reach.view(-1, 1, 1) * attention.sum(dim=0).view(1, -1, 1),
        reach,
        spread(attention, kinds.slots).unsqueeze(1),
        attention.argmax(dim=1)[kinds.slots].unsqueeze(1),
    )
    return out.squeeze(1)


class SoftLinear(nn.Module):
    """A soft layer of single linear maps, in closed form: O(R N d^2 + K N d), exact.

    With W1, W2, W3 for the own features, the own task and the others, and i = argmax_k alpha[r, k]:
    Out_r = X_r (W1 - W3 / c) - (a / c) X_r (W2 - W3) + (T_i / c + p_i) (W2 - W3)
    + (sum of X / c + sum of p) W3 + biases.
    """

    def __init__(self, width: int, tasks: int) -> None:
        super().__init__()
        self.own = Linear(width, width)
        self.same_task = Linear(width, width)
        self.other_tasks = Linear(width, width)
        self.positions = nn.Parameter(uniform_(torch.empty(tasks, width), 1, width))

    def forward(self, features: Input, attention: Tensor) -> Tensor:
        """Map ``(N, R, width)`` to ``(N, R, width)`` given the attention ``(R, K)``."""
        modules = [self.own, self.same_task, self.other_tasks][: 3 if attention.shape[1] > 1 else 2]
        maps = [tensor for module in modules for tensor in (module.weight, module.bias)]
        return soft_linear(features, attention, maps, self.positions)


def soft_linear(features: Input, attention: Tensor, maps: Sequence[Tensor], positions: Tensor) -> Tensor:
    """Return the soft linear layer of features ``(N, R, d)``; see `SoftLinear`."""
    values = features.values
    assigned = attention.argmax(dim=1)
    others = max(values.shape[1] - 1, 1)
    affine = features.tensors()

    def block(index: int, part: Tensor, attention: Tensor, positions: Tensor, *tensors: Tensor) -> Tensor:
        x = features.finish(part, tensors[: len(affine)])
        weight, bias, same, same_bias, *other = tensors[len(affine) :]
        node = bias + same_bias
        if other:
            weight, same = weight - other[0] / others, same - other[0]
            everything = x.sum(dim=1, keepdim=True) / others + positions.sum(dim=0)
            node = everything @ other[0].T + node + (attention.shape[1] - 1) * other[1]
        contexts = (task_sums(x, attention) / others + positions) @ same.T + node
        share = attention.gather(1, assigned.unsqueeze(1)).unsqueeze(0)
        return x @ weight.T + torch.addcmul(contexts.index_select(1, assigned), x @ (same.T / others), -share)

    blocks = [(rows,) for rows in node_blocks(len(values), values[0].numel(), values.device)]
    return blockwise(block, blocks, [values], [attention, positions, *affine, *maps])


def _pair_blocks(onto: Receivers, slots: int, width: int) -> tuple[list[Block], list[tuple[Tensor, Tensor]]]:
    """Return the slices of the parts of `soft_gin` per block, and its pairs: key within the block, and slot."""
    keys = onto.pairs.keys
    nodes = node_blocks(onto.number, slots * width, keys.device)
    borders = torch.tensor([rows.start * slots for rows in nodes] + [onto.number * slots], device=keys.device)
    ends = torch.searchsorted(keys, borders).tolist()
    pairs = [slice(start, end) for start, end in pairwise(ends)]
    blocks: list[Block] = [(rows, rows, rows, part, part, rows, part) for rows, part in zip(nodes, pairs, strict=True)]
    local = [(keys[part] - rows.start * slots, onto.pairs.slots[part]) for rows, part in zip(nodes, pairs, strict=True)]
    return blocks, local
