"""A graph with an inverse for every triple, its edges sorted by where they start: what all statistics count in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mtbench.data.graphs import expect_distinct
from mtbench.data.ragged import counted
from mtbench.data.splits import Split, unique
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Doubled:
    """The edges of a graph in both directions: slot r leads from head to tail, slot r + ``relations`` back.

    ``sources``, ``slots`` and ``targets`` are int64 ``(2E,)``, sorted by all three; a triple counts once.
    """

    num_entities: int
    relations: int
    sources: IntArray
    slots: IntArray
    targets: IntArray

    @classmethod
    def of(cls, split: Split) -> Doubled:
        """Return the observable triples of a split in both directions."""
        graph, entities, relations = split.graph, split.num_entities, split.relation_slots
        expect_distinct(split, entities, 2 * relations, entities)
        turned = np.stack((graph[:, TAIL], graph[:, RELATION] + relations, graph[:, HEAD]), axis=1)
        both = np.concatenate((graph, turned))
        keys = unique((both[:, HEAD] * 2 * relations + both[:, RELATION]) * entities + both[:, TAIL])
        pairs, targets = np.divmod(keys, max(1, entities))
        sources, slots = np.divmod(pairs, max(1, 2 * relations))
        return cls(entities, relations, sources, slots, targets)

    @property
    def num_slots(self) -> int:
        """How many slots there are, relations and inverses."""
        return 2 * self.relations

    @property
    def triples(self) -> int:
        """How many triples the graph has."""
        return len(self.sources) // 2

    def inverse(self, slots: IntArray) -> IntArray:
        """Return the slots that lead back."""
        return np.where(slots < self.relations, slots + self.relations, slots - self.relations)

    @cached_property
    def starts(self) -> IntArray:
        """Where the edges of each entity begin, and the last ones end, ``(N + 1,)``."""
        return np.searchsorted(self.sources, np.arange(self.num_entities + 1))

    @cached_property
    def half_links(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the entities and slots ``(k,)`` that stand together, sorted, and in how many edges each."""
        keys, counts = counted(self.sources * self.num_slots + self.slots)
        entities, slots = np.divmod(keys, max(1, self.num_slots))
        return entities, slots, counts

    @cached_property
    def slot_starts(self) -> IntArray:
        """Where the half-links of each entity begin, and the last ones end, ``(N + 1,)``."""
        return np.searchsorted(self.half_links[0], np.arange(self.num_entities + 1))

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Return the half-links as numbers entity * 2R + slot, in increasing order, and where their edges begin.

        At the end of the first stands what no half-link is, at the end of the second where the last edges end.
        """
        entities, slots, counts = self.half_links
        return np.append(entities * self.num_slots + slots, -1), np.append(0, np.cumsum(counts))

    def under(self, entities: IntArray, slots: IntArray) -> tuple[IntArray, IntArray]:
        """Return from where to where the edges of each entity under a slot stand, in the shape of both."""
        known, starts = self._places
        asked = entities * self.num_slots + slots
        place = np.searchsorted(known[:-1], asked)
        there = known[place] == asked
        return starts[place], starts[place + there]

    def count(self, entities: IntArray, slots: IntArray) -> IntArray:
        """Return in how many edges each entity has each slot, c(e, q), in the shape of both."""
        first, last = self.under(entities, slots)
        return last - first

    @cached_property
    def slot_edges(self) -> IntArray:
        """How many edges each slot has, N_q, ``(2R,)``."""
        return np.bincount(self.slots, minlength=self.num_slots)

    @cached_property
    def slot_entities(self) -> IntArray:
        """How many entities have each slot, D_q, ``(2R,)``."""
        return np.bincount(self.half_links[1], minlength=self.num_slots)

    @cached_property
    def base_rates(self) -> FloatArray:
        """The share of the entities that have each slot, smoothed, ``(2R,)``."""
        return (self.slot_entities + 0.5) / (self.num_entities + 1)

    @cached_property
    def degrees(self) -> tuple[IntArray, IntArray]:
        """How many triples have each entity as their head, and as their tail, ``(N,)`` each."""
        forward = self.slots < self.relations
        size = self.num_entities
        return np.bincount(self.sources[forward], minlength=size), np.bincount(self.sources[~forward], minlength=size)

    @cached_property
    def loopless(self) -> Doubled:
        """The graph without the edges from an entity to itself."""
        kept = self.sources != self.targets
        return Doubled(self.num_entities, self.relations, self.sources[kept], self.slots[kept], self.targets[kept])

    @cached_property
    def by_pair(self) -> tuple[IntArray, IntArray]:
        """Return the edges as pairs of entities, source * N + target, in increasing order, and their slots."""
        keys = self.sources * self.num_entities + self.targets
        order = np.argsort(keys, kind="stable")
        return keys[order], self.slots[order]

    @cached_property
    def links(self) -> csr_array:
        """The simple undirected graph: 1 wherever an edge links two different entities, float32 ``(N, N)``."""
        from scipy.sparse import csr_array

        ends = self.loopless.sources, self.loopless.targets
        size = self.num_entities
        found = csr_array((np.ones(len(ends[0]), dtype=np.float32), ends), shape=(size, size))
        found.data[:] = 1
        return found
