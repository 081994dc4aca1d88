"""A finished evaluation: its metrics with both tie bounds and the heuristic baselines, saved, loaded and verified."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mtbench.data import catalog
from mtbench.data.splits import SPLIT_NAMES, Dataset, Split
from mtbench.errors import ResultError, UnknownNameError, UsageError, printable
from mtbench.files import tables
from mtbench.files.hashing import content_hash, file_hash
from mtbench.metrics import closed, summary
from mtbench.metrics.summary import Adjusted, adjust
from mtbench.names import METRICS, PARTS, QUESTIONS, Direction, FloatArray
from mtbench.ranking.candidates import CANDIDATES_VERSION, full_hash
from mtbench.ranking.ranks import Ranks
from mtbench.runs import files
from mtbench.runs.files import RANKS_FILE, RESULT_FILE
from mtbench.runs.origin import Evaluated, RunInfo, environment
from mtbench.settings.setting import EVERY, Setting
from mtbench.settings.table import PROTOCOLS, SETTINGS, VOCABULARIES, setting_of

if TYPE_CHECKING:
    from mtbench.runs.saved import Saved
    from mtbench.runs.strata import Strata

EVALUATOR_VERSION = "2"
"""Raised whenever the same scores would give other counts or metrics, so that older runs can be told apart."""

FLAG_SPREAD = 0.02
"""Bounds of the MRR further apart than this are flagged: the figure then says more about ties than the model."""

ROWS = ("short", "all")
"""Which rows of a result are shown."""

TOLERANCE = 1e-9
FIGURES = ("metrics", "optimistic", "pessimistic", "chance", "tie_rate")
"""The keys that follow from the counts alone."""

_EACH = {1: "each", 2: "in each direction"}

Metrics: TypeAlias = Mapping[str, float]


class MtbenchWarning(UserWarning):
    """Scores that can be ranked, but whose metrics depend on how ties are broken."""


@dataclass(frozen=True, eq=False, repr=False)
class Result(Evaluated):
    """The metrics of a scorer on a task, with both tie bounds and the heuristic baselines beside them.

    ``metrics`` are realistic: averaged over all orders of ties. ``optimistic`` and ``pessimistic`` are what the
    best and the worst order give; ``tie_rate`` is the share of ranks with a tie. ``chance`` and
    ``baselines`` are metrics of scorers that learn nothing, on the same candidates. ``warnings``
    holds a sentence for everything a reader should know before trusting the figures. ``asked`` names by
    direction what the scorer was asked, ``asked_again`` says how its scores compared in other batches. A run that ran
    out of memory or failed has empty metrics and ranks, and a ``tie_rate`` that is not a number.
    """

    metrics: Metrics
    optimistic: Metrics
    pessimistic: Metrics
    tie_rate: float
    chance: Metrics
    baselines: Mapping[str, Metrics]
    warnings: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)
    asked_again: str = ""
    evaluator_version: str = EVALUATOR_VERSION

    def __repr__(self) -> str:
        return self.text()

    def text(self, rows: str = "short") -> str:
        """Return what was measured, the rows of `table` asked for, and a line for every warning."""
        warned = [printable(f"warning: {text}") for text in self.warnings]
        return "\n".join([*map(printable, self._heading()), "", self.table(rows), *warned])

    def _repr_html_(self) -> str:
        lines = map(escape, (*self._heading(), *self.warnings))
        return f"<p>{'<br>'.join(lines)}</p>{self.table('short', 'html')}"

    def _heading(self) -> list[str]:
        targets, against = len(self.ranks), self.setting.ties == "pessimistic"
        return [
            f"{self.dataset} {self.split}: protocol {self.protocol}, {self.vocabulary} relations, "
            f"candidate seed {self.candidate_seed}",
            f"{targets} triples to rank, {self.ranks.count.mean():.1f} candidates {_EACH[len(self.ranks.lists)]}, "
            f"{'ties against the true triple' if against else f'{self.tie_rate:.1%} of ranks tied'}"
            if targets
            else f"no ranks: {self.run.status}",
        ]

    def table(self, rows: str = "all", format: str = "text") -> str:  # noqa: A002
        """Return the metrics in ``text``, ``markdown``, ``latex``, ``csv`` or ``html``.

        ``all`` rows are the model's, its optimistic and pessimistic bounds, each direction and every baseline;
        ``short`` ones are the model's, the best heuristic baseline's, those of chance and the bounds of the MRR.
        Raises `UnknownNameError` for rows or formats that do not exist.
        """
        if rows not in ROWS:
            raise UnknownNameError("rows of a result", rows, ROWS)
        if rows == "short":
            return self._short(format)
        labelled = [
            (self.run.model, self.metrics),
            *((f"{way}s, {QUESTIONS[way]}", values) for way, values in self.by_direction().items()),
            ("ties optimistic", self.optimistic),
            ("ties pessimistic", self.pessimistic),
            *((name.replace("_", " "), values) for name, values in self.baselines.items()),
            ("chance", self.chance),
        ]
        return tables.render(labelled, format)

    def _short(self, format: str) -> str:  # noqa: A002
        labelled = [(self.run.model, self.metrics)]
        if best := self.best_baseline:
            labelled.append((f"best heuristic baseline: {best.replace('_', ' ')}", self.baselines[best]))
        names = [name for name in METRICS if any(name in values for _, values in labelled)]
        cells = [
            [label, *(tables.number(name, values[name]) if name in values else "" for name in names)]
            for label, values in (*labelled, ("chance", self.chance))
        ]
        if self.optimistic:
            ties = tables.bounds(self.optimistic, self.pessimistic)
            cells.append(["pessimistic to optimistic", *(ties if name == "mrr" else "" for name in names)])
        return tables.lay_out(["", *map(tables.heading, names)], cells, format)

    @property
    def best_baseline(self) -> str:
        """The heuristic baseline of the highest MRR, empty where there is none."""
        return max(self.baselines, key=lambda name: self.baselines[name]["mrr"], default="")

    def per_target(self) -> dict[str, FloatArray]:
        """Return every metric of every target ``(m,)`` over its lists and ties, in the order of ``ranks``."""
        return summary.per_target(self.ranks)

    def by_direction(self) -> dict[Direction, Metrics]:
        """Return the mean metrics of each direction, nothing where there is only one."""
        lists = summary.per_list(self.ranks)
        return {way: closed.mean(values) for way, values in lists.items()} if len(lists) > 1 else {}

    def adjusted(self) -> dict[str, Adjusted]:
        """Return every metric adjusted for chance, with its z-score under the exact null; empty without ranks."""
        return adjust(self.metrics, self.ranks.count) if len(self.ranks) else {}

    def by(self, name: str, split: Split | Dataset | None = None) -> Strata:
        """Return the metrics for every stratum of the targets; see `mtbench.runs.strata.by` for names and errors."""
        from mtbench.runs import strata

        return strata.by(self, name, split)

    def save(
        self, directory: Path | str, run: RunInfo | None = None, *, force: bool = False, with_names: bool = True
    ) -> Path:
        """Write ``result.json`` and ``ranks.parquet`` into a directory, both or neither, and return it.

        ``run`` says how the scores came about; without it the result keeps what it was loaded with.
        Without names the ranks hold counts alone, in the order of the split's targets: for publishing runs on
        data that may not be passed on.
        Raises `UsageError` when the directory already holds a run and ``force`` is not set, when a run
        with status ``ok`` has no ranks, or when the run information cannot be written as JSON.
        """
        directory, run = Path(directory), run or self.run
        if run.status == "ok" and not len(self.ranks):
            raise UsageError(f"{directory}: a run without ranks cannot have the status ok, only oom or failed")
        run = replace(run, environment=run.environment or environment())
        payload = {"schema": files.SCHEMA} | {key: getattr(self, name) for name, key in _OWN_KEYS.items()}
        payload |= {"tie_rate": None if math.isnan(self.tie_rate) else self.tie_rate}  # JSON knows no NaN
        payload |= {"candidates_version": CANDIDATES_VERSION, "targets": len(self.ranks)}
        payload |= {name: getattr(run, name) for name in _RUN_KEYS}
        files.write(directory, payload, self.ranks, force=force, with_names=with_names)
        return directory


_OWN_KEYS = {declared.name: declared.name for declared in fields(Result) if declared.name not in ("ranks", "run")}
_OWN_KEYS["baselines"] = "floors"  # as the file has always called them
_RUN_KEYS = tuple(declared.name for declared in fields(RunInfo))


def load(directory: Path | str) -> Result:
    """Read a run directory; raises `ResultError` naming the file that is missing, truncated or edited.

    The ranks must be those ``result.json`` was written with, and its figures those that follow from them.
    """
    from mtbench.runs import saved

    path, ranks_path = Path(directory) / RESULT_FILE, Path(directory) / RANKS_FILE
    with files.naming(path):
        values = saved.shaped(files.read_payload(path))
    if values.ranks_sha256 is None:
        return of_saved(values, Ranks.empty())
    with files.naming(ranks_path):
        ranks = saved.read_ranks(ranks_path)
        if file_hash(ranks_path) != values.ranks_sha256:
            raise ResultError(f"not the file that {RESULT_FILE} was written with")
    # Of another evaluator the same counts may have other figures.
    wrong = (
        contradictions(vars(values), ranks, values.ranks_sha256)
        if values.evaluator_version == EVALUATOR_VERSION
        else ()
    )
    for name, _, sentence in wrong:
        if name in (*FIGURES, "counts", "status"):
            raise ResultError(f"{path}: {sentence}; the file was edited: evaluate again")
    return of_saved(values, ranks)


def of_saved(values: Saved, ranks: Ranks) -> Result:
    """Return the result that the two files of a run hold, once they are read."""
    own = {name: getattr(values, key) for name, key in _OWN_KEYS.items()}
    run = {name: getattr(values, name) for name in _RUN_KEYS}
    own |= {"tie_rate": math.nan if values.tie_rate is None else values.tie_rate}
    return Result(**own, ranks=ranks, run=RunInfo(**run))


@dataclass(frozen=True)
class Problem:
    """Something in a run directory that does not hold: a short name for programs, the file, a sentence for people."""

    name: str
    file: Path
    sentence: str

    @property
    def message(self) -> str:
        """The sentence with the file it is about."""
        return f"{self.file}: {self.sentence}"


@dataclass(frozen=True)
class Verification:
    """The problems of a run directory that `verify` checked; without any, all metrics match the counts."""

    directory: Path
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        return "\n".join(problem.message for problem in self.problems) or f"{self.directory}: verified"


def verify(directory: Path | str) -> Verification:
    """Recompute a run's figures from its rank counts and return every contradiction.

    Checked are the keys and their values, the hash of ``ranks.parquet``, that counts are possible and
    as many as the protocol gives, the targets of a released dataset, and every metric with its bounds,
    chance and tie rate. How many candidates a target has under a full protocol follows from the split:
    for a released dataset they must give the candidates hash. Baselines and the scores themselves
    cannot be recomputed from counts. Nothing is raised for a broken run: a directory of runs is verified
    to the end.
    """
    return Verification(Path(directory), tuple(_problems(Path(directory))))


def _problems(directory: Path) -> Iterator[Problem]:
    from mtbench.runs import saved

    path, ranks_path = directory / RESULT_FILE, directory / RANKS_FILE
    try:
        payload = files.read_payload(path)
    except ResultError as error:
        yield Problem(RESULT_FILE, path, str(error))
        return
    try:
        values = saved.shaped(payload)
    except ResultError as error:
        key = str(error).partition(" ")[0].partition(".")[0]  # the sentence begins with the place of a wrong value
        yield Problem(key if key in payload else "keys", path, str(error))
        return
    # Only a run that failed may do without ranks, and then result.json names no hash of them.
    ranks, ranks_sha256 = None, None
    if values.status == "ok" or values.ranks_sha256 is not None:
        try:
            ranks, ranks_sha256 = saved.read_ranks(ranks_path), file_hash(ranks_path)
        except ResultError as error:
            yield Problem(RANKS_FILE, ranks_path, str(error))
    for name, file, sentence in contradictions(vars(values), ranks, ranks_sha256):
        yield Problem(name, directory / file, sentence)


def contradictions(
    payload: Mapping[str, Any], ranks: Ranks | None, ranks_sha256: str | None
) -> Iterator[tuple[str, str, str]]:
    """Give every contradiction in a ``result.json`` and the ranks beside it: a name, the file, a sentence.

    ``ranks`` and the hash of their file are None for a run without ranks, or whose ranks cannot be read.
    """
    for name, sentence in _declared(payload):
        yield name, RESULT_FILE, sentence
    if ranks is None:
        return
    if ranks_sha256 != payload["ranks_sha256"]:
        yield "ranks_sha256", RANKS_FILE, f"not the file that {RESULT_FILE} was written with"
    wrong = list(_counts(ranks, payload))
    for name, sentence in wrong:
        yield name, RANKS_FILE, sentence
    # Impossible counts have no metrics, and one sentence about them is enough.
    if len(ranks) and "counts" not in dict(wrong):
        for name, sentence in _figures(ranks, payload):
            yield name, RESULT_FILE, sentence


def _declared(payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    known: dict[str, tuple[object, ...]] = {
        "evaluator_version": (EVALUATOR_VERSION,),
        "candidates_version": (CANDIDATES_VERSION,),
        "protocol": PROTOCOLS,
        "vocabulary": VOCABULARIES,
        "split": SPLIT_NAMES,
    }
    for name, values in known.items():
        if payload[name] not in values:
            yield name, f"{name} is {payload[name]!r}, expected {' or '.join(map(repr, values))}"
    if payload["status"] != "ok" and (payload["metrics"] or payload["ranks_sha256"]):
        yield "status", f"status is {payload['status']!r}, but there are figures"
    published = _record_for(payload)
    key = Setting(payload["protocol"], payload["vocabulary"]).key(payload["split"], payload["candidate_seed"])
    expected = published.candidates.get(key) if published else None
    if expected is not None and payload["candidates_sha256"] != expected:
        yield "candidates_sha256", f"candidates {key} are published with the hash {expected}"


def _record_for(payload: Mapping[str, Any]) -> catalog.Record | None:
    record = catalog.by_id(payload["dataset"])
    return record if record and record.version == payload["dataset_version"] else None


def _counts(ranks: Ranks, payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not len(ranks) or len(ranks) != payload["targets"]:
        yield "targets", f"{len(ranks)} targets, {RESULT_FILE} says {payload['targets']}"
    published = _record_for(payload)
    part = published.parts.get(f"{payload['split']}/targets") if published else None
    named = SETTINGS.get(f"{payload['protocol']}-{payload['vocabulary']}")
    more = published and named and named.asks_known(payload["dataset"], payload["split"])
    # The content hash sorts its triples, so the order of the ranks does not matter. Two parts together have none.
    rows = zip(ranks.heads.tolist(), ranks.relations.tolist(), ranks.tails.tolist(), strict=True)
    if part is not None and ranks.named and not more and content_hash(rows) != part.content_sha256:
        yield "targets", f"the targets are not those of {payload['dataset']} {payload['dataset_version']}"
    number = part and part.triples + (published.part(payload["split"], "known").triples if published and more else 0)
    if number is not None and len(ranks) != number:
        yield "targets", f"{len(ranks)} targets, {payload['dataset']} {payload['dataset_version']} has {number}"
    for name, counts in ranks.parts.items():
        columns = np.stack((counts.greater, counts.equal, counts.count))
        bad = ((columns < 0) | (columns > EVERY)).any(0) | (counts.greater + counts.equal > counts.count)
        if bad.any():
            yield "counts", f"{bad.sum()} impossible {name} counts, first at row {np.flatnonzero(bad)[0]}"
    if payload["protocol"] not in PROTOCOLS or payload["vocabulary"] not in VOCABULARIES:
        return  # which `_declared` has said already
    setting = setting_of(payload["protocol"], payload["vocabulary"])
    if set(ranks.parts) != set(setting.parts):
        yield (
            "candidates",
            f"columns of {', '.join(ranks.parts)}; protocol {setting.protocol} has {', '.join(setting.parts)}",
        )
        return
    numbers = [counts.count for part, counts in ranks.parts.items() if PARTS[part][1] == "relation"]
    if len(numbers) > 1 and (numbers[0] != numbers[1]).any():
        yield "candidates", "the directions have other numbers of relations, which they share"
    if setting.full:
        yield from _full_counts(ranks, payload, setting, published)
        return
    for part_name, counts in ranks.parts.items():
        side = PARTS[part_name][1]
        number = setting.number(side)
        # Drawn with replacement there are always as many as asked for, unless every id is a known triple.
        bad = (counts.count != number) & (counts.count != 0) if side in setting.repeated else counts.count > number
        if bad.any():
            row = np.flatnonzero(bad)[0]
            yield "candidates", f"{counts.count[row]} {side} candidates at row {row}, the protocol has {number}"


def _full_counts(
    ranks: Ranks, payload: Mapping[str, Any], setting: Setting, published: catalog.Record | None
) -> Iterator[tuple[str, str]]:
    """Check the numbers of all candidates: possible for the released graph, and giving the candidates hash."""
    if published is None:
        return
    graph = published.graph(payload["split"])
    relations = graph.relation_slots if setting.empty_slots else graph.relations
    for name, counts in ranks.parts.items():
        side = PARTS[name][1]
        most = (relations if side == "relation" else graph.entities) - 1  # all but the target
        if (bad := counts.count > most).any():
            row = np.flatnonzero(bad)[0]
            yield "candidates", f"{counts.count[row]} {side} candidates at row {row}, there are at most {most}"
    # The hash is over targets in the order of their names, which unnamed ranks cannot be brought into.
    if not ranks.named:
        return
    order = np.lexsort((ranks.tails, ranks.relations, ranks.heads))
    numbers = {PARTS[name][1]: counts.count[order] for name, counts in ranks.parts.items()}
    if full_hash(str(payload["content_sha256"]), setting, numbers) != payload["candidates_sha256"]:
        yield "candidates", "the numbers of candidates are not those the candidates hash is of"


def _figures(ranks: Ranks, payload: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, values in closed.figures(ranks.greater, ranks.equal, ranks.count).items():
        stated = payload[name]
        if set(stated) != set(values):
            yield name, f"{name} must hold exactly {', '.join(values)}"
            continue
        for key, value in values.items():
            if not _same(stated[key], value):
                yield name, f"{name} {key} is {stated[key]}, the counts give {value}"
    rate = closed.tie_rate(ranks.equal)
    if not _same(payload["tie_rate"], rate):
        yield "tie_rate", f"tie_rate is {payload['tie_rate']}, the counts give {rate}"


def _same(stated: object, value: float) -> bool:
    return isinstance(stated, int | float) and math.isclose(stated, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
