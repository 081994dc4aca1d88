"""Double-equivariant layers: one relation against the mean of all others (ISDEA).

All slots that reach neither a node nor its neighbours have the same features there. Features are therefore a *table*
``(M, d)`` with a default row per node and a row per pair that is reached (`reference_models.graphs.reach`). Every map
before a ReLU is linear, so the mean over the other slots is a sum that all rows of the node share, less the row's own
part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from reference_models.equivariant.soft import finish
from reference_models.graphs.reach import Links, Reach, Reached
from reference_models.layers.basic import Linear, Perceptron, RowNorm
from reference_models.layers.basic import linear as linear_by_blocks
from reference_models.layers.blocks import Products, blockwise, node_blocks
from reference_models.layers.rows import share_of_others
from reference_models.layers.sums import products


@dataclass(frozen=True, eq=False)
class Table:
    """Features of every node under every slot: ``values`` ``(M, d)`` has the rows of ``reached``.

    Features are the values times a scale plus a shift, if ``affine`` has them, through a ReLU if ``rectified``. With
    ``kinds`` ``(M,)``, the kind of each row, ``values`` ``(D, d)`` has a row per kind instead.
    """

    values: Tensor
    reached: Reached
    affine: Sequence[Tensor] = ()
    rectified: bool = False
    kinds: Tensor | None = None

    @property
    def counts(self) -> Tensor:
        """The number of pairs of a node and a slot that each value stands for."""
        counts = self.reached.counts
        return counts if self.kinds is None else counts.new_zeros(len(self.values)).index_add_(0, self.kinds, counts)

    def at(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the features ``(*, d)`` of nodes ``(*,)`` under slots ``(*,)``."""
        places = self.reached.rows(nodes, slots)
        if self.kinds is not None:
            places = self.kinds[places]
        rows = self.values.index_select(0, places.reshape(-1)).view(*places.shape, -1)
        return finish(rows, self.affine, rectified=self.rectified)

    def whole(self) -> Tensor:
        """Return the features themselves, ``(N, R, d)``."""
        return self.at(*self.reached.everything)

    def by_row(self) -> Table:
        """Return the table with a value per row."""
        if self.kinds is None:
            return self
        return replace(self, values=self.values.index_select(0, self.kinds), kinds=None)

    def times(self, weight: Tensor) -> Tensor:
        """Return the features times the transpose of a weight ``(b, d)``, ``(M, b)``."""

        def block(_: int, rows: Tensor, weight: Tensor, *affine: Tensor) -> Products:
            rows = finish(rows, affine, rectified=self.rectified)
            return Products(weight.new_zeros(len(weight)), [(rows, weight)])

        blocks = [(rows,) for rows in node_blocks(len(self.values), max(weight.shape), weight.device)]
        mapped = blockwise(block, blocks, [self.values], [weight, *self.affine])
        return mapped if self.kinds is None else mapped.index_select(0, self.kinds)

    def sums(self) -> tuple[Tensor, Tensor]:
        """Return the sum of the features over the slots of each node, ``(N, d)``, and of their outer products.

        The latter, ``(d, d)``, is over all pairs of a node and a slot. The table must have a value per row.
        """
        parts, width = self.reached.parts, self.values.shape[1]

        def block(index: int, _: Tensor, rows: Tensor, *affine: Tensor) -> Products:
            rows, part = finish(rows, affine, rectified=self.rectified), parts[index]
            return Products(torch.cat([part.total @ rows, products(rows, self.reached.counts[part.rows])]))

        sizes = [size for part in parts for size in (part.total.matrix.shape[0], width)]
        borders = [0, *accumulate(sizes)][::2]
        blocks = [(slice(*ends), part.rows) for ends, part in zip(pairwise(borders), parts, strict=True)]
        results = self.values.new_empty(borders[-1], 0)  # without columns: only says where a block's results go
        pieces = torch.split(blockwise(block, blocks, [results, self.values], self.affine), sizes)
        return torch.cat(pieces[::2]), torch.stack(pieces[1::2]).sum(dim=0, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Late:
    """Features that are a linear map of a table's, computed only for the pairs that are asked for.

    They are the table's features times the transpose of ``weight`` ``(b, d)`` plus the row of their node in ``rest``
    ``(N, b)``, all times a scale plus a shift, ``affine``.
    """

    table: Table
    weight: Tensor
    rest: Tensor
    affine: Sequence[Tensor]

    @property
    def values(self) -> Tensor:
        """The rows of the table."""
        return self.table.values

    def at(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the features ``(*, b)`` of nodes ``(*,)`` under slots ``(*,)``."""
        rest = self.rest.index_select(0, nodes.reshape(-1)).view(*nodes.shape, -1)
        return finish(linear_by_blocks(self.table.at(nodes, slots), self.weight) + rest, self.affine, rectified=False)

    def whole(self) -> Tensor:
        """Return the features themselves, ``(N, R, b)``."""
        return self.at(*self.table.reached.everything)


class EquivariantGIN(nn.Module):
    """Out_r = GIN1(X_r; A_r) + GIN2(S_r; A - A_r) with S_r the mean of the other slots' features.

    It is the soft layer of a single task without a position. Source: Gao et al. 2023, as in
    `docs/models.md`, ISDEA layer. ``epsilon`` is zero unless it is learned.
    """

    def __init__(self, width_in: int, width: int, *, learn_epsilon: bool = True) -> None:
        super().__init__()
        self.own = Perceptron(width_in, width)
        self.others = Perceptron(width_in, width)
        self.epsilon = nn.Parameter(torch.zeros(2), requires_grad=learn_epsilon)

    def forward(self, table: Table, links: Links) -> Table:
        """Map a table of M rows to one of M'.

        With Y the features through the first map of GIN2 and T their sum over all slots, a row sums T - Y over its node
        and the neighbours along edges of other slots. Y is the neighbour's default except at its pairs.
        """
        before, near = links.before, (1 + self.epsilon).unsqueeze(1).expand(2, len(self.own.first.weight))
        own, rest = table.times(self.own.first.weight), table.times(self.others.first.weight)
        less = rest - before.spread @ (before.total @ rest)
        usual = links.union @ less.index_select(0, before.defaults)
        seen = links.own @ less - near[1] * less - before.spread @ usual
        apart = links.others @ (rest - before.spread @ rest.index_select(0, before.defaults))
        factor = share_of_others(before.num_slots)

        def block(index: int, apart: Tensor, seen: Tensor, own: Tensor, *maps: Tensor) -> Products:
            _, own_bias, second, bias, _, rest_bias, rest_second, more = maps
            rows = links.rows[index]
            # The second biases of both perceptrons are added to these M rows, not to the M' that they are copied to.
            own = linear(torch.relu(own + own_bias), second, bias + more)
            rest = torch.relu(torch.add(rest_bias, rows @ seen - apart, alpha=factor))
            return Products(rows @ own, [(rest, rest_second)])

        parts = [apart, seen, near[0] * own + links.own @ own]
        blocks = [(after, there, there) for after, there in links.blocks]
        values = blockwise(block, blocks, parts, [*self.own.parameters(), *self.others.parameters()])
        return Table(values, links.after)

    def of_constant(self, reach: Reach) -> Table:
        """Return the layer of the constant input 1 of width 1, for the first layer's pairs.

        A row depends on how many edges of its slot and how many others reach the node; each such pair of numbers is a
        kind.
        """
        first = reach.layers[0]
        own = torch.zeros_like(first.counts).index_copy_(0, first.pairs, reach.own_degrees)
        rest = reach.degrees.index_select(0, first.owners) - own
        base = rest.max().long() + 1  # so that a pair of numbers is one key
        keys, kinds = torch.unique(own.long() * base + rest.long(), return_inverse=True)
        numbers = torch.div(keys, base, rounding_mode="floor"), keys % base
        factors = 1.0, (first.num_slots - 1) * share_of_others(first.num_slots)
        values = torch.zeros((), dtype=own.dtype, device=own.device)
        for number, factor, epsilon, perceptron in zip(
            numbers, factors, self.epsilon, (self.own, self.others), strict=True
        ):
            values = values + perceptron(factor * (1 + epsilon + number.to(own.dtype)).unsqueeze(1))
        return Table(values, first, kinds=kinds)


class EquivariantLinear(nn.Module):
    """Out_r = X_r W1 + S_r W2 with biases, S_r the mean of the other slots' features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = Linear(width, width)
        self.others = Linear(width, width)

    def forward(self, table: Table) -> Table:
        """Map a table to one of the same rows."""
        table = table.by_row()
        parts, factor = table.reached.parts, share_of_others(table.reached.num_slots)

        def block(index: int, rows: Tensor, *tensors: Tensor) -> Products:
            own, bias, others, more, *affine = tensors
            rows, part = finish(rows, affine, rectified=table.rectified), parts[index]
            # W1 X_r + W2 (T - X_r) / c is a part of the node, the same for all its rows, and one map of the row.
            others = factor * others
            return Products(part.spread @ linear(part.total @ rows, others, bias + more), [(rows, own - others)])

        maps = [self.own.weight, self.own.bias, self.others.weight, self.others.bias]
        values = blockwise(block, [(part.rows,) for part in parts], [table.values], [*maps, *table.affine])
        return Table(values, table.reached)

    def late(self, table: Table, norm: RowNorm) -> Late:
        """Return the layer and its norm in training, without computing its rows.

        Mean and variance over all rows follow from sums over the table, so that only rows that are scored are computed.
        """
        table = table.by_row()
        slots = table.reached.num_slots
        others = share_of_others(slots) * self.others.weight
        weight = self.own.weight - others
        # A row is W x + rest of its node: its mean and mean square follow from the sums of x and of x x'.
        totals, squares = table.sums()
        rest = linear_by_blocks(totals, others, self.own.bias + self.others.bias)
        sums = linear_by_blocks(totals, weight)
        total = table.counts.sum(dtype=torch.float64)
        mean = (sums + slots * rest).sum(dim=0, dtype=torch.float64) / total
        square = (weight.unsqueeze(1) * squares * weight.unsqueeze(2)).sum(dim=(1, 2))
        square = square + (rest * (2 * sums + slots * rest)).sum(dim=0, dtype=torch.float64)
        variance = square / total - mean.square()
        affine = norm.of_moments(mean.to(rest.dtype), variance.clamp_min(0).to(rest.dtype), total)
        return Late(table, weight, rest, affine)


class EquivariantPerceptron(nn.Module):
    """Out_r = MLP1(X_r) + MLP2(S_r), S_r the mean of the other slots' features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = Perceptron(width, width)
        self.others = Perceptron(width, width)

    def forward(self, table: Table) -> Table:
        """Map a table to one of the same rows."""
        table = table.by_row()
        parts, factor = table.reached.parts, share_of_others(table.reached.num_slots)

        def block(index: int, rows: Tensor, *tensors: Tensor) -> Products:
            own, own_bias, second, bias, others, others_bias, others_second, more, *affine = tensors
            rows, part = finish(rows, affine, rectified=table.rectified), parts[index]
            others = factor * others
            rest = part.spread @ linear(part.total @ rows, others, others_bias) - linear(rows, others)
            hidden = linear(rows, own, own_bias)
            return Products(bias + more, [(hidden.relu(), second), (rest.relu(), others_second)])

        maps = [*self.own.parameters(), *self.others.parameters()]
        values = blockwise(block, [(part.rows,) for part in parts], [table.values], [*maps, *table.affine])
        return Table(values, table.reached)
