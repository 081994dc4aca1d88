"""Rules behind a triple, counted in the graph: over one edge, over two steps, and from one half-link to another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.sparse import csr_array

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import added, alone, counted, largest, looked_up, ranges, spread, sums
from mtbench.data.splits import Split, unique
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, FloatArray, IntArray

SURE = 0.99
"""Larger confidences count as this in a noisy-or, so that no single rule is taken for certain."""

AT_ONCE = 1 << 18
"""Triples whose two-step paths are listed at a time."""

MANY = 1 << 12
"""Rows that share an entity or a goal from which on what all entities have in common is computed once."""

MOST_FEATURES = 64
"""The most features of an entity that count: its rarest; of those equally rare, all or none."""

PAIR_NAMES = ("confidence", "noisy-or", "lift", "coverage", "edges forward", "edges backward")
PATH_NAMES = ("confidence", "log confidence", "noisy-or", "lift", "coverage", "all coverage", "paths", "bodies")
ASSOCIATION_NAMES = tuple(
    f"{name} of {end}"
    for end in ("head", "tail")
    for name in ("confidence", "noisy-or", "lift", "cosine", "matches", "features")
)


@dataclass(frozen=True)
class Rule:
    """A rule behind a triple: it holds in ``hits`` of the ``cases`` of its body; ``confidence`` is that smoothed.

    The body is a slot (``pair``) or two slots (``path``) between both ends, or at one ``end`` another slot (``type``)
    or a slot and the entity it leads to (``assoc``).
    """

    family: str
    body: tuple[int, ...]
    hits: int
    cases: int
    confidence: float
    end: str = ""

    @classmethod
    def surest_first(
        cls, family: str, bodies: IntArray, hits: IntArray, cases: IntArray, prior: int, end: str = ""
    ) -> list[Rule]:
        """Return the rules of bodies ``(n, k)`` by decreasing confidence, hits / (cases + prior)."""
        rows = zip(bodies.tolist(), hits.tolist(), cases.tolist(), (hits / (cases + prior)).tolist(), strict=True)
        rules = [cls(family, tuple(body), hit, case, sure, end) for body, hit, case, sure in rows]
        return sorted(rules, key=lambda rule: (-rule.confidence, -rule.hits, rule.body))

    def named(self, split: Split, triple: IntArray) -> tuple[str, str]:
        """Return the name of the entity at the rule's end, empty without an end, and the rule in words for a triple."""

        def slot(number: int) -> str:
            inverse = number >= split.relation_slots
            return f"{split.relation_name(number - split.relation_slots * inverse)}{'^-1' * inverse}"

        turned = self.end == "tail"
        goal = slot(int(triple[RELATION]) + split.relation_slots * turned)
        entity, partner = split.entities[triple[[TAIL, HEAD] if turned else [HEAD, TAIL]]].tolist()
        if self.family == "pair":
            return "", f"{slot(self.body[0])}(h, t) => {goal}"
        if self.family == "path":
            return "", f"{', '.join(map(slot, self.body))} => {goal}"
        if self.family == "type":
            return entity, f"({slot(self.body[0])}, ?) => ({goal}, ?)"
        return entity, f"({slot(self.body[0])}, {split.entities[self.body[1]]}) => ({goal}, {partner})"


def noisy_or(confidence: FloatArray, owner: IntArray, number: int) -> FloatArray:
    """Return per owner minus the log of the probability that none of its rules holds, if they are independent."""
    return sums(-np.log1p(-np.minimum(confidence, SURE)), owner, number)


def shared_end(triples: IntArray) -> tuple[int, IntArray] | None:
    """Return the entity that all triples ``(m, 3)`` have at one end, and their other ends; None where there is none."""
    for end, other in ((HEAD, TAIL), (TAIL, HEAD)):
        if (entity := alone(triples[:, end])) is not None:
            return entity, triples[:, other]
    return None


class Near:
    """The entities that an entity leads to in one step, or in two: most questions are about few entities."""

    def __init__(self, graph: Doubled, steps: int) -> None:
        self.graph, self.steps = graph, steps
        self._from = lru_cache(1)(self._found)

    def rows(self, triples: IntArray) -> IntArray:
        """Return the numbers of the triples whose ends may be so near: of all, where they do not all share an end."""
        if (shared := shared_end(triples)) is None:
            return np.arange(len(triples))
        entity, others = shared
        return np.flatnonzero(self._from(entity)[others])

    def _found(self, entity: int) -> BoolArray:
        starts, targets = self.graph.starts, self.graph.targets
        ends = np.array([entity])
        for _ in range(self.steps):
            place, _ = spread(starts[ends], starts[ends + 1])
            found = np.zeros(self.graph.num_entities, dtype=np.bool_)
            found[targets[place]] = True
            ends = np.flatnonzero(found)
        return found


