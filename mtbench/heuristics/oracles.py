"""Oracles: scorers that show what a protocol can reach and what it gives away.

Two look at the test triples: no model can reach a figure that they do not, and what the blind oracle reaches without
telling relations apart is what the protocol gives away. Two know the rules of metafam-hard, read off its observable
graph; only `echo_oracle` uses which task a word belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.splits import Split, unique
from mtbench.errors import UsageError
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, FloatArray, IntArray, ScoreFunction
from mtbench.ranking.candidates import is_known

ENOUGH = 0.1
"""The share of the persons above which words agree, or a reading holds, not by chance: that would be one person."""


def oracle(split: Split) -> ScoreFunction:
    """Score every known triple of the split 1, else 0; it looks at the targets."""
    return lambda triples: is_known(split, triples).astype(np.int64)


def blind_oracle(split: Split) -> ScoreFunction:
    """Score every triple between the two entities of a target 1, whatever its relation; it looks at the targets.

    This is the best that a homogeneous model can do: all entities right, all relations tied.
    """
    pairs = unique(keys(split, split.targets, HEAD, TAIL))
    return lambda triples: np.isin(keys(split, triples, HEAD, TAIL), pairs).astype(np.int64)


@dataclass(frozen=True)
class Rules:
    """What the observable graph says of each relation: ``partner`` and ``reading`` ``(R,)``, -1 where there is none.

    ``called`` ``(R, N)`` is the tail of each relation and head; ``composed`` ``(T, R, N)`` the tail that each of the
    T readings gives for the echo of a relation. Readings are numbered by bond, tail end before head end.
    """

    called: IntArray
    composed: IntArray
    partner: IntArray
    reading: IntArray


def rules(split: Split) -> Rules:
    """Find who echoes whom, and in which reading, in the observable graph of metafam-hard.

    Bonds are the relations that, followed twice, lead back. A loud pair is two words for which a reading holds. Words
    outside of loud pairs are quiet: the echo of a quiet word is the quiet word it agrees with most often, and its task
    is that of the loud word that it (or its echo) agrees with most often. Raises `UsageError` for a graph without
    bonds, or in which an entity lacks a tail by a relation or has several.
    """
    called = np.full((split.relation_slots, split.num_entities), -1, dtype=np.int64)
    called[split.graph[:, RELATION], split.graph[:, HEAD]] = split.graph[:, TAIL]
    is_bond = _bonds(called)
    if len(split.graph) != called.size or (called < 0).any() or not called[is_bond].size:
        raise UsageError(f"{split.dataset} {split.name}: this is not metafam-hard, where every head has every relation")
    # A bond is followed after the word, from its tail, or before it, from its head.
    composed = np.stack([reading for mates in called[is_bond] for reading in (mates[called], called[:, mates])])
    agree, holds = agreement(called, composed)
    best = holds.max(axis=0)
    loud = best.max(axis=1) > 0.5
    partner = np.where(loud, best.argmax(axis=1), np.where(loud, 0, agree).argmax(axis=1))
    partner[is_bond] = -1
    # Which reading holds is seen in loud pairs alone; a quiet word takes that of the loud word it agrees with.
    reading = np.where(loud, holds.max(axis=2).argmax(axis=0), -1)
    for word in np.flatnonzero(~loud & ~is_bond):
        alike = np.where(loud, np.maximum(agree[word], agree[partner[word]]), 0)
        if alike.max() > ENOUGH:
            reading[word] = reading[alike.argmax()]
    return Rules(called, composed, partner, reading)


def agreement(called: IntArray, composed: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return for which share of the persons two words agree ``(R, R)``, and echo each other by a reading ``(T, R, R)``.

    Bonds agree with nothing, and no reading holds for them.
    """
    agree: FloatArray = (called[:, None] == called).mean(axis=2)
    holds: FloatArray = (composed[:, :, None] == called).mean(axis=3)
    np.fill_diagonal(agree, 0)
    bonds = _bonds(called)
    agree[bonds] = agree[:, bonds] = holds[:, bonds] = holds[:, :, bonds] = 0
    return agree, holds


def _bonds(called: IntArray) -> BoolArray:
    """Return which relations lead back when followed twice, ``(R,)``."""
    there_and_back = np.take_along_axis(called, called, axis=1)
    leads_back: BoolArray = (there_and_back == np.arange(called.shape[1])).all(axis=1)
    return leads_back


def echo_oracle(split: Split) -> ScoreFunction:
    """Score a triple 1 if it echoes an observable triple in the reading of its relation's task, else 0."""
    known = rules(split)

    def score(triples: IntArray) -> IntArray:
        head, relation, tail = triples.T
        reading, partner = known.reading[relation], known.partner[relation]
        right: IntArray = ((known.composed[reading, partner, head] == tail) & (reading >= 0)).astype(np.int64)
        return right

    return score


def single_task(split: Split) -> ScoreFunction:
    """Score a triple 1 if it echoes an observable triple in any reading, else 0.

    This is what a model can reach that knows all but the task: the readings conflict, and it cannot choose.
    """
    known = rules(split)

    def score(triples: IntArray) -> IntArray:
        head, relation, tail = triples.T
        partner = known.partner[relation]
        any_of: IntArray = ((known.composed[:, partner, head] == tail).any(axis=0) & (partner >= 0)).astype(np.int64)
        return any_of

    return score
