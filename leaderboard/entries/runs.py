"""One run of an entry: read once and checked, its shape first, then what has to hold of it.

What has the shape can be loaded and shown: its files can be read, figures lie within their bounds. Whether it is true,
its counts and the catalogue say: figures follow, hashes are the release's.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from leaderboard.entries.cards import ADDRESS, TRAIN, Problem, quote, unplain
from leaderboard.entries.entries import CHECKPOINT_SIZES, RUN_FILES, SIZES
from mtbench.data import catalog
from mtbench.data.catalog import Record
from mtbench.data.ragged import counted_rows
from mtbench.errors import ResultError
from mtbench.evaluation.tasks import GIVEN, NOT_ASKED
from mtbench.files import schema
from mtbench.files.hashing import file_hash
from mtbench.heuristics.figures import BASELINES
from mtbench.names import DIRECTIONS, METRICS
from mtbench.ranking.lists import GIVEN_SCORES
from mtbench.ranking.ranks import Ranks
from mtbench.ranking.scorers import BETWEEN, INVERSES, METHODS, SCORE
from mtbench.runs.directory import CHECKPOINTS, COMPLETE, CONVENTIONS_FILE, COST_FILE, HISTORY_FILE, TASKS_FILE
from mtbench.runs.files import RANKS_FILE, RESULT_FILE, SCHEMA, read_json
from mtbench.runs.result import TOLERANCE, contradictions
from mtbench.runs.saved import Hash, Limits, Saved, Whole, expected, read_ranks
from mtbench.settings.setting import Setting
from mtbench.settings.table import CODES, PROTOCOLS, SETTINGS, setting_in, setting_of

Kind = TypeVar("Kind")
EMPTY_SLOT = re.compile(r"<empty slot [0-9]+>( \(inverse\))?")
"""What the package calls a relation that has no name; the one text with angle brackets that is its own."""

BOUNDS = f"{', '.join(METRICS)}, MR from 1 and the others from 0 to 1"


def _within(values: Mapping[str, float]) -> bool:
    """Tell whether figures are what a scorer may reach: every metric, within its bounds."""
    shares = [number for name, number in values.items() if name != "mr"]
    held = set(values) == set(METRICS) and values["mr"] >= 1 - TOLERANCE
    return held and all(-TOLERANCE <= share <= 1 + TOLERANCE for share in shares)


WAYS = (SCORE, INVERSES, BETWEEN, *METHODS.values(), GIVEN_SCORES)
AGAIN = re.compile(rf"|{NOT_ASKED}|{GIVEN}|the same|the same within rounding: [0-9.]{{1,4}}e[+-][0-9]{{2,3}} apart")
"""What an evaluation says of how a model was asked, and of what became of the second time."""


Method = Annotated[
    str,
    expected(lambda text: {*WAYS}.issuperset(text.replace("), ", ");").split(";")), f"some of {'; '.join(WAYS)}"),
]
Scalar = Annotated[Any, expected(lambda value: isinstance(value, str | int | float), "a text, a number, true or false")]
MOST = 10**15
"""Seconds and bytes beyond it are no measurement."""

Figures = Annotated[Mapping[str, float], expected(_within, BOUNDS)]
MaybeFigures = Annotated[Mapping[str, float], expected(lambda found: not found or _within(found), BOUNDS)]


@dataclass(frozen=True)
class Shown(Saved):
    """``result.json`` of an entry: figures are those of this evaluator or none, all else is what a page can show."""

    candidate_seed: Whole
    seed: Whole
    hyperparameters: Mapping[str, Scalar]
    url: Annotated[str, expected(lambda text: not text or ADDRESS.fullmatch(text), "empty or https://...")]
    wall_seconds: Annotated[float, Field(ge=0, lt=MOST)] | None
    peak_memory_bytes: Annotated[int, Field(ge=0, lt=MOST)] | None
    metrics: MaybeFigures
    optimistic: MaybeFigures
    pessimistic: MaybeFigures
    chance: MaybeFigures
    asked: Annotated[Mapping[str, Method], expected({*DIRECTIONS}.issuperset, f"by {' or '.join(DIRECTIONS)}")]
    asked_again: Annotated[str, expected(AGAIN.fullmatch, "what an evaluation says of it")]
    floors: Annotated[
        Mapping[str, Mapping[str, float]],
        expected(lambda floors: all(map(_within, floors.values())), f"by name {BOUNDS}"),
    ]


@dataclass(frozen=True)
class History:
    """``history.json``: stages, each a list of records of numbers and short texts."""

    stages: Mapping[str, Sequence[Mapping[str, Scalar | None]]]


@dataclass(frozen=True)
class Agreement:
    """How well tasks agree with the ground truth."""

    ari: float
    nmi: float


@dataclass(frozen=True)
class Relation:
    """The true pattern of a relation, the task it was given to, and its share of each."""

    truth: str | None
    task: Whole
    alpha: Sequence[Annotated[float, Field(ge=0, le=1)]]


@dataclass(frozen=True)
class Graph:
    """The tasks of the relations of one graph."""

    tasks: Whole
    tasks_used: Whole
    patterns: Whole
    compared: Whole
    without_truth: Sequence[str]
    hard: Agreement | None
    soft: Agreement | None
    relations: Mapping[str, Relation]


@dataclass(frozen=True)
class Tasks:
    """``tasks.json``: for each graph how many tasks, and the task of each relation."""

    dataset: str
    model: str
    graphs: Mapping[Literal["train", "test"], Graph]


@dataclass(frozen=True)
class Read:
    """A scorer in one evaluation setting of the paper."""

    convention: str
    rows: Sequence[str]
    source: str
    differs: Sequence[str]
    protocol: str
    seed: Literal[0]
    candidates_sha256: Hash
    candidates: float
    metrics: Figures
    expected: Figures


def _complete(protocols: Mapping[str, Sequence[Read]]) -> bool:
    for protocol, read in protocols.items():
        names = [setting.convention for setting in read]
        in_order = names == [code for code in CODES if code in names] and CODES[0] in names
        if not in_order or any(setting.protocol != protocol for setting in read):
            return False
    return True


@dataclass(frozen=True)
class Conventions:
    """``conventions.json`` as `mtbench run --paper` writes it; all keys but the last are those of the result."""

    dataset: str
    dataset_version: str
    split: str
    content_sha256: str
    model: str
    seed: Whole
    protocols: Annotated[
        Mapping[Literal["dual", "entity", "relation"], Sequence[Read]],
        expected(_complete, "by protocol each evaluation setting of that protocol once, the standard first"),
    ]


@dataclass(frozen=True)
class Spent:
    """``checkpoints/cost.json``: what a run took."""

    seconds: Annotated[float, Field(ge=0, lt=MOST)]
    peak: Annotated[int, Field(ge=0, lt=MOST)] | None
    threads: Mapping[str, Sequence[Annotated[str, expected(str.isdigit, "a number")]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """Any other file of ``checkpoints``: of which run a stage of training is, how far it came, and its weights."""

    schema: Whole
    identity: Mapping[str, Scalar | None]
    weights: Annotated[str, expected(re.compile(r"[a-z0-9-]+\.safetensors").fullmatch, "a file of weights beside it")]
    epoch: Whole
    best_epoch: Whole
    best_value: float | None
    history: Sequence[Mapping[str, Scalar | None]]
    sha256: Hash


HEADER = tuple(declared.name for declared in fields(Conventions) if declared.name != "protocols")
BESIDE: Mapping[str, Any] = {HISTORY_FILE: History, TASKS_FILE: Tasks, CONVENTIONS_FILE: Conventions, COST_FILE: Spent}


def shaped(payload: object, kind: type[Kind]) -> Kind:
    """Return what was read as JSON as one of these; raises `ResultError`, without the path, for another shape."""
    return schema.convert({"stages": payload} if kind is History else payload, kind, "", ResultError)


def bounds(found: Saved) -> Iterator[str]:
    """Say which metrics lie outside their own bounds over the orders of ties."""
    best, worst = found.optimistic, found.pessimistic
    if not set(best) == set(found.metrics) == set(worst):
        yield "metrics, optimistic and pessimistic must have the same figures"
        return
    for name, value in found.metrics.items():
        low, high = (best[name], worst[name]) if name == "mr" else (worst[name], best[name])
        if not low - TOLERANCE <= value <= high + TOLERANCE:
            yield f"{name} is {value}, outside of its own bounds from {low} to {high}"


def without_slots(value: object) -> object:
    """Return a value without the names the package itself gives to empty slots, which are no markup."""
    if isinstance(value, str):
        return EMPTY_SLOT.sub("empty slot", value) if EMPTY_SLOT.fullmatch(value) else value
    if isinstance(value, list):
        return [without_slots(inner) for inner in value]
    if isinstance(value, dict):
        return {str(without_slots(key)): without_slots(inner) for key, inner in value.items()}
    return value


BASELINE_TOLERANCE = 1e-3
"""Baselines of two machines may differ by a tie that rounding broke; more than that moves the lift a table shows."""

TELLING = 8
"""Different shares of candidates above and equal that ranks must have before two models cannot have them by chance."""

NEAR = 200
"""One in so many rows of counts differs between near-copies, at most; of two honest models, four or more."""

LEAST = 1e-5
"""Seconds that no run scores a triple in, with its candidates: what is above is a matter of machines."""

CHANCE = {"epochs", "steps", "dropout", "negatives", "draws"}
"""Words of settings that make what a model learned depend on its seed."""


@dataclass(frozen=True, eq=False)
class Scored:
    """One result as it was read, with its dataset's record, its ranks and the hash of their file, None without any."""

    where: str
    saved: Saved
    record: Record
    ranks: Ranks | None
    ranks_sha256: str | None


