"""The graph of relations that InGram attends over: relations are near that share heads or tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from mtbench.data.splits import inverted
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Ends:
    """One end of every edge: ``places`` ``(e,)`` are rows of a table.

    Edges ``order[starts[i] : starts[i + 1]]`` have row i there; ``receivers`` are those of the edges in that order.
    """

    places: Tensor
    order: Tensor
    starts: Tensor
    receivers: Tensor

    @property
    def rows(self) -> int:
        """How many rows the table has, those at no edge's end included."""
        return len(self.starts) - 1


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges in the order of their receivers, ``ends[0]``; ``joined`` ``(e, ends)`` are places in all tables as one."""

    ends: tuple[Ends, ...]
    joined: Tensor

    @classmethod
    def of(cls, *ends: tuple[Tensor, int]) -> Edges:
        """Sort edges by receiver, each end given by its places and the number of rows there are."""
        receivers, sort = torch.sort(ends[0][0], stable=True)
        found, joined, below = [], [], 0
        for given, rows in ends:
            places = given.index_select(0, sort)
            ordered, order = torch.sort(places, stable=True)
            starts = torch.searchsorted(ordered, torch.arange(rows + 1, device=places.device))
            found.append(Ends(places, order, starts, receivers.index_select(0, order)))
            joined.append(places + below)
            below += rows
        return cls(tuple(found), torch.stack(joined, dim=1))


@dataclass(frozen=True, eq=False)
class Messages:
    """Triples with their inverses as edges between entities, and the weighted graph of their relations.

    ``relations`` join tails and relations. ``entities`` join tails, heads and relations, and every entity with itself
    and with a relation of its own, counted after the slots. In ``near`` relations attend to relations, with an affinity
    that falls into bin ``bins[i]``, 0 the strongest.
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
    """Return the messages of triples ``(m, 3)`` over ``slots`` relations; inverses are slots of their own."""
    doubled = np.concatenate([triples, inverted(triples, slots)])
    near = binned(affinities(doubled, num_nodes, 2 * slots), bins)
    receivers, senders, found = (torch.from_numpy(part).to(device) for part in near)
    return Messages.of(torch.from_numpy(doubled).to(device), (receivers, senders, found), num_nodes, 2 * slots)


def affinities(triples: IntArray, num_nodes: int, slots: int) -> sparse.csr_array:
    """Return W ``(slots, slots)``: E' D^-2 E over heads plus the same over tails, its diagonal kept.

    ``E[i, r]`` counts the triples of relation r with entity i at that end and D is its row sum: entities
    with many triples say less about which relations belong together. Source: Lee et al. 2023.
    """
    total = sparse.csr_array((slots, slots))
    for column in (HEAD, TAIL):
        ends = triples[:, column]
        shares = 1 / np.bincount(ends, minlength=num_nodes)[ends]
        scaled = sparse.coo_array((shares, (ends, triples[:, RELATION])), shape=(num_nodes, slots)).tocsr()
        total = total + scaled.T @ scaled
    return sparse.csr_array(total)


def binned(weights: sparse.csr_array, bins: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return rows, increasing, columns and bins ``(nnz,)`` of the positive weights, ``bins`` bins of about equal size.

    With ranks from 1 for the largest, the bin is ceil(rank * bins / nnz) - 1. Equal weights share the
    rank of their first, so that no bin depends on the order in which relations are numbered; they are
    compared in single precision, because their sums round differently in another order.
    """
    entries = weights.tocoo()
    values: FloatArray = entries.data.astype(np.float32).astype(np.float64)
    better = np.searchsorted(np.sort(-values), -values, side="left")
    rank = better + 1
    found = -(-rank * bins // max(len(values), 1)) - 1
    return entries.row.astype(np.int64), entries.col.astype(np.int64), found.astype(np.int64)
