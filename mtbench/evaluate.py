"""The standard evaluator: one task, one way to rank, whatever the model is made of.

Every distinct triple of a task is scored exactly once, so a target and its candidates never differ by
the rounding of a second forward pass, and two models that agree on every triple agree on every metric.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from mtbench import candidates as candidates_module
from mtbench import metrics
from mtbench.candidates import Candidates
from mtbench.errors import DatasetError, ScoreError, UsageError
from mtbench.floors import Floors
from mtbench.names import COLUMN, HEAD, RELATION, TAIL, IntArray, ScoreArray, ScoreFunction, Side, TripleScorer
from mtbench.ranks import Ranks, accept, count
from mtbench.results import FLAG_SPREAD, MtbenchWarning, Result, figures
from mtbench.runs import RunInfo, Status
from mtbench.splits import Split

BATCH_SIZE = 65_536
UNVERSIONED = "unversioned"

Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Task:
    """A split with frozen candidates: all that has to be the same for two models to be comparable.

    Build one with `task` and use it again for every model, or after every epoch. Raises `UsageError`
    when the candidates were drawn for another split.
    """

    split: Split
    candidates: Candidates
    dataset_version: str = UNVERSIONED

    def __post_init__(self) -> None:
        same = self.candidates.content_sha256 == self.split.content_sha256
        if not same or not np.array_equal(self.candidates.targets, self.split.targets):
            raise UsageError(f"{self.name}: the candidates were drawn for another split; draw them for this one")

    @property
    def name(self) -> str:
        """Dataset, split, protocol, vocabulary and candidate seed, separated by slashes."""
        drawn = self.candidates
        return f"{self.split.dataset}/{self.split.name}/{drawn.protocol}/{drawn.vocabulary}/{drawn.seed}"

    @property
    def triples(self) -> IntArray:
        """The distinct triples to score, int64 ``(k, 3)``, sorted by head, relation and tail; yours to change."""
        return self._layout[0].copy()

    @cached_property
    def _layout(self) -> tuple[IntArray, IntArray, Mapping[Side, IntArray]]:
        """The distinct triples, and the row of each target ``(m,)`` and of its candidates ``(m, c)`` in them."""
        slots, nodes = self.split.relation_slots, self.split.num_entities
        if nodes * nodes * slots >= 2**63:
            raise DatasetError(f"{self.name}: {nodes} entities and {slots} relation slots give more triples than int64")
        steps = np.array([slots * nodes, nodes, 1])
        keys = [self.split.targets @ steps[:, None]]
        for side in self.sides:
            ids, valid = self.candidates.side(side)
            column = COLUMN[side]
            moved = (ids - self.split.targets[:, column, None]) * steps[column]
            keys.append(keys[0] + np.where(valid, moved, 0))
        table = np.concatenate(keys, axis=1)
        distinct, inverse = np.unique(table, return_inverse=True)
        pairs, found_tails = np.divmod(distinct, nodes)
        triples = np.stack((pairs // slots, pairs % slots, found_tails), axis=1)
        rows = np.split(inverse.reshape(table.shape), np.cumsum([part.shape[1] for part in keys])[:-1], axis=1)
        return triples, rows[0][:, 0], dict(zip(self.sides, rows[1:], strict=True))

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides the protocol corrupts."""
        return candidates_module.protocol_named(self.candidates.protocol).sides

    def evaluate(self, scores: object) -> Result:
        """Rank scores aligned with ``triples``: an array or tensor ``(k,)`` of integers or floats.

        Raises `ScoreError` for scores that are missing, not finite, or of a wrong shape or type; warns
        with `MtbenchWarning` when the figures depend on how ties are broken.
        """
        triples = self._layout[0]
        accepted, kind = accept(scores, triples, self.split, len(triples))
        return self._result(accepted, kind)

    def run(
        self, score: ScoreFunction | TripleScorer, *, batch_size: int = BATCH_SIZE, progress: Progress | None = None
    ) -> Result:
        """Score the triples of the task in batches and rank them; see `evaluate` for the arguments."""
        return self._result(*_score(self, score, batch_size, progress))

    def unfinished(self, status: Status) -> Result:
        """Return the result of a run that could not be scored, to be saved with the status ``oom`` or ``failed``."""
        return replace(self._with_ranks(Ranks.empty(), {}, ()), run=RunInfo(status=status))

    def rank(self, scores: ScoreArray) -> Ranks:
        """Count, for every target and side, the candidates above and tied; ``scores`` are aligned with ``triples``."""
        _, target, rows = self._layout
        sides = {side: count(scores, target, rows[side], self.candidates.side(side)[1]) for side in self.sides}
        names = (self.split.entities, self.split.relations, self.split.entities)
        heads, relations, tails = (
            vocabulary[self.split.targets[:, column]]
            for vocabulary, column in zip(names, (HEAD, RELATION, TAIL), strict=True)
        )
        return Ranks(heads, relations, tails, sides)

    def expected(self, score: ScoreFunction) -> Mapping[str, float]:
        """Return the expected metrics of a scorer, without the checks, bounds and warnings of a result."""
        ranks = self.rank(np.asarray(score(self._layout[0])))
        return metrics.expected(ranks.greater, ranks.equal)

    @cached_property
    def floors(self) -> Mapping[str, Mapping[str, float]]:
        """Expected metrics of the scorers that learn nothing, on the same candidates, computed when looked at."""
        return Floors(self)

    def _result(self, scores: ScoreArray, kind: str) -> Result:
        ranks = self.rank(scores)
        found = figures(ranks)
        sentences = tuple(_warnings(scores, scores[self._layout[1]], ranks, kind, found))
        for sentence in sentences:
            warnings.warn(f"{self.name}: {sentence}", MtbenchWarning, stacklevel=3)
        return self._with_ranks(ranks, found, sentences)

    def _with_ranks(self, ranks: Ranks, found: Mapping[str, Mapping[str, float]], sentences: tuple[str, ...]) -> Result:
        drawn = self.candidates
        return Result(
            dataset=self.split.dataset,
            dataset_version=self.dataset_version,
            split=self.split.name,
            content_sha256=self.split.content_sha256,
            protocol=drawn.protocol,
            vocabulary=drawn.vocabulary,
            candidate_seed=drawn.seed,
            candidates_sha256=drawn.sha256,
            metrics=found.get("metrics", {}),
            optimistic=found.get("optimistic", {}),
            pessimistic=found.get("pessimistic", {}),
            chance=metrics.chance(drawn.counts),
            tie_rate=metrics.tie_rate(ranks.equal),
            floors=self.floors,
            ranks=ranks,
            warnings=sentences,
        )


