"""Rules over two steps: h -q1-> x -q2-> t, so r holds between h and t (as AnyBURL's, Meilicke et al. 2019)."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import added, counted, largest, looked_up, ranges, spread, sums
from mtbench.data.splits import unique
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray
from mtbench.statistics.pairs import SURE, Rule

NAMES = ("confidence", "log confidence", "noisy-or", "lift", "coverage", "all coverage", "paths", "bodies")

AT_ONCE = 1 << 18
"""Triples whose two-step paths are listed at a time."""


class Paths:
    """The rules from two-step paths between two entities; edges from an entity to itself are no steps."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph.loopless
        self._edges = graph.slot_edges
        self._triples = graph.triples

    def bodies(self, heads: IntArray, tails: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return all two-step paths of pairs ``(m,)``: pair and body q1 * 2R + q2, sorted, and how many paths each is.

        Paths are joined from the end that has fewer edges.
        """
        graph = self.graph
        size, entities = graph.num_slots, graph.num_entities
        degree = np.diff(graph.starts)
        turned = degree[tails] < degree[heads]
        near, far = np.where(turned, tails, heads), np.where(turned, heads, tails)
        step, owner = spread(graph.starts[near], graph.starts[near + 1])
        keys, slots = graph.by_pair
        last, first = spread(*ranges(keys, graph.targets[step] * entities + far[owner]))
        owner, begun, ended = owner[first], graph.slots[step[first]], slots[last]
        back = turned[owner]
        # Found from the tail, a path is read backwards.
        one = np.where(back, graph.inverse(ended), begun)
        two = np.where(back, graph.inverse(begun), ended)
        onward = (heads != tails)[owner] | (two != graph.inverse(one))  # not back over the same edge
        owner, one, two = owner[onward], one[onward], two[onward]
        found, number = counted((owner * size + one) * size + two)
        pair, body = np.divmod(found, max(1, size * size))
        return pair, body, number

    @cached_property
    def _totals(self) -> FloatArray:
        """How many two-step paths each body has that do not go back over the same edge, ``(2R * 2R,)``."""
        from scipy.sparse import csr_array

        graph = self.graph
        entities, slots, counts = graph.half_links
        has = csr_array((counts.astype(np.float64), (entities, slots)), shape=(graph.num_entities, graph.num_slots))
        every = np.arange(graph.num_slots)
        into: FloatArray = (has.T @ has).toarray()[graph.inverse(every)]
        into[every, graph.inverse(every)] -= graph.slot_edges
        return into.ravel()

    @cached_property
    def _closed(self) -> tuple[IntArray, IntArray]:
        """Return body * R + relation in increasing order, and how many triples of the relation have the body."""
        graph = self.graph
        forward = graph.slots < graph.relations
        heads, slots, tails = (part[forward] for part in (graph.sources, graph.slots, graph.targets))
        found = []
        for start in range(0, max(1, len(heads)), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            pair, body, _ = self.bodies(heads[some], tails[some])
            found.append(counted(body * graph.relations + slots[some][pair]))
        return added(found)

    def rules(self, triples: IntArray) -> FloatArray:
        """Return what the two-step paths between head and tail say of each triple, ``(m, 8)``, in `NAMES`' order.

        A body has the confidence triples closed / (paths + 5): the largest, its log, the noisy-or, the log lift over
        the relation's share of all triples; the coverage triples closed / (triples of r + 5), largest and summed;
        log1p of the number of paths, and of bodies.
        """
        graph = self.graph
        keys = triples[:, HEAD] * graph.num_entities + triples[:, TAIL]
        known = unique(keys)
        pair, body, paths = self.bodies(*np.divmod(known, max(1, graph.num_entities)))
        row = np.searchsorted(known, keys)
        place, owner = spread(*(ends[row] for ends in ranges(pair, np.arange(len(known)))))
        relation, number = triples[:, RELATION], len(triples)
        closed = looked_up(*self._closed, body[place] * graph.relations + relation[owner])
        confidence = closed / (self._totals[body[place]] + 5)
        coverage = closed / (self._edges[relation[owner]] + 5)
        most = largest(confidence, owner, number)
        share = self._edges[relation] / max(1, self._triples)
        return np.stack(
            (
                most,
                np.log(most + 1e-3),
                sums(-np.log1p(-np.minimum(confidence, SURE)), owner, number),
                np.log((most + 1e-3) / (share + 1e-3)),
                largest(coverage, owner, number),
                sums(coverage, owner, number),
                np.log1p(sums(paths[place].astype(np.float64), owner, number)),
                np.log1p(np.bincount(owner, minlength=number)),
            ),
            axis=1,
        )

    def behind(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind one triple ``(3,)``, the surest first."""
        _, body, _ = self.bodies(triple[[HEAD]], triple[[TAIL]])
        closed = looked_up(*self._closed, body * self.graph.relations + triple[RELATION])
        bodies = np.stack(np.divmod(body, self.graph.num_slots), axis=1)
        return Rule.surest_first("path", bodies, closed, self._totals[body].astype(np.int64), 5)
