"""What follows from rank counts under a protocol: the one place where protocols differ in their arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mtbench.metrics import closed as metrics
from mtbench.metrics import exact
from mtbench.names import FloatArray, IntArray, Side
from mtbench.ranking.candidates import PROTOCOLS, VOCABULARIES, Protocol
from mtbench.ranking.ranks import Counts, Ranks


def per_target(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, FloatArray]:
    """Return every metric of every target ``(m,)``, in expectation over the order of its ties.

    Under ``dual-exact`` the expectation is also over the draw of ``dual``; under every other protocol the
    counts of the sides add up to one list.
    """
    return _per_target(ranks.sides, len(ranks), protocol, vocabulary)


def expected(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, float]:
    """Return the mean metrics, ties in random order: the headline; raises `UsageError` without targets."""
    return metrics.mean(per_target(ranks, protocol, vocabulary))


def figures(ranks: Ranks, protocol: str, vocabulary: str) -> dict[str, dict[str, float]]:
    """Return all that follows from rank counts: ``metrics``, ``optimistic``, ``pessimistic`` and ``chance``."""
    if not _is_expectation(protocol):
        return metrics.figures(ranks.greater, ranks.equal, ranks.count)
    best = {side: _ties(counts, above=False) for side, counts in ranks.sides.items()}
    worst = {side: _ties(counts, above=True) for side, counts in ranks.sides.items()}
    return {
        "metrics": expected(ranks, protocol, vocabulary),
        "optimistic": metrics.mean(_per_target(best, len(ranks), protocol, vocabulary)),
        "pessimistic": metrics.mean(_per_target(worst, len(ranks), protocol, vocabulary)),
        "chance": chance({side: counts.count for side, counts in ranks.sides.items()}, protocol, vocabulary),
    }


def chance(numbers: Mapping[Side, IntArray], protocol: str, vocabulary: str) -> dict[str, float]:
    """Return the mean metrics of a scorer that knows nothing: all candidates, ``(m,)`` per side, tied."""
    tied = {side: Counts(np.zeros_like(number), number, number) for side, number in numbers.items()}
    targets = max((len(number) for number in numbers.values()), default=0)
    return metrics.mean(_per_target(tied, targets, protocol, vocabulary))


def _is_expectation(protocol: str) -> bool:
    # Names that a run directory holds may be anything; they are reported where it is verified.
    return protocol in PROTOCOLS and PROTOCOLS[protocol].expectation


def _per_target(sides: Mapping[Side, Counts], targets: int, protocol: str, vocabulary: str) -> dict[str, FloatArray]:
    pool = VOCABULARIES.get(vocabulary)
    if _is_expectation(protocol) and sides:
        return exact.per_target(
            [_exact(PROTOCOLS[protocol], side, counts) for side, counts in sides.items()],
            replacement=pool is not None and pool.replacement,
        )
    greater, equal = np.zeros(targets, dtype=np.int64), np.zeros(targets, dtype=np.int64)
    for counts in sides.values():
        greater += counts.greater
        equal += counts.equal
    return metrics.per_target(greater, equal)


def _exact(protocol: Protocol, side: Side, counts: Counts) -> exact.Side:
    return exact.Side(counts.greater, counts.equal, counts.count, protocol.number(side))


def _ties(counts: Counts, *, above: bool) -> Counts:
    return Counts(counts.greater + counts.equal * above, np.zeros_like(counts.equal), counts.count)
