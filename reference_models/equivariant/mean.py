"""Double-equivariant layers: one relation against the mean of all others (ISDEA).

Slots without a task of their own that reach neither a node nor its neighbours are alike there. Features are therefore
a *table* ``(N + P, d)``: a default row per node, then a row per pair that is reached (`reference_models.graphs.reach`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from reference_models.graphs.reach import Links, Reach, Reached
from reference_models.layers.basic import Linear, Perceptron
from reference_models.layers.blocks import Products, blockwise, node_blocks
from reference_models.layers.readings import share_of_others

COLUMNS = 256
"""In how many parts a gradient over all rows is added up."""


class EquivariantGIN(nn.Module):
    """Out_r = GIN1(X_r; A_r) + GIN2(S_r; A - A_r) with S_r the mean of the other slots' features.

    It is the soft layer of a single task without a position. Source: Gao et al. 2023, as in
    `docs/models.md`, ISDEA layer. ``epsilon`` is learnable if asked for; with ``mean`` ``sum`` S_r is the sum.
    """

    def __init__(self, width_in: int, width: int, *, learn_epsilon: bool, mean: str = "literal") -> None:
        super().__init__()
        self.mean = mean
        self.own = Perceptron(width_in, width)
        self.others = Perceptron(width_in, width)
        self.epsilon = nn.Parameter(torch.zeros(2), requires_grad=learn_epsilon)

    def forward(self, table: Tensor, links: Links) -> Tensor:
        """Map ``(N + P, width_in)`` to ``(N + Q, width)``.

        With T the sum of X over all slots, a default sees T - X at its node and the neighbours; a pair sees its own
        X instead, without what its slot's edges bring.
        """
        near, before, after = self._near(table.shape[1]), links.before, links.after
        usual, pairs = table.tensor_split([len(before.usual)])
        mine, total = table.index_select(0, links.rows), before.sums(table)
        others = total - usual
        seen = near[1] * others + links.union @ others
        own = links.own @ table
        apart = near[1] * (usual.index_select(0, after.nodes) - mine) + own - links.own_nodes @ total
        apart = apart - links.others @ (pairs - usual.index_select(0, before.nodes))
        factor = share_of_others(self.mean, before.num_slots)
        return row_maps(
            torch.cat([near[0] * usual, near[0] * mine + own]),
            factor * torch.cat([seen, seen.index_select(0, after.nodes) + apart]),
            [*self.own.weights(), *self.others.weights()],
        )

    def _near(self, width: int) -> Tensor:
        """Return 1 + epsilon of both maps, ``(2, width)``: a gradient is then added up by columns.

        One sum over everything would depend on the number of threads.
        """
        return (1 + self.epsilon).unsqueeze(1).expand(2, width)

    def of_constant(self, reach: Reach) -> Tensor:
        """Return the layer of the constant input 1 of width 1: ``(N + P, width)``, P the first layer's pairs."""
        first = reach.layers[0]
        own = torch.cat([torch.zeros_like(reach.degrees), reach.own_degrees])
        near = self._near(COLUMNS).repeat(1, len(own) // COLUMNS + 1)[:, : len(own)]
        degrees = torch.cat([reach.degrees, reach.degrees.index_select(0, first.nodes)])
        number = first.num_slots - 1
        others = number * share_of_others(self.mean, first.num_slots) * (near[1] + degrees - own)
        return row_maps((near[0] + own)[:, None], others[:, None], [*self.own.weights(), *self.others.weights()])


class EquivariantLinear(nn.Module):
    """Out_r = X_r W1 + S_r W2 with biases, S_r the mean of the other slots' features."""

    def __init__(self, width: int, mean: str = "literal") -> None:
        super().__init__()
        self.mean = mean
        self.own = Linear(width, width)
        self.others = Linear(width, width)

    def forward(self, table: Tensor, reached: Reached) -> Tensor:
        """Map ``(N + P, width)`` to the same shape."""
        maps = [self.own.weight, self.own.bias, self.others.weight, self.others.bias]
        return row_maps(table, _others(table, reached, self.mean), maps)


class EquivariantPerceptron(nn.Module):
    """Out_r = MLP1(X_r) + MLP2(S_r), S_r the mean of the other slots' features."""

    def __init__(self, width: int, mean: str = "literal") -> None:
        super().__init__()
        self.mean = mean
        self.own = Perceptron(width, width)
        self.others = Perceptron(width, width)

    def forward(self, table: Tensor, reached: Reached) -> Tensor:
        """Map ``(N + P, width)`` to the same shape."""
        return row_maps(table, _others(table, reached, self.mean), [*self.own.weights(), *self.others.weights()])


@dataclass(frozen=True, eq=False)
class Table:
    """Features of every node under every slot, as a table ``(N + P, d)`` and the pairs that have rows of their own."""

    values: Tensor
    reached: Reached

    def at(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the features ``(*, d)`` of nodes ``(*,)`` under slots ``(*,)``."""
        places = self.reached.rows(nodes, slots)
        return self.values.index_select(0, places.reshape(-1)).view(*places.shape, -1)

    def whole(self) -> Tensor:
        """Return the features themselves, ``(N, R, d)``."""
        nodes, slots = (torch.arange(number, device=self.values.device) for number in self.reached.shape)
        return self.at(*torch.meshgrid(nodes, slots, indexing="ij"))


def _others(table: Tensor, reached: Reached, mean: str) -> Tensor:
    """Return S_r for every row of a table."""
    total = reached.sums(table)
    return share_of_others(mean, reached.num_slots) * (torch.cat([total, total.index_select(0, reached.nodes)]) - table)


def row_maps(own: Tensor, others: Tensor, maps: Sequence[Tensor]) -> Tensor:
    """Return L1(own) + L2(others) for rows ``(M, d)``, each a linear map or a perceptron by its weights and biases."""

    def block(index: int, own: Tensor, others: Tensor, *maps: Tensor) -> Products:
        half = len(maps) // 2
        (mine, bias), (rest, more) = _last_map(own, maps[:half]), _last_map(others, maps[half:])
        return Products(bias + more, [mine, rest])

    blocks = [(rows, rows) for rows in node_blocks(len(own), maps[0].shape[0], own.device)]
    return blockwise(block, blocks, [own, others], maps)


def _last_map(rows: Tensor, maps: Sequence[Tensor]) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return what the last linear map of L takes, with its weight, and its bias."""
    weight, bias, *second = maps
    if second:
        rows, (weight, bias) = torch.relu(torch.addmm(bias, rows, weight.T)), second
    return (rows, weight), bias
