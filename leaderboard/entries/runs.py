"""One run of an entry: read once, then checked, first its shape and then its content.

A run of the right shape can be loaded and shown: its files can be read, and figures lie within their bounds. Its
content holds if figures follow from the counts, and hashes are those of the release.
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
from mtbench.data.catalog import Parameter, Record
from mtbench.data.ragged import counted_rows
from mtbench.errors import ResultError
from mtbench.evaluation.tasks import GIVEN, NOT_ASKED
from mtbench.files import schema
from mtbench.files.hashing import file_hash
from mtbench.files.reading import read_json
from mtbench.heuristics.figures import BASELINES
from mtbench.names import DIRECTIONS, METRICS, IntArray
from mtbench.ranking.lists import GIVEN_SCORES
from mtbench.ranking.ranks import Ranks
from mtbench.ranking.scorers import BETWEEN, INVERSES, METHODS, SCORE
from mtbench.runs.directory import CHECKPOINTS, CONVENTIONS_FILE, COST_FILE, HISTORY_FILE, TASKS_FILE, missing_of
from mtbench.runs.files import RANKS_FILE, RESULT_FILE, SCHEMA
from mtbench.runs.result import TOLERANCE, contradictions
from mtbench.runs.saved import Hash, Limits, Saved, Whole, expected, read_ranks
from mtbench.settings.setting import Setting
from mtbench.settings.table import CODES, PROTOCOLS, SETTINGS, setting_in, setting_of

Kind = TypeVar("Kind")
EMPTY_SLOT = re.compile(r"<empty slot [0-9]+>( \(inverse\))?")
"""The package's name of a relation id that has none: the only text with angle brackets that it writes itself."""

BOUNDS = f"{', '.join(METRICS)}, MR from 1 and the others from 0 to 1"


def _within(values: Mapping[str, float]) -> bool:
    """Tell whether figures are possible: every metric is there and within its bounds."""
    shares = [number for name, number in values.items() if name != "mr"]
    held = set(values) == set(METRICS) and values["mr"] >= 1 - TOLERANCE
    return held and all(-TOLERANCE <= share <= 1 + TOLERANCE for share in shares)


WAYS = (SCORE, INVERSES, BETWEEN, *METHODS.values(), GIVEN_SCORES)
AGAIN = re.compile(rf"|{NOT_ASKED}|{GIVEN}|the same|the same within rounding: [0-9.]{{1,4}}e[+-][0-9]{{2,3}} apart")
"""What an evaluation records of how a model was asked, and of the result when it was asked again."""

Method = Annotated[
    str,
    expected(lambda text: {*WAYS}.issuperset(text.replace("), ", ");").split(";")), f"some of {'; '.join(WAYS)}"),
]
Scalar = Annotated[Any, expected(lambda value: isinstance(value, str | int | float), "a text, a number, true or false")]
MOST = 10**15
"""Seconds and bytes above this were not measured."""

Figures = Annotated[Mapping[str, float], expected(_within, BOUNDS)]
MaybeFigures = Annotated[Mapping[str, float], expected(lambda found: not found or _within(found), BOUNDS)]


@dataclass(frozen=True)
class Shown(Saved):
    """``result.json`` of an entry: its figures are possible, or none, and a page can show all the rest."""

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
    """The agreement of tasks with the ground truth."""

    ari: float
    nmi: float


