"""What an entity is linked to says what else it is linked to: association rules between half-links with a named end."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import counted, largest, looked_up, ranges, spread, sums
from mtbench.data.splits import unique
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray
from mtbench.statistics.pairs import SURE, Rule

MOST = 64
"""Features of an entity that count: its rarest, as many as are no more than these, ties left out together."""

OF_ONE = ("confidence", "noisy-or", "lift", "cosine", "matches", "features")
NAMES = tuple(f"{name} of {end}" for end in ("head", "tail") for name in OF_ONE)


class Associations:
    """The rules between features of the same entity: a feature (q, x) is an edge under slot q to entity x."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph

    @cached_property
    def _features(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return where the features of each entity begin ``(N + 1,)``, which they are, and how many entities have each.

        A feature is the number slot * N + neighbour; only those of at least two entities count.
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
        # The number of an entity's features that are as rare: of the last of a group of equals, its rank.
        last = np.flatnonzero(np.diff(entity[order] * (number.max(initial=0) + 1) + number[order], append=-1))
        most = rank[last][np.searchsorted(last, np.arange(len(order)))] + 1 if len(order) else rank
        chosen = np.sort(order[most <= MOST])
        starts = np.searchsorted(entity[chosen], np.arange(graph.num_entities + 1))
        return starts, feature[chosen], number[chosen]

    def rules(self, triples: IntArray) -> FloatArray:
        """Return what the features of both ends say of each triple, ``(m, 12)``, in `NAMES`' order.

        With C the entities that have a feature f of the head, and are a head of (r, t), of n_f and n_g that have one
        or are one: the largest confidence C / (n_f + 1), their noisy-or, the sum of
        log((C + .5) / ((n_f - 1) n_g / N + .5)) over the root of 1 + the number of features, the largest
        C / sqrt(n_f n_g), and log1p of the numbers of features with C > 0 and of all. The same for the tail, which is
        to be a tail of (h, r).
        """
        turned = triples[:, RELATION] + self.graph.relations
        return np.concatenate(
            (
                self._of(triples[:, HEAD], triples[:, RELATION], triples[:, TAIL]),
                self._of(triples[:, TAIL], turned, triples[:, HEAD]),
            ),
            axis=1,
        )

    def _of(self, entities: IntArray, slots: IntArray, others: IntArray) -> FloatArray:
        graph = self.graph
        starts, features, having = self._features
        asked = slots * graph.num_entities + others
        goals = unique(asked)
        goal = np.searchsorted(goals, asked)
        members = self._members(goals)
        # How many members of a goal have each feature.
        place, of = spread(starts[members[1]], starts[members[1] + 1])
        width = graph.num_slots * graph.num_entities
        known, together = counted(members[0][of] * width + features[place])
        place, owner = spread(starts[entities], starts[entities + 1])
        feature, there, number = features[place], having[place], len(entities)
        both = looked_up(known, together, goal[owner] * width + feature)
        both[feature == asked[owner]] = 0
        size = np.bincount(members[0], minlength=len(goals))[goal]
        confidence = both / (there + 1)
        lift = np.log((both + 0.5) / ((there - 1) * size[owner] / max(1, graph.num_entities) + 0.5))
        features_of = np.bincount(owner, minlength=number)
        return np.stack(
            (
                largest(confidence, owner, number),
                sums(-np.log1p(-np.minimum(confidence, SURE)), owner, number),
                sums(lift, owner, number) / np.sqrt(1 + features_of),
                largest(both / np.sqrt(np.maximum(there * size[owner], 1)), owner, number),
                np.log1p(np.bincount(owner[both > 0], minlength=number)),
                np.log1p(features_of),
            ),
            axis=1,
        )

    def _members(self, goals: IntArray) -> tuple[IntArray, IntArray]:
        """Return the entities that have each of some features: the place of the feature, and the entity."""
        graph = self.graph
        slots, others = np.divmod(goals, max(1, graph.num_entities))
        keys = graph.sources * graph.num_slots + graph.slots
        place, owner = spread(*ranges(keys, others * graph.num_slots + graph.inverse(slots)))
        return owner, graph.targets[place]

    def behind(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind one triple ``(3,)``, the head's and then the tail's, each the surest first."""
        head, relation, tail = triple[[HEAD]], triple[[RELATION]], triple[[TAIL]]
        return self._behind(head, relation, tail, "head") + self._behind(
            tail, relation + self.graph.relations, head, "tail"
        )

    def _behind(self, entity: IntArray, slot: IntArray, other: IntArray, end: str) -> list[Rule]:
        starts, features, having = self._features
        own, _ = spread(starts[entity], starts[entity + 1])
        asked = slot * self.graph.num_entities + other
        _, members = self._members(asked)
        place, _ = spread(starts[members], starts[members + 1])
        both = looked_up(*counted(features[place]), features[own])
        both[features[own] == asked] = 0
        bodies = np.stack(np.divmod(features[own], self.graph.num_entities), axis=1)
        return Rule.surest_first("assoc", bodies, both, having[own], 1, end)
