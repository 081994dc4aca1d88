"""The standard evaluator: one task, one way to rank, whatever the model is made of.

Every distinct triple, or row of triples, of a side is scored exactly once, so a target and its candidates
never differ by the rounding of a second forward pass, and two models that agree on every triple agree on
every metric.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtbench.data.splits import Split
from mtbench.errors import DatasetError, UsageError
from mtbench.evaluation.questions import Questions
from mtbench.evaluation.streaming import Evaluator
from mtbench.heuristics.figures import Floors
from mtbench.metrics import closed, summary
from mtbench.names import COLUMN, HEAD, RELATION, TAIL, BoolArray, IntArray, ScoreArray, Scorer, Side
from mtbench.ranking import candidates
from mtbench.ranking.candidates import Candidates
from mtbench.ranking.filtered import Filtered, filter_side
from mtbench.ranking.full import RankedSide, rank_all
from mtbench.ranking.ranks import Counts, Ranks, accept, count
from mtbench.ranking.scorers import Progress, Seen, batch_limit, score_listed, ways
from mtbench.results.result import FLAG_SPREAD, MtbenchWarning, Result
from mtbench.results.runs import RunInfo, Status

if TYPE_CHECKING:
    import pandas as pd


BATCH_SIZE = 65_536
LISTED = 20_000_000
"""The most candidates of a full protocol that ``triples`` lists, which takes about 100 bytes of memory for each.

