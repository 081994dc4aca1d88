"""What a reader of a result should know before believing it: a code for programs, a sentence for people."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mtbench.metrics import closed
from mtbench.names import Part
from mtbench.ranking.lists import RankedPart
from mtbench.ranking.ranks import Ranks
from mtbench.runs.result import FLAG_SPREAD


@dataclass(frozen=True)
class Caution:
    """Something to know before believing a result, which keeps the sentence; programs read the code."""

    code: Literal["ignored", "no candidate", "bounds", "rounding", "saturated"]
    sentence: str


def cautions(
    ranked: Mapping[Part, RankedPart], ranks: Ranks, figures: Mapping[str, Mapping[str, float]]
) -> Iterator[Caution]:
    """Give everything about the ranks and their figures that should be known before they are believed."""
    # With two lists a triple has two ranks, of which one may tie and the other not.
    what = "triples" if len(ranks.lists) == 1 else "ranks"
    alone = int(np.count_nonzero(ranks.count == 0))
    if alone:
        yield Caution(
            "no candidate",
            f"{alone} of {len(ranks.count)} {what} have no candidate (all are known triples) and rank first for free",
        )
    share = f"{np.count_nonzero(ranks.equal)} of {len(ranks.equal)} {what}"
    best, worst = figures["optimistic"], figures["pessimistic"]
    if closed.spread(best, worst) > FLAG_SPREAD:
        yield Caution(
            "bounds",
            f"{share} tie with a candidate, whose order moves the MRR from {worst['mrr']:.4f} to {best['mrr']:.4f}: "
            f"report it with both bounds",
        )
    tied = [part for part in ranked.values() if part.counts.equal.any()]
    for kind in sorted({part.seen.kind for part in tied} & {"float16", "bfloat16"}):
        sentence = f"{share} tie with a candidate in {kind} scores; return float32 to tell a tie from rounding"
        yield Caution("rounding", sentence)
    # Only ties at the very ends of [0, 1] are a sigmoid's: a baseline's probabilities may tie anywhere.
    if any(part.seen.probabilities and np.isin(part.own[part.counts.equal > 0], (0, 1)).any() for part in tied):
        yield Caution(
            "saturated",
            "triples tie with candidates at exactly 0 or 1, as probabilities from a saturated sigmoid do; "
            "return logits",
        )


def depth() -> int:
    """Return how many frames above the caller the user's code is, so that a warning points at the user's line."""
    package, frame, depth = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, depth = frame.f_back, depth + 1
    return depth
