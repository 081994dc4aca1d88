"""The graph of relations that InGram attends over: relations are near that share heads or tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray
from reference_models.graphs.graph import inverted


@dataclass(frozen=True, eq=False)
class Messages:
    """Triples with their inverses as edges between entities, and the weighted graph of their relations.

    ``heads``, ``slots`` and ``tails`` ``(e,)`` run from head to tail. The relation ``receivers[i]`` attends to
    ``senders[i]`` with an affinity that falls into bin ``bins[i]``, 0 the strongest; all int64.
    """

    heads: Tensor
    slots: Tensor
    tails: Tensor
    receivers: Tensor
    senders: Tensor
    bins: Tensor
    num_nodes: int
    num_slots: int


def messages_of(triples: IntArray, num_nodes: int, slots: int, bins: int, device: torch.device) -> Messages:
    """Return the messages of triples ``(m, 3)`` over ``slots`` relations; inverses are slots of their own."""
    doubled = np.concatenate([triples, inverted(triples, slots)])
    rows, columns, found = binned(affinities(doubled, num_nodes, 2 * slots), bins)
    heads, relations, tails, receivers, senders, binned_as = (
        torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (*doubled.T, rows, columns, found)
    )
    return Messages(heads, relations, tails, receivers, senders, binned_as, num_nodes, 2 * slots)


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
    """Return rows, columns and bins ``(nnz,)`` of the positive weights, ``bins`` bins of about equal size.

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