More are only ranked for a scorer, in batches.
"""

UNVERSIONED = "unversioned"


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
        """The distinct triples to score, int64 ``(k, 3)``, sorted by head, relation and tail; yours to change.

        Raises `UsageError` where a full protocol has more than `LISTED` candidates: a scorer is asked for them
        in batches, a list of them would not fit.
        """
        return self._layout[0].copy()

    @property
    def questions(self) -> Questions:
        """What a scorer is asked, for readers of score files."""
        return Questions(self.name, self.split, self.triples, self.candidates.sha256)

    @cached_property
    def _layout(self) -> tuple[IntArray, IntArray, Mapping[Side, IntArray]]:
        """The distinct triples, and the row of each target ``(m,)`` and of its candidates ``(m, c)`` in them."""
        slots, nodes = self.split.relation_slots, self.split.num_entities
        if nodes * nodes * slots >= 2**63:
            raise DatasetError(f"{self.name}: {nodes} entities and {slots} relation slots give more triples than int64")
        steps = np.array([slots * nodes, nodes, 1])
        keys = [self.split.targets @ steps[:, None]]
        for side, (ids, valid) in self._listed.items():
            column = COLUMN[side]
            moved = (ids - self.split.targets[:, column, None]) * steps[column]
            keys.append(keys[0] + np.where(valid, moved, 0))
        table = np.concatenate(keys, axis=1)
        distinct, inverse = np.unique(table, return_inverse=True)
        pairs, found_tails = np.divmod(distinct, nodes)
        triples = np.stack((pairs // slots, pairs % slots, found_tails), axis=1)
        rows = np.split(inverse.reshape(table.shape), np.cumsum([part.shape[1] for part in keys])[:-1], axis=1)
        return triples, rows[0][:, 0], dict(zip(self.sides, rows[1:], strict=True))

    @cached_property
    def _listed(self) -> Mapping[Side, tuple[IntArray, BoolArray]]:
        """The ids of the candidates per side ``(m, c)``, and which of them are not padding."""
        if not self.candidates.full:
            return {side: self.candidates.side(side) for side in self.sides}
        number = int(self.candidates.counts.sum())
        if number > LISTED:
            raise UsageError(
                f"{self.name}: {number:,} candidates are too many to list; pass a scorer to run or evaluate, which is "
                f"asked for them in batches, or use a sampled protocol: {', '.join(candidates.SAMPLED)}"
            )
        return {side: filtered.listed() for side, filtered in self._filtered.items()}

    @property
    def _filtered(self) -> Mapping[Side, Filtered]:
        pool = candidates.vocabulary_named(self.candidates.vocabulary)
        return {side: filter_side(self.split, side, empty_slots=pool.empty_slots) for side in self.sides}

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that were corrupted."""
        return tuple(self.candidates.drawn)

    def evaluate(self, scores: object) -> Result:
        """Rank scores aligned with ``triples``: an array or tensor ``(k,)`` of integers or floats.

        Raises `ScoreError` for scores that are missing, not finite, or of a wrong shape or type; warns
        with `MtbenchWarning` when the figures depend on how ties are broken.
        """
        triples = self._layout[0]
        accepted, kind = accept(scores, triples, self.split, len(triples))
        return self._result(accepted, kind)

    def evaluate_file(self, path: Path | str) -> Result:
        """Rank the scores of a file written by any language, its rows in any order.

        The file is Parquet, Arrow, CSV or TSV by its suffix, and has the columns head, relation, tail
        (all names or all ids) and score; `mtbench.evaluation.scorefiles.read` says what is refused and how.
        """
        from mtbench.evaluation import scorefiles

        found = scorefiles.read(self.questions, Path(path))
        return self._result(found.values, found.kind, found.notes)

    def evaluate_frame(self, frame: pd.DataFrame) -> Result:
        """Rank the scores of a pandas frame with the columns of `evaluate_file`, its rows in any order."""
        from mtbench.evaluation import scorefiles

        found = scorefiles.from_frame(self.questions, frame)
        return self._result(found.values, found.kind, found.notes)

    def write_triples(self, path: Path | str, *, force: bool = False) -> Path:
        """Write ``triples`` by name and by id to a file that another language fills with scores, and return it.

        The suffix chooses the format, as in `evaluate_file`. Raises `UsageError` for a file that exists
        unless ``force`` is set.
        """
        from mtbench.evaluation import scorefiles

        return scorefiles.write_triples(self.questions, Path(path), force=force)

    def evaluator(self) -> Evaluator:
        """Return an object that takes the scores of ``triples`` in pieces: ``update``, then ``compute``."""
        return Evaluator(self.questions, self._result)

    def run(self, score: Scorer, *, batch_size: int = BATCH_SIZE, progress: Progress | None = None) -> Result:
        """Score the triples of the task in batches and rank them; see `evaluate` for the arguments."""
        return self._finish(self._ranked(score, batch_size, progress))

    def unfinished(self, status: Status) -> Result:
        """Return the result of a run that could not be scored, to be saved with the status ``oom`` or ``failed``."""
        return replace(self._with_ranks(Ranks.empty(), {}, ()), run=RunInfo(status=status))

    def rank(self, scores: ScoreArray) -> Ranks:
        """Count, for every target and side, the candidates above and tied; ``scores`` are aligned with ``triples``."""
        return self._named({side: self._count(side, scores) for side in self.sides})

    def _count(self, side: Side, scores: ScoreArray) -> Counts:
        _, target, rows = self._layout
        return count(scores, target, rows[side], self._listed[side][1])

    def _named(self, sides: Mapping[Side, Counts]) -> Ranks:
        names = (self.split.entities, self.split.relations, self.split.entities)
        heads, relations, tails = (
            vocabulary[self.split.targets[:, column]]
            for vocabulary, column in zip(names, (HEAD, RELATION, TAIL), strict=True)
        )
        return Ranks(heads, relations, tails, sides)

    def _ranked(
        self, score: Scorer, batch_size: int = BATCH_SIZE, progress: Progress | None = None
    ) -> Mapping[Side, RankedSide]:
        """Ask a scorer for what the protocol needs, and rank the targets on every side."""
        found, size = ways(score), batch_limit(batch_size)
        if self.candidates.full:
            return rank_all(found, self.split, self._filtered, size, progress)
        triples, target, rows = self._layout
        needed = {side: np.append(rows[side], target) for side in self.sides}
        scores = score_listed(found, self.split, triples, needed, size, progress)
        return {side: RankedSide(self._count(side, part), part[target], seen) for side, (part, seen) in scores.items()}

    def expected(self, score: Scorer) -> Mapping[str, float]:
        """Return the expected metrics of a scorer, without the bounds, warnings and floors of a result."""
        ranks = self._named({side: found.counts for side, found in self._ranked(score).items()})
        return summary.expected(ranks, self.candidates.protocol, self.candidates.vocabulary)

    @cached_property
    def floors(self) -> Mapping[str, Mapping[str, float]]:
        """Expected metrics of the scorers that learn nothing, on the same candidates, computed when looked at."""
        return Floors(self.split, self.expected)

    def _result(self, scores: ScoreArray, kind: str, notes: tuple[str, ...] = ()) -> Result:
        """Return the result of scores aligned with ``triples``."""
        target, seen = self._layout[1], Seen(kind)
        seen.add(scores)
        ranked = {side: RankedSide(self._count(side, scores), scores[target], seen) for side in self.sides}
        return self._finish(ranked, notes)

    def _finish(self, ranked: Mapping[Side, RankedSide], notes: tuple[str, ...] = ()) -> Result:
        ranks = self._named({side: found.counts for side, found in ranked.items()})
        found = summary.figures(ranks, self.candidates.protocol, self.candidates.vocabulary)
        sentences = (*notes, *_warnings(ranked, ranks, found))
        for sentence in sentences:
            warnings.warn(f"{self.name}: {sentence}", MtbenchWarning, stacklevel=_depth())
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
            chance=summary.chance(drawn.numbers, drawn.protocol, drawn.vocabulary),
            tie_rate=closed.tie_rate(ranks.equal),
            floors=self.floors,
            ranks=ranks,
            warnings=sentences,
        )


