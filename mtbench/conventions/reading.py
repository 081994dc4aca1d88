"""The evaluation settings behind the rows of the paper's tables, and one scorer in each of them.

The paper states one protocol, but its rows come from three code bases that drew other candidates,
broke ties in other ways and counted Hits@k in other ways. Scoring *one* model in all of them shows
how far a figure moves without any change to the model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtbench.conventions.draws import candidates, integers
from mtbench.conventions.records import (
    CONVENTIONS,
    STANDARD,
    Convention,
    Lists,
    convention_named,
    conventions_of,
)
from mtbench.data.splits import Split, inverted
from mtbench.errors import UsageError
from mtbench.evaluation.tasks import BATCH_SIZE, Task
from mtbench.files import tables
from mtbench.metrics import closed
from mtbench.names import RELATION, FloatArray, IntArray, Part, Scorer, Side
from mtbench.ranking.candidates import PROTOCOLS, Candidates
from mtbench.ranking.ranks import Ranks
from mtbench.ranking.scorers import Progress, Ways, batch_limit, score_listed, ways
from mtbench.runs.result import MtbenchWarning

__all__ = [
    "CONVENTIONS",
    "STANDARD",
    "Convention",
    "ConventionResult",
    "Lists",
    "candidates",
    "compare_conventions",
    "convention_named",
    "conventions_of",
    "read",
    "sampled_hits",
    "table",
]

HITS_SAMPLE = 50
"""Length of the list NBFNet's estimator of Hits@k stands for, the target included."""


@dataclass(frozen=True, eq=False)
class ConventionResult:
    """One scorer in one evaluation setting.

    ``metrics`` are the figures as the setting computes them; ``expected`` the same with the mean over
    the random integer in place of its draw, so equal to ``metrics`` where none is drawn. ``greater`` and
    ``equal`` ``(n,)`` count the scored candidates above and tied with the target in each list, ``added``
    ``(n,)`` is the integer drawn for it: n is the number of targets times that of ranks a target has, in the
    order of `Lists.groups` or `Split.with_inverses`. ``candidates`` is the mean number of candidates per list.
    """

    convention: Convention
    protocol: str
    seed: int
    candidates_sha256: str
    candidates: float
    metrics: Mapping[str, float]
    expected: Mapping[str, float]
    greater: IntArray
    equal: IntArray
    added: IntArray

    def to_dict(self) -> dict[str, object]:
        """Return everything but the counts as text, numbers, lists and dictionaries, ready for JSON."""
        convention = self.convention
        return {
            "convention": convention.name,
            "rows": list(convention.rows),
            "source": convention.source,
            "differs": list(convention.differs),
            "protocol": self.protocol,
            "seed": self.seed,
            "candidates_sha256": self.candidates_sha256,
            "candidates": self.candidates,
            "metrics": dict(self.metrics),
            "expected": dict(self.expected),
        }