@dataclass(frozen=True, eq=False)
class RunRead:
    """One run as it was read: its results by setting, of which the first is the headline."""

    where: str
    results: dict[Setting, Scored] = field(default_factory=dict)

    @property
    def headline(self) -> Saved:
        """What ``result.json`` of the run itself holds."""
        return next(iter(self.results.values())).saved

    @property
    def record(self) -> Record:
        """The record of its dataset."""
        return next(iter(self.results.values())).record


def may_name_targets(dataset: str) -> bool:
    """Tell whether the triples of a dataset may be passed on, by name, with the ranks of a run."""
    return catalog.record(dataset).generated


def read(directory: Path, folder: str, files: Collection[str]) -> tuple[RunRead, list[Problem]]:
    """Read the run ``folder`` of an entry, of whose ``files`` nothing else is opened; problems are of reading alone.

    A result that cannot be read is left out of what is returned.
    """
    run, problems = RunRead(f"{directory.name}/{folder}"), []
    paths = [PurePosixPath(name).relative_to(folder) for name in files if PurePosixPath(name).is_relative_to(folder)]
    if PurePosixPath(RESULT_FILE) not in paths:
        return run, [Problem("missing", run.where, f"there is no {RESULT_FILE} in it: submit the whole run")]
    for place in sorted(path.parent for path in paths if path.name == RESULT_FILE):
        where = str(PurePosixPath(run.where) / place)
        try:
            one = _result(directory / folder / place, where, has_ranks=place / RANKS_FILE in paths)
        except _UnreadableError as error:
            problems.append(Problem(error.name, f"{where}/{error.file}", error.sentence))
            continue
        # Names that are of no setting of ours are told below, with the rest of what does not hold.
        own = Setting(one.saved.protocol, one.saved.vocabulary)
        setting = SETTINGS.get(own.name, own)
        if str(place) not in (".", setting.name):
            problems.append(Problem("folder", where, f"holds {quote(setting.name)}: name the folder after it"))
        if setting in run.results:
            problems.append(Problem("duplicate", where, f"{quote(setting.name)} is there twice: keep one"))
            continue
        run.results[setting] = one
    for path in sorted(paths):
        if str(path) in RUN_FILES[2:] or (path.parent.name == CHECKPOINTS and path.suffix == ".json"):
            problems += _beside(directory / folder / path, f"{run.where}/{path}", run)
    return run, problems