def _depth() -> int:
    """Return how far above the caller the code stands that called this package: the line a warning is about."""
    package, frame, depth = __name__.partition(".")[0], sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, depth = frame.f_back, depth + 1
    return depth


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
    drawn = candidates.draw(split, protocol, vocabulary, seed)
    if dataset_version is None:
        record = candidates.released(split)
        dataset_version = record.version if record else UNVERSIONED
    return Task(split, drawn, dataset_version)


def evaluate(
    score: Scorer,
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
    real numbers, higher meaning more plausible; or an object that returns whole rows of scores, with any of
    ``score_tails``, ``score_heads`` and ``score_relations`` (see `mtbench.names`). Full protocols prefer the
    rows, sampled ones ``score``. Each distinct triple or row of a side is asked for once, at most
    ``batch_size`` scores at a time but always a whole row, so a target and its candidates on a side never
    differ by a second forward pass; ``progress(done, total)`` counts triples after every batch. ``seed`` is
    that of the candidates. An exception inside ``score`` is not caught. Raises `ScoreError` for scores that
    cannot be ranked, `UnknownNameError` for a protocol or vocabulary that does not exist and `UsageError`
    for a split without targets or a scorer that cannot serve the protocol. The sampled protocols are those
    of Zhou et al. 2023, section 5; ``dual-exact`` is the expectation of its ``dual`` over the draw.
    """
    chosen = task(split, protocol, vocabulary, seed, dataset_version=dataset_version)
    return chosen.run(score, batch_size=batch_size, progress=progress)


def _warnings(
    ranked: Mapping[Side, RankedSide], ranks: Ranks, found: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    alone = int(np.count_nonzero(ranks.count == 0))
    if alone:
        yield f"{alone} of {len(ranks)} targets have no candidate (all are known triples) and rank first for free"
    share = f"{np.count_nonzero(ranks.equal)} of {len(ranks)} targets"
    best, worst = found["optimistic"], found["pessimistic"]
    if closed.spread(best, worst) > FLAG_SPREAD:
        yield (
            f"{share} tie with a candidate, and the MRR is {best['mrr']:.4f} or {worst['mrr']:.4f} as ties are "
            f"broken; the expected value is the one to report, with both bounds"
        )
    tied = [side for side in ranked.values() if side.counts.equal.any()]
    for kind in sorted({side.seen.kind for side in tied} & {"float16", "bfloat16"}):
        yield f"{share} tie with a candidate in {kind} scores; return float32 to tell a tie from rounding"
    if any(side.seen.probabilities and np.isin(side.own[side.counts.equal > 0], (0, 1)).any() for side in tied):
        yield (
            "targets tie with candidates at exactly 0 or 1, as probabilities from a saturated sigmoid do; return logits"
        )
