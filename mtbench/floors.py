"""Scorers that learn nothing: the figures a model has to beat before its own mean anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtbench.names import RELATION, IntArray
from mtbench.splits import Split


@dataclass(frozen=True, eq=False)
class RelationFrequency:
    """Scores a triple by how many observable triples have its relation; ``frequencies`` is ``(relation_slots,)``.

    It looks at neither head nor tail, so all tails of a target tie; where it does well on the relation
    side, predicting the common relation is what the split rewards.
    """

    frequencies: IntArray

    def score(self, triples: IntArray, /) -> IntArray:
        """Return the frequency of each triple's relation, int64 ``(m,)`` for triples ``(m, 3)``."""
        return self.frequencies[triples[:, RELATION]]


def relation_frequency(split: Split) -> RelationFrequency:
    """Return the relation-frequency scorer of a split, from its observable triples only; empty slots score 0."""
    return RelationFrequency(np.bincount(split.graph[:, RELATION], minlength=split.relation_slots))
