"""Which relation slots a network has: those of the dictionary, or those that have edges and one for all others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mtbench.data.splits import Split, unique
from mtbench.names import RELATION, IntArray


@dataclass(frozen=True, eq=False)
class Slots:
    """The slot of a network that stands for each of a dictionary, ``places`` ``(R,)``; there are ``number``."""

    places: IntArray
    number: int

    @classmethod
    def of(cls, split: Split, which: str) -> Slots:
        """Return every slot of a split as itself (``all``), or all that no observable triple has as one (``present``).

        No edge tells empty slots apart. A dictionary without empty slots comes out as it is.
        """
        total = split.relation_slots
        if which == "all":
            return cls(np.arange(total), total)
        present = unique(split.graph[:, RELATION])
        places = np.full(total, len(present))
        places[present] = np.arange(len(present))
        return cls(places, len(present) + (len(present) < total))

    def split(self, split: Split) -> Split:
        """Return a split over these slots."""
        if self.number == split.relation_slots:
            return split
        first = np.sort(np.unique(self.places, return_index=True)[1])
        names = np.array([split.relation_name(slot) for slot in first], dtype=np.str_)
        graph, targets = self(split.graph), self(split.targets)
        return replace(split, graph=graph, targets=targets, relations=names, relation_slots=self.number)

    def __call__(self, triples: IntArray) -> IntArray:
        """Return triples ``(*, 3)`` of the dictionary, or of its inverses behind it, over these slots."""
        found = triples.copy()
        found[..., RELATION] = np.concatenate([self.places, self.places + self.number])[triples[..., RELATION]]
        return found
