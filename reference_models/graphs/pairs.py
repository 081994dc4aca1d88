"""Scores of pairs of nodes for models that are blind to relations, and of triples asked for from either end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mtbench.data.splits import inverted, unique
from mtbench.names import HEAD, TAIL, IntArray


class PairScores:
    """A triple scorer that computes every pair of nodes once and repeats its score for every relation.

    The rounding of a network's score depends on what else is in its batch, so ``(u, r, v)`` and
    ``(u, r', v)`` scored apart may differ in the last bit, and a tie that the model cannot break would look
    broken. ``compute`` scores distinct pairs, int64 ``(p, 2)`` sorted by head and tail, and returns ``(p,)``
    on the CPU; pairs that were asked for before are looked up.
    """

    def __init__(self, num_nodes: int, compute: Callable[[IntArray], Tensor]) -> None:
        self._num_nodes = num_nodes
        self._compute = compute
        self._keys = np.empty(0, dtype=np.int64)
        self._scores = np.empty(0, dtype=np.float32)

    def __call__(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of triples ``(m, 3)``."""
        keys = triples[:, HEAD] * self._num_nodes + triples[:, TAIL]
        asked = unique(keys)
        places = np.searchsorted(self._keys, asked)
        known = places < len(self._keys)
        known[known] = self._keys[places[known]] == asked[known]
        if not known.all():
            new, places = asked[~known], places[~known]
            found = self._compute(np.stack(np.divmod(new, self._num_nodes), axis=1)).numpy()
            self._keys = np.insert(self._keys, places, new)
            self._scores = np.insert(self._scores.astype(found.dtype, copy=False), places, found)
        return torch.from_numpy(self._scores[np.searchsorted(self._keys, keys)])


class BothWays:
    """Scores triples, and the inverses that a network with inverse relations has representations for."""

    def __init__(self, score: Callable[[IntArray], Tensor], slots: int) -> None:
        self._score = score
        self._slots = slots

    def __call__(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of triples ``(m, 3)``."""
        return self._score(triples)

    def score_inverses(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of the inverses of triples ``(m, 3)``."""
        return self._score(inverted(triples, self._slots))