@dataclass(eq=False)
class _UnreadableError(Exception):
    """Why a result is left out."""

    name: str
    sentence: str
    file: str = RESULT_FILE


def _result(folder: Path, where: str, *, has_ranks: bool) -> Scored:
    """Read one result with its ranks, which are made sure of before anything else opens them."""
    try:
        payload = read_json(folder / RESULT_FILE, SIZES[RESULT_FILE])
    except ResultError as error:
        raise _UnreadableError("json", f"{error}: evaluate again") from error
    if isinstance(payload, dict) and payload.get("schema", SCHEMA) != SCHEMA:
        raise _UnreadableError("schema", f"written with another schema than {SCHEMA}, alone read here: evaluate again")
    if wrong := unplain(payload):
        raise _UnreadableError("text", f"{wrong}; a page shows it: run again without it")
    try:
        saved = shaped(payload, Shown)
    except ResultError as error:
        raise _UnreadableError("shape", f"{error}: evaluate again") from error
    if (record := catalog.by_id(saved.dataset)) is None:
        sentence = f"{quote(saved.dataset)} is no released dataset (mtbench list): only these can be compared"
        raise _UnreadableError("dataset", sentence)
    if has_ranks is (saved.ranks_sha256 is None):
        wrong = (
            f"{RESULT_FILE} knows of no ranks: delete it"
            if has_ranks
            else (f"is missing, and {RESULT_FILE} names its hash: submit the whole run")
        )
        raise _UnreadableError("ranks" if has_ranks else "missing", wrong, RANKS_FILE)
    if not has_ranks:
        return Scored(where, saved, record, None, None)
    graph = record.graph("test")
    limits = Limits(record.part("test", "targets").triples, max(graph.entities, graph.relation_slots, 50))
    try:
        return Scored(where, saved, record, read_ranks(folder / RANKS_FILE, limits), file_hash(folder / RANKS_FILE))
    except ResultError as error:
        raise _UnreadableError("ranks", str(error), RANKS_FILE) from error


