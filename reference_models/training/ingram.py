"""How InGram is trained: every step hides another part of the graph and ranks it above corruptions."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor
from torch.nn.functional import relu

from mtbench.data.splits import Split
from mtbench.errors import DatasetError
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray


def features(rows: int, width: int, rng: np.random.Generator) -> Tensor:
    """Draw initial features ``(rows, width)``: Xavier normal with gain sqrt(2), so their scale depends on ``rows``."""
    scale = math.sqrt(2) * math.sqrt(2 / (rows + width))
    return torch.from_numpy(scale * rng.standard_normal((rows, width), dtype=np.float32))


def always_shown(triples: IntArray, num_nodes: int, rng: np.random.Generator) -> BoolArray:
    """Return which triples ``(m, 3)`` never leave the messages: a spanning forest, and one of every relation left.

    Without them an entity or a relation could be asked about of which a step shows nothing. Which forest
    is drawn from ``rng``.
    """
    order = rng.permutation(len(triples))
    shuffled = triples[order]
    low, high = np.sort(shuffled[:, [HEAD, TAIL]], axis=1).T
    apart = np.flatnonzero(low != high)
    _, first = np.unique(low[apart] * num_nodes + high[apart], return_index=True)
    links = apart[first]
    shape = (num_nodes, num_nodes)
    numbered = sparse.coo_array((links + 1.0, (low[links], high[links])), shape=shape).tocsr()
    shown = np.zeros(len(triples), dtype=bool)
    shown[minimum_spanning_tree(numbered).data.astype(np.int64) - 1] = True
    missing = np.flatnonzero(~np.isin(shuffled[:, RELATION], shuffled[shown, RELATION]))
    _, first = np.unique(shuffled[missing, RELATION], return_index=True)
    shown[missing[first]] = True
    kept = np.empty_like(shown)
    kept[order] = shown
    return kept


class Splitter:
    """Splits the triples of a graph anew for every step: messages, and targets hidden from them."""

    def __init__(self, train: Split, share: float, rng: np.random.Generator) -> None:
        shown = always_shown(train.graph, train.num_entities, rng)
        self.fixed, self.others = train.graph[shown], train.graph[~shown]
        self.added = max(round(share * len(train.graph)) - len(self.fixed), 0)
        if self.added >= len(self.others):
            total = len(train.graph)
            raise DatasetError(
                f"{train.dataset} {train.name}: {len(self.fixed)} of {total} triples hold the graph together, "
                f"and a share of {share} as messages leaves none to predict; try a smaller one: --set messages=0.5"
            )

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return the messages and the targets of one step, ``(*, 3)`` each."""
        order = rng.permutation(len(self.others))
        return np.concatenate([self.fixed, self.others[order[: self.added]]]), self.others[order[self.added :]]


def corrupted(targets: IntArray, count: int, num_nodes: int, rng: np.random.Generator) -> IntArray:
    """Return ``(b, count, 3)``: in each, head or tail (one as likely as the other) is another entity.

    Uniform over all entities but the one replaced; true triples are not left out, relations never replaced.
    """
    found = np.repeat(targets[:, None], count, axis=1)
    column = np.where(rng.random(found.shape[:2]) < 0.5, HEAD, TAIL)[..., None]
    own = np.take_along_axis(found, column, axis=2)
    shift = rng.integers(1, num_nodes, size=own.shape)
    np.put_along_axis(found, column, (own + shift) % num_nodes, axis=2)
    return found


def margin_loss(scores: Tensor, margin: float) -> Tensor:
    """Return the mean of max(0, margin - positive + negative) over scores ``(b, 1 + n)``, the positive first.

    It is taken in two steps: a sum of very many numbers is split among threads, and rounded by how many there are.
    """
    return relu(margin - scores[:, :1] + scores[:, 1:]).mean(dim=1).mean()