@dataclass(frozen=True)
class Relation:
    """The true pattern of a relation, its task, and its share of each task."""

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
    """``tasks.json``: the number of tasks and the task of each relation, by graph."""

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
    """``checkpoints/cost.json``: the seconds, bytes and threads of a run."""

    seconds: Annotated[float, Field(ge=0, lt=MOST)]
    peak: Annotated[int, Field(ge=0, lt=MOST)] | None
    threads: Mapping[str, Sequence[Annotated[str, expected(str.isdigit, "a number")]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """Any other JSON file of ``checkpoints``: the run of a stage of training, how far it came, and its weights."""

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
    """Return JSON as an object of this class; raises `ResultError`, without the path, for JSON of another shape."""
    return schema.convert({"stages": payload} if kind is History else payload, kind, "", ResultError)


def bounds(saved: Saved) -> Iterator[str]:
    """Say which metrics lie outside their optimistic and pessimistic values."""
    best, worst = saved.optimistic, saved.pessimistic
    if not set(best) == set(saved.metrics) == set(worst):
        yield "metrics, optimistic and pessimistic must have the same figures"
        return
    for name, value in saved.metrics.items():
        low, high = (best[name], worst[name]) if name == "mr" else (worst[name], best[name])
        if not low - TOLERANCE <= value <= high + TOLERANCE:
            yield f"{name} is {value}, outside of its own bounds from {low} to {high}"


def without_slots(value: object) -> object:
    """Return a value without the brackets in the package's own names of empty slots, which are no markup."""
    if isinstance(value, str):
        return EMPTY_SLOT.sub("empty slot", value) if EMPTY_SLOT.fullmatch(value) else value
    if isinstance(value, list):
        return [without_slots(inner) for inner in value]
    if isinstance(value, dict):
        return {str(without_slots(key)): without_slots(inner) for key, inner in value.items()}
    return value


BASELINE_TOLERANCE = 1e-3
"""Baselines may differ between machines by a tie that rounding broke; more would move the lift in a table."""

TELLING = 8
"""The fewest distinct pairs of shares (candidates above, candidates equal) that two models do not have by chance."""

NEAR = 200
"""Near-copies differ in at most one of so many rows of counts; two honest models in four or more."""

LEAST = 1e-5
"""Fewer seconds per target with its candidates than any machine needs."""

CHANCE = {"epochs", "steps", "dropout", "negatives", "draws"}
"""Words in names of settings that make what a model learns depend on its seed."""


@dataclass(frozen=True, eq=False)
class Scored:
    """One result as it was read, the record of its dataset, its ranks and their file's hash, None without ranks."""

    where: str
    saved: Saved
    record: Record
    ranks: Ranks | None
    ranks_sha256: str | None


@dataclass(frozen=True, eq=False)
class RunRead:
    """One run as it was read: its results by setting, the headline first."""

    where: str
    results: dict[Setting, Scored] = field(default_factory=dict)

    @property
    def headline(self) -> Saved:
        """The first result that finished, or the first: one that did not may know nothing of the model."""
        saved = [scored.saved for scored in self.results.values()]
        return next((one for one in saved if one.status == "ok"), saved[0])

    @property
    def record(self) -> Record:
        """The record of its dataset."""
        return next(iter(self.results.values())).record


def may_name_targets(dataset: str) -> bool:
    """Tell whether the names of a dataset's triples may be published with the ranks of a run."""
    return catalog.record(dataset).generated


def read(directory: Path, folder: str, files: Collection[str]) -> tuple[RunRead, list[Problem]]:
    """Read the run in ``folder`` of an entry, opening none but these ``files``, and return it with problems of reading.

    A result that cannot be read is left out.
    """
    run, problems, start = RunRead(f"{directory.name}/{folder}"), [], f"{folder}/"
    paths = [PurePosixPath(name.removeprefix(start)) for name in files if name.startswith(start)]
    if PurePosixPath(RESULT_FILE) not in paths:
        return run, [Problem("missing", run.where, f"there is no {RESULT_FILE} in it: submit the whole run")]
    for place in sorted(path.parent for path in paths if path.name == RESULT_FILE):
        where = str(PurePosixPath(run.where) / place)
        try:
            scored = _result(directory / folder / place, where, has_ranks=place / RANKS_FILE in paths)
        except _UnreadableError as error:
            problems.append(Problem(error.name, f"{where}/{error.file}", error.sentence))
            continue
        # A protocol or vocabulary that is not ours is no problem of reading: `held` reports it.
        own = Setting(scored.saved.protocol, scored.saved.vocabulary)
        setting = SETTINGS.get(own.name, own)
        if str(place) not in (".", setting.name):
            problems.append(Problem("folder", where, f"holds {quote(setting.name)}: name the folder after it"))
        if setting in run.results:
            problems.append(Problem("duplicate", where, f"{quote(setting.name)} is there twice: keep one"))
            continue
        run.results[setting] = scored
    for path in sorted(paths):
        if str(path) in RUN_FILES[2:] or (path.parent.name == CHECKPOINTS and path.suffix == ".json"):
            problems += _beside(directory / folder / path, f"{run.where}/{path}", run)
    return run, problems


@dataclass(eq=False)
class _UnreadableError(Exception):
    """The reason why a result cannot be read."""

    name: str
    sentence: str
    file: str = RESULT_FILE


def _result(folder: Path, where: str, *, has_ranks: bool) -> Scored:
    """Read one result with its ranks, within the limits that the catalogue sets to their size."""
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
    # Ranks have a row per target and count at most all entities, all relation slots or 50 drawn candidates.
    graph = record.graph("test")
    limits = Limits(record.part("test", "targets").triples, max(graph.entities, graph.relation_slots, 50))
    try:
        return Scored(where, saved, record, read_ranks(folder / RANKS_FILE, limits), file_hash(folder / RANKS_FILE))
    except ResultError as error:
        raise _UnreadableError("ranks", str(error), RANKS_FILE) from error


def _beside(path: Path, where: str, run: RunRead) -> Iterator[Problem]:
    """Check that a file beside a result can be read, has its shape, and only holds what a page may show."""
    try:
        payload = read_json(path, SIZES.get(path.name, CHECKPOINT_SIZES[path.suffix]))
    except ResultError as error:
        yield Problem("json", where, f"{error}: delete it, or run again")
        return
    if wrong := unplain(without_slots(payload) if path.name == TASKS_FILE else payload):
        yield Problem("text", where, f"{wrong}; a page shows it: delete the file, or run again")
    try:
        content = shaped(payload, BESIDE.get(path.name, Stage))
        for message in _unlike(content, run) if run.results and isinstance(content, Conventions) else ():
            yield Problem("conventions", where, f"{message}: delete it, or run again with --paper")
    except ResultError as error:
        yield Problem("shape", where, f"{error}: delete it, or run again")
    if path.name == TASKS_FILE and run.results and not run.record.generated:
        yield Problem("names", where, "names relations of data that may not be passed on: delete it")


def in_sight(hyperparameters: Mapping[str, Parameter]) -> bool:
    """Tell whether a run trained with what is asked in sight, a leak: it explains figures, and never leads."""
    return hyperparameters.get("recipe") == "as-run" or hyperparameters.get("mask") == "none"


def held(run: RunRead) -> Iterator[Problem]:
    """Check a run that was read: figures follow from counts, hashes are the release's, versions, completeness."""
    for scored in run.results.values():
        yield from _figures(scored)
        yield from _released(scored)
        if scored.ranks is not None and scored.ranks.named and not scored.record.generated:
            sentence = "names triples of data that may not be passed on: submit the run again, which leaves them out"
            yield Problem("names", f"{scored.where}/{RANKS_FILE}", sentence)
        seconds, targets = scored.saved.wall_seconds, scored.saved.targets
        if scored.saved.status == "ok" and seconds is not None and seconds <= LEAST * targets:
            sentence = f"wall_seconds is {seconds}, in which nothing scores {targets} triples: run it again"
            yield Problem("wall_seconds", scored.where, sentence)
    if names := [setting.name for setting, scored in run.results.items() if scored.saved.asked_again == GIVEN]:
        sentence = f"{', '.join(names)}: scores were {GIVEN} in other batches: nobody knows whether they depend on them"
        yield Problem("given", run.where, sentence, remark=True)
    first = run.headline
    if in_sight(first.hyperparameters):
        sentence = "recipe=as-run or mask=none trains with what is asked in sight: it explains figures, and never ranks"
        yield Problem("as_run", run.where, sentence)
    for setting, scored in run.results.items():
        for key in ("dataset", "dataset_version", "model", "seed", "regime", "pretraining_graphs", "hyperparameters"):
            value = getattr(scored.saved, key)
            # What did not finish may know no more of the model than what was asked for.
            known = scored.saved.status == first.status or key in ("dataset", "dataset_version", "seed")
            if known and value != getattr(first, key):
                sentence = f"{key} of {setting.name} is not that of the run: {quote(value)}"
                yield Problem("run", run.where, f"{sentence}; put the results of one run together")
    own = next(iter(run.results.values())).saved
    if own.status != "ok":
        yield Problem("unfinished", run.where, f"{own.status}: shown, not ranked", remark=True)
    elif missing := missing_of([setting for setting, scored in run.results.items() if scored.saved.status == "ok"]):
        lacking = ", ".join(setting.name for setting in missing)
        sentence = f"lacks {lacking}: shown, not ranked; run --protocol all --vocabulary all"
        yield Problem("incomplete", run.where, sentence, remark=True)


def _figures(scored: Scored) -> Iterator[Problem]:
    """Compare a result with its counts."""
    saved = scored.saved
    wrong = [(name, sentence) for name, _, sentence in contradictions(vars(saved), scored.ranks, scored.ranks_sha256)]
    if saved.status == "ok" and scored.ranks is None:
        wrong.append(("ranks", "a finished run has ranks"))
    if set(saved.floors) != set(BASELINES):
        wrong.append(("baselines", f"heuristic baselines must be exactly {', '.join(BASELINES)}"))
    if saved.protocol in PROTOCOLS and saved.metrics:
        wrong += _asked(saved)
    wrong += [("bounds", sentence) for sentence in bounds(saved)]
    for name, sentence in wrong:
        yield Problem(name, scored.where, f"{sentence}; evaluate again and submit that")
    if saved.ranks_sha256 is None and (saved.metrics or saved.optimistic or saved.pessimistic):
        yield Problem("metrics", scored.where, "figures without ranks: only what follows from counts is shown")


def _asked(saved: Saved) -> Iterator[tuple[str, str]]:
    """Say what a result does not record of how the model was asked."""
    if set(saved.asked) != set(ways := setting_of(saved.protocol).directions):
        yield "asked", f"asked must tell how the model was asked for {' and '.join(f'{way}s' for way in ways)}"
    if saved.asked_again in ("", NOT_ASKED):
        yield "asked_again", f"scores were {NOT_ASKED} in other batches: leave out ask_again=False"


def _released(scored: Scored) -> Iterator[Problem]:
    """Compare what was scored with the catalogue."""
    where, saved, record, name = scored.where, scored.saved, scored.record, scored.saved.dataset
    if saved.split != "test":
        yield Problem("split", where, f"scored on {quote(saved.split)}: a leaderboard compares on test")
    if saved.candidate_seed != 0:
        yield Problem("candidate_seed", where, f"candidates {saved.candidate_seed}: run with --candidate-seed 0")
    if saved.dataset_version != record.version:
        version = f"{quote(saved.dataset_version)}, now {record.version}"
        message = f"dataset version {version}: shown, not ranked; run it again"
        yield Problem("outdated", where, message, remark=True)
        return
    if saved.content_sha256 != record.content_sha256("test"):
        message = f"made on other data than {name} {record.version}: mtbench fetch {name}, and evaluate again"
        yield Problem("content_sha256", where, message)
    key = Setting(saved.protocol, saved.vocabulary).key(saved.split, saved.candidate_seed)
    published = record.baselines_of(key)
    for baseline, values in saved.floors.items():
        for metric, value in published.get(baseline, {}).items():
            if abs(values[metric] - value) > BASELINE_TOLERANCE * max(1, value):
                message = (
                    f"heuristic baseline {quote(baseline)} of {key}: {metric} is {values[metric]}, published is {value}"
                )
                yield Problem("baselines", where, f"{message}; evaluate again")
    targets = record.part("test", "targets").triples
    if saved.targets not in (0, targets):
        yield Problem("targets", where, f"{saved.targets} targets, {name} has {targets}")


def fingerprint(ranks: Ranks) -> str | None:
    """Return a hash of the counts in any order; None for counts that different models may have by chance.

    A model that always ties, or is always right, has the same shares of candidates above and equal for all targets, and
    so has every other model like it. The order does not count, because a copy may be shuffled.
    """
    parts = ranks.parts.values()
    shares = [part / np.maximum(counts.count, 1) for counts in parts for part in (counts.greater, counts.equal)]
    if len(counted_rows(shares)[0]) < TELLING:
        return None
    return _in_any_order([getattr(counts, name) for counts in parts for name in ("greater", "equal", "count")])


def numbers(ranks: Ranks) -> str:
    """Return a hash of how many candidates the targets have, in any order: the same for all models on a task."""
    return _in_any_order([counts.count for counts in ranks.parts.values()])


def _in_any_order(columns: Sequence[IntArray]) -> str:
    rows, times = counted_rows(columns)
    return hashlib.sha256(np.column_stack((rows, times)).astype("<i8").tobytes()).hexdigest()


def rows(ranks: Ranks) -> list[tuple[int, ...]]:
    """Return the counts (above, equal, all) of each target over all parts."""
    names = ("greater", "equal", "count")
    columns = [getattr(counts, name) for counts in ranks.parts.values() for name in names]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def drawn(saved: Saved) -> list[str]:
    """Return the settings that make a run depend on its seed; none for a model that learned nothing on the dataset.

    This is a guess by their names: a user's own model may call them otherwise.
    """
    # A model with fixed weights gives the same ranks with every seed, whatever its settings are called.
    learned = f"{saved.dataset}{TRAIN}" in saved.pretraining_graphs or saved.regime != "zero-shot"
    return sorted(
        key for key, value in saved.hyperparameters.items() if learned and value and CHANCE & {*key.split("_")}
    )


def _unlike(conventions: Conventions, run: RunRead) -> Iterator[str]:
    """Say where ``conventions.json`` does not belong to its run: another header, or other standard figures."""
    for key in sorted(HEADER):
        if (theirs := getattr(conventions, key)) != (ours := getattr(run.headline, key)):
            yield f"{key} is {quote(theirs)}, {RESULT_FILE} has {quote(ours)}"
    for protocol, read_ in conventions.protocols.items():
        scored = run.results.get(setting_in(CODES[0], protocol))
        if scored is None or not scored.saved.metrics:
            continue
        saved = scored.saved
        standard = read_[0]
        if standard.candidates_sha256 != saved.candidates_sha256:
            yield f"the standard of {protocol} was read on other candidates"
        for values in (standard.metrics, standard.expected):
            for name in METRICS:
                if not math.isclose(values[name], saved.metrics[name], rel_tol=TOLERANCE, abs_tol=TOLERANCE):
                    yield f"the standard of {protocol} has {name} {values[name]}, the result {saved.metrics[name]}"