def _beside(path: Path, where: str, run: RunRead) -> Iterator[Problem]:
    """Check that a file beside a result can be read, has its shape, and holds nothing a page should not show."""
    try:
        payload = read_json(path, SIZES.get(path.name, CHECKPOINT_SIZES[path.suffix]))
    except ResultError as error:
        yield Problem("json", where, f"{error}: delete it, or run again")
        return
    if wrong := unplain(without_slots(payload) if path.name == TASKS_FILE else payload):
        yield Problem("text", where, f"{wrong}; a page shows it: delete the file, or run again")
    try:
        found = shaped(payload, BESIDE.get(path.name, Stage))
        for message in _unlike(found, run) if run.results and isinstance(found, Conventions) else ():
            yield Problem("conventions", where, f"{message}: delete it, or run again with --paper")
    except ResultError as error:
        yield Problem("shape", where, f"{error}: delete it, or run again")
    if path.name == TASKS_FILE and run.results and not run.record.generated:
        yield Problem("names", where, "names relations of data that may not be passed on: delete it")


def held(run: RunRead) -> Iterator[Problem]:
    """Check a run that could be read: figures from counts, hashes of the release, versions, completeness."""
    for one in run.results.values():
        yield from _figures(one)
        yield from _released(one)
        if one.ranks is not None and one.ranks.named and not one.record.generated:
            sentence = "names triples of data that may not be passed on: submit the run again, which leaves them out"
            yield Problem("names", f"{one.where}/{RANKS_FILE}", sentence)
        seconds, targets = one.saved.wall_seconds, one.saved.targets
        if one.saved.status == "ok" and seconds is not None and seconds <= LEAST * targets:
            sentence = f"wall_seconds is {seconds}, in which nothing scores {targets} triples: run it again"
            yield Problem("wall_seconds", one.where, sentence)
    if given := [setting.name for setting, one in run.results.items() if one.saved.asked_again == GIVEN]:
        sentence = f"{', '.join(given)}: scores were {GIVEN} in other batches: nobody knows whether they depend on them"
        yield Problem("given", run.where, sentence, remark=True)
    first = run.headline
    for setting, one in run.results.items():
        for key in ("dataset", "dataset_version", "model", "seed", "regime", "pretraining_graphs", "hyperparameters"):
            value = getattr(one.saved, key)
            if one.saved.status == first.status and value != getattr(first, key):
                sentence = f"{key} of {setting.name} is not that of the run: {quote(value)}"
                yield Problem("run", run.where, f"{sentence}; put the results of one run together")
    if first.status != "ok":
        yield Problem("unfinished", run.where, f"{first.status}: shown, not ranked", remark=True)
    elif missing := [setting.name for setting in COMPLETE if setting not in run.results]:
        sentence = f"lacks {', '.join(missing)}: shown, not ranked; run --protocol all --vocabulary all"
        yield Problem("incomplete", run.where, sentence, remark=True)


def _figures(one: Scored) -> Iterator[Problem]:
    """Compare a result with its counts."""
    saved = one.saved
    wrong = [(name, sentence) for name, _, sentence in contradictions(vars(saved), one.ranks, one.ranks_sha256)]
    if saved.status == "ok" and one.ranks is None:
        wrong.append(("ranks", "a finished run has ranks"))
    if set(saved.floors) != set(BASELINES):
        wrong.append(("baselines", f"heuristic baselines must be exactly {', '.join(BASELINES)}"))
    if saved.protocol in PROTOCOLS and saved.metrics:
        wrong += _asked(saved)
    wrong += [("bounds", sentence) for sentence in bounds(saved)]
    for name, sentence in wrong:
        yield Problem(name, one.where, f"{sentence}; evaluate again and submit that")
    if saved.ranks_sha256 is None and (saved.metrics or saved.optimistic or saved.pessimistic):
        yield Problem("metrics", one.where, "figures without ranks: only what follows from counts is shown")


