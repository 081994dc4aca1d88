"""The standard evaluator: every model is ranked the same way, on the same task.

Every distinct triple, or row of triples, of a side is scored exactly once, so a target and its candidates
never differ by the rounding of a second forward pass, and two models that agree on every triple agree on
every metric.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mtbench.data import catalog
from mtbench.data.graphs import keys
from mtbench.data.splits import SPLIT_NAMES, Dataset, Split
from mtbench.errors import ScoreError, UnknownNameError, UsageError
from mtbench.evaluation.cautions import Caution, cautions, depth
from mtbench.files.reading import expanded
from mtbench.heuristics.figures import Baselines, baseline
from mtbench.metrics import closed
from mtbench.names import PARTS, Direction, IntArray, Part, ScoreArray, ScoreFunction, Scorer, Side
from mtbench.ranking.again import ask_again as compare_again
from mtbench.ranking.candidates import Candidates, Filtered, draw, filter_side
from mtbench.ranking.decoys import expect_chance, rank_decoys
from mtbench.ranking.lists import Layout, RankedPart, rank_all, rank_given, rank_listed
from mtbench.ranking.ranks import Counts, Ranks
from mtbench.ranking.scorers import Progress, Ways, accept, batch_limit, ways
from mtbench.runs.origin import RunInfo, Status
from mtbench.runs.result import MtbenchWarning, Result
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE, PROTOCOLS, SAMPLED, VOCABULARIES, setting_of

if TYPE_CHECKING:
    from mtbench.evaluation.scorefiles import Questions

Value = TypeVar("Value")
COUNTED_AT_ONCE = 1 << 20
"""Scores of heuristic baselines at a time: each takes little memory, and walks begin at many entities together."""

BATCH_SIZE = 65_536
LISTED = 20_000_000
"""The most candidates of a full protocol that ``triples`` lists, which takes about 100 bytes of memory for each.

