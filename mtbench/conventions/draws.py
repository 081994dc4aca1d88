"""What an evaluation setting ranks a target against, and the random integers it adds: both from a seed, by counter."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mtbench.conventions.records import STANDARD, Convention
from mtbench.data.splits import Split
from mtbench.errors import UnknownNameError, UsageError
from mtbench.names import COLUMN, HEAD, RELATION, TAIL, IntArray, Side
from mtbench.ranking.candidates import Candidates, Vocabulary, draw, draw_side, is_known, seed_of

CONVENTIONS_VERSION = 1
"""Raised whenever a setting would draw otherwise; part of what its draws are named by."""


def candidates(split: Split, convention: Convention, protocol: str = "dual", seed: int = 0) -> Candidates:
    """Draw the candidates of every target as an evaluation setting does; the standard's are the evaluator's own.

    They depend on the content of the split, the setting, its version and the seed only. Raises
    `UnknownNameError` for a protocol the setting has no lists for, and `UsageError` for a split
    without targets. Those of a setting with inverses are for `Split.with_inverses`.
    """
    if protocol not in convention.lists:
        raise UnknownNameError("protocol", protocol, convention.lists)
    if convention.name == STANDARD.name:
        return draw(split, protocol, convention.relations.name, seed)
    if not len(split.targets):
        raise UsageError(f"{split.dataset} {split.name}: there are no triples to rank; take data.valid or data.test")
    seed = seed_of(seed, "the candidate seed")
    if convention.inverses:
        split = split.with_inverses()
    # Without the protocol in it, so that the lists of dual are the beginnings of those of 50.
    header = _header(split, convention, seed)
    asked = convention.lists[protocol].protocol
    sides = {side: _draw_side(split, convention, side, asked.number(side), header) for side in asked.sides}
    name = f"{convention.name}:{protocol}"
    return Candidates(name, convention.relations.name, seed, split.content_sha256, split.targets, sides)


def integers(split: Split, convention: Convention, sides: Sequence[Side], seed: int, last: int) -> IntArray:
    """Draw one integer from 0 to ``last`` per side and target ``(n,)``, a function of the seed and their ids only."""
    header = _header(split, convention, seed)
    texts = (f"{header}integer {side}\ntarget {row}\n" for side in sides for row in split.targets.tolist())
    words = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") for text in texts)
    return np.array([word % (last + 1) for word in words], dtype=np.int64)


def _header(split: Split, convention: Convention, seed: int) -> str:
    return (
        f"mtbench convention {CONVENTIONS_VERSION}\ncontent {split.content_sha256}\n"
        f"convention {convention.name}\nseed {seed}\n"
    )


def _draw_side(split: Split, convention: Convention, side: Side, width: int, header: str) -> tuple[IntArray, IntArray]:
    pool = convention.relations if side == "relation" else convention.entities
    if convention.last_excluded:
        split = _without_last(split, side)
    if convention.known == "all":
        ids, counts = draw_side(split, side, width, pool, header)
    else:
        ids, counts = _draw_against_graph(split, side, width, pool, header)
    return _collapsed(ids) if convention.distinct else (ids, counts)


def _draw_against_graph(
    split: Split, side: Side, width: int, pool: Vocabulary, header: str
) -> tuple[IntArray, IntArray]:
    """Draw candidates that are neither observable nor the target, but may be other missing triples."""
    fixed = [column for column in (HEAD, RELATION, TAIL) if column != COLUMN[side]]
    steps = np.array([max(split.num_entities, split.relation_slots), 1])
    pairs, group, sizes = np.unique(split.targets[:, fixed] @ steps, return_inverse=True, return_counts=True)
    asked = split.graph[:, fixed] @ steps
    found = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    turns_of_row = np.where(pairs[found] == asked, sizes[found], 0)
    order = np.argsort(group, kind="stable")
    turn = np.empty_like(group)
    turn[order] = np.arange(len(group)) - np.searchsorted(group[order], group[order])
    ids = np.empty((len(group), width), dtype=np.int64)
    counts = np.empty(len(group), dtype=np.int64)
    # Of targets that share their other two parts, each turn holds one, so that none is filtered for another.
    for number in range(int(turn.max()) + 1):
        rows = turn == number
        part = replace(split, targets=split.targets[rows])
        if side != "relation":  # where the graph also says which relations are present
            part = replace(part, graph=split.graph[turns_of_row > number])
        ids[rows], counts[rows] = draw_side(part, side, width, pool, header)
    return ids, counts


def _without_last(split: Split, side: Side) -> Split:
    """Return the split with every target's last possible candidate among its observable triples."""
    universe = np.unique(split.graph[:, RELATION]) if side == "relation" else np.arange(split.num_entities)
    place = np.full(len(split.targets), len(universe) - 1)
    last = split.targets.copy()
    while len(universe):
        last[:, COLUMN[side]] = universe[place]
        taken = is_known(split, last) & (place >= 0)
        if not taken.any():
            return replace(split, graph=np.concatenate((split.graph, last[place >= 0])))
        place[taken] -= 1
    return split


def _collapsed(ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return each row's distinct ids, sorted and padded with -1, and their number."""
    beyond = np.iinfo(np.int64).max
    repeated = np.zeros(ids.shape, dtype=np.bool_)
    repeated[:, 1:] = ids[:, 1:] == ids[:, :-1]
    packed = np.sort(np.where(repeated | (ids < 0), beyond, ids), axis=1)
    return np.where(packed == beyond, -1, packed), (packed != beyond).sum(axis=1)
