"""Two-hop patterns: which pairs of observable steps lead from a target's head to its tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL, IntArray

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
    codes = np.unique((rows * steps + first) * steps + second)
    key = relation[codes // steps**2] * steps**2 + codes % steps**2
    patterns, covered = np.unique(key, return_counts=True)
    names = [*labels, *(BACKWARDS + label for label in labels)]
    found = []
    for code, count in zip(patterns.tolist(), covered.tolist(), strict=True):
        number, first_step, second_step = code // steps**2, code // steps % steps, code % steps
        found.append(Pattern(labels[number], names[first_step], names[second_step], count, int(totals[number])))
    return tuple(sorted(found, key=lambda row: (row.relation, -row.covered, row.first, row.second)))


def _labels(split: Split) -> tuple[list[str], IntArray]:
    names = [split.tasks.get(name, name) for name in split.relations.tolist()]
    labels = sorted(set(names))
    numbers = {label: number for number, label in enumerate(labels)}
    return labels, np.array([numbers[name] for name in names], dtype=np.int64)


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
