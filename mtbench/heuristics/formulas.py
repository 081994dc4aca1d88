"""A heuristic baseline as one formula of head, relation and tail, asked for single triples or for whole rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtbench.data.ragged import counted, looked_up
from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL, IntArray

Scores: TypeAlias = NDArray[np.number[Any]]

Formula: TypeAlias = Callable[[IntArray, IntArray, IntArray], Scores]
"""From ids of heads, relations and tails, which broadcast against each other, to scores that broadcast likewise.

Single triples are three arrays ``(m,)``. In rows, two sides are given as ``(b, 1)`` and the third has all its ids, as
``(1, n)``; a formula that does not look at it returns ``(b, 1)``.
"""


@dataclass(frozen=True, eq=False)
class Baseline:
    """A scorer that learns nothing: it scores triples, and rows of all tails, heads or relations of pairs."""

    split: Split
    formula: Formula

    def __call__(self, triples: IntArray, /) -> Scores:
        """Return one score per triple ``(m, 3)``, ``(m,)``."""
        return self.score(triples)

    def score(self, triples: IntArray, /) -> Scores:
        """Return one score per triple ``(m, 3)``, ``(m,)``."""
        return self.formula(triples[:, HEAD], triples[:, RELATION], triples[:, TAIL])

    def score_tails(self, heads: IntArray, relations: IntArray, /) -> Scores:
        """Return the scores of all tails of heads and relations ``(b,)``, ``(b, num_entities)``."""
        every = self._every(self.split.num_entities)
        return np.broadcast_to(self.formula(heads[:, None], relations[:, None], every), (len(heads), every.size))

    def score_heads(self, relations: IntArray, tails: IntArray, /) -> Scores:
        """Return the scores of all heads of relations and tails ``(b,)``, ``(b, num_entities)``."""
        every = self._every(self.split.num_entities)
        return np.broadcast_to(self.formula(every, relations[:, None], tails[:, None]), (len(tails), every.size))

    def score_relations(self, heads: IntArray, tails: IntArray, /) -> Scores:
        """Return the scores of all relations of heads and tails ``(b,)``, ``(b, relation_slots)``."""
        every = self._every(self.split.relation_slots)
        return np.broadcast_to(self.formula(heads[:, None], every, tails[:, None]), (len(heads), every.size))

    @staticmethod
    def _every(number: int) -> IntArray:
        return np.arange(number)[None]


class Together:
    """How often a first and a second id stand together, looked up as `Formula` asks for them.

    ``first`` and ``second`` are ids ``(e,)``, with repetitions, below ``sizes``. Only what is there takes memory.
    """

    def __init__(self, first: IntArray, second: IntArray, sizes: tuple[int, int]) -> None:
        self._first, self._second, self._sizes = first, second, sizes

    def __call__(self, first: IntArray, second: IntArray) -> IntArray:
        """Return the counts of pairs of ids, int64 in the shape the two broadcast to."""
        if first.shape != second.shape and first.ndim == 2:
            if first.shape[1] == 1 and second.shape == (1, self._sizes[1]):
                return self._rows(first[:, 0])
            if second.shape[1] == 1 and first.shape == (1, self._sizes[0]):
                return self._turned._rows(second[:, 0])
        return looked_up(*self._counted, first * self._sizes[1] + second)

    @cached_property
    def _turned(self) -> Together:
        return Together(self._second, self._first, self._sizes[::-1])

    @cached_property
    def _counted(self) -> tuple[IntArray, IntArray]:
        """Return a number for every pair that is there, in increasing order, and how often it is."""
        return counted(self._first * self._sizes[1] + self._second)

    def _rows(self, ids: IntArray) -> IntArray:
        known, counts = self._counted
        width = self._sizes[1]
        starts, stops = np.searchsorted(known, ids * width), np.searchsorted(known, (ids + 1) * width)
        found = np.zeros((len(ids), width), dtype=np.int64)
        for row, start, stop in zip(found, starts.tolist(), stops.tolist(), strict=True):
            row[known[start:stop] % width] = counts[start:stop]
        return found
