"""All statistics of a triple side by side, by family: tally learns from them, and explanations name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import batches
from mtbench.data.splits import Split, unique
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray
from reference_models.tally import ends, rules
from reference_models.tally.rules import Rule

LENGTHS = (2, 3, 4, 5)
"""The lengths of the random walks, in steps."""

WALKS, PLACES = 64, 1 << 26
"""Entities at which walks begin together, fewer where these times all entities are more than the second number."""

STEP = 256
"""Logs are rounded to one part in so many, so that triples in equal places stay equal. Walks are followed in double
precision: in single precision one in a thousand was rounded differently when it was followed from its other end."""

FAMILIES: Mapping[str, Sequence[str]] = {
    "half": ends.HALF_NAMES,
    "type": ends.TYPE_NAMES,
    "rel": ends.RELATION_NAMES,
    "deg": ends.DEGREE_NAMES,
    "pair": rules.PAIR_NAMES,
    "path": rules.PATH_NAMES,
    "assoc": rules.ASSOCIATION_NAMES,
    "walk": tuple(f"walk of {length}" for length in LENGTHS),
}
"""The names of the statistics of each family, in the order of the columns."""

NAMES = tuple((family, name) for family, names in FAMILIES.items() for name in names)
"""The family and the name of each column."""

FAMILY = np.array([list(FAMILIES).index(family) for family, _ in NAMES])
"""The number of the family of each column, ``(WIDTH,)``."""

WIDTH = len(NAMES)
BATCH = 1 << 16
"""Triples computed at a time, which bounds the memory of their lists."""


class Statistics:
    """The statistics of one graph, each computed from its observable triples when it is first needed."""

    def __init__(self, observable: Split) -> None:
        self.graph = graph = Doubled.of(observable)
        end, pair = ends.Ends(graph), rules.Pairs(graph)
        path, association = rules.Paths(graph), rules.Associations(graph)
        self._behind = end.behind, pair.behind, path.behind, association.behind
        self._parts: Sequence[Callable[[IntArray], FloatArray]] = (
            end.half_links_and_types,
            lambda triples: ends.relation_sizes(graph, triples),
            lambda triples: ends.degrees(graph, triples),
            pair.rules,
            path.rules,
            association.rules,
            Walks(graph).walks,
        )

    def of(self, triples: IntArray) -> NDArray[np.float32]:
        """Return the statistics of triples ``(m, 3)``, float32 ``(m, WIDTH)``, in the order of `FAMILIES`.

        In memory each statistic lies together, as it is computed.
        """
        statistics = np.empty((WIDTH, len(triples)), dtype=np.float32)
        for start, stop in _pieces(triples):
            column = 0
            for part in self._parts:
                values = part(triples[start:stop]).T
                statistics[column : column + len(values), start:stop] = values
                column += len(values)
        return statistics.T

    def rules(self, triple: IntArray) -> list[Rule]:
        """Return the rules behind the statistics of one triple ``(3,)``, family by family, the surest first."""
        return [rule for behind in self._behind for rule in behind(triple)]

    def half_links(self, triple: IntArray) -> tuple[int, int, int]:
        """Return how many triples of the relation of a triple ``(3,)`` have its head, have its tail, and are in all."""
        slots = np.array([triple[RELATION], triple[RELATION] + self.graph.relations])
        head, tail = self.graph.count(triple[[HEAD, TAIL]], slots).tolist()
        return head, tail, int(self.graph.slot_edges[slots[0]])


def _pieces(triples: IntArray) -> Iterator[tuple[int, int]]:
    """Return from where to where triples are computed together: a long row of candidates by itself, others in batches.

    In a row of candidates one end and the relation stay.
    """
    head, relation, tail = (triples[1:] != triples[:-1]).T
    bounds = np.concatenate(([0], np.flatnonzero(relation | (head & tail)) + 1, [len(triples)]))
    long = np.flatnonzero(np.diff(bounds) > rules.MANY)
    cuts = unique(np.concatenate(([0], bounds[long], bounds[long + 1], [len(triples)]))).tolist()
    for first, last in pairwise(cuts):
        for start in range(first, last, BATCH):
            yield start, min(start + BATCH, last)


class Walks:
    """Random walks on the undirected graph with an edge between any two different entities that a triple links."""

    def __init__(self, graph: Doubled) -> None:
        self.graph = graph
        self._from = lru_cache(1)(self._followed)

    @cached_property
    def _step(self) -> tuple[csr_array, FloatArray]:
        """The probability of a step to an entity (row) from another (column), ``(N, N)``, and the degrees ``(N,)``."""
        links = self.graph.links
        degrees = np.maximum(links.sum(axis=0), 1).astype(np.float64)
        shares = (1 / degrees)[links.indices]
        return csr_array((shares, links.indices, links.indptr), shape=links.shape), degrees

    def walks(self, triples: IntArray) -> FloatArray:
        """Return log(p_k / degree of the tail * volume + .001) of each triple for walks of k steps, ``(m, 4)``.

        Divided by the degree of its last entity, a walk is as likely as its reverse, so that walks can begin at the end
        that more triples share. They are followed to all entities at once, the last step only to those asked for.
        """
        step, degree = self._step
        if (shared := rules.shared_end(triples)) is not None:
            entity, others = shared
            return self._logs(self._from(entity)[others], degree[others])
        uses = [
            np.bincount(triples[:, end], minlength=self.graph.num_entities)[triples[:, end]] for end in (HEAD, TAIL)
        ]
        turned = uses[1] > uses[0]
        begin = np.where(turned, triples[:, TAIL], triples[:, HEAD])
        end = np.where(turned, triples[:, HEAD], triples[:, TAIL])
        begins, column = np.unique(begin, return_inverse=True)
        chances = np.empty((len(triples), len(LENGTHS)))
        block = max(1, min(WALKS, PLACES // max(1, self.graph.num_entities)))
        for start, stop, members in batches(column, len(begins), block):
            ends, place = np.unique(end[members], return_inverse=True)
            last, source = step[ends], column[members] - start
            weights: FloatArray = (step @ step[:, begins[start:stop]]).toarray()  # most are 0 after two steps
            for length in range(len(LENGTHS) - 1):
                if length:
                    weights = step @ weights
                chances[members, length] = weights[end[members], source]
            chances[members, -1] = (last @ weights)[place, source]
        return self._logs(chances, degree[end])

    def _followed(self, source: int) -> FloatArray:
        """Return the chances of the walks from one entity to end at each, ``(N, 4)``."""
        step, _ = self._step
        weights: FloatArray = step[:, [source]].toarray()
        chances = np.empty((self.graph.num_entities, len(LENGTHS)))
        for place in range(len(LENGTHS)):
            weights = step @ weights
            chances[:, place] = weights[:, 0]
        return chances

    def _logs(self, chances: FloatArray, degree: FloatArray) -> FloatArray:
        logs = np.log(chances / degree[:, None] * self._step[1].sum() + 1e-3)
        rounded: FloatArray = np.round(logs * STEP) / STEP
        return rounded
