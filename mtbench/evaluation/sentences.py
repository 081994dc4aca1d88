"""What a reader of a result should know, in sentences, and where a warning of them points."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy as np

from mtbench.metrics import closed
from mtbench.names import Part
from mtbench.ranking.lists import RankedPart
from mtbench.ranking.ranks import Ranks
from mtbench.runs.result import FLAG_SPREAD


def sentences(
    ranked: Mapping[Part, RankedPart], ranks: Ranks, found: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """Give a sentence for everything in some ranks and figures that should be known before they are believed."""
    what = "triples" if len(ranks.lists) == 1 else "ranks"
    alone = int(np.count_nonzero(ranks.count == 0))
    if alone:
        yield f"{alone} of {len(ranks.count)} {what} have no candidate (all are known triples) and rank first for free"
    share = f"{np.count_nonzero(ranks.equal)} of {len(ranks.equal)} {what}"
    best, worst = found["optimistic"], found["pessimistic"]
    if closed.spread(best, worst) > FLAG_SPREAD:
        yield (
            f"{share} tie with a candidate, whose order moves the MRR from {worst['mrr']:.4f} to {best['mrr']:.4f}: "
            f"report it with both bounds"
        )
    tied = [part for part in ranked.values() if part.counts.equal.any()]
    for kind in sorted({part.seen.kind for part in tied} & {"float16", "bfloat16"}):
        yield f"{share} tie with a candidate in {kind} scores; return float32 to tell a tie from rounding"
    if any(part.seen.probabilities and np.isin(part.own[part.counts.equal > 0], (0, 1)).any() for part in tied):
        yield (
            "triples tie with candidates at exactly 0 or 1, as probabilities from a saturated sigmoid do; return logits"
        )


def depth() -> int:
    """Return how far above the caller the code stands that called this package: the line a warning is about."""
    package, frame, depth = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, depth = frame.f_back, depth + 1
    return depth
