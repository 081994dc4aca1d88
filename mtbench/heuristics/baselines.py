"""Heuristic baselines as formulas of head, relation and tail, asked for single triples or for whole rows.

Each reads the observable triples: counts of a relation, an entity, a half-link, a reversed pair; and, on the simple
undirected graph without relation types, how close head and tail are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtbench.data.doubled import Doubled
from mtbench.data.ragged import batches, counted, looked_up, splitmix64, spread
from mtbench.data.splits import Split, unique
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray, UIntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

RANDOM_SEED = 0
"""Seed of the baseline ``random``: a constant, so that it is one figure per task and not a sample of figures."""

DAMPING = 0.85
STEPS = 20
"""The walk is cut off after this many steps: 0.85 ** 21 = 3 % of its weight, which no longer moves the metrics."""

KEPT_BITS = 12
"""Bits of a score that are kept: rounding errors are smaller, and would break ties between equivalent entities."""

BLOCK = 64
"""Entities per block: 10,000 rows of single precision then stay in the processor's cache."""

MANY = 50_000
"""Entities from which on a column is worked out where it is not 0: most of it is far away."""

Scores: TypeAlias = NDArray[np.number[Any]]

Formula: TypeAlias = Callable[[IntArray, IntArray, IntArray], Scores]
"""From ids of heads, relations and tails, which broadcast against each other, to scores that broadcast likewise.

Single triples are three arrays ``(m,)``. For rows, two sides are ``(b, 1)`` and the third is all its ids, ``(1, n)``; a
formula that ignores the third returns ``(b, 1)``.
"""