def task(
    split: Split,
    protocol: str = "dual",
    vocabulary: str = "present",
    seed: int = 0,
    *,
    dataset_version: str | None = None,
) -> Task:
    """Return the task of a split under a protocol, a relation vocabulary and a candidate seed.

    ``dataset_version`` is what results are filed under; left out, it is the catalogue's for a released
    split and ``unversioned`` for any other. Raises `UnknownNameError` for a protocol or vocabulary that
    does not exist, and `UsageError` for a split without targets.
    """
    drawn = candidates_module.draw(split, protocol, vocabulary, seed)
    if dataset_version is None:
        record = candidates_module.released(split)
        dataset_version = record.version if record else UNVERSIONED
    return Task(split, drawn, dataset_version)


def evaluate(
    score: ScoreFunction | TripleScorer,
    split: Split,
    protocol: str = "dual",
    vocabulary: str = "present",
    seed: int = 0,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
    dataset_version: str | None = None,
) -> Result:
    """Rank every target of a split among its candidates and return the metrics.

    ``score`` is a function, or an object with a method ``score``, from triples int64 ``(b, 3)`` to ``b``
    real numbers, higher meaning more plausible; it sees each distinct triple once, at most
    ``batch_size`` at a time, and ``progress(done, total)`` is called after every batch. ``seed`` is that
    of the candidates. An exception inside ``score`` is not caught. Raises `ScoreError` for scores that
    cannot be ranked, `UnknownNameError` for a protocol or vocabulary that does not exist and
    `UsageError` for a split without targets. The protocols are those of Zhou et al. 2023, section 5.
    """
    chosen = task(split, protocol, vocabulary, seed, dataset_version=dataset_version)
    return chosen._result(*_score(chosen, score, batch_size, progress))


def _score(
    task: Task, score: ScoreFunction | TripleScorer, batch_size: int, progress: Progress | None
) -> tuple[ScoreArray, str]:
    function = _function(score)
    try:
        size = operator.index(batch_size)
    except TypeError as error:
        raise UsageError(f"batch_size must be an integer, not {batch_size!r}") from error
    if size < 1:
        raise UsageError(f"batch_size must be at least 1, not {size}")
    triples = task._layout[0]
    total = len(triples)
    scores, kind = np.empty(0), ""
    for start in range(0, total, size):
        batch = triples[start : start + size].copy()
        part, part_kind = accept(function(batch), triples[start : start + size], task.split, total)
        if not start:
            scores, kind = np.empty(total, dtype=part.dtype), part_kind
        if part_kind != kind:
            raise ScoreError(
                f"{task.split.dataset} {task.split.name}: scores have the type {kind} before triple {start} and "
                f"{part_kind} from there on: different precisions do not compare; return one type"
            )
        scores[start : start + size] = part
        if progress:
            progress(start + len(part), total)
    return scores, kind


def _function(score: ScoreFunction | TripleScorer) -> ScoreFunction:
    if isinstance(score, TripleScorer):
        return score.score
    if callable(score):
        return score
    raise UsageError(
        f"{type(score).__name__} cannot score: pass a function of triples or an object with a score method"
    )


def _warnings(
    scores: ScoreArray, own: ScoreArray, ranks: Ranks, kind: str, found: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    alone = int(np.count_nonzero(ranks.count == 0))
    if alone:
        yield f"{alone} of {len(ranks)} targets have no candidate (all are known triples) and rank first for free"
    tied = ranks.equal > 0
    share = f"{int(tied.sum())} of {len(tied)} targets"
    best, worst = found["optimistic"], found["pessimistic"]
    if metrics.spread(best, worst) > FLAG_SPREAD:
        yield (
            f"{share} tie with a candidate, and the MRR is {best['mrr']:.4f} or {worst['mrr']:.4f} as ties are "
            f"broken; the expected value is the one to report, with both bounds"
        )
    if tied.any() and kind in ("float16", "bfloat16"):
        yield f"{share} tie with a candidate in {kind} scores; return float32 to tell a tie from rounding"
    if tied.any() and scores.dtype.kind == "f" and _saturated(scores, own[tied]):
        yield (
            "targets tie with candidates at exactly 0 or 1, as probabilities from a saturated sigmoid do; return logits"
        )


def _saturated(scores: ScoreArray, tied: ScoreArray) -> bool:
    inside = bool(((scores > 0) & (scores < 1)).any()) and bool(((scores >= 0) & (scores <= 1)).all())
    return inside and bool(((tied == 0) | (tied == 1)).any())
