"""Relation types that say the same or the opposite, and the two-hop patterns that lead from a head to its tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from mtbench.data.graphs import keys
from mtbench.data.splits import Split, unique
from mtbench.names import HEAD, RELATION, TAIL, IntArray

Kind: TypeAlias = Literal["near-duplicate", "inverse", "symmetric"]


@dataclass(frozen=True)
class RelationPair:
    """Two relation types over nearly the same pairs of entities, or one that is nearly its own inverse.

    ``jaccard`` is the size of the intersection of the two sets of (head, tail) pairs over that of their
    union, the second set reversed unless the kind is near-duplicate; ``pairs`` is the intersection.
    """

    relation: str
    other: str
    kind: Kind
    jaccard: float
    pairs: int


def similar_relations(split: Split, threshold: float) -> tuple[RelationPair, ...]:
    """Return the pairs of relation types with a Jaccard index of at least ``threshold``, largest first.

    A target on a relation whose inverse is observable is a matter of looking it up, which is what
    FB15k and WN18 were replaced for. Observable and missing triples count together. Source: Toutanova
    and Chen (2015), Akrami et al., Realistic Re-evaluation of Knowledge Graph Completion Methods (2020).
    """
    triples = np.concatenate((split.graph, split.targets))
    forward, backward = keys(split, triples, HEAD, TAIL), keys(split, triples, TAIL, HEAD)
    pairs = unique(np.concatenate((forward, backward)))
    direct, reversed_ = (
        _incidence(triples, np.searchsorted(pairs, part), split.num_relations, len(pairs))
        for part in (forward, backward)
    )
    sizes = np.asarray(direct.sum(axis=1)).ravel()
    found: list[RelationPair] = []
    for kind, matrix in (("near-duplicate", direct), ("inverse", reversed_)):
        shared = np.asarray((direct @ matrix.T).todense())
        union = sizes[:, None] + sizes[None, :] - shared
        jaccard = shared / np.maximum(union, 1)
        rows, columns = np.nonzero(np.triu((jaccard >= threshold) & (shared > 0)))
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            if row == column and kind == "near-duplicate":
                continue
            label: Kind = "symmetric" if row == column else "inverse" if kind == "inverse" else "near-duplicate"
            names = split.relation_name(row), split.relation_name(column)
            found.append(RelationPair(*names, label, float(jaccard[row, column]), int(shared[row, column])))
    return tuple(sorted(found, key=lambda pair: (-pair.pairs, pair.relation, pair.other, pair.kind)))


def _incidence(triples: IntArray, columns: IntArray, relations: int, width: int) -> csr_array:
    # float64 holds these counts exactly and is what SciPy multiplies fastest.
    data = np.ones(len(triples), dtype=np.float64)
    matrix = csr_array((data, (triples[:, RELATION], columns)), shape=(relations, width))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


BACKWARDS = "^"
"""Marks a step that is walked from tail to head, as in SPARQL's property paths."""


@dataclass(frozen=True)
class Pattern:
    """A pair of steps that leads from head to tail for ``covered`` of the ``targets`` of one relation.

    Relations are named by their task where the ground truth is known.
    """

    relation: str
    first: str
    second: str
    covered: int
    targets: int


def two_hop_patterns(split: Split) -> tuple[Pattern, ...]:
    """Return every two-hop pattern with the number of targets it recovers, per relation most first.

    A pattern says what a model could have learned: for a target (h, r, t) it is a path h - z - t of two
    observable triples, each walked in either direction; z is neither h nor t. Two halves of a dataset
    conflict only if each has a pattern of its own that recovers its targets.
    """
    labels, label_of = _labels(split)
    rows, first, second = _paths(split, label_of)
    relation = label_of[split.targets[:, RELATION]]
    totals = np.bincount(relation, minlength=len(labels))
    steps = 2 * len(labels)
    # Several paths of one pattern count once for a target.
    codes = unique((rows * steps + first) * steps + second)
    key = relation[codes // steps**2] * steps**2 + codes % steps**2
    patterns, covered = np.unique(key, return_counts=True)
    names = [*labels, *(BACKWARDS + label for label in labels)]
    found = []
    for code, count in zip(patterns.tolist(), covered.tolist(), strict=True):
        number, first_step, second_step = code // steps**2, code // steps % steps, code % steps
        found.append(Pattern(labels[number], names[first_step], names[second_step], count, int(totals[number])))
    return tuple(sorted(found, key=lambda row: (row.relation, -row.covered, row.first, row.second)))


def _labels(split: Split) -> tuple[list[str], IntArray]:
    names = np.array([split.tasks.get(name, name) for name in split.relations.tolist()], dtype=np.str_)
    labels, numbers = np.unique(names, return_inverse=True)
    return labels.tolist(), numbers


def _paths(split: Split, label_of: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return, one row per path, the target, the first step and the second step."""
    entities, half = split.num_entities, int(label_of.max(initial=-1)) + 1
    label = label_of[split.graph[:, RELATION]]
    ends = split.graph[:, HEAD], split.graph[:, TAIL]
    # Every observable triple is a step both ways: start, end, step.
    start, end = np.concatenate(ends), np.concatenate(ends[::-1])
    step = np.concatenate((label, label + half))
    order = np.lexsort((step, end, start))
    start, end, step = start[order], end[order], step[order]
    index = np.searchsorted(start, np.arange(entities + 1))
    degree = np.diff(index)
    heads, tails = split.targets[:, HEAD], split.targets[:, TAIL]
    # Walk from the end with fewer neighbours: hubs have thousands.
    swapped = degree[tails] < degree[heads]
    near, far = np.where(swapped, tails, heads), np.where(swapped, heads, tails)
    target, edge = _expand(index[near], degree[near])
    middle = end[edge]
    keep = (middle != near[target]) & (middle != far[target])
    target, edge, middle = target[keep], edge[keep], middle[keep]
    keys = start * entities + end
    wanted = middle * entities + far[target]
    low, high = np.searchsorted(keys, wanted, side="left"), np.searchsorted(keys, wanted, side="right")
    path, other = _expand(low, high - low)
    target, one, two = target[path], step[edge[path]], step[other]
    back = swapped[target]
    return target, np.where(back, _turned(two, half), one), np.where(back, _turned(one, half), two)


def _turned(step: IntArray, half: int) -> IntArray:
    return np.where(step < half, step + half, step - half)


def _expand(starts: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the owner and the position of every member of the ranges ``starts[i] ... + counts[i]``."""
    owner = np.repeat(np.arange(len(starts)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, starts[owner] + offset
