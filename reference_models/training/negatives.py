"""What a model trains against: corrupted triples that were never observed, and the losses over them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from mtbench.data.splits import unique
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from reference_models.graphs.graph import TypedGraph

ROUNDS = 100


class Negatives:
    """Draws corruptions of positives against one observable graph.

    A corruption replaces the tail by a node or the relation by a slot, both uniform and with
    replacement (self-loops and empty slots allowed), and is drawn again while it is an edge of the graph
    or the positive itself, for at most `ROUNDS` rounds; what is left then repeats a valid corruption of
    the same positive, and only a positive without any keeps what was drawn last. Nothing is checked
    against other missing triples, which a model must not know. Source: `docs/models.md`, Loss.
    """

    def __init__(self, graph: TypedGraph) -> None:
        self.num_nodes = graph.num_nodes
        self.num_slots = graph.num_slots
        keys = self._keys(*(part.cpu().numpy() for part in (graph.heads, graph.slots, graph.tails)))
        # No key is as large as the last entry, so every search ends inside the array, an empty graph's too.
        self.known = np.append(unique(keys), np.iinfo(np.int64).max)

    def _keys(self, heads: IntArray, slots: IntArray, tails: IntArray) -> IntArray:
        return (heads * self.num_slots + slots) * self.num_nodes + tails

    def draw(self, positives: IntArray, tails: int, relations: int, rng: np.random.Generator) -> IntArray:
        """Return ``(b, tails + relations, 3)`` corruptions of positives ``(b, 3)``, the tails first."""
        out = np.repeat(positives[:, None, :], tails + relations, axis=1)
        self._corrupt(out[:, :tails], TAIL, self.num_nodes, rng)
        self._corrupt(out[:, tails:], RELATION, self.num_slots, rng)
        return out

    def _corrupt(self, triples: IntArray, column: int, size: int, rng: np.random.Generator) -> None:
        own = triples[..., column].copy()
        wrong = np.ones(triples.shape[:2], dtype=bool)
        for _ in range(ROUNDS):
            triples[wrong, column] = rng.integers(0, size, size=int(wrong.sum()))
            keys = self._keys(triples[..., HEAD], triples[..., RELATION], triples[..., TAIL])
            wrong = (self.known[np.searchsorted(self.known, keys)] == keys) | (triples[..., column] == own)
            if not wrong.any():
                return
        valid = np.take_along_axis(triples[..., column], wrong.argmin(axis=1)[:, None], axis=1)
        triples[..., column] = np.where(wrong & ~wrong.all(axis=1, keepdims=True), valid, triples[..., column])


def dual_sampling(positives: Tensor, tails: Tensor, relations: Tensor, weighting: str) -> Tensor:
    """Return the mean loss per positive of logits ``(b,)``, ``(b, n)`` and ``(b, m)``.

    ``paper`` is equation 5: the positive, the mean over tail corruptions and the mean over relation
    corruptions weigh 1 : 1 : 1. ``joint`` is the published code's binary cross-entropy over all logits
    with the positives weighted up, 1 : 1 between positives and negatives.
    """
    positive = softplus(-positives)
    if weighting == "paper":
        return (positive + softplus(tails).mean(dim=1) + softplus(relations).mean(dim=1)).mean()
    negatives = torch.cat([tails, relations], dim=1)
    return (negatives.shape[1] * positive + softplus(negatives).sum(dim=1)).mean() / (1 + negatives.shape[1])


def one_hot_penalty(logits: Tensor) -> Tensor:
    """Return the summed entropy of the attention rows ``(R, K)``: zero when every row is one-hot."""
    log_attention = torch.log_softmax(logits, dim=1)
    return -(log_attention.exp() * log_attention).sum()


def concentration_penalty(logits: Tensor) -> Tensor:
    """Return minus the summed log-gamma of the task sizes: lowest when few tasks hold all relations."""
    return -torch.lgamma(1 + torch.softmax(logits, dim=1).sum(dim=0)).sum()