More are only ranked for a scorer, in batches.
"""

KINDS: Mapping[str, tuple[str, ...]] = {"split": SPLIT_NAMES, "protocol": PROTOCOLS, "vocabulary": VOCABULARIES}
LONGEST = 100
"""The most digits of a candidate seed that are read: Python refuses to read thousands."""

UNVERSIONED = "unversioned"
NOT_ASKED, GIVEN = "not asked for again", "given as numbers, which cannot be asked for again"
"""What a result says of scores that were not compared with those in other batches."""


@dataclass(frozen=True, eq=False)
class Task:
    """A split with frozen candidates: all that has to be the same for two models to be comparable.

    Build one with `task` and use it again for every model, or after every epoch. Raises `UsageError`
    when the candidates were drawn for another split.
    """

    split: Split
    candidates: Candidates
    dataset_version: str = UNVERSIONED

    @classmethod
    def of(cls, split: Split, setting: Setting = HEADLINE, seed: int = 0, dataset_version: str | None = None) -> Task:
        """Return the task of a split in a setting.

        ``dataset_version`` is what results are filed under; left out, it is the catalogue's for a released
        split and ``unversioned`` for any other. Raises `UsageError` for a split without targets.
        """
        # Results are filed under it: a split of one's own must not pass for a version of a release.
        if dataset_version is None:
            dataset_version = split.release.version if split.release else UNVERSIONED
        if setting.asks_known(split.dataset, split.name):
            split = split.with_known_asked()
        return cls(split, draw(split, setting, seed), dataset_version)

    def __post_init__(self) -> None:
        # Splits of equal content may have their targets in another order, while counts go by row: both are compared.
        same = self.candidates.content_sha256 == self.split.content_sha256
        if not same or not np.array_equal(self.candidates.targets, self.split.targets):
            raise UsageError(f"{self.name}: the candidates were drawn for another split; draw them for this one")

    @property
    def name(self) -> str:
        """Dataset, split, protocol, vocabulary and candidate seed, separated by slashes."""
        return f"{self.split.dataset}/{self.setting.key(self.split.name, self.candidates.seed)}"

    @property
    def setting(self) -> Setting:
        """What its figures are of."""
        return self.candidates.setting

    @property
    def triples(self) -> IntArray:
        """The distinct triples to score, int64 ``(k, 3)``, sorted by head, relation and tail; yours to change.

        Raises `UsageError` where a full protocol has more than `LISTED` candidates: a scorer is asked for them
        in batches, a list of them would not fit.
        """
        return self._layout.triples.copy()

    @property
    def questions(self) -> Questions:
        """What a scorer is asked, for files of it and of its scores."""
        from mtbench.evaluation.scorefiles import Questions  # with pyarrow, which an evaluation of arrays does without

        rows = {direction: self.rows(direction) for direction in self.directions}
        return Questions(self.name, self.split, self.triples, self.candidates.sha256, rows)

    @cached_property
    def _layout(self) -> Layout:
        drawn = self.candidates.drawn
        if not self.setting.full:
            return Layout(self.split, self.setting.parts, {side: self.candidates.side(side) for side in drawn})
        self.expect_listed()
        return Layout(
            self.split, self.setting.parts, {side: filtered.listed() for side, filtered in self._filtered().items()}
        )

    def expect_listed(self) -> None:
        """Raise `UsageError` for a full protocol with more than `LISTED` candidates, which ``triples`` cannot list."""
        number = int(sum(counts.sum() for _, counts in self.candidates.drawn.values())) if self.setting.full else 0
        if number > LISTED:
            raise UsageError(
                f"{self.name}: {number:,} candidates are too many to list; pass a scorer to run or evaluate, which is "
                f"asked for them in batches, or use a sampled protocol: {', '.join(SAMPLED)}"
            )

    def rows(self, direction: Direction) -> IntArray:
        """Return the rows of `triples` that the list of a direction asks for, int64 ``(n,)``, in increasing order.

        Raises `UsageError` for a direction that the protocol does not ask for.
        """
        if direction not in self.directions:
            raise UsageError(f"{self.name}: the protocol does not ask for {direction}s")
        return self._layout.asked(direction)

    def _filtered(self) -> Mapping[Side, Filtered]:
        empty_slots = self.setting.empty_slots
        return {side: filter_side(self.split, side, empty_slots=empty_slots) for side in self.candidates.drawn}

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions a target is asked for in, each with a list of candidates."""
        return self.setting.directions

    def evaluate(self, scores: object) -> Result:
        """Rank scores aligned with ``triples``: an array or tensor ``(k,)`` of integers or floats.

        For a model that scores a triple by its direction, ``scores`` is a mapping of every direction the protocol
        asks for, ``tail`` and ``head``, to the scores of the triples in its `rows`. Raises `ScoreError` for scores
        that are missing, not finite, or of a wrong shape or type; warns with `MtbenchWarning` when the figures
        depend on how ties are broken.
        """
        return self._of_scores(scores)

    def _of_scores(self, scores: object, notes: Iterable[Caution] = ()) -> Result:
        triples = self._layout.triples
        accepted: dict[Direction, tuple[ScoreArray, str]] = {}
        if not isinstance(scores, Mapping):
            accepted = dict.fromkeys(self.directions, accept(scores, triples, self.split, len(triples)))
        elif set(scores) != set(self.directions):
            raise ScoreError(
                f"{self.name}: scores by direction are for {' and '.join(self.directions)}, not "
                f"{' and '.join(map(str, scores)) or 'none'}"
            )
        else:
            for direction in self.directions:
                rows = self.rows(direction)
                own, kind = accept(scores[direction], triples[rows], self.split, len(rows))
                whole = np.empty_like(own, shape=len(triples))
                whole[rows] = own  # the other rows stay unset: no list of this direction reads them
                accepted[direction] = whole, kind
        return self._result(rank_given(accepted, self._layout), GIVEN, notes)

    def evaluate_file(self, path: Path | str) -> Result:
        """Rank the scores of a file written by any language, its rows in any order.

        The file is Parquet, Arrow, CSV or TSV by its suffix, and has the columns head, relation, tail
        (all names or all ids) and score, and direction for a model that answers (h, r, ?) and (?, r, t) by
        different queries: tail or head; `mtbench.evaluation.scorefiles` says what is refused and how.
        """
        scores, notes = self.questions.read(Path(path))
        return self._of_scores(scores, notes)

    def write_triples(self, path: Path | str, *, by_direction: bool = False, force: bool = False) -> Path:
        """Write ``triples`` by name and by id to a file that another language fills with scores, and return it.

        With ``by_direction`` there is a column direction, and a row for each direction a triple is asked for in.
        The suffix chooses the format, as in `evaluate_file`. Raises `UsageError` for a file that exists unless
        ``force`` is set.
        """
        return self.questions.write(Path(path), by_direction=by_direction, force=force)

    def run(
        self,
        score: Scorer | Ways,
        *,
        batch_size: int = BATCH_SIZE,
        progress: Progress | None = None,
        ask_again: bool = True,
    ) -> Result:
        """Score the triples of the task in batches and rank them; see `evaluate` for the arguments."""
        scorer, again = ways(score), NOT_ASKED
        size = batch_limit(batch_size)
        # Before all else, so that a scorer which has changed since is seen, too.
        decoys = rank_decoys(scorer, self.split, self.candidates, size) if ask_again else None
        ranked = self._ranked(scorer, size, progress)
        if ask_again:
            again = compare_again(
                [each.asked for each in (*ranked.values(), decoys) if each and each.asked], self.split
            )
            if decoys:
                expect_chance(decoys, self.split)
        result = self._result(ranked, again)
        return replace(result, run=replace(result.run, model=scorer.name))

    def unfinished(self, status: Status) -> Result:
        """Return the result of a run that could not be scored, to be saved with the status ``oom`` or ``failed``."""
        return replace(self._result({}), run=RunInfo(status=status))

    def rank(self, scores: ScoreArray) -> Ranks:
        """Count the candidates above and tied with every target, part by part, by scores aligned with ``triples``."""
        return self._named(rank_given(dict.fromkeys(self.directions, (scores, "")), self._layout))

    def _named(self, ranked: Mapping[Part, RankedPart]) -> Ranks:
        heads, relations, tails = self.split.targets.T
        names = self.split.entities[heads], self.split.relations[relations], self.split.entities[tails]
        return Ranks(*names, self._counts(ranked))

    def _counts(self, ranked: Mapping[Part, RankedPart]) -> Mapping[Part, Counts]:
        """Return the counts of ranked parts as the setting counts ties."""
        against = self.setting.ties == "pessimistic"
        return {part: of.counts.against() if against else of.counts for part, of in ranked.items()}

    def _ranked(
        self, scorer: Ways, batch_size: int = BATCH_SIZE, progress: Progress | None = None, parts: Sequence[Part] = ()
    ) -> dict[Part, RankedPart]:
        """Ask a scorer for what the protocol needs, and rank the targets in ``parts``, by default in all."""
        size, wanted = batch_limit(batch_size), parts or self.setting.parts
        if self.setting.full:
            # Row by row: the triples of a full ranking are not listed, there may be more than fit in memory.
            filtered = self._filtered()
            return rank_all(scorer, self.split, {part: filtered[PARTS[part][1]] for part in wanted}, size, progress)
        return rank_listed(scorer, self._layout, wanted, size, progress)

    def counts(self, score: Scorer, parts: Sequence[Part] = ()) -> Mapping[Part, Counts]:
        """Count the candidates above and tied with every target by a scorer, in ``parts``, by default in all."""
        return self._counts(self._ranked(ways(score), COUNTED_AT_ONCE, parts=parts))

    def cautions(self, score: Scorer) -> list[Caution]:
        """Return what a reader should know about a scorer's ranks before believing them."""
        ranked = self._ranked(ways(score))
        ranks = self._named(ranked)
        return list(cautions(ranked, ranks, closed.figures(ranks.greater, ranks.equal, ranks.count)))

    def expected(self, score: Scorer) -> Mapping[str, float]:
        """Return the realistic metrics of a scorer, without the bounds, warnings and baselines of a result."""
        ranks = Ranks.unnamed(self.counts(score))
        return closed.expected(ranks.greater, ranks.equal)

    @cached_property
    def baselines(self) -> Mapping[str, Mapping[str, float]]:
        """Metrics of the heuristic baselines on the same candidates, each computed when first read."""
        return Baselines(self.split, self.expected)

    def _result(self, ranked: Mapping[Part, RankedPart], again: str = "", notes: Iterable[Caution] = ()) -> Result:
        """Return the result of ranked targets; of no targets for a run that could not be scored."""
        ranks = self._named(ranked) if ranked else Ranks.empty()
        figures = closed.figures(ranks.greater, ranks.equal, ranks.count) if ranked else {}
        all_cautions = [*notes, *(cautions(ranked, ranks, figures) if ranked else ())]
        for caution in all_cautions:
            warnings.warn(f"{self.name}: {caution.sentence}", MtbenchWarning, stacklevel=depth())
        asked: dict[Direction, dict[str, None]] = {}  # methods by direction, each once, in the order they were asked
        for part, ranked_part in ranked.items():
            asked.setdefault(PARTS[part][0], {})[ranked_part.method] = None
        return Result(
            dataset=self.split.dataset,
            dataset_version=self.dataset_version,
            split=self.split.name,
            content_sha256=self.split.content_sha256,
            protocol=self.setting.protocol,
            vocabulary=self.setting.vocabulary,
            candidate_seed=self.candidates.seed,
            candidates_sha256=self.candidates.sha256,
            metrics=figures.get("metrics", {}),
            optimistic=figures.get("optimistic", {}),
            pessimistic=figures.get("pessimistic", {}),
            # From the candidates, not the ranks, so that a run that failed has it too.
            chance=closed.chance(self.candidates.lengths.ravel()),
            tie_rate=closed.tie_rate(ranks.equal),
            baselines=self.baselines,
            ranks=ranks,
            warnings=tuple(caution.sentence for caution in all_cautions),
            asked={direction: ", ".join(methods) for direction, methods in asked.items()},
            asked_again=again,
        )


