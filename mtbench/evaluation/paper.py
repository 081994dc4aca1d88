"""A scorer in the settings behind the rows of the paper's tables.

The paper states one protocol, but its rows come from three code bases that drew different candidates, broke ties in
different ways and counted Hits@k in different ways. Scoring the same model in all of them shows how far a figure moves
without any change to the model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtbench.data.splits import Split, inverted
from mtbench.errors import UsageError
from mtbench.evaluation.tasks import BATCH_SIZE, Task
from mtbench.files import tables
from mtbench.metrics import closed
from mtbench.names import PARTS, RELATION, FloatArray, IntArray, Part, Scorer
from mtbench.ranking.candidates import draw, integers
from mtbench.ranking.scorers import Progress, Ways, batch_limit, score_listed, ways
from mtbench.runs.directory import CONVENTIONS_FILE
from mtbench.runs.result import MtbenchWarning, Result
from mtbench.settings.setting import Setting
from mtbench.settings.table import CODES, HEADLINE, MAIN, setting_in

HITS_SAMPLE = 50
"""Length of the list NBFNet's estimator of Hits@k stands for, the target included."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What a scorer reaches in a setting.

    ``metrics`` are the figures as the setting computes them; ``expected`` the same with the mean over
    the random integer in place of its draw, so equal to ``metrics`` where none is drawn. ``greater`` and
    ``equal`` ``(n,)`` count the scored candidates above and tied with the target in each list (all of them above it
    where a tie counts against it), ``added``
    ``(n,)`` is the integer drawn for it: n is the number of targets times that of ranks a target has, in the
    order of `Setting.lists` or `Split.with_inverses`. ``candidates`` is the mean number of candidates per list.
    """

    setting: Setting
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
        return {
            "convention": self.setting.code,
            "rows": list(self.setting.rows),
            "source": self.setting.source,
            "differs": list(self.setting.differs),
            "protocol": self.setting.protocol,
            "seed": self.seed,
            "candidates_sha256": self.candidates_sha256,
            "candidates": self.candidates,
            "metrics": dict(self.metrics),
            "expected": dict(self.expected),
        }


def read(
    score: Scorer,
    split: Split,
    setting: Setting,
    seed: int = 0,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> Reading:
    """Rank a scorer as the code behind rows of the paper's tables ranked its own model.

    ``score``, ``batch_size`` and ``progress`` are as for `mtbench.evaluation.tasks.evaluate`; ``seed`` names the
    draw of candidates and of the random integer, and the same seed gives the same figures everywhere.
    A scorer that tells inverse relations apart (`mtbench.names.InverseScorer`) is asked through them where a
    target is ranked as its inverse, any other scorer through the relation itself. In a setting with inverses a scorer
    is asked for relations as for tails and heads, whether it has a query of its own for them or not.
    The result is for comparison with those rows only: it is no `Result`, cannot be saved as a run and
    has no place beside standard figures. Raises `UsageError` for a split without targets, or a setting with inverses
    and a scorer without, and `ScoreError` as the evaluator does.
    """
    drawn = draw(split, setting, seed)
    if setting.inverses:
        greater, equal = _with_inverses(ways(score), Task(split.with_inverses(), drawn), split, batch_size, progress)
    else:
        greater, equal = _counts(ways(score), Task(split, drawn), batch_size, progress)
    added = integers(split, setting, drawn.seed) if setting.invented else np.zeros_like(greater)
    metrics = expected = closed.expected(greater + added, equal)
    if setting.invented:
        # An integer drawn uniformly from 0 to k shifts the rank as k ties in random order would.
        expected = closed.expected(greater, np.full_like(added, setting.invented))
    if setting.sampled_hits:
        number = sum(setting.number(PARTS[part][1]) for part in setting.lists[0]) + setting.invented
        metrics = metrics | _means(sampled_hits(greater + added, number))
        expected = expected | _means(sampled_hits(greater, number, setting.invented))
    return Reading(
        setting=setting,
        seed=drawn.seed,
        candidates_sha256=drawn.sha256,
        candidates=float(drawn.lengths.mean()),
        metrics=metrics,
        expected=expected,
        greater=greater,
        equal=equal,
        added=added,
    )


def read_all(
    score: Scorer,
    split: Split,
    protocol: str = HEADLINE.protocol,
    seed: int = 0,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> tuple[Reading, ...]:
    """Score a model in the standard setting and in each of the paper's, in that order.

    The results differ in the setting alone. A setting with inverses is left out for a scorer without them. The
    arguments are those of `read`; `table` prints what comes back. Raises `UnknownNameError` for a protocol that the
    paper does not have.
    """
    settings = [setting_in(code, protocol) for code in CODES]
    return tuple(
        read(score, split, setting, seed, batch_size=batch_size, progress=progress)
        for setting in settings
        if not setting.inverses or ways(score).inverses is not None
    )


def conventions(score: Scorer, split: Split, results: Sequence[Result]) -> dict[str, object]:
    """Return what `RunDirectory.write_beside` keeps of the model of a run's results in the paper's settings.

    That is one list of readings for each protocol of the results that the paper has, too.
    """
    first = results[0]
    return {
        CONVENTIONS_FILE: {
            "dataset": first.dataset,
            "dataset_version": first.dataset_version,
            "split": split.name,
            "content_sha256": split.content_sha256,
            "model": first.run.model,
            "seed": first.run.seed,
            "protocols": {
                name: [reading.to_dict() for reading in read_all(score, split, name, first.candidate_seed)]
                for name in dict.fromkeys(result.protocol for result in results)
                if name in MAIN
            },
        }
    }


def table(results: Sequence[Reading], format: str = "text") -> str:  # noqa: A002
    """Return a row per result as ``text``, ``markdown`` or ``latex``, and a second where an integer was drawn."""
    rows: list[tuple[str, Mapping[str, float]]] = []
    for result in results:
        setting = result.setting
        rows.append((f"{setting.code} ({', '.join(setting.rows)})" if setting.rows else setting.code, result.metrics))
        if setting.invented:
            rows.append((f"{setting.code}, mean over its random integer", result.expected))
    return tables.render(rows, format)


def sampled_hits(below: IntArray, negatives: int, invented: int = 0) -> dict[str, FloatArray]:
    """Return NBFNet's estimate of Hits@k of every target, for each k of `mtbench.metrics.closed.HITS`.

    A target with ``below`` ``(n,)`` of ``negatives`` candidates above it is taken to have each of 49
    further candidates above it with probability below / negatives, so that Hits@k is the probability of
    fewer than k successes in 49 trials: a rank of 6 among 51 still has a chance of Hits@1. With ``invented``,
    the mean over adding each integer from 0 to it. Source: Zhu et al. 2021, evaluation on sampled
    negatives.
    """
    trials = HITS_SAMPLE - 1
    # A row per possible number of candidates above, computed once and looked up for every target and integer.
    chance = np.minimum(np.arange(int(below.max(initial=0)) + invented + 1) / negatives, 1.0)
    successes = np.arange(max(closed.HITS))
    orders = np.array([math.comb(trials, number) for number in successes.tolist()], dtype=np.float64)
    weights = orders * chance[:, None] ** successes * (1 - chance[:, None]) ** (trials - successes)
    at_most = np.cumsum(weights, axis=1)
    window = below[:, None] + np.arange(invented + 1)
    return {f"hits@{k}": at_most[window, k - 1].mean(axis=1) for k in closed.HITS}


def _counts(scorer: Ways, task: Task, batch_size: int, progress: Progress | None) -> tuple[IntArray, IntArray]:
    """Return the scored candidates above and tied with the target, int64 ``(n,)``, list by list."""
    setting = task.setting
    if setting.ranked_in != "directions":  # a target is ranked once, as itself
        scorer = replace(scorer, inverses=None)
    with warnings.catch_warnings():
        # They recommend the expected value, which is what these settings do not use.
        warnings.simplefilter("ignore", MtbenchWarning)
        parts = task.run(scorer, batch_size=batch_size, progress=progress).ranks.parts
    greater, equal = (
        np.concatenate([np.sum([getattr(parts[part], name) for part in members], axis=0) for members in setting.lists])
        for name in ("greater", "equal")
    )
    return greater, equal


def _with_inverses(
    scorer: Ways, doubled: Task, split: Split, batch_size: int, progress: Progress | None
) -> tuple[IntArray, IntArray]:
    """Return the counts of all targets as themselves and then of all as their inverses, among 2R slots."""
    if scorer.inverses is None:
        raise UsageError("a setting with inverses needs a scorer that has score_inverses: take isdea")
    triples, slots = doubled.triples, split.relation_slots
    turned = triples[:, RELATION] >= slots
    # A scorer knows R relations: (t, r + R, h) is asked for as the head of (h, r, t).
    asked = np.where(turned[:, None], inverted(triples, slots), triples)
    needed: dict[Part, IntArray] = {"tail": np.flatnonzero(~turned), "head": np.flatnonzero(turned)}
    scored = score_listed(scorer, split, asked, needed, batch_limit(batch_size), progress)
    ranks = doubled.rank(np.where(turned, scored["head"].scores, scored["tail"].scores))
    return ranks.greater, ranks.equal


def _means(values: Mapping[str, FloatArray]) -> dict[str, float]:
    return {name: math.fsum(part.tolist()) / len(part) for name, part in values.items()}
