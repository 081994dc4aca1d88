"""Sums over relations and over neighbours, each computed once for all relations."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor

from reference_models.graphs.graph import Receivers
from reference_models.graphs.operators import product
from reference_models.graphs.reach import Kinds
from reference_models.layers.blocks import in_threads, node_blocks


def aggregate(features: Tensor, attention: Tensor, onto: Receivers) -> tuple[Tensor, Tensor, Tensor]:
    """Return A X ``(M, R, d)``, A_r X_r at the pairs ``(P, d)`` of M receivers, and the task sums T ``(N, K, d)``.

    ``features`` X is ``(N, R, d)`` and ``attention`` alpha ``(R, K)``; T_k is the sum of alpha[r, k] X_r over r.
    """
    return _Aggregate.apply(features, attention, onto)  # type: ignore[no-any-return, no-untyped-call]


class _Aggregate(torch.autograd.Function):
    """One function for three results, so that the gradient of X is gathered in one array and not in three."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, attention: Tensor, onto: Receivers) -> tuple[Tensor, Tensor, Tensor]:
        ctx.onto = onto
        ctx.save_for_backward(features, attention)
        everything = product(onto.union.matrix, features.flatten(1)).view(onto.number, *features.shape[1:])
        own = product(onto.pairs.from_sources.matrix, features.flatten(0, 1)[onto.pairs.sources])
        return everything, own, task_sums(features, attention)

    @staticmethod
    def backward(ctx: Any, everything: Tensor, own: Tensor, sums: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        features, attention = ctx.saved_tensors
        onto = ctx.onto
        gradient, shares = None, None
        if ctx.needs_input_grad[0]:
            gradient = product(onto.union.transposed, everything.flatten(1)).view(features.shape)
            gradient.baddbmm_(attention.expand(len(features), *attention.shape), sums)
            rows, sources = gradient.flatten(0, 1), onto.pairs.sources
            rows[sources] = rows[sources] + product(onto.pairs.from_sources.transposed, own)
        if ctx.needs_input_grad[1]:
            shares = torch.bmm(features, sums.transpose(1, 2)).sum(dim=0)
        return gradient, shares, None


def task_sums(features: Tensor, attention: Tensor) -> Tensor:
    """Return T_k, the attention-weighted sums over all slots: ``(N, R, d), (R, K) -> (N, K, d)``."""
    return _TaskSums.apply(features, attention)  # type: ignore[no-any-return, no-untyped-call]


class _TaskSums(torch.autograd.Function):
    """A product per node: as a single product of matrices, the features would have to be copied."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, attention: Tensor) -> Tensor:
        ctx.save_for_backward(features, attention)
        return torch.bmm(attention.T.expand(len(features), *attention.T.shape), features)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        features, attention = ctx.saved_tensors
        of_features, of_attention = None, None
        if ctx.needs_input_grad[0]:
            of_features = torch.bmm(attention.expand(len(features), *attention.shape), gradient)
        if ctx.needs_input_grad[1]:
            of_attention = torch.bmm(features, gradient.transpose(1, 2)).sum(dim=0)
        return of_features, of_attention


def expand(rows: Tensor, kinds: Kinds) -> Tensor:
    """Return the features ``(N, R, d)`` of all nodes and slots from one row per kind of a graph, ``(D, d)``."""
    return _Expand.apply(rows, kinds)  # type: ignore[no-any-return, no-untyped-call]


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, kinds: Kinds) -> Tensor:
        ctx.kinds = kinds
        usual = len(rows) - len(kinds.places)
        out = rows[:usual].reshape(kinds.levels, -1).index_select(0, kinds.level).view(-1, rows.shape[1])
        out[kinds.pairs.keys] = rows[usual:].index_select(0, kinds.of_pairs)
        return out.view(*kinds.pairs.shape, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        kinds, width = ctx.kinds, gradient.shape[-1]
        base = product(kinds.of_level.matrix, gradient.reshape(len(gradient), -1))
        at_pairs = gradient.reshape(-1, width)[kinds.pairs.keys]
        apart = at_pairs.new_zeros(len(kinds.places), width).index_add_(0, kinds.of_pairs, at_pairs)
        usual = base.view(-1, width).index_add_(0, kinds.places, apart, alpha=-1)
        return torch.cat([usual, apart]), None


def moments(rows: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows ``(M, d)`` unchanged, their mean and their variance (divided by M); row i counts ``counts[i]`` times.

    If you go on with the rows that are returned, the gradients of both uses are added up in one pass.
    """
    return _Moments.apply(rows, counts)  # type: ignore[no-any-return, no-untyped-call]


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        total = len(rows) if counts is None else counts.sum(dtype=torch.float64)
        # Around a value near the mean: from zero, squares of values far from it would cancel in the variance.
        pivot = rows[: min(len(rows), 256)].mean(dim=0)
        first, second = (torch.zeros(rows.shape[1], dtype=torch.float64, device=rows.device) for _ in range(2))
        parts = _parts(rows)

        def sums(index: int) -> tuple[Tensor, Tensor]:
            away = rows[parts[index]] - pivot
            weighted = away if counts is None else away * counts[parts[index], None]
            return weighted.sum(dim=0), (weighted * away).sum(dim=0)

        for once, twice in in_threads(sums, len(parts), rows.device):
            first += once
            second += twice
        shift = first / total
        mean = pivot + shift.to(rows.dtype)
        variance = (second / total - shift.square()).clamp_min(0).to(rows.dtype)
        ctx.save_for_backward(rows, counts, mean)
        ctx.total = total
        return rows.view_as(rows), mean, variance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, of_mean: Tensor, of_variance: Tensor) -> tuple[Tensor, None]:
        rows, counts, mean = ctx.saved_tensors
        scale = 2 * of_variance / ctx.total
        constant = of_mean / ctx.total - scale * mean
        out, parts = torch.empty_like(rows), _parts(rows)

        def of_part(index: int) -> None:
            part = parts[index]
            if counts is None:
                torch.addcmul(gradient[part], rows[part], scale, out=out[part]).add_(constant)
            else:
                of_moments = torch.addcmul(constant, rows[part], scale)
                torch.addcmul(gradient[part], of_moments, counts[part, None], out=out[part])

        deque(in_threads(of_part, len(parts), rows.device), maxlen=0)
        return out, None


def products(rows: Tensor, counts: Tensor) -> Tensor:
    """Return the sum ``(d, d)`` of the outer products of rows ``(M, d)``; row i counts ``counts[i]`` times."""
    return _Squares.apply(rows, counts)  # type: ignore[no-any-return, no-untyped-call]


class _Squares(torch.autograd.Function):
    """One product in the backward pass instead of two, because the result is symmetric."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: Tensor) -> Tensor:
        ctx.save_for_backward(rows, counts)
        return rows.T @ (rows * counts[:, None])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        rows, counts = ctx.saved_tensors
        return (rows @ (gradient + gradient.T)).mul_(counts[:, None]), None


def _parts(rows: Tensor) -> list[slice]:
    """Return slices of rows, so short that four arrays of a slice fit into a block."""
    return node_blocks(len(rows), 4 * rows.shape[1], rows.device)