def task(
    source: Split | Dataset | str | Path,
    protocol: str | None = None,
    vocabulary: str | None = None,
    seed: int | None = None,
    split: str | None = None,
    *,
    dataset_version: str | None = None,
) -> Task:
    """Return the task of a dataset, or of a split, under a protocol, a relation vocabulary and a candidate seed.

    ``source`` is a `Split` itself, a `Dataset`, what `load` takes, or the name of a task as on the command line: a
    dataset or its directory, then any of split, protocol, vocabulary and seed between slashes, in this order, such as
    ``metafam/dual`` or ``metafam/test/dual/slots/1`` (`Task.name`). What neither the name nor an argument says is
    test, dual, present and 0. ``dataset_version`` is what results are filed under; left out, it is that of the
    dataset, the catalogue's for a released split and ``unversioned`` for any other.

    Raises `UnknownNameError` for a dataset, split, protocol, vocabulary or part of a name that does not exist, and
    `UsageError` for a part that is said twice with different values or out of order, and for a split without targets.
    """
    named: Mapping[str, Any] = {}
    if isinstance(source, str | Path):
        source, named = _loaded(source)
    setting = setting_of(
        _said_once("protocol", named, protocol, HEADLINE.protocol),
        _said_once("vocabulary", named, vocabulary, HEADLINE.vocabulary),
    )
    if isinstance(source, Dataset):
        dataset_version = dataset_version or source.version
        source = source.split(_said_once("split", named, split, "test"))
    if not isinstance(source, Split):
        raise UsageError(f"{type(source).__name__} is nothing to evaluate on: pass a dataset, its name, or data.test")
    return Task.of(source, setting, _said_once("candidate seed", named, seed, 0), dataset_version)


