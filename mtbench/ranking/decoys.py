"""Decoys: triples that nobody stated are ranked as if they were targets, before any target is asked for.

A scorer that reads in its batch which triple is a target, and remembers what it answered, gives the same score to every
triple whenever it is asked again. It puts decoys first as well, though they were drawn like their candidates, among
which every place is equally likely for them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.splits import Split, among
from mtbench.errors import BatchError
from mtbench.names import COLUMN, PARTS, BoolArray, IntArray, Side
from mtbench.ranking.again import ADVICE
from mtbench.ranking.candidates import Candidates, filter_side
from mtbench.ranking.lists import Layout, RankedPart, rank_all, rank_listed
from mtbench.ranking.scorers import Ways

FEWEST, MOST, TARGETS = 6, 32, 128
"""The least and the most decoys, and a decoy for so many targets between the two: about a percent of all scores."""

UNLIKELY = 1e-6
"""A scorer that cannot tell decoys from their candidates is refused once in so many evaluations."""


def rank_decoys(scorer: Ways, split: Split, candidates: Candidates, size: int) -> RankedPart | None:
    """Rank decoys by a scorer in every part of a task, and return them in the first part; None for a tiny task.

    A decoy is a target with a candidate of the first part in its place, and has the target's other candidates for its
    own. ``size`` is that of batches.
    """
    setting, sides = candidates.setting, candidates.drawn
    part, number = setting.parts[0], len(split.targets)
    side = PARTS[part][1]
    rng = np.random.default_rng(number)
    rows = np.sort(rng.choice(number, min(number, MOST, max(FEWEST, number // TARGETS)), replace=False))
    if setting.full:
        filtered = filter_side(split, side, empty_slots=False)
        free = [np.flatnonzero(filtered.allowed(row, row + 1)[0]) for row in filtered.row[rows].tolist()]
    else:
        ids, valid = candidates.side(side)
        free = [np.unique(ids[row, valid[row]]) for row in rows.tolist()]
        free = [some[some < split.num_relations] if side == "relation" else some for some in free]
    if len(rows) < FEWEST or min(map(len, free)) < 2:
        return None
    decoys = split.targets[rows]
    decoys[:, COLUMN[side]] = np.array([rng.choice(some) for some in free])
    # The true targets stay known, so that they are no candidates either.
    asked = replace(split, targets=decoys, known=np.concatenate((split.known, split.targets)))
    if setting.full:
        among = {each: filter_side(asked, PARTS[each][1], empty_slots=False) for each in setting.parts}
        ranked = rank_all(scorer, asked, among, size, None)
    else:
        listed = {each: _filtered(asked, each, rows, *candidates.side(each)) for each in sides}
        ranked = rank_listed(scorer, Layout(asked, setting.parts, listed), setting.parts, size, None)
    return ranked[part]


def _filtered(split: Split, side: Side, rows: IntArray, ids: IntArray, valid: BoolArray) -> tuple[IntArray, BoolArray]:
    """Return candidates in some rows that make no known triple of a decoy and no empty slot, each once; padding last.

    Each once, because a decoy is drawn among different ones: its place is uniform among those.
    """
    ids, valid = ids[rows], valid[rows]
    triples = np.repeat(split.targets, ids.shape[1], axis=0)
    triples[:, COLUMN[side]] = ids.ravel()
    kept = valid & ~among(keys(split, triples), keys(split, split.true_triples)).reshape(ids.shape)
    # A decoy is no empty slot, and chance has to explain its place.
    kept &= (ids < split.num_relations) if side == "relation" else True
    for row, some in enumerate(kept):
        places = np.flatnonzero(some)
        kept[row] = False
        kept[row, places[np.unique(ids[row, places], return_index=True)[1]]] = True
    order = np.argsort(~kept, axis=1, kind="stable")
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(kept, order, axis=1)


def expect_chance(ranked: RankedPart, split: Split) -> None:
    """Raise `BatchError` where decoys rank so high among their candidates that chance does not explain it."""
    counts = ranked.counts
    # Drawn like its candidates, a decoy has a place that is uniform among theirs, so that a share of at most x of them
    # is above it or tied with a probability of at most x; the sum of n such shares is at most s with s ** n / n!.
    total = float(((counts.greater + counts.equal + 1) / (counts.count + 1)).sum())
    if total ** len(counts.count) / math.factorial(len(counts.count)) < UNLIKELY:
        raise BatchError(
            f"{split.dataset} {split.name}: {len(counts.count)} triples that nobody stated were ranked like targets, "
            f"and {ranked.method} puts them above {1 - total / len(counts.count):.1%} of others drawn like "
            f"them: a score must not depend on what else is scored with it, at once or before; {ADVICE} "
            "(ask_again=False leaves this check out, which the result tells)"
        )
