"""How well an entity fits a slot: by how often it has the slot already, and by its other slots.

Of a triple, the head is matched with the relation and the tail with its inverse, and each with the other's slot.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from scipy.sparse import csr_array

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import alone, counted, largest, spread, sums
from mtbench.data.splits import unique
from mtbench.names import BoolArray, FloatArray, IntArray
from reference_models.tally.rules import MANY, Rule

WINDOW = 1.4
"""A Good-Turing rate pools counts that are up to this factor larger or smaller."""

OF_ONE = 8
"""The number of statistics of an entity and a slot."""

KEPT = 1 << 20
"""Pairs of an entity and a slot whose statistics are kept, 64 bytes each; of two slots at least."""

HALF_NAMES = (
    "count of head",
    "count of tail",
    "rate of head",
    "rate of tail",
    "rate of both",
    "count of head per triple",
    "count of tail per triple",
    "share of head",
    "share of tail",
)
TYPE_NAMES = (
    "regression of head",
    "regression of tail",
    "lift of head",
    "lift of tail",
    "naive Bayes of head",
    "naive Bayes of tail",
    "largest conditional of head",
    "largest conditional of tail",
    "smallest conditional of head",
    "smallest conditional of tail",
    "regression of head as tail",
    "count of head as tail",
    "regression of tail as head",
    "count of tail as head",
)
RELATION_NAMES = ("share", "heads", "tails", "triples", "head entities", "tail entities")
DEGREE_NAMES = ("out of head", "into head", "out of tail", "into tail", "slots of head", "slots of tail")


class Ends:
    """The statistics of a graph's half-links, and of slots that the same entities have."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph

        # A cache of this object: as one of the method, it would keep every graph alive.
        self._of_all = lru_cache(max(2, KEPT // max(1, graph.num_entities)))(self._computed_for_all)

    def half_links_and_types(self, triples: IntArray) -> FloatArray:
        """Return the statistics of both half-links of each triple and of their fit, ``(m, 23)``, `HALF_NAMES` first.

        With c edges of an entity under a slot: log1p c; the log of the Good-Turing rate (Good 1953) of one more; the
        sum of both rates less log1p of the number of the relation's triples; log1p c less the same; and c as a share of
        the entity's triples in that direction.

        How well the relation fits the other slots of each end: the regression of its slot on them (EASE, Steck 2019),
        raw and as a log lift over the slot's base rate; the naive-Bayes lift; the largest and smallest share of another
        slot's entities that have this slot too. And with roles exchanged, the regression and the count of the head as a
        tail and of the tail as a head.
        """
        head, relation, tail = triples.T
        inverse = relation + self.graph.relations
        ends = np.stack((self._of(head, relation), self._of(tail, inverse)), axis=1)
        turned_head, turned_tail = self._of(head, inverse), self._of(tail, relation)
        count, rate, share = ends[:3]
        size = np.log1p(self.graph.slot_edges)[relation]
        half = (count, rate, (rate.sum(axis=0) - size)[None], count - size, share)
        turned = (turned_head[[3, 0]], turned_tail[[3, 0]])
        return np.concatenate((*half, *ends[3:], *turned)).T

    def _of(self, entities: IntArray, slots: IntArray) -> FloatArray:
        """Return for entities and slots ``(m,)``: log count, log rate, share; regression raw and as lift, naive Bayes,
        largest and smallest conditional, ``(8, m)``.

        Each distinct pair is computed once. A slot with many entities, as in whole rows of candidates, is computed for
        all entities, and the last of these are kept.
        """
        if len(slots) > MANY and (slot := alone(slots)) is not None:
            one = alone(entities)
            return np.broadcast_to(self._of_all(slot)[:, entities if one is None else [one]], (OF_ONE, len(slots)))
        statistics = np.empty((OF_ONE, len(slots)))
        often = np.bincount(slots, minlength=self.graph.num_slots) > self.graph.num_entities // 2
        for slot in np.flatnonzero(often).tolist():
            rows = np.flatnonzero(slots == slot)
            statistics[:, rows] = self._of_all(slot)[:, entities[rows]]
        rows = np.flatnonzero(~often[slots])
        keys = entities[rows] * self.graph.num_slots + slots[rows]
        known = unique(keys)
        place = np.searchsorted(known, keys)
        statistics[:, rows] = self._computed(*np.divmod(known, self.graph.num_slots))[:, place]
        return statistics

    def _computed(self, entities: IntArray, slots: IntArray) -> FloatArray:
        starts = self.graph.slot_starts
        place, owner = spread(starts[entities], starts[entities + 1])
        counts = self.graph.count(entities, slots)
        out, into = self.graph.degrees
        degree = np.where(slots < self.graph.relations, out[entities], into[entities])
        half = np.log1p(counts), self._log_rates(slots, counts), counts / (1 + degree)
        asked, held = slots[owner], self.graph.half_links[1][place]
        tables = (table[held, asked] for table in self._tables)
        return np.stack((*half, *self._types(slots, np.diff(starts)[entities], owner, held != asked, *tables)))

    def _computed_for_all(self, slot: int) -> FloatArray:
        """Return what `_computed` does of all entities and one slot: read off, without a search for each."""
        owner, held, number = self.graph.half_links
        apart = held != slot
        counts = np.zeros(self.graph.num_entities, dtype=np.int64)
        counts[owner[~apart]] = number[~apart]
        there = np.bincount(counts) > 0
        different = np.flatnonzero(there)
        rates = self._log_rates(np.full_like(different, slot), different)[(np.cumsum(there) - 1)[counts]]
        degree = self.graph.degrees[slot >= self.graph.relations]
        tables = (np.take(table[:, slot], held) for table in self._tables)
        types = self._types(np.array([slot]), np.diff(self.graph.slot_starts), owner, apart, *tables)
        return np.stack((np.log1p(counts), rates, counts / (1 + degree), *types))

    @cached_property
    def _counts_of_counts(self) -> tuple[IntArray, IntArray, IntArray, int]:
        """Return keys slot * width + count in increasing order, running totals of half-links and edges, and width."""
        _, slots, counts = self.graph.half_links
        width = int(counts.max(initial=0)) + 2
        keys, number = counted(slots * width + counts)
        return keys, np.append(0, np.cumsum(number)), np.append(0, np.cumsum(number * (keys % width))), width

    def _log_rates(self, slots: IntArray, counts: IntArray) -> FloatArray:
        """Return the log of the smoothed Good-Turing rate of each slot at each count, ``(m,)``."""
        keys, entities, edges, width = self._counts_of_counts
        low = np.ceil(counts / WINDOW).astype(np.int64)
        high = np.floor(counts * WINDOW).astype(np.int64)

        def between(totals: IntArray, first: IntArray, last: IntArray) -> IntArray:
            first, last = (slots * width + np.clip(ends, 0, width - 1) for ends in (first, last))
            stop: IntArray = totals[np.searchsorted(keys, last, side="right")]
            return stop - totals[np.searchsorted(keys, first)]

        # Half-links only list entities that have the slot: the others have a count of 0.
        without = np.where(counts == 0, self.graph.num_entities - self.graph.slot_entities[slots], 0)
        there = between(entities, low, high) + without
        prior = np.where(counts == 0, self.graph.slot_entities[slots] / (2 * max(1, self.graph.num_entities)), counts)
        # Smoothed as if two more entities went on at the prior rate.
        rate = (between(edges, low + 1, high + 1) + 2 * prior) / (there + 2)
        log_rate: FloatArray = np.log(np.maximum(rate, 1e-6))
        return log_rate

    @cached_property
    def _together(self) -> FloatArray:
        """The number of entities that have both of two slots, ``(2R, 2R)``."""
        entities, slots, _ = self.graph.half_links
        shape = (self.graph.num_entities, self.graph.num_slots)
        has = csr_array((np.ones(len(slots)), (entities, slots)), shape=shape)
        both: FloatArray = (has.T @ has).toarray()
        return both

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Regression weights, log lifts and conditional shares of a slot (row) for another (column), 0 for itself."""
        # EASE's solution of a ridge regression of every slot on all others, from one inverse of the matrix.
        both, size = self._together, self.graph.num_slots
        inverse = np.linalg.inv(both + (5 + 0.002 * self.graph.num_entities) * np.eye(size))
        there = np.diag(both)[:, None]
        weights = -inverse / np.diag(inverse)
        lifts = np.log((both + 1) / (there * self.graph.base_rates + 1))
        shares = both / (there + 3)
        for table in (weights, lifts, shares):
            np.fill_diagonal(table, 0)
        return weights, lifts, shares

    def _types(
        self,
        slots: IntArray,
        sizes: IntArray,
        owner: IntArray,
        apart: BoolArray,
        weights: FloatArray,
        lifts: FloatArray,
        shares: FloatArray,
    ) -> tuple[FloatArray, ...]:
        """Return regression raw and as lift, naive Bayes, largest and smallest conditional, ``(n,)`` each.

        ``slots`` and the numbers ``sizes`` of slots held are ``(n,)``, all others, of the slots held, ``(k,)``: their
        ``owner``, whether they are ``apart`` from the slot asked for, and what `_tables` have of the two.
        """
        number = len(sizes)
        regression = sums(weights, owner, number)
        lift = np.log(np.maximum(regression, 0) + 1e-3) - np.log(self.graph.base_rates[slots])
        bayes = sums(lifts, owner, number) / np.sqrt(1 + sizes)
        most, least = (largest(values, owner, number) for values in (shares, np.where(apart, 1 - shares, 0)))
        return regression, lift, bayes, most, 1 - least

    def behind(self, triple: IntArray) -> list[Rule]:
        """Return the type rules behind one triple ``(3,)``: of entities with another slot of an end, how many have it.

        The rules of the head come first, then those of the tail, each by decreasing share.
        """
        head, relation, tail = triple.tolist()
        starts, rules = self.graph.slot_starts, list[Rule]()
        for entity, slot, end in ((head, relation, "head"), (tail, relation + self.graph.relations, "tail")):
            held = self.graph.half_links[1][starts[entity] : starts[entity + 1]]
            held = held[held != slot]
            both, there = (self._together[held, column].astype(np.int64) for column in (slot, held))
            rules += Rule.surest_first("type", held[:, None], both, there, 3, end)
        return rules


def relation_sizes(graph: Doubled, triples: IntArray) -> FloatArray:
    """Return statistics ``(m, 6)`` of the relations of triples: the log of the share of all triples, distinct heads and
    tails per triple (functionality), the log of the number of triples, and logs of the shares of entities that are a
    head or a tail.
    """
    relation = triples[:, 1]
    edges, entities = graph.slot_edges, graph.slot_entities
    size, heads, tails = edges[relation], entities[relation], entities[relation + graph.relations]
    everyone = np.log(max(1, graph.num_entities))
    return np.stack(
        (
            np.log1p(size) - np.log(max(1, graph.triples)),
            heads / np.maximum(size, 1),
            tails / np.maximum(size, 1),
            np.log1p(size),
            np.log1p(heads) - everyone,
            np.log1p(tails) - everyone,
        )
    ).T


def degrees(graph: Doubled, triples: IntArray) -> FloatArray:
    """Return log1p of the out-degree, in-degree and number of slots of head and tail of each triple, ``(m, 6)``."""
    head, tail = triples[:, 0], triples[:, 2]
    out, into = graph.degrees
    slots = np.diff(graph.slot_starts)
    logs: FloatArray = np.log1p(np.stack((out[head], into[head], out[tail], into[tail], slots[head], slots[tail])))
    return logs.T
