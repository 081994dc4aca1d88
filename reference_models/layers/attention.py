"""InGram's layers: multi-head attention over the edges of a graph, for relations that share ends and for entities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from mtbench.data.splits import inverted
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray
from reference_models.layers.basic import RowLinear, linear
from reference_models.layers.blocks import EDGES, in_threads


@dataclass(frozen=True, eq=False)
class Ends:
    """One end of every edge, as a row of a table: ``places`` ``(e,)``.

    Edges ``order[starts[i] : starts[i + 1]]`` end at row i; ``receivers`` ``(e,)`` are their receivers in that order.
    """

    places: Tensor
    order: Tensor
    starts: Tensor
    receivers: Tensor

    @property
    def rows(self) -> int:
        """The number of rows of the table, those without an edge included."""
        return len(self.starts) - 1


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges sorted by receiver, ``ends[0]``; ``joined`` ``(e, ends)`` are places in the tables of all ends stacked."""

    ends: tuple[Ends, ...]
    joined: Tensor

    @classmethod
    def of(cls, *ends: tuple[Tensor, int]) -> Edges:
        """Sort edges by receiver; each end is given by its places ``(e,)`` and the number of rows of its table."""
        receivers, sort = torch.sort(ends[0][0], stable=True)
        sides, joined, below = [], [], 0
        for unsorted, rows in ends:
            places = unsorted.index_select(0, sort)
            ordered, order = torch.sort(places, stable=True)
            starts = torch.searchsorted(ordered, torch.arange(rows + 1, device=places.device))
            sides.append(Ends(places, order, starts, receivers.index_select(0, order)))
            joined.append(places + below)
            below += rows
        return cls(tuple(sides), torch.stack(joined, dim=1))


@dataclass(frozen=True, eq=False)
class Messages:
    """Triples with their inverses as edges between entities, and the weighted graph of their relations.

    ``relations`` join tails and relations. ``entities`` join tails, heads and relations; each entity also has an edge
    to itself, with a relation of its own that is numbered after the slots. In ``near`` relations attend to relations;
    the affinity of edge i is in bin ``bins[i]``, 0 the strongest.
    """

    relations: Edges
    entities: Edges
    near: Edges
    bins: Tensor
    num_nodes: int
    num_slots: int

    @classmethod
    def of(cls, triples: Tensor, near: tuple[Tensor, Tensor, Tensor], num_nodes: int, num_slots: int) -> Messages:
        """Index triples ``(e, 3)``, and receivers (in increasing order), senders and bins of the relations' edges."""
        heads, slots, tails = triples.unbind(dim=1)
        everyone = torch.arange(num_nodes, device=triples.device)
        entities = Edges.of(
            (torch.cat([tails, everyone]), num_nodes),
            (torch.cat([heads, everyone]), num_nodes),
            (torch.cat([slots, num_slots + everyone]), num_slots + num_nodes),
        )
        receivers, senders, bins = near
        return cls(
            Edges.of((tails, num_nodes), (slots, num_slots)),
            entities,
            Edges.of((receivers, num_slots), (senders, num_slots)),
            bins,
            num_nodes,
            num_slots,
        )


def messages_of(triples: IntArray, num_nodes: int, slots: int, bins: int, device: torch.device) -> Messages:
    """Return the messages of triples ``(m, 3)`` over ``slots`` relations and as many inverses."""
    doubled = np.concatenate([triples, inverted(triples, slots)])
    near = binned(affinities(doubled, num_nodes, 2 * slots), bins)
    receivers, senders, edge_bins = (torch.from_numpy(part).to(device) for part in near)
    return Messages.of(torch.from_numpy(doubled).to(device), (receivers, senders, edge_bins), num_nodes, 2 * slots)


def affinities(triples: IntArray, num_nodes: int, slots: int) -> sparse.csr_array:
    """Return W ``(slots, slots)``: E' D^-2 E over heads plus the same over tails, its diagonal kept.

    ``E[i, r]`` counts the triples of relation r with entity i at that end, and D is its row sum, so that entities with
    many triples say less about which relations belong together. Source: Lee et al. 2023.
    """
    total = sparse.csr_array((slots, slots))
    for column in (HEAD, TAIL):
        ends = triples[:, column]
        shares = 1 / np.bincount(ends, minlength=num_nodes)[ends]
        scaled = sparse.coo_array((shares, (ends, triples[:, RELATION])), shape=(num_nodes, slots)).tocsr()
        total = total + scaled.T @ scaled
    return sparse.csr_array(total)


