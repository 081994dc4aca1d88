"""What may be shown of a run: figures within their bounds, and the shape of the files beside ``result.json``.

What has this shape can be loaded and shown; whether it is true is for `leaderboard.entries.run_checks` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from leaderboard.entries.naming import is_address
from mtbench.errors import ResultError
from mtbench.evaluation.tasks import GIVEN, NOT_ASKED
from mtbench.files import schema
from mtbench.names import DIRECTIONS, METRICS
from mtbench.ranking.lists import GIVEN_SCORES
from mtbench.ranking.scorers import BETWEEN, INVERSES, METHODS, SCORE
from mtbench.runs.directory import CONVENTIONS_FILE, COST_FILE, HISTORY_FILE, TASKS_FILE
from mtbench.runs.result import TOLERANCE
from mtbench.runs.saved import Hash, Saved, Whole, expected
from mtbench.settings.table import CODES

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


def _methods(text: str) -> bool:
    return not {*text.replace("), ", ");").split(";")} - {*WAYS}


Method = Annotated[str, expected(_methods, f"some of {'; '.join(WAYS)}")]
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
    url: Annotated[str, expected(lambda text: not text or is_address(text), "empty or https://...")]
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
    for protocol, found in protocols.items():
        names = [one.convention for one in found]
        if (
            names != [code for code in CODES if code in names]
            or CODES[0] not in names
            or any(one.protocol != protocol for one in found)
        ):
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
    try:
        return schema.convert({"stages": payload} if kind is History else payload, kind, "", ResultError)
    except ResultError as error:
        raise ResultError(str(error).removeprefix(": ").strip()) from error


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