class Pairs:
    """The rules between slots of the same pair of entities."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph
        self._near = Near(graph, 1)

    @cached_property
    def _together(self) -> FloatArray:
        """The number of pairs of entities that have both of two slots, ``(2R, 2R)``, 0 for a slot and itself."""
        keys, slots = self.graph.by_pair
        place, owner = spread(*ranges(keys, keys))
        size = self.graph.num_slots
        both = np.bincount(slots[owner] * size + slots[place], minlength=size * size).reshape(size, size)
        np.fill_diagonal(both, 0)
        return both.astype(np.float64)

    def rules(self, triples: IntArray) -> FloatArray:
        """Return statistics ``(m, 6)`` of the other edges between head and tail of triples: `PAIR_NAMES`.

        A slot q other than r between the two has confidence pairs with both / (pairs with q + 3). The statistics are
        the largest confidence, the noisy-or, the log lift of the largest over the relation's share of all triples, the
        largest coverage, pairs with both / (pairs with r + 3), and log1p of the number of such edges by direction.
        """
        graph = self.graph
        keys, slots = graph.by_pair
        linked = self._near.rows(triples)
        place, of = spread(*ranges(keys, triples[linked, HEAD] * graph.num_entities + triples[linked, TAIL]))
        owner = linked[of]
        body, relation, number = slots[place], triples[owner, RELATION], len(triples)
        apart = body != relation
        body, relation, owner = body[apart], relation[apart], owner[apart]
        both, edges = self._together[body, relation], graph.slot_edges
        confidence = both / (edges[body] + 3)
        most = largest(confidence, owner, number)
        share = edges[triples[:, RELATION]] / max(1, graph.triples)
        backward = body >= graph.relations
        return np.stack(
            (
                most,
                noisy_or(confidence, owner, number),
                np.log((most + 1e-3) / (share + 1e-3)),
                largest(both / (edges[relation] + 3), owner, number),
                np.log1p(np.bincount(owner[~backward], minlength=number)),
                np.log1p(np.bincount(owner[backward], minlength=number)),
            )
        ).T

    def behind(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind one triple ``(3,)``, the surest first."""
        graph = self.graph
        keys, slots = graph.by_pair
        place, _ = spread(*ranges(keys, triple[[HEAD]] * graph.num_entities + triple[[TAIL]]))
        body = slots[place][slots[place] != triple[RELATION]]
        both = self._together[body, triple[RELATION]].astype(np.int64)
        return Rule.surest_first("pair", body[:, None], both, graph.slot_edges[body], 3)


