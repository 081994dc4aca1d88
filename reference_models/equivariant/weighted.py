"""The soft GIN layer whose contexts are summed over edges weighted by task ("reading B").

With B_k the sum over r of alpha[r, k] A_r, row (v, r) of L2 and L3 sees, in task k and with a = alpha[r, k],
((1 + eps) + B_k - a A_r) (p_k + S_rk). B_k X_r differs for every r and k, so that no sum can be shared
between relations: the layer is computed for a few slots at a time and, in the backward pass, once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from reference_models.graphs.graph import Receivers
from reference_models.graphs.operators import Operator, product
from reference_models.layers.blocks import Block, Products, blockwise, node_blocks
from reference_models.layers.readings import Reading, Shares, spread
from reference_models.layers.rows import factor_of, take, times
from reference_models.layers.sums import task_sums


def soft_gin_by_task(
    features: Tensor,
    onto: Receivers,
    attention: Tensor,
    maps: Sequence[Tensor],
    positions: Tensor,
    near: Tensor | None,
    reading: Reading,
) -> Tensor:
    """Return the layer of features ``(N, R, d)`` for the receivers, ``(M, R, width)``; ``near``: see `factor_of`."""
    pairs = onto.pairs
    sums = task_sums(features, attention)
    own_sums = (pairs.from_nodes @ sums.flatten(1)).view(-1, *sums.shape[1:])
    weights = spread(attention, pairs.slots)
    reached = times(near, 1, onto.of(sums)) + join(onto, weights, own_sums)
    reach = factor_of(near, 1) + join(onto, weights, pairs.degrees.view(-1, 1, 1)).squeeze(2)
    by_slot = torch.argsort(pairs.slots, stable=True)
    starts = [0, *torch.bincount(pairs.slots, minlength=len(attention)).cumsum(0).tolist()]
    width = max(features.shape[2], maps[0].shape[0])
    blocks: list[Block] = [
        (slots, slice(starts[slots.start], starts[slots.stop]))
        for slots in node_blocks(len(attention), onto.number * attention.shape[1] * width, features.device)
    ]

    def block(index: int, *tensors: Any) -> Products:
        x, own_sums, weights, reached, reach, attention, positions, near, *maps = tensors
        slots, chosen = blocks[index]
        places = by_slot[chosen]
        number = slots.stop - slots.start
        edges = pairs.from_nodes @ x.transpose(0, 1).flatten(1)
        met = join_rows(onto, weights, edges).view(onto.number, -1, number, x.shape[2])
        own = take(edges.view(-1, x.shape[2]), places * number + pairs.slots[places] - slots.start)
        at = onto.of(x.transpose(0, 1))
        every = Shares.of(attention, reading)
        shares, pair = every.at(torch.arange(slots.start, slots.stop, device=x.device)), every.at(pairs.slots[places])
        seen = _by_task(shares.own) * (times(near, 1, at.unsqueeze(1)) + met)
        seen = seen + _by_task(shares.factor) * reached.unsqueeze(2) + (reach.unsqueeze(2) * positions).unsqueeze(2)
        share = pair.attention.transpose(1, 2)
        factor = pair.factor if isinstance(pair.factor, float) else pair.factor.transpose(1, 2)
        less = factor * (own_sums - share * own.unsqueeze(1)) + pairs.degrees[places].view(-1, 1, 1) * positions
        rows = pairs.nodes[places] * number + pairs.slots[places] - slots.start
        keys = torch.arange(attention.shape[1], device=x.device) * number + rows.unsqueeze(1)
        keys = keys + (pairs.nodes[places] * (attention.shape[1] - 1) * number).unsqueeze(1)
        seen = _add(seen, keys.flatten(), (-share * less).flatten(0, 1))
        return Products(_rows(_add(times(near, 0, at), rows, own), seen, shares, maps).transpose(0, 1))

    shared = [weights, reached, reach, attention, positions, near, *maps]
    parts = [features.transpose(0, 1), own_sums[by_slot]]
    return blockwise(block, blocks, parts, shared).transpose(0, 1).contiguous()


def _rows(own: Tensor, seen: Tensor, shares: Shares, maps: Sequence[Tensor]) -> Tensor:
    """Return ``(m, s, width)`` of what L1 sees, ``(m, s, d)``, and what L2 and L3 see per task, ``(m, K, s, d)``."""
    first, bias, second, last = maps[:4]
    out = torch.relu(own @ first.T + bias) @ second.T
    first, bias, second, same_last = maps[4:8]
    if shares.same is None:
        assigned = shares.assigned.view(1, 1, -1, 1).expand(len(seen), 1, -1, seen.shape[3])
        hidden = torch.relu(seen.gather(1, assigned).squeeze(1) @ first.T + bias)
    else:
        hidden = (torch.relu(seen @ first.T + bias) * _by_task(shares.same)).sum(dim=1)
    out, total = out + hidden @ second.T, last + same_last
    if len(maps) > 8:
        first, bias, second, last = maps[8:]
        hidden = (torch.relu(seen @ first.T + bias) * _by_task(shares.others())).sum(dim=1)
        out, total = out + hidden @ second.T, total + (seen.shape[1] - 1) * last
    return out + total


def _by_task(shares: Any) -> Any:
    """Return shares of single slots, ``(s, 1, K)``, as ``(K, s, 1)``; a plain factor stays one."""
    return shares if isinstance(shares, float) else shares.permute(2, 0, 1)


def _add(rows: Tensor, keys: Tensor, more: Tensor) -> Tensor:
    """Return ``rows`` ``(*, d)`` with ``more`` added at the given, distinct rows."""
    return rows.flatten(0, -2).index_add(0, keys, more).view(rows.shape)


def join(onto: Receivers, weights: Tensor, rows: Tensor) -> Tensor:
    """Return the sum of weights_k rows_k over the pairs of each receiver: ``(P, K), (P, 1|K, d) -> (M, K, d)``."""
    weighted = weights.unsqueeze(2) * rows
    return (onto.of_pairs @ weighted.flatten(1)).view(onto.number, *weighted.shape[1:])


def join_rows(onto: Receivers, weights: Tensor, rows: Tensor) -> Tensor:
    """Return `join` of the same rows in every task, ``(P, K), (P, f) -> (M, K, f)``, without an array ``(P, K, f)``."""
    return _JoinRows.apply(weights, rows, onto)  # type: ignore[no-any-return, no-untyped-call]


class _JoinRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, rows: Tensor, onto: Receivers) -> Tensor:
        ctx.nodes = onto.pairs.nodes
        ctx.save_for_backward(weights, rows)
        out = rows.new_empty(onto.number, weights.shape[1], rows.shape[1])
        for task in range(weights.shape[1]):
            out[:, task] = product(_weighted(onto.of_pairs, weights[:, task]), rows)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, rows = ctx.saved_tensors
        of_weights, of_rows = torch.empty_like(weights), torch.zeros_like(rows)
        for task in range(weights.shape[1]):
            reached = gradient[:, task].index_select(0, ctx.nodes)
            of_weights[:, task] = (reached * rows).sum(dim=1)
            of_rows.addcmul_(reached, weights[:, task, None])
        return of_weights, of_rows, None


def _weighted(operator: Operator, weights: Tensor) -> Tensor:
    """Return the operator's matrix, which has an entry per column, with a weight for each column."""
    matrix = operator.matrix
    values = weights[matrix.col_indices()]
    return torch.sparse_csr_tensor(
        matrix.crow_indices(), matrix.col_indices(), values, size=matrix.shape, check_invariants=False
    )
