"""Multi-head attention over the edges of a graph, for relations and for entities (InGram's layers)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

SLOPE = 0.2


class XavierLinear(nn.Linear):
    """A linear map with Xavier-normal weights of gain sqrt(2) and zero biases."""

    def reset_parameters(self) -> None:
        """Draw the weights anew and set the biases to zero."""
        nn.init.xavier_normal_(self.weight, gain=math.sqrt(2))
        nn.init.zeros_(self.bias)


def attention(logits: Tensor, receivers: Tensor, rows: int) -> Tensor:
    """Return the softmax of ``logits`` ``(e, heads)`` over the edges of each of ``rows`` receivers ``(e,)``."""
    places = receivers.unsqueeze(1).expand_as(logits)
    lowest = torch.full((rows, logits.shape[1]), -math.inf, dtype=logits.dtype, device=logits.device)
    largest = lowest.scatter_reduce(0, places, logits.detach(), "amax")
    exponentials = (logits - largest.index_select(0, receivers)).exp()
    sums = torch.zeros_like(lowest).index_add(0, receivers, exponentials)
    return exponentials / sums.index_select(0, receivers)


def weighted_sums(weights: Tensor, values: Tensor, receivers: Tensor, rows: int) -> Tensor:
    """Return per receiver the sums of values ``(e, width)``, each head's part under its weight ``(e, heads)``."""
    edges, heads = weights.shape
    parts = weights.unsqueeze(2) * values.view(edges, heads, values.shape[1] // heads)
    out = torch.zeros(rows, values.shape[1], dtype=values.dtype, device=values.device)
    return out.index_add(0, receivers, parts.view(edges, values.shape[1]))


class _Attention(nn.Module):
    """What both layers have: a map P before the nonlinearity, a vector y per head, a map W of the values."""

    def __init__(self, width: int, heads: int, attended: int, valued: int) -> None:
        super().__init__()
        self.before = XavierLinear(attended, width)
        self.vectors = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, heads, width // heads), gain=math.sqrt(2)))
        self.values = XavierLinear(valued, width)
        self.residual = XavierLinear(width, width)

    def _logits(self, before: Tensor) -> Tensor:
        """Return y . LeakyReLU(P ...) per head, ``(e, width) -> (e, heads)``."""
        heads, width = self.vectors.shape[1:]
        return (leaky_relu(before, SLOPE).view(-1, heads, width) * self.vectors).sum(dim=2)


class RelationAttention(_Attention):
    """z_i <- ReLU(sum over neighbours j of beta_ij W z_j, heads side by side, + Res z_i).

    The logits are y . LeakyReLU(P [z_i, z_j]) + c, one learned c per affinity bin and head. A linear map of
    joined vectors is the sum of its parts, taken once per relation and not once per edge.
    """

    def __init__(self, width: int, heads: int, bins: int) -> None:
        super().__init__(width, heads, attended=2 * width, valued=width)
        self.offsets = nn.Parameter(torch.zeros(bins, heads))

    def forward(self, relations: Tensor, receivers: Tensor, senders: Tensor, bins: Tensor) -> Tensor:
        """Map ``(slots, width)`` to the same shape."""
        rows, width = relations.shape
        to, of = (relations @ part.T for part in self.before.weight.tensor_split([width], dim=1))
        before = to.index_select(0, receivers) + of.index_select(0, senders) + self.before.bias
        weights = attention(self._logits(before) + self.offsets.index_select(0, bins), receivers, rows)
        values = self.values(relations).index_select(0, senders)
        return torch.relu(weighted_sums(weights, values, receivers, rows) + self.residual(relations))


class EntityAttention(_Attention):
    """e_i <- ReLU(sum over in-edges (j, r) of beta W [e_j, z_r], heads side by side, + Res e_i).

    The logits are y . LeakyReLU(P [e_i, e_j, z_r]). Every entity also attends to itself, through the mean of
    the relations of its in-edges, zero where it has none.
    """

    def __init__(self, width: int, relation_width: int, heads: int) -> None:
        super().__init__(width, heads, attended=2 * width + relation_width, valued=width + relation_width)

    def forward(self, entities: Tensor, relations: Tensor, heads: Tensor, slots: Tensor, tails: Tensor) -> Tensor:
        """Map ``(N, width)`` to the same shape, given relations ``(slots, relation_width)`` and edges ``(e,)``."""
        rows, width = entities.shape
        everyone = torch.arange(rows, device=entities.device)
        receivers, senders = torch.cat([tails, everyone]), torch.cat([heads, everyone])
        to, of, by = self.before.weight.tensor_split([width, 2 * width], dim=1)
        kinds = _with_means(relations @ by.T, slots, tails, rows)
        before = (entities @ to.T + self.before.bias).index_select(0, receivers)
        before = before + (entities @ of.T).index_select(0, senders) + kinds
        weights = attention(self._logits(before), receivers, rows)
        of, by = self.values.weight.tensor_split([width], dim=1)
        values = (entities @ of.T + self.values.bias).index_select(0, senders)
        values = values + _with_means(relations @ by.T, slots, tails, rows)
        return torch.relu(weighted_sums(weights, values, receivers, rows) + self.residual(entities))


def _with_means(relations: Tensor, slots: Tensor, tails: Tensor, rows: int) -> Tensor:
    """Return the relation of every edge, followed by the mean over the in-edges of every entity, ``(e + N, *)``."""
    edges = relations.index_select(0, slots)
    sums = torch.zeros(rows, relations.shape[1], dtype=relations.dtype, device=relations.device)
    counts = torch.bincount(tails, minlength=rows).clamp(min=1).unsqueeze(1)
    return torch.cat([edges, sums.index_add(0, tails, edges) / counts])
