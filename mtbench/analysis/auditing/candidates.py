"""What targets are ranked against, measured on the candidates that are really drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtbench.data.splits import Split, unique
from mtbench.metrics import closed
from mtbench.names import COLUMN
from mtbench.ranking.candidates import STANDARD, VOCABULARIES, Candidates, draw, is_known, protocol_named

SEEDS = (0, 1, 2)
"""The published candidate seeds."""


@dataclass(frozen=True)
class CandidateAudit:
    """One draw of candidates: a protocol, a vocabulary and a seed on the test targets.

    Per side, ``asked`` is what the protocol asks for, ``drawn`` the mean number drawn per target, equal
    candidates each counted, and ``distinct`` the mean number of different ones: a list that asks for 26
    relations of which 7 differ is an easier list. ``short`` is the share of targets for which fewer than
    asked were drawn on some side, ``without`` the number of targets with an empty list. ``false_negatives``
    counts the candidates that are known triples, observable or missing: each costs a model that is right.
    ``chance`` are the expected metrics of a scorer that ties everything, ``sha256`` names the draw.
    """

    protocol: str
    vocabulary: str
    seed: int
    asked: Mapping[str, int]
    drawn: Mapping[str, float]
    distinct: Mapping[str, float]
    short: float
    without: int
    false_negatives: int
    chance: Mapping[str, float]
    sha256: str


def audit_candidates(split: Split, seeds: Sequence[int] = SEEDS) -> tuple[CandidateAudit, ...]:
    """Return the audit of every sampled protocol, vocabulary and of some seeds; nothing without targets."""
    if not len(split.targets):
        return ()
    return tuple(
        examine(split, draw(split, protocol, vocabulary, seed))
        for protocol in STANDARD
        for vocabulary in VOCABULARIES
        for seed in seeds
    )


def examine(split: Split, candidates: Candidates) -> CandidateAudit:
    """Return what one draw of candidates is like; it need not be one of this package's own."""
    protocol = protocol_named(candidates.protocol)
    drawn: dict[str, float] = {}
    distinct: dict[str, float] = {}
    short = np.zeros(len(split.targets), dtype=np.bool_)
    false_negatives = 0
    for side in protocol.sides:
        ids, valid = candidates.side(side)
        drawn[side] = float(valid.sum(axis=1).mean())
        short |= valid.sum(axis=1) < protocol.number(side)
        owner, found = np.nonzero(valid)[0], ids[valid]
        distinct[side] = len(unique(owner * (found.max(initial=0) + 1) + found)) / len(split.targets)
        corrupted = split.targets[owner]
        corrupted[:, COLUMN[side]] = found
        false_negatives += int(is_known(split, corrupted).sum())
    return CandidateAudit(
        protocol=candidates.protocol,
        vocabulary=candidates.vocabulary,
        seed=candidates.seed,
        asked={side: protocol.number(side) for side in protocol.sides},
        drawn=drawn,
        distinct=distinct,
        short=float(short.mean()),
        without=int((candidates.lengths == 0).any(axis=0).sum()),
        false_negatives=false_negatives,
        chance=closed.chance(candidates.lengths.ravel()),
        sha256=candidates.sha256,
    )