def _said_once(kind: str, named: Mapping[str, Any], given: Value | None, default: Value) -> Value:
    """Return a part of a task as its name or an argument says it, or the default; `UsageError` if both say another."""
    part: Value | None = named.get(kind)
    if part is None or given is None:
        return next((value for value in (part, given) if value is not None), default)
    if part != given:
        raise UsageError(f"the {kind} is {part} in the task's name and {given} beside it: say it once")
    return given


def _loaded(name: str | Path) -> tuple[Dataset, dict[str, str | int]]:
    """Return the dataset that a name begins with, and the parts of a task behind it, by kind."""
    from mtbench.data.loading import load  # with pyarrow, which an evaluation of arrays does without

    try:
        return load(name), {}
    except UnknownNameError:
        if isinstance(name, Path):
            raise
    dataset, parts = _dataset_of(name)
    named: dict[str, str | int] = {}
    kinds = [*KINDS, "candidate seed"]
    for part in parts:
        kind = next((kind for kind, known in KINDS.items() if part in known), "candidate seed")
        if kind == "candidate seed" and not part.isdecimal():
            raise UnknownNameError("part of a task's name", part, [name for known in KINDS.values() for name in known])
        if kind not in kinds:
            raise UsageError(f"task {name!r}: {part!r} is out of order; write DATASET/SPLIT/PROTOCOL/VOCABULARY/SEED")
        kinds = kinds[kinds.index(kind) + 1 :]  # what may still follow
        named[kind] = int(part) if kind == "candidate seed" and len(part) <= LONGEST else part
    return load(dataset), named


def _dataset_of(name: str) -> tuple[str, list[str]]:
    """Return the longest leading part of a task's name that is a dataset or the directory of one, and the rest."""
    parts = name.rstrip("/").split("/")
    # The longest first: a directory may have the name of a protocol, and datasets have slashes in their names.
    for length in range(len(parts), 0, -1):
        candidate = "/".join(parts[:length])
        if candidate and _is_dataset(candidate):
            return candidate, parts[length:]
    # For the message, what can be a part of a task is taken off the end: the rest was meant to be the dataset.
    while len(parts) > 1 and (parts[-1].isdecimal() or any(parts[-1] in known for known in KINDS.values())):
        parts.pop()
    raise UnknownNameError("dataset or directory", "/".join(parts), catalog.choices("/".join(parts)))