def _asked(found: Saved) -> Iterator[tuple[str, str]]:
    """Say what a result lacks of how the model was asked."""
    if set(found.asked) != set(ways := setting_of(found.protocol).directions):
        yield "asked", f"asked must tell how the model was asked for {' and '.join(f'{way}s' for way in ways)}"
    if found.asked_again in ("", NOT_ASKED):
        yield "asked_again", f"scores were {NOT_ASKED} in other batches: leave out ask_again=False"


def _released(one: Scored) -> Iterator[Problem]:
    """Compare what was scored with the catalogue."""
    where, found, record, name = one.where, one.saved, one.record, one.saved.dataset
    if found.split != "test":
        yield Problem("split", where, f"scored on {quote(found.split)}: a leaderboard compares on test")
    if found.candidate_seed != 0:
        yield Problem("candidate_seed", where, f"candidates {found.candidate_seed}: run with --candidate-seed 0")
    if found.dataset_version != record.version:
        version = f"{quote(found.dataset_version)}, now {record.version}"
        message = f"dataset version {version}: shown, not ranked; run it again"
        yield Problem("outdated", where, message, remark=True)
        return
    if found.content_sha256 != record.content_sha256("test"):
        message = f"made on other data than {name} {record.version}: mtbench fetch {name}, and evaluate again"
        yield Problem("content_sha256", where, message)
    key = Setting(found.protocol, found.vocabulary).key(found.split, found.candidate_seed)
    published = record.baselines_of(key)
    for baseline, values in found.floors.items():
        for metric, value in published.get(baseline, {}).items():
            if abs(values[metric] - value) > BASELINE_TOLERANCE * max(1, value):
                message = (
                    f"heuristic baseline {quote(baseline)} of {key}: {metric} is {values[metric]}, published is {value}"
                )
                yield Problem("baselines", where, f"{message}; evaluate again")
    targets = record.part("test", "targets").triples
    if found.targets not in (0, targets):
        yield Problem("targets", where, f"{found.targets} targets, {name} has {targets}")


def fingerprint(ranks: Ranks) -> str | None:
    """Return a hash of the counts, whatever their order; None for counts that different models may well have.

    A model that ties or that finds everything has the counts of every other one of its kind: as shares of the
    candidates they are the same for all targets. The order is left out because whoever copies ranks may shuffle them.
    """
    parts = ranks.parts.values()
    shares = [some / np.maximum(counts.count, 1) for counts in parts for some in (counts.greater, counts.equal)]
    if len(counted_rows(shares)[0]) < TELLING:
        return None
    rows, numbers = counted_rows([getattr(counts, name) for counts in parts for name in ("greater", "equal", "count")])
    return hashlib.sha256(np.column_stack((rows, numbers)).astype("<i8").tobytes()).hexdigest()


def rows(ranks: Ranks) -> list[tuple[int, ...]]:
    """Return the counts of each target."""
    names = ("greater", "equal", "count")
    columns = [getattr(counts, name) for counts in ranks.parts.values() for name in names]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def drawn(found: Saved) -> list[str]:
    """Return the settings by which a run on a dataset depends on its seed; none of a model that learned nothing there.

    They are known by their names, and so a guess: that of a model of one's own may be called otherwise.
    """
    learned = f"{found.dataset}{TRAIN}" in found.pretraining_graphs or found.regime != "zero-shot"
    return sorted(
        key for key, value in found.hyperparameters.items() if learned and value and CHANCE & {*key.split("_")}
    )


def _unlike(told: Conventions, run: RunRead) -> Iterator[str]:
    """Say where ``conventions.json`` of a run is not about that run: another header, or other standard figures."""
    for key in sorted(HEADER):
        if (theirs := getattr(told, key)) != (ours := getattr(run.headline, key)):
            yield f"{key} is {quote(theirs)}, {RESULT_FILE} has {quote(ours)}"
    for protocol, read_ in told.protocols.items():
        one = run.results.get(setting_in(CODES[0], protocol))
        if one is None or not one.saved.metrics:
            continue
        found = one.saved
        standard = read_[0]
        if standard.candidates_sha256 != found.candidates_sha256:
            yield f"the standard of {protocol} was read on other candidates"
        for values in (standard.metrics, standard.expected):
            for name in METRICS:
                if not math.isclose(values[name], found.metrics[name], rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                    yield f"the standard of {protocol} has {name} {values[name]}, the result {found.metrics[name]}"