def binned(weights: sparse.csr_array, bins: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return rows (increasing), columns and bins ``(nnz,)`` of the positive weights; bins are of about equal size.

    With ranks from 1 for the largest, the bin is ceil(rank * bins / nnz) - 1. Equal weights share the rank of the first
    of them, so that no bin depends on how relations are numbered. They are compared in single precision, because their
    sums round differently in another order.
    """
    entries = weights.tocoo()
    values: FloatArray = entries.data.astype(np.float32).astype(np.float64)
    better = np.searchsorted(np.sort(-values), -values, side="left")
    rank = better + 1
    bin_of = -(-rank * bins // max(len(values), 1)) - 1
    return entries.row.astype(np.int64), entries.col.astype(np.int64), bin_of.astype(np.int64)


SLOPE = 0.2


class XavierLinear(RowLinear):
    """A linear map with Xavier-normal weights of gain sqrt(2) and zero biases."""

    def reset_parameters(self) -> None:
        """Draw the weights anew and set the biases to zero."""
        nn.init.xavier_normal_(self.weight, gain=math.sqrt(2))
        nn.init.zeros_(self.bias)


class _Attention(nn.Module):
    """The maps that both layers have: P before the nonlinearity, a vector y per head, W of the values, and Res."""

    def __init__(self, width: int, heads: int, attended: int, valued: int) -> None:
        super().__init__()
        self.before = XavierLinear(attended, width)
        self.vectors = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, heads, width // heads), gain=math.sqrt(2)))
        self.values = XavierLinear(valued, width)
        self.residual = XavierLinear(width, width)

    def _maps(self, width: int) -> tuple[Tensor, Tensor]:
        """Return the maps of rows ``(*, width)`` stacked as one: both parts of P, the part of W, and Res."""
        to, of = self.before.weight[:, :width], self.before.weight[:, width : 2 * width]
        weight = torch.cat([to, of, self.values.weight[:, :width], self.residual.weight])
        bias = torch.cat([self.before.bias, torch.zeros_like(self.before.bias), self.values.bias, self.residual.bias])
        return weight, bias


class RelationAttention(_Attention):
    """z_i <- ReLU(sum over neighbours j of beta_ij W z_j, heads side by side, + Res z_i).

    The logits are y . LeakyReLU(P [z_i, z_j]) + c, with a learned c per affinity bin and head. A linear map of
    concatenated vectors is the sum of its parts, which are computed per relation and not per edge.
    """

    def __init__(self, width: int, heads: int, bins: int) -> None:
        super().__init__(width, heads, attended=2 * width, valued=width)
        self.offsets = nn.Parameter(torch.zeros(bins, heads))

    def forward(self, relations: Tensor, edges: Edges, bins: Tensor) -> Tensor:
        """Map ``(slots, width)`` to the same shape, along edges ``(e,)`` in bins ``(e,)``."""
        # One product for the four maps of a row: they read the rows once.
        to, of, values, residual = linear(relations, *self._maps(relations.shape[1])).chunk(4, dim=1)
        offsets = self.offsets.index_select(0, bins)
        return torch.relu(attend(edges, self.vectors[0], [to, of], [values], offsets) + residual)


class EntityAttention(_Attention):
    """e_i <- ReLU(sum over in-edges (j, r) of beta W [e_j, z_r], heads side by side, + Res e_i).

    The logits are y . LeakyReLU(P [e_i, e_j, z_r]). Every entity also attends to itself, through the mean of
    the relations of its in-edges, zero where it has none.
    """

    def __init__(self, width: int, relation_width: int, heads: int) -> None:
        super().__init__(width, heads, attended=2 * width + relation_width, valued=width + relation_width)

    def forward(
        self, entities: Tensor, relations: Tensor, messages: Messages, first: nn.Linear | None = None
    ) -> Tensor:
        """Map entities ``(N, width)`` to the same shape, given relations ``(slots, relation_width)``.

        With ``first``, a linear map, ``entities`` are its input: two linear maps in a row are computed as one.
        """
        weight, bias = self._maps(self.residual.in_features)
        if first is not None:
            weight, bias = linear(weight, first.weight.T), linear(weight, first.bias[None]).squeeze(1) + bias
        to, of, values, residual = linear(entities, weight, bias).chunk(4, dim=1)
        width = self.residual.in_features
        kinds = linear(relations, torch.cat([self.before.weight[:, 2 * width :], self.values.weight[:, width:]]))
        by, by_values = _WithMeans.apply(kinds, messages.relations).chunk(2, dim=1)  # type: ignore[no-untyped-call]
        attended = attend(messages.entities, self.vectors[0], [to, of, by], [values, by_values])
        return torch.relu(attended + residual)


def attend(
    edges: Edges, vectors: Tensor, before: Sequence[Tensor], values: Sequence[Tensor], offsets: Tensor | None = None
) -> Tensor:
    """Return per receiver and head the mean of its edges' values under the softmax of their logits, ``(N, H d)``.

    Every end of an edge (`Edges.ends`) has a row ``(*, H d)`` in its table of ``before``, and every end but the
    receiver has one in ``values``; those of an edge are the sums over its ends. With ``vectors`` y ``(H, d)`` a logit
    is y . LeakyReLU(before), plus the edge's ``offsets`` ``(e, H)``. Heads are computed one by one, and again in the
    backward pass, so that no array holds a vector per edge and head. A receiver without edges gets zero.
    """
    return _Attend.apply(edges, vectors, offsets, len(before), *before, *values)  # type: ignore[no-any-return, no-untyped-call]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: Edges, vectors: Tensor, offsets: Tensor | None, count: int, *tables: Tensor) -> Tensor:
        heads, width = vectors.shape
        receivers = edges.ends[0]
        out = torch.empty(receivers.rows, heads * width, dtype=vectors.dtype, device=vectors.device)
        weights = torch.empty(heads, len(receivers.places), dtype=vectors.dtype, device=vectors.device)

        def attend_head(head: int) -> None:
            part = slice(head * width, (head + 1) * width)
            logits, table = weights[head], torch.cat([rows[:, part] for rows in tables[:count]])
            # The sums of an edge are gathered in blocks that stay in the cache; only its logit is kept.
            for block in _blocks(logits):
                logits[block] = leaky_relu(_sums(edges.joined[block], table), SLOPE, inplace=True) @ vectors[head]
            if offsets is not None:
                logits += offsets[:, head]
            # The softmax of every receiver, shifted by its largest logit: exp never overflows.
            logits -= torch.segment_reduce(logits, "max", offsets=receivers.starts, axis=0).index_select(
                0, receivers.places
            )
            logits.exp_()
            logits /= torch.segment_reduce(logits, "sum", offsets=receivers.starts, axis=0).index_select(
                0, receivers.places
            )
            out[:, part] = sum(
                _weighted(end.places, rows[:, part], receivers.starts, logits)
                for end, rows in zip(edges.ends[1:], tables[count:], strict=True)
            )

        for _ in in_threads(attend_head, heads, vectors.device):
            pass
        ctx.edges, ctx.count = edges, count
        ctx.save_for_backward(vectors, offsets, weights, out, *tables)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        vectors, offsets, weights, out, *tables = ctx.saved_tensors
        edges, count = ctx.edges, ctx.count
        heads, width = vectors.shape
        receivers = edges.ends[0]
        of_vectors, of_tables = torch.empty_like(vectors), [torch.empty_like(table) for table in tables]
        of_offsets = None if offsets is None else torch.empty_like(offsets)

        def descend_head(head: int) -> None:
            part = slice(head * width, (head + 1) * width)
            own, share = gradient[:, part].contiguous(), weights[head]
            for end, result in zip(edges.ends[1:], of_tables[count:], strict=True):
                result[:, part] = _weighted(end.receivers, own, end.starts, share.index_select(0, end.order))
            before, values = (
                torch.cat([rows[:, part] for rows in group]) for group in (tables[:count], tables[count:])
            )
            of_logits, passed = torch.empty_like(share), before.new_empty(len(share), width)
            for block in _blocks(share):
                products = _sums(edges.joined[block, 1:] - receivers.rows, values)
                of_logits[block] = products.mul_(own.index_select(0, receivers.places[block])).sum(dim=1)
                torch.gt(_sums(edges.joined[block], before), 0, out=passed[block])
            # A softmax's gradient: the weight times what the edge's value has above the mean, which is ``out``.
            of_logits -= (own * out[:, part]).sum(dim=1).index_select(0, receivers.places)
            of_logits *= share
            if of_offsets is not None:
                of_offsets[:, head] = of_logits
            of_vector = torch.zeros_like(vectors[head])
            for end, rows, result in zip(edges.ends, tables[:count], of_tables[:count], strict=True):
                ordered = of_logits.index_select(0, end.order)
                # LeakyReLU's slope is SLOPE, and 1 - SLOPE more where the input was positive.
                slopes = _weighted(end.order, passed, end.starts, ordered).mul_(1 - SLOPE)
                slopes += SLOPE * torch.segment_reduce(ordered, "sum", offsets=end.starts, axis=0).unsqueeze(1)
                of_vector += (slopes * rows[:, part]).sum(dim=0)
                torch.mul(slopes, vectors[head], out=result[:, part])
            of_vectors[head] = of_vector

        for _ in in_threads(descend_head, heads, vectors.device):
            pass
        return (None, of_vectors, of_offsets, None, *of_tables)


class _WithMeans(torch.autograd.Function):
    """The rows of the senders, followed by each receiver's mean of them over its edges, zero without any."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, edges: Edges) -> Tensor:
        receivers, senders = edges.ends
        ctx.edges, ctx.shares = edges, (1 / receivers.starts.diff().to(rows.dtype)).index_select(0, receivers.places)
        return torch.cat([rows, _weighted(senders.places, rows, receivers.starts, ctx.shares)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        _, senders = ctx.edges.ends
        shares = ctx.shares.index_select(0, senders.order)
        passed = _weighted(senders.receivers, gradient[senders.rows :], senders.starts, shares)
        return gradient[: senders.rows] + passed, None


def _blocks(edges: Tensor) -> list[slice]:
    size = EDGES[edges.device.type]
    return [slice(start, start + size) for start in range(0, len(edges), size)]


def _sums(places: Tensor, table: Tensor) -> Tensor:
    """Return the sums ``(m, d)`` of the rows at ``places`` ``(m, k)``, over k."""
    return torch.nn.functional.embedding_bag(places, table, mode="sum")


def _weighted(places: Tensor, rows: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    """Return per group of places, which begin at ``starts``, the weighted sum of the rows at these places."""
    return torch.nn.functional.embedding_bag(
        places, rows.contiguous(), starts, mode="sum", per_sample_weights=weights, include_last_offset=True
    )
