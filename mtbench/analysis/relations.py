"""Relation types that say the same or the opposite, and the two-hop patterns that lead from a head to its tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from mtbench.data.graphs import keys
from mtbench.data.ragged import counted, ranges, spread
from mtbench.data.splits import Split, unique
from mtbench.names import HEAD, RELATION, TAIL, FloatArray, IntArray

Kind: TypeAlias = Literal["near-duplicate", "inverse", "symmetric"]
COMPARED = 2_000
"""Relation types of which each is compared with each: of a million names there are too many pairs."""


@dataclass(frozen=True)
class RelationPair:
    """Two relation types over nearly the same pairs of entities, or a type that is nearly its own inverse.

    ``jaccard`` is the size of the intersection of the two sets of (head, tail) pairs over that of their
    union, the second set reversed unless the kind is near-duplicate; ``pairs`` is the size of the intersection.
    """

    relation: str
    other: str
    kind: Kind
    jaccard: float
    pairs: int


def similar_relations(split: Split, threshold: float) -> tuple[RelationPair, ...]:
    """Return the pairs of relation types with a Jaccard index of at least ``threshold``, largest first.

    A target on a relation whose inverse is observable can be looked up, which is why
    FB15k and WN18 were replaced. Observable and missing triples count together. Source: Toutanova
    and Chen (2015), Akrami et al., Realistic Re-evaluation of Knowledge Graph Completion Methods (2020).
    """
    triples = np.concatenate((split.graph, split.targets))
    compared = np.sort(
        np.argsort(-np.bincount(triples[:, RELATION], minlength=split.relation_slots), kind="stable")[:COMPARED]
    )
    place = np.full(split.relation_slots, -1)
    place[compared] = np.arange(len(compared))
    triples = triples[place[triples[:, RELATION]] >= 0]
    forward, backward = keys(split, triples, HEAD, TAIL), keys(split, triples, TAIL, HEAD)
    pairs = unique(np.concatenate((forward, backward)))
    shape = len(compared), len(pairs)
    sides = []
    for part in (forward, backward):
        # float64 holds these counts exactly and is what SciPy multiplies fastest.
        places = place[triples[:, RELATION]], np.searchsorted(pairs, part)
        side = csr_array((np.ones(len(triples)), places), shape=shape)
        # A pair counts once, also where its triple is listed twice.
        side.sum_duplicates()
        side.data[:] = 1.0
        sides.append(side)
    sizes: FloatArray = np.asarray(sides[0].sum(axis=1)).ravel()
    kinds: tuple[Kind, Kind] = ("near-duplicate", "inverse")
    similar: list[RelationPair] = []
    for kind, side in zip(kinds, sides, strict=True):
        shared = (sides[0] @ side.T).toarray()
        jaccard = shared / np.maximum(sizes[:, None] + sizes[None, :] - shared, 1)
        # A relation is a near-duplicate of itself, but its own inverse only if it is symmetric.
        alike = np.triu((jaccard >= threshold) & (shared > 0), k=1 if kind == "near-duplicate" else 0)
        for row, column in np.argwhere(alike).tolist():
            names = split.relation_name(compared[row]), split.relation_name(compared[column])
            label: Kind = "symmetric" if row == column else kind
            similar.append(RelationPair(*names, label, float(jaccard[row, column]), int(shared[row, column])))
    return tuple(sorted(similar, key=lambda pair: (-pair.pairs, pair.relation, pair.other, pair.kind)))


BACKWARDS = "^"
"""Marks a step that is walked from tail to head, as in SPARQL's property paths."""


@dataclass(frozen=True)
class Pattern:
    """A pair of steps that leads from head to tail for ``covered`` of the ``targets`` of a relation.

    Relations are named by their task where the ground truth is known.
    """

    relation: str
    first: str
    second: str
    covered: int
    targets: int


def two_hop_patterns(split: Split, most: int | None = None) -> tuple[Pattern, ...]:
    """Return every two-hop pattern with the number of targets it recovers, the best of each relation first.

    With ``most``, only so many of each relation, and those of which a step is of that relation itself.

    A pattern says what a model could have learned: for a target (h, r, t) it is a path h - z - t of two
    observable triples, each walked in either direction; z is neither h nor t. Two halves of a dataset
    conflict only if each has a pattern of its own that recovers its targets.
    """
    names = np.array([split.tasks.get(name, name) for name in split.relations.tolist()], dtype=np.str_)
    labels, label_of = np.unique(names, return_inverse=True)
    targets, first, second = _paths(split, label_of, len(labels))
    relation = label_of[split.targets[:, RELATION]]
    totals = np.bincount(relation, minlength=len(labels))
    steps = 2 * len(labels)
    # A path is a single integer: the target, or its relation, then both steps as digits to the base of steps. Several
    # paths of the same pattern count once for a target.
    codes = unique((targets * steps + first) * steps + second)
    patterns = relation[codes // steps**2] * steps**2 + codes % steps**2
    step_names = [*labels.tolist(), *(f"{BACKWARDS}{label}" for label in labels)]
    codes, covered = counted(patterns)
    number, one, two = codes // steps**2, codes // steps % steps, codes % steps
    place = np.argsort(np.argsort(step_names))
    order = np.lexsort((place[two], place[one], -covered, number))
    number, one, two, covered = (column[order] for column in (number, one, two, covered))
    if most is not None:
        rank = np.arange(len(number)) - np.searchsorted(number, number)
        kept = (rank < most) | (one == number) | (two == number)
        number, one, two, covered = (column[kept] for column in (number, one, two, covered))
    rows = zip(number.tolist(), one.tolist(), two.tolist(), covered.tolist(), totals[number].tolist(), strict=True)
    return tuple(
        Pattern(step_names[of], step_names[first], step_names[second], *counts) for of, first, second, *counts in rows
    )


def _paths(split: Split, label_of: IntArray, labels: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the target, the first step and the second step of every path, ``(p,)`` each.

    A step is the label of its relation, plus the number of labels where it is walked from tail to head.
    """
    label = label_of[split.graph[:, RELATION]]
    ends = split.graph[:, HEAD], split.graph[:, TAIL]
    # Every observable triple is a step both ways: start, end, step.
    start, end, step = np.concatenate(ends), np.concatenate(ends[::-1]), np.concatenate((label, label + labels))
    order = np.lexsort((step, end, start))
    start, end, step = start[order], end[order], step[order]
    index = np.searchsorted(start, np.arange(split.num_entities + 1))
    degree = np.diff(index)
    heads, tails = split.targets[:, HEAD], split.targets[:, TAIL]
    # Walk from the end with fewer neighbours: hubs have thousands.
    swapped = degree[tails] < degree[heads]
    near, far = np.where(swapped, tails, heads), np.where(swapped, heads, tails)
    edge, target = spread(index[near], index[near + 1])
    keep = (end[edge] != near[target]) & (end[edge] != far[target])
    edge, target = edge[keep], target[keep]
    entities = split.num_entities
    # The second steps are the edges from the end of the first to the far end, which lie together in sorted order.
    second_edge, path = spread(*ranges(start * entities + end, end[edge] * entities + far[target]))
    first, second, target = step[edge[path]], step[second_edge], target[path]
    # A path that was walked from the tail is turned around: the steps change places, and each its direction.
    back, turned = swapped[target], [(part + labels) % (2 * labels or 1) for part in (first, second)]
    return target, np.where(back, turned[1], first), np.where(back, turned[0], second)