def _is_dataset(name: str) -> bool:
    from mtbench.builders import folders  # as `load`, both read with pyarrow
    from mtbench.data import store

    try:
        catalog.record(name)
    except UnknownNameError:
        directory = expanded(name)
        return (directory / store.MANIFEST).is_file() or folders.is_dataset(directory)
    return True


def evaluate(
    score: Scorer,
    split: Split | Dataset | str | Path,
    protocol: str | None = None,
    vocabulary: str | None = None,
    seed: int | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
    dataset_version: str | None = None,
    ask_again: bool = True,
) -> Result:
    """Rank the triples to predict of a split, or the test triples of a dataset, and return the metrics.

    A dataset may be named, and so may a task, as `task` takes them; what is not said is dual, present and seed 0.

    ``score`` is a function, or an object with a method ``score``, from triples int64 ``(b, 3)`` to ``b``
    real numbers, higher meaning more plausible; or an object that returns whole rows of scores, with any of
    ``score_tails``, ``score_heads`` and ``score_relations`` (see `mtbench.names`). Full protocols prefer the
    rows, sampled ones ``score``. A scorer with ``score_inverses`` is asked through it in lists of heads, and
    rows of heads and of tails serve their own direction; else both directions get the same score of a triple.
    One with ``score_between`` is asked through it for relations, in lists of both directions.

    Each distinct triple or row of a side is asked for once, at most ``batch_size`` scores at a time but always
    a whole row, so a target and its candidates on a side never differ by a second forward pass;
    ``progress(done, total)`` counts triples after every batch. Some triples are then asked for again in other
    batches, and scores that differ refused with `BatchError`; without ``ask_again`` they are not, and the
    result says so. ``seed`` is that of the candidates. An exception inside ``score`` is not caught.

    Raises `ScoreError` for scores that cannot be ranked, `UnknownNameError` for a protocol or vocabulary that
    does not exist and `UsageError` for a split without targets or a scorer that cannot serve the protocol. The
    sampled protocols are those of Zhou et al. 2023, section 5.
    """
    asked = task(split, protocol, vocabulary, seed, dataset_version=dataset_version)
    return asked.run(score, batch_size=batch_size, progress=progress, ask_again=ask_again)


def measure(name: str, tasks: Sequence[Task]) -> list[Mapping[str, float]]:
    """Return a heuristic baseline's metrics on tasks of the same split.

    Each triple is scored once for all tasks, and parts that have the same candidates in several are counted once.
    """
    score = baseline(name, tasks[0].split)
    # A full ranking asks for too many triples to list: it is scored in batches, on its own.
    listed = [task.triples for task in tasks if not task.setting.full]
    lookup = _remembered(score, tasks[0].split, listed) if len(listed) > 1 else score
    known: dict[tuple[object, ...], Counts] = {}
    metrics: list[Mapping[str, float]] = []
    for task in tasks:
        wanted = {part: _key(task.candidates, part) for part in task.setting.parts}
        if missing := [part for part, key in wanted.items() if key not in known]:
            counted = task.counts(score if task.setting.full else lookup, missing)
            known |= {wanted[part]: counts for part, counts in counted.items()}
        ranks = Ranks.unnamed({part: known[key] for part, key in wanted.items()})
        metrics.append(closed.expected(ranks.greater, ranks.equal))
    return metrics


def _key(candidates: Candidates, part: Part) -> tuple[object, ...]:
    """Return what is the same for tasks of a split that have the same candidates in a part."""
    # A baseline scores a triple alike in both directions, so the side is enough.
    side, setting = PARTS[part][1], candidates.setting
    if setting.full:
        return side, setting.ties, candidates.content_sha256, setting.vocabulary if side == "relation" else ""
    return side, setting.drawn_as, setting.vocabulary, candidates.seed


def _remembered(score: ScoreFunction, split: Split, triples: Sequence[IntArray]) -> ScoreFunction:
    """Return a scorer that looks up the scores of ``triples``, all scored here, each once."""
    together = np.concatenate(triples)
    # np.unique sorts its keys, as searchsorted needs them; all that is asked for is among them.
    known, first = np.unique(keys(split, together), return_index=True)
    scores = np.asarray(score(together[first]))
    return lambda asked: scores[np.searchsorted(known, keys(split, asked))]
