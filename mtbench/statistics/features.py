"""All statistics of a triple side by side, by family: what a model learns from, and an explanation names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mtbench.data.doubled import Doubled
from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray
from mtbench.statistics import associations, ends, pairs, paths, sizes, walks
from mtbench.statistics.pairs import Rule

FAMILIES: Mapping[str, Sequence[str]] = {
    "half": ends.HALF_NAMES,
    "type": ends.TYPE_NAMES,
    "rel": sizes.RELATION_NAMES,
    "deg": sizes.DEGREE_NAMES,
    "pair": pairs.NAMES,
    "path": paths.NAMES,
    "assoc": associations.NAMES,
    "walk": walks.NAMES,
}
"""The names of the statistics of each family, in the order of the columns."""

NAMES = tuple((family, name) for family, names in FAMILIES.items() for name in names)
"""The family and the name of each column."""

FAMILY = np.array([list(FAMILIES).index(family) for family, _ in NAMES])
"""The number of the family of each column, ``(WIDTH,)``."""

WIDTH = len(NAMES)
BATCH = 1 << 16
"""Triples computed at a time: bounds the memory of their lists."""


class Statistics:
    """The statistics of one graph, each computed from its observable triples when it is first needed."""

    def __init__(self, observable: Split) -> None:
        self.graph = graph = Doubled.of(observable)
        end, pair, path = ends.Ends(graph), pairs.Pairs(graph), paths.Paths(graph)
        association = associations.Associations(graph)
        self._behind = end.behind, pair.behind, path.behind, association.behind
        self._parts: Sequence[Callable[[IntArray], FloatArray]] = (
            end.half_links_and_types,
            lambda triples: sizes.relation_sizes(graph, triples),
            lambda triples: sizes.degrees(graph, triples),
            pair.rules,
            path.rules,
            association.rules,
            walks.Walks(graph).walks,
        )

    def of(self, triples: IntArray) -> NDArray[np.float32]:
        """Return the statistics of triples ``(m, 3)``, float32 ``(m, WIDTH)``, in the order of `FAMILIES`."""
        found = np.empty((len(triples), WIDTH), dtype=np.float32)
        for start in range(0, len(triples), BATCH):
            batch = triples[start : start + BATCH]
            column = 0
            for part in self._parts:
                values = part(batch)
                found[start : start + BATCH, column : column + values.shape[1]] = values
                column += values.shape[1]
        return found

    def rules(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind the statistics of one triple ``(3,)``, family by family, the surest first."""
        return [rule for behind in self._behind for rule in behind(triple)]

    def half_links(self, triple: IntArray) -> tuple[int, int, int]:
        """Return of the relation of a triple ``(3,)`` the triples with its head, with its tail, and all."""
        slots = np.array([triple[RELATION], triple[RELATION] + self.graph.relations])
        head, tail = self.graph.count(triple[[HEAD, TAIL]], slots).tolist()
        return head, tail, int(self.graph.slot_edges[slots[0]])