class Paths:
    """The rules from two-step paths between two entities; self-loops are no steps."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph.loopless
        self._near = Near(self.graph, 2)
        self._edges = graph.slot_edges
        self._triples = graph.triples
        self._counted = np.zeros(graph.relations, dtype=np.bool_)
        self._counts = counted(np.zeros(0, dtype=np.int64))

    def bodies(self, heads: IntArray, tails: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the bodies of all two-step paths between pairs ``(m,)``: pair, body q1 * 2R + q2, number of paths.

        Sorted by pair, then body. Paths are joined from the end that has fewer edges.
        """
        graph = self.graph
        size, entities = graph.num_slots, graph.num_entities
        degree = np.diff(graph.starts)
        turned = degree[tails] < degree[heads]
        near, far = np.where(turned, tails, heads), np.where(turned, heads, tails)
        step, owner = spread(graph.starts[near], graph.starts[near + 1])
        # The edges of the far end lie together: looked up from there, most of them are in the processor's cache.
        keys, slots = graph.by_pair
        last, first = spread(*ranges(keys, far[owner] * entities + graph.targets[step]))
        owner, begun, ended = owner[first], graph.slots[step[first]], graph.inverse(slots[last])
        back = turned[owner]
        # A path joined from the tail is read backwards.
        first_slot = np.where(back, graph.inverse(ended), begun)
        second_slot = np.where(back, graph.inverse(begun), ended)
        onward = (heads != tails)[owner] | (second_slot != graph.inverse(first_slot))  # not back over the same edge
        owner, first_slot, second_slot = owner[onward], first_slot[onward], second_slot[onward]
        paths, number = counted((owner * size + first_slot) * size + second_slot)
        pair, body = np.divmod(paths, max(1, size * size))
        return pair, body, number

    @cached_property
    def _totals(self) -> FloatArray:
        """The number of two-step paths of each body that do not go back over the same edge, ``(2R * 2R,)``."""
        graph = self.graph
        entities, slots, counts = graph.half_links
        has = csr_array((counts.astype(np.float64), (entities, slots)), shape=(graph.num_entities, graph.num_slots))
        every = np.arange(graph.num_slots)
        into: FloatArray = (has.T @ has).toarray()[graph.inverse(every)]
        # Every edge and the way back over it were counted as a path.
        into[every, graph.inverse(every)] -= graph.slot_edges
        return into.ravel()

    def _closed(self, bodies: IntArray, relations: IntArray) -> IntArray:
        """Return how many triples of each relation have the body beside it, ``(n,)``."""
        graph = self.graph
        asked = np.bincount(relations, minlength=graph.relations) > 0
        if (asked & ~self._counted).any():
            # One question is about one relation: all others are counted when a second one is asked for.
            fresh = ~self._counted if self._counted.any() else asked
            rows = np.flatnonzero(np.append(fresh, np.zeros_like(fresh))[graph.slots])
            counts = [self._counts]
            for start in range(0, len(rows), AT_ONCE):
                batch = rows[start : start + AT_ONCE]
                slots = graph.slots[batch]
                pair, body, _ = self.bodies(graph.sources[batch], graph.targets[batch])
                counts.append(counted(body * graph.relations + slots[pair]))
            self._counts = added(counts)
            self._counted |= fresh
        return looked_up(*self._counts, bodies * graph.relations + relations)

    def rules(self, triples: IntArray) -> FloatArray:
        """Return statistics ``(m, 8)`` of the two-step paths between head and tail of triples: `PATH_NAMES`.

        A body has confidence triples closed / (paths + 5) and coverage triples closed / (triples of r + 5). The
        statistics are the largest confidence, its log, the noisy-or, the log lift of the largest over the relation's
        share of all triples, the largest coverage and the sum, log1p of the number of paths, and of bodies.
        """
        graph = self.graph
        near = self._near.rows(triples)
        keys = triples[near, HEAD] * graph.num_entities + triples[near, TAIL]
        known = unique(keys)
        pair, body, paths = self.bodies(*np.divmod(known, max(1, graph.num_entities)))
        row = np.searchsorted(known, keys)
        place, of = spread(*(ends[row] for ends in ranges(pair, np.arange(len(known)))))
        owner = near[of]
        relation, number = triples[:, RELATION], len(triples)
        closed = self._closed(body[place], relation[owner])
        confidence = closed / (self._totals[body[place]] + 5)
        coverage = closed / (self._edges[relation[owner]] + 5)
        most = largest(confidence, owner, number)
        share = self._edges[relation] / max(1, self._triples)
        return np.stack(
            (
                most,
                np.log(most + 1e-3),
                noisy_or(confidence, owner, number),
                np.log((most + 1e-3) / (share + 1e-3)),
                largest(coverage, owner, number),
                sums(coverage, owner, number),
                np.log1p(sums(paths[place].astype(np.float64), owner, number)),
                np.log1p(np.bincount(owner, minlength=number)),
            )
        ).T

    def behind(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind one triple ``(3,)``, the surest first."""
        _, body, _ = self.bodies(triple[[HEAD]], triple[[TAIL]])
        closed = self._closed(body, np.full_like(body, triple[RELATION]))
        bodies = np.stack(np.divmod(body, self.graph.num_slots), axis=1)
        return Rule.surest_first("path", bodies, closed, self._totals[body].astype(np.int64), 5)


class Associations:
    """The rules between features of the same entity: a feature (q, x) is an edge under slot q to entity x."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph
        self._sharing, self._lifts = lru_cache(2)(self._found), lru_cache(4)(self._without)

    @cached_property
    def _features(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the start of each entity's features ``(N + 1,)``, the features, and how many entities have each.

        A feature is the number slot * N + neighbour; only features of two or more entities count.
        """
        graph = self.graph
        number = graph.count(graph.targets, graph.inverse(graph.slots))
        kept = number > 1
        entity, feature, number = (
            graph.sources[kept],
            (graph.slots * graph.num_entities + graph.targets)[kept],
            number[kept],
        )
        order = np.lexsort((number, entity))
        starts = np.searchsorted(entity[order], np.arange(graph.num_entities + 1))
        rank = np.arange(len(order)) - starts[entity[order]]
        # How many features of the entity are as rare or rarer: the rank of the last one that is equally rare.
        last = np.flatnonzero(np.diff(entity[order] * (number.max(initial=0) + 1) + number[order], append=-1))
        most = rank[last][np.searchsorted(last, np.arange(len(order)))] + 1 if len(order) else rank
        chosen = np.sort(order[most <= MOST_FEATURES])
        starts = np.searchsorted(entity[chosen], np.arange(graph.num_entities + 1))
        return starts, feature[chosen], number[chosen]

    def rules(self, triples: IntArray) -> FloatArray:
        """Return statistics ``(m, 12)`` of the features of both ends of triples: `ASSOCIATION_NAMES`.

        Of n_f entities with a feature f of the head and n_g entities that are a head of (r, t), C are both. The
        statistics are the largest confidence C / (n_f + 1), the noisy-or, the sum of
        log((C + .5) / ((n_f - 1) n_g / N + .5)) over the root of 1 + the number of features, the largest
        C / sqrt(n_f n_g), and log1p of the numbers of features with C > 0 and of all. Then the same for the tail as a
        tail of (h, r).
        """
        turned = triples[:, RELATION] + self.graph.relations
        return np.concatenate(
            (
                self._of(triples[:, HEAD], triples[:, RELATION], triples[:, TAIL]),
                self._of(triples[:, TAIL], turned, triples[:, HEAD]),
            )
        ).T

    def _of(self, entities: IntArray, slots: IntArray, partners: IntArray) -> FloatArray:
        """Return statistics ``(6, m)`` of the features of entities for goals, each a slot that leads to a partner.

        A goal that no entity has says nothing. Where all rows share an entity or a goal, as in a whole row of
        candidates, those without a feature that anyone with their goal has are computed together.
        """
        starts = self._features[0]
        found = np.zeros((6, len(entities)))
        found[5] = np.log1p(np.diff(starts)[entities])
        first, last = self.graph.under(partners, self.graph.inverse(slots))
        rows, sizes = np.flatnonzero(last > first), last - first
        goal = slots * self.graph.num_entities + partners
        if len(rows) > MANY and (shared := alone(goal)) is not None:
            hit = self._sharing(True, shared)[entities]
            found[2] = np.where(hit, 0, self._lifts(int(sizes[0]))[entities])
            rows = np.flatnonzero(hit)
        elif len(rows) > MANY and (one := alone(entities)) is not None:
            place, owner = spread(first[rows], last[rows])
            hit = np.bincount(owner, weights=self._sharing(False, one)[self.graph.targets[place]]) > 0
            apart = rows[~hit]
            _, sample, like = np.unique(sizes[apart], return_index=True, return_inverse=True)
            alike = self._counted(entities[apart[sample]], slots[apart[sample]], partners[apart[sample]])
            found[:5, apart] = alike[:, like]
            rows = rows[hit]
        found[:5, rows] = self._counted(entities[rows], slots[rows], partners[rows])
        return found

    def _found(self, of_goal: bool, number: int) -> BoolArray:
        """Return which entities have a feature of an entity, or of any with a goal, by its ``number``, ``(N,)``."""
        graph, (starts, features, _) = self.graph, self._features
        having = self._members(np.array([number])) if of_goal else np.array([number])
        place, _ = spread(starts[having], starts[having + 1])
        slots, partners = np.divmod(unique(features[place]), max(1, graph.num_entities))
        place, _ = spread(*graph.under(partners, graph.inverse(slots)))
        found = np.zeros(graph.num_entities, dtype=np.bool_)
        found[graph.targets[place]] = True
        return found

    def _without(self, size: int) -> FloatArray:
        """Return the lift of every entity for a goal that ``size`` entities have, none with one of its features."""
        starts, _, having = self._features
        number = self.graph.num_entities
        _, owner = spread(starts[:-1], starts[1:])
        lifts = sums(np.log(0.5 / ((having - 1) * size / max(1, number) + 0.5)), owner, number)
        lifts /= np.sqrt(1 + np.diff(starts))
        return lifts

    def _counted(self, entities: IntArray, slots: IntArray, partners: IntArray) -> FloatArray:
        """Return all statistics but the number of features, ``(5, m)``."""
        graph = self.graph
        starts, features, having = self._features
        asked = slots * graph.num_entities + partners
        goals = unique(asked)
        goal = np.searchsorted(goals, asked)
        width = graph.num_slots * graph.num_entities
        first, last = self._ranges(goals)
        known, together = self._together(goals, first, last, alone(entities))
        place, owner = spread(starts[entities], starts[entities + 1])
        feature, there, number = features[place], having[place], len(entities)
        both = looked_up(known, together, goal[owner] * width + feature)
        # A triple that is observable is a feature of its own end, and would confirm itself.
        both[feature == asked[owner]] = 0
        size = (last - first)[goal]
        confidence = both / (there + 1)
        lift = np.log((both + 0.5) / ((there - 1) * size[owner] / max(1, graph.num_entities) + 0.5))
        return np.stack(
            (
                largest(confidence, owner, number),
                noisy_or(confidence, owner, number),
                sums(lift, owner, number) / np.sqrt(1 + np.bincount(owner, minlength=number)),
                largest(both / np.sqrt(np.maximum(there * size[owner], 1)), owner, number),
                np.log1p(np.bincount(owner[both > 0], minlength=number)),
            )
        )

    def _together(self, goals: IntArray, first: IntArray, last: IntArray, one: int | None) -> tuple[IntArray, IntArray]:
        """Return the pairs of a goal and a feature that entities have both of, as place of the goal in ``goals`` *
        2R * N + feature, in increasing order, and how many have both; where only ``one`` entity asks, of its features.

        ``first`` and ``last`` are the `_ranges` of the goals.
        """
        graph, (starts, features, _) = self.graph, self._features
        width = graph.num_slots * graph.num_entities
        slot = None if one is None else alone(goals // max(1, graph.num_entities))
        if one is None or slot is None:
            place, owner = spread(first, last)
            members = graph.targets[place]
            place, of = spread(starts[members], starts[members + 1])
            return counted(owner[of] * width + features[place])
        # The other way round, from those who have a feature of its to what they lead to, is shorter for many goals.
        own = features[starts[one] : starts[one + 1]]
        keys, entities = self._holders
        place, of = spread(*ranges(keys, own))
        entity, feature = entities[place], own[of]
        place, of = spread(*graph.under(entity, np.full_like(entity, slot)))
        reached = slot * graph.num_entities + graph.targets[place]
        goal = np.searchsorted(goals, reached)
        asked = goals[np.minimum(goal, len(goals) - 1)] == reached
        return counted(goal[asked] * width + feature[of[asked]])

    @cached_property
    def _holders(self) -> tuple[IntArray, IntArray]:
        """Return the features of all entities in increasing order, and the entity that has each."""
        starts, features, _ = self._features
        order = np.argsort(features, kind="stable")
        return features[order], np.repeat(np.arange(self.graph.num_entities), np.diff(starts))[order]

    def _ranges(self, goals: IntArray) -> tuple[IntArray, IntArray]:
        """Return from where to where the edges from the partner of each goal to those who have it stand."""
        slots, partners = np.divmod(goals, max(1, self.graph.num_entities))
        return self.graph.under(partners, self.graph.inverse(slots))

    def _members(self, goals: IntArray) -> IntArray:
        """Return the entities with each feature of ``goals`` ``(g,)``, one feature after the other."""
        place, _ = spread(*self._ranges(goals))
        return self.graph.targets[place]

    def behind(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind one triple ``(3,)``, the head's and then the tail's, each the surest first."""
        head, relation, tail = triple[[HEAD]], triple[[RELATION]], triple[[TAIL]]
        return self._behind(head, relation, tail, "head") + self._behind(
            tail, relation + self.graph.relations, head, "tail"
        )

    def _behind(self, entity: IntArray, slot: IntArray, partner: IntArray, end: str) -> list[Rule]:
        starts, features, having = self._features
        own, _ = spread(starts[entity], starts[entity + 1])
        asked = slot * self.graph.num_entities + partner
        members = self._members(asked)
        place, _ = spread(starts[members], starts[members + 1])
        both = looked_up(*counted(features[place]), features[own])
        both[features[own] == asked] = 0
        bodies = np.stack(np.divmod(features[own], self.graph.num_entities), axis=1)
        return Rule.surest_first("assoc", bodies, both, having[own], 1, end)