Columns: TypeAlias = Callable[[IntArray], NDArray[np.float32]]
"""From entities ``(b,)`` to their columns, ``(num_entities, b)``."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """A scorer that learns nothing: it scores triples, and rows of all tails, heads or relations of pairs."""

    split: Split
    formula: Formula

    def __call__(self, triples: IntArray, /) -> Scores:
        """Return one score per triple ``(m, 3)``, ``(m,)``."""
        return self.score(triples)

    def score(self, triples: IntArray, /) -> Scores:
        """Return one score per triple ``(m, 3)``, ``(m,)``."""
        return self.formula(triples[:, HEAD], triples[:, RELATION], triples[:, TAIL])

    def score_tails(self, heads: IntArray, relations: IntArray, /) -> Scores:
        """Return the scores of all tails of heads and relations ``(b,)``, ``(b, num_entities)``."""
        every = np.arange(self.split.num_entities)[None]
        return np.broadcast_to(self.formula(heads[:, None], relations[:, None], every), (len(heads), every.size))

    def score_heads(self, relations: IntArray, tails: IntArray, /) -> Scores:
        """Return the scores of all heads of relations and tails ``(b,)``, ``(b, num_entities)``."""
        every = np.arange(self.split.num_entities)[None]
        return np.broadcast_to(self.formula(every, relations[:, None], tails[:, None]), (len(tails), every.size))

    def score_relations(self, heads: IntArray, tails: IntArray, /) -> Scores:
        """Return the scores of all relations of heads and tails ``(b,)``, ``(b, relation_slots)``."""
        every = np.arange(self.split.relation_slots)[None]
        return np.broadcast_to(self.formula(heads[:, None], every, tails[:, None]), (len(heads), every.size))


class Together:
    """How often a first and a second id occur together, looked up as `Formula` asks for them.

    ``first`` and ``second`` are ids ``(e,)``, with repetitions, below ``sizes``. Pairs that never occur take no memory.
    """

    def __init__(self, first: IntArray, second: IntArray, sizes: tuple[int, int]) -> None:
        self._first, self._second, self._sizes = first, second, sizes

    def __call__(self, first: IntArray, second: IntArray) -> IntArray:
        """Return the counts of pairs of ids, int64 in the shape the two broadcast to."""
        # Whole rows are filled from a slice of the sorted pairs: far cheaper than a search for each of their cells.
        if first.shape != second.shape and first.ndim == 2:
            if first.shape[1] == 1 and second.shape == (1, self._sizes[1]):
                return self._rows(first[:, 0])
            if second.shape[1] == 1 and first.shape == (1, self._sizes[0]):
                return self._turned._rows(second[:, 0])
        return looked_up(*self._counted, first * self._sizes[1] + second)

    @cached_property
    def _turned(self) -> Together:
        return Together(self._second, self._first, self._sizes[::-1])

    @cached_property
    def _counted(self) -> tuple[IntArray, IntArray]:
        """Return a number for every pair that occurs, in increasing order, and how often it does."""
        return counted(self._first * self._sizes[1] + self._second)

    def _rows(self, ids: IntArray) -> IntArray:
        known, counts = self._counted
        width = self._sizes[1]
        starts, stops = np.searchsorted(known, ids * width), np.searchsorted(known, (ids + 1) * width)
        rows = np.zeros((len(ids), width), dtype=np.int64)
        for row, start, stop in zip(rows, starts.tolist(), stops.tolist(), strict=True):
            row[known[start:stop] % width] = counts[start:stop]
        return rows


def random(split: Split) -> Baseline:
    """Return the scorer that knows nothing: a fixed hash of each triple's ids, as a number from 0 to 1.

    It differs from chance only by the luck of its one draw, and so shows how far a figure moves by luck
    alone on that many targets. The graph plays no part. Scores are those of the splitmix64 generator
    seeded with `RANDOM_SEED`, float64 ``(m,)`` with 53 random bits.
    """

    def formula(*sides: IntArray) -> FloatArray:
        state: UIntArray = np.full(1, RANDOM_SEED, dtype=np.uint64)
        for ids in sides:
            state = splitmix64(state ^ ids.astype(np.uint64))
        return (state >> np.uint64(11)) / 2.0**53

    return Baseline(split, formula)


def relation_frequency(split: Split) -> Baseline:
    """Return the scorer of how many observable triples have the relation, int64 ``(m,)``; empty slots score 0.

    It looks at neither head nor tail, so all tails of a target tie; where it does well on the relation
    side, predicting the common relation is what the split rewards.
    """
    frequencies = np.bincount(split.graph[:, RELATION], minlength=split.relation_slots)
    return Baseline(split, lambda heads, relations, tails: frequencies[relations])


def entity_degree(split: Split) -> Baseline:
    """Return the scorer of out-degree of the head plus in-degree of the tail, int64 ``(m,)``.

    Whichever end is replaced, the candidate that takes part in most observable triples in that role
    comes first. All relations of a pair tie. Where it does well, the split rewards popular entities.
    """
    starts = np.bincount(split.graph[:, HEAD], minlength=split.num_entities)
    ends = np.bincount(split.graph[:, TAIL], minlength=split.num_entities)
    return Baseline(split, lambda heads, relations, tails: starts[heads] + ends[tails])


def half_link_memory(split: Split) -> Baseline:
    """Return the scorer (1 + a)(1 + b), int64 ``(m,)``, for a triples (h, r, .) and b triples (., r, t) observable.

    It remembers which half-links it has seen and how often, and never looks at head and tail together.
    It is the only baseline that tells all three sides apart: a tail or head is known to take the relation,
    and a relation is known at both ends. Where it does well, a model need not relate two entities.
    """
    heads, relations, tails = split.graph.T
    starts = Together(heads, relations, (split.num_entities, split.relation_slots))
    ends = Together(relations, tails, (split.relation_slots, split.num_entities))
    return Baseline(split, lambda head, relation, tail: (1 + starts(head, relation)) * (1 + ends(relation, tail)))


def inverse_visible(split: Split) -> Baseline:
    """Return the scorer that is 1 where any triple from tail to head is observable and 0 elsewhere, int64 ``(m,)``.

    All relations of a pair tie. Where it does well, inverse relations leak the targets, as they did in
    WN18 and FB15k (Toutanova and Chen 2015).
    """
    links = Together(split.graph[:, TAIL], split.graph[:, HEAD], (split.num_entities, split.num_entities))
    return Baseline(split, lambda heads, relations, tails: (links(heads, tails) > 0).astype(np.int64))


def common_neighbours(split: Split) -> Baseline:
    """Return the scorer of how many entities are neighbours of both head and tail, float64 ``(m,)``.

    Where it does well, triangles give the target away whatever their relations are.
    """
    adjacency = Doubled.of(split).links

    def columns(entities: IntArray) -> NDArray[np.float32]:
        if split.num_entities > MANY:
            rows: NDArray[np.float32] = (adjacency @ adjacency[entities].T).toarray()
            return rows
        shared: NDArray[np.float32] = adjacency @ adjacency[:, entities].toarray()
        return shared

    return Baseline(split, lambda heads, relations, tails: _between(heads, tails, columns)[0])


def personalised_pagerank(split: Split) -> Baseline:
    """Return the scorer of the weight a random walk with restart from the head has at the tail, float64 ``(m,)``.

    The walk goes on with probability `DAMPING` to a uniform neighbour, else back to the head, and is
    followed for `STEPS` steps: the sum over k up to `STEPS` of ``DAMPING ** k`` times the probability of
    being at the tail after k steps. Scores are rounded to `KEPT_BITS` bits. It knows no relation, and still
    beats learned models on some splits ranked against a few random tails; where it does well, predicting
    a close tail is enough.
    """
    adjacency = Doubled.of(split).links
    # An entity without neighbours has an empty column, and must not divide it by 0.
    degrees = np.maximum(adjacency.sum(axis=0), 1)
    step = adjacency.multiply(np.float32(DAMPING) / degrees[None, :]).tocsr().astype(np.float32)

    def walk(step: csr_array, sources: IntArray) -> NDArray[np.float32]:
        place = sources, np.arange(len(sources))
        weights = np.zeros((step.shape[0], len(sources)), dtype=np.float32)
        weights[place] = 1
        for _ in range(STEPS):
            weights = step @ weights
            weights[place] += 1
        return weights

    def columns(entities: IntArray) -> NDArray[np.float32]:
        if split.num_entities <= MANY:
            return walk(step, entities)
        # What no walk reaches has the weight 0 without being looked at, unless it is too little to be worth a copy.
        reached = _within(adjacency, entities, STEPS)
        if 2 * len(reached) > split.num_entities:
            return walk(step, entities)
        weights = np.zeros((split.num_entities, len(entities)), dtype=np.float32)
        weights[reached] = walk(step[reached][:, reached], np.searchsorted(reached, entities))
        return weights

    def formula(heads: IntArray, relations: IntArray, tails: IntArray) -> FloatArray:
        weights, swapped = _between(heads, tails, columns)
        if swapped:
            # A walk of an undirected graph and its reverse are equally likely up to the degrees of their ends.
            weights *= degrees[tails] / degrees[heads]
        # Scores span orders of magnitude, so what is rounded is the mantissa: a fixed number of significant bits.
        mantissa, exponent = np.frexp(weights)
        rounded: FloatArray = np.ldexp(np.round(mantissa * 2**KEPT_BITS), exponent - KEPT_BITS)
        return rounded

    return Baseline(split, formula)


def _within(adjacency: csr_array, entities: IntArray, steps: int) -> IntArray:
    """Return, in increasing order, the entities that are at most so many steps from some of them."""
    reached = np.zeros(adjacency.shape[0], dtype=np.bool_)
    reached[entities] = True
    front, starts, ends = entities, adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64)
    for _ in range(steps):
        edges, _ = spread(starts[front], starts[front + 1])
        found = ends[edges]
        front = unique(found[~reached[found]])
        reached[front] = True
    return np.flatnonzero(reached)


def _between(heads: IntArray, tails: IntArray, columns: Columns) -> tuple[FloatArray, bool]:
    """Return the matrix entry of each head and tail, and whether the columns are tails (the rows then are heads).

    Columns, which are dear, are computed for heads or for tails, whichever has fewer distinct entities.
    """
    (heads_once, head), (tails_once, tail) = (np.unique(ids, return_inverse=True) for ids in (heads, tails))
    swapped = len(tails_once) < len(heads_once)
    rows, sources, column = (heads, tails_once, tail) if swapped else (tails, heads_once, head)
    if heads.shape != tails.shape:  # few columns, of which most is asked for
        made = np.concatenate([columns(sources[k : k + BLOCK]) for k in range(0, len(sources), BLOCK)], axis=1)
        return made[rows, column.reshape((tails if swapped else heads).shape)].astype(np.float64), swapped
    rows, column = rows.ravel(), column.ravel()
    entries = np.empty(rows.shape)
    for start, stop, members in batches(column, len(sources), BLOCK):
        entries[members] = columns(sources[start:stop])[rows[members], column[members] - start]
    return entries.reshape(heads.shape), swapped
