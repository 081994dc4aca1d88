"""Rules from one edge to another: q holds between h and t, so does r."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import largest, ranges, spread, sums
from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray

SURE = 0.99
"""The largest confidence that a noisy-or counts: one rule alone never settles it."""

NAMES = ("confidence", "noisy-or", "lift", "coverage", "edges forward", "edges backward")


@dataclass(frozen=True)
class Rule:
    """A rule behind a triple: it holds in ``hits`` of the ``cases`` of its body, smoothed the ``confidence``.

    The body is one slot (``pair``) or two (``path``) between both ends; or of one ``end`` another slot (``type``), or a
    slot and the entity it leads to (``assoc``).
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
        """Return the rules of bodies ``(n, k)``, of confidence hits / (cases + prior)."""
        rows = zip(bodies.tolist(), hits.tolist(), cases.tolist(), (hits / (cases + prior)).tolist(), strict=True)
        found = [cls(family, tuple(body), hit, case, sure, end) for body, hit, case, sure in rows]
        return sorted(found, key=lambda rule: (-rule.confidence, -rule.hits, rule.body))

    def named(self, split: Split, triple: IntArray) -> tuple[str, str]:
        """Return the name of the end that the rule is of, if it is of one, and what it says of a triple ``(3,)``."""

        def slot(number: int) -> str:
            inverse = number >= split.relation_slots
            return f"{split.relation_name(number - split.relation_slots * inverse)}{'^-1' * inverse}"

        turned = self.end == "tail"
        goal = slot(int(triple[RELATION]) + split.relation_slots * turned)
        entity, other = split.entities[triple[[TAIL, HEAD] if turned else [HEAD, TAIL]]].tolist()
        if self.family == "pair":
            return "", f"{slot(self.body[0])}(h, t) => {goal}"
        if self.family == "path":
            return "", f"{', '.join(map(slot, self.body))} => {goal}"
        if self.family == "type":
            return entity, f"({slot(self.body[0])}, ?) => ({goal}, ?)"
        return entity, f"({slot(self.body[0])}, {split.entities[self.body[1]]}) => ({goal}, {other})"


class Pairs:
    """The rules between slots of the same pair of entities."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph

    @cached_property
    def _together(self) -> FloatArray:
        """How many pairs of entities have both of two slots, ``(2R, 2R)``, 0 for a slot and itself."""
        keys, slots = self.graph.by_pair
        place, owner = spread(*ranges(keys, keys))
        size = self.graph.num_slots
        found = np.bincount(slots[owner] * size + slots[place], minlength=size * size).reshape(size, size)
        np.fill_diagonal(found, 0)
        return found.astype(np.float64)

    def rules(self, triples: IntArray) -> FloatArray:
        """Return what the other edges between head and tail say of each triple, ``(m, 6)``, in `NAMES`' order.

        A slot q other than r between the same two has the confidence pairs with both / (pairs with q + 3): the
        largest, their noisy-or, the log lift of the largest over the relation's share of all triples; the largest
        coverage, pairs with both / (pairs with r + 3); log1p of the number of such edges by direction.
        """
        graph = self.graph
        keys, slots = graph.by_pair
        place, owner = spread(*ranges(keys, triples[:, HEAD] * graph.num_entities + triples[:, TAIL]))
        other, relation, number = slots[place], triples[owner, RELATION], len(triples)
        apart = other != relation
        other, relation, owner = other[apart], relation[apart], owner[apart]
        both, edges = self._together[other, relation], graph.slot_edges
        confidence = both / (edges[other] + 3)
        most = largest(confidence, owner, number)
        share = edges[triples[:, RELATION]] / max(1, graph.triples)
        backward = other >= graph.relations
        return np.stack(
            (
                most,
                sums(-np.log1p(-np.minimum(confidence, SURE)), owner, number),
                np.log((most + 1e-3) / (share + 1e-3)),
                largest(both / (edges[relation] + 3), owner, number),
                np.log1p(np.bincount(owner[~backward], minlength=number)),
                np.log1p(np.bincount(owner[backward], minlength=number)),
            ),
            axis=1,
        )

    def behind(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind one triple ``(3,)``, the surest first."""
        graph = self.graph
        keys, slots = graph.by_pair
        place, _ = spread(*ranges(keys, triple[[HEAD]] * graph.num_entities + triple[[TAIL]]))
        other = slots[place][slots[place] != triple[RELATION]]
        both = self._together[other, triple[RELATION]].astype(np.int64)
        return Rule.surest_first("pair", other[:, None], both, graph.slot_edges[other], 3)