def read(
    score: Scorer,
    split: Split,
    convention: str | Convention = "isdea",
    protocol: str = "dual",
    seed: int = 0,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> ConventionResult:
    """Rank a scorer as the code behind some rows of the paper's tables ranked its own model.

    ``score``, ``batch_size`` and ``progress`` are as for `mtbench.evaluation.tasks.evaluate`; ``seed`` names the
    draw of candidates and of the random integer, and the same one gives the same figures everywhere.
    A scorer that tells inverse relations apart (`mtbench.names.InverseScorer`) is asked through them where a
    target is ranked as its inverse, any other through the relation itself. One with inverses asks a scorer for
    relations as for tails and heads, whether it has a query of its own for them or not.
    The result is for comparison with those rows only: it is no `Result`, cannot be saved as a run and
    has no place beside standard figures. Raises `UnknownNameError` for an evaluation setting or
    protocol that does not exist, `UsageError` for a split without targets or a setting with inverses and a scorer
    without, and `ScoreError` as the evaluator does.
    """
    chosen = convention_named(convention) if isinstance(convention, str) else convention
    drawn = candidates(split, chosen, protocol, seed)
    lists = chosen.lists[protocol]
    counts = _with_inverses if chosen.inverses else _counts
    greater, equal = counts(ways(score), split, drawn, lists, batch_size, progress)
    added = np.zeros_like(greater)
    if lists.invented:
        added = integers(split, chosen, [sides[0] for sides in lists.groups], drawn.seed, lists.invented)
    negatives = sum(lists.protocol.number(side) for side in lists.groups[0]) + lists.invented
    below = greater + equal + added
    if chosen.ties == "expected":
        found = closed.expected(greater, equal)
    else:
        found = closed.expected(below, np.zeros_like(below))
    expected = found
    if lists.invented:
        expected = closed.expected(greater + equal, np.full_like(added, lists.invented))
    if chosen.sampled_hits:
        found = found | _means(sampled_hits(below, negatives))
        expected = expected | _means(sampled_hits(greater + equal, negatives, lists.invented))
    return ConventionResult(
        convention=chosen,
        protocol=protocol,
        seed=drawn.seed,
        candidates_sha256=drawn.sha256,
        candidates=float(sum(drawn.drawn[side][1].sum() for sides in lists.groups for side in sides) / len(greater)),
        metrics=found,
        expected=expected,
        greater=greater,
        equal=equal,
        added=added,
    )


def compare_conventions(
    score: Scorer,
    split: Split,
    protocol: str = "dual",
    seed: int = 0,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> tuple[ConventionResult, ...]:
    """Score one model in the standard evaluation setting and in each of the paper's, in that order.

    What differs between the results is the setting alone. One with inverses is left out for a scorer without
    them. The arguments are those of `read`; `table`
    prints what comes back.
    """
    return tuple(
        read(score, split, convention, protocol, seed, batch_size=batch_size, progress=progress)
        for convention in (STANDARD, *CONVENTIONS.values())
        if not convention.inverses or ways(score).inverses is not None
    )


def table(results: Sequence[ConventionResult], format: str = "text") -> str:  # noqa: A002
    """Return one row per result as ``text``, ``markdown`` or ``latex``, and one more where chance was drawn."""
    rows: list[tuple[str, Mapping[str, float]]] = []
    for result in results:
        name = result.convention.name
        rows.append(
            (f"{name} ({', '.join(result.convention.rows)})" if result.convention.rows else name, result.metrics)
        )
        if result.convention.lists[result.protocol].invented:
            rows.append((f"{name}, mean over its random integer", result.expected))
    return tables.render(rows, format)


def sampled_hits(below: IntArray, negatives: int, invented: int = 0) -> dict[str, FloatArray]:
    """Return NBFNet's estimate of Hits@k of every target, for each k of `mtbench.metrics.closed.HITS`.

    A target with ``below`` ``(n,)`` of ``negatives`` candidates above it is taken to have each of 49
    other candidates above it with probability below / negatives, so that Hits@k is the probability of
    fewer than k successes in 49 trials: a rank of 6 among 51 still has a chance of Hits@1. ``invented``
    takes the mean over adding each integer from 0 to it. Source: Zhu et al. 2021, evaluation on sampled
    negatives.
    """
    trials = HITS_SAMPLE - 1
    chance = np.minimum(np.arange(int(below.max(initial=0)) + invented + 1) / negatives, 1.0)
    successes = np.arange(max(closed.HITS))
    orders = np.array([math.comb(trials, number) for number in successes.tolist()], dtype=np.float64)
    weights = orders * chance[:, None] ** successes * (1 - chance[:, None]) ** (trials - successes)
    at_most = np.cumsum(weights, axis=1)
    window = below[:, None] + np.arange(invented + 1)
    return {f"hits@{k}": at_most[window, k - 1].mean(axis=1) for k in closed.HITS}


def _counts(
    scorer: Ways, split: Split, drawn: Candidates, lists: Lists, batch_size: int, progress: Progress | None
) -> tuple[IntArray, IntArray]:
    """Return the scored candidates above and tied with the target, int64 ``(n,)``, list by list."""

    def ranks(asked: Ways, found: Candidates) -> Ranks:
        with warnings.catch_warnings():
            # They recommend the expected value, which is what these settings do not use.
            warnings.simplefilter("ignore", MtbenchWarning)
            return Task(split, found).run(asked, batch_size=batch_size, progress=progress).ranks

    if drawn.protocol in PROTOCOLS:
        standard = ranks(scorer, drawn)
        return standard.greater, standard.equal
    plain, groups = replace(scorer, inverses=None), lists.groups
    asked: list[tuple[Ways, Sequence[Sequence[Side]]]] = [(plain, groups)]
    if lists.ranks == "directions" and scorer.inverses is not None:
        asked = [(plain, groups[:1]), (Ways(scorer.inverses, {}, between=scorer.between), groups[1:])]
    above: list[IntArray] = []
    tied: list[IntArray] = []
    for way, some in asked:
        part = {side: drawn.drawn[side] for side in drawn.drawn if any(side in sides for sides in some)}
        counts = ranks(way, replace(drawn, drawn=part)).parts
        above += [np.sum([counts[side].greater for side in sides], axis=0) for sides in some]
        tied += [np.sum([counts[side].equal for side in sides], axis=0) for sides in some]
    return np.concatenate(above), np.concatenate(tied)


def _with_inverses(
    scorer: Ways, split: Split, drawn: Candidates, lists: Lists, batch_size: int, progress: Progress | None
) -> tuple[IntArray, IntArray]:
    """Return the counts of all targets as themselves and then of all as their inverses, among 2R slots."""
    if scorer.inverses is None:
        raise UsageError("an evaluation setting with inverses needs a scorer that has score_inverses: take isdea")
    chosen = Task(split.with_inverses(), drawn)
    triples, slots = chosen.triples, split.relation_slots
    turned = triples[:, RELATION] >= slots
    asked = np.where(turned[:, None], inverted(triples, slots), triples)
    needed: dict[Part, IntArray] = {"tail": np.flatnonzero(~turned), "head": np.flatnonzero(turned)}
    found = score_listed(scorer, split, asked, needed, batch_limit(batch_size), progress)
    ranks = chosen.rank(np.where(turned, found["head"].scores, found["tail"].scores))
    return ranks.greater, ranks.equal


def _means(values: Mapping[str, FloatArray]) -> dict[str, float]:
    return {name: math.fsum(part.tolist()) / len(part) for name, part in values.items()}
