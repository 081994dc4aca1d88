"""Heuristic baselines that count triples: of a relation, of an entity, of a half-link, of a reversed pair."""

from __future__ import annotations

import numpy as np

from mtbench.data.ragged import splitmix64
from mtbench.data.splits import Split
from mtbench.heuristics.formulas import Baseline, Together
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray, UIntArray

RANDOM_SEED = 0
"""Seed of the baseline ``random``: a constant, so that it is one figure per task and not a sample of figures."""


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
