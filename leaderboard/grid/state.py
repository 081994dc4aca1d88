"""The state of a job: its run directory, the attempts in ``grid.jsonl``, and how long it will take."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Literal, TypeAlias

import numpy as np

from leaderboard.grid.jobs import Job, Place
from mtbench.analysis.groups import best_baselines
from mtbench.analysis.matrix import Matrix, scenario_file
from mtbench.analysis.pictures import draw_matrix
from mtbench.builders import wikitopics
from mtbench.errors import DatasetError, ResultError, UsageError
from mtbench.files import pictures, schema
from mtbench.files.atomic import is_free, replace_file, storage_errors
from mtbench.files.reading import opened
from mtbench.names import METRICS
from mtbench.runs import files
from mtbench.runs.directory import Run
from mtbench.runs.files import RESULT_FILE
from mtbench.runs.origin import Status
from mtbench.runs.result import Result, load
from mtbench.settings.setting import Setting
from mtbench.settings.table import SAMPLED


def estimates(jobs: Sequence[Job], directory: Path) -> list[float | None]:
    """Return how many seconds each job will take: the mean of its model's finished runs on its dataset, else on any."""
    took = defaultdict[tuple[str, str], list[float]](list)
    for path in directory.glob(f"*/*/seed*/{RESULT_FILE}"):
        try:
            payload = files.read_payload(path)
        except ResultError:
            # An estimate does without it; the error is raised where this run is used.
            continue
        seconds = payload.get("wall_seconds")
        if payload.get("status") == "ok" and isinstance(seconds, int | float):
            for folder in (path.parts[-3], ""):
                took[path.parts[-4], folder].append(float(seconds))
    alike = [took.get((job.label, job.folder)) or took.get((job.label, "")) for job in jobs]
    return [fmean(seconds) if seconds else None for seconds in alike]


LOG_FILE = "grid.jsonl"


@dataclass(frozen=True)
class Line:
    """One attempt: its job, when it began (UTC), how many seconds it took, and how it ended.

    ``dataset`` is the name of the dataset's folder, ``attempt`` counts from 1. ``status`` is that of the result, or
    ``stopped`` if the budget ended it, or ``blocked`` for an error that is not the model's.
    """

    label: str
    dataset: str
    seed: int
    attempt: int
    started: str
    seconds: float
    status: str
    error: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of its job."""
        return self.label, self.dataset, self.seed


def append(directory: Path, line: Line) -> None:
    """Add a line in one write, so that processes that share the file never mix theirs.

    A line that a killed process left unfinished is ended first. Raises `MtbenchError` for a full or read-only disk.
    """
    path = directory / LOG_FILE
    with storage_errors(path):
        directory.mkdir(parents=True, exist_ok=True)
        # Ended with a newline, a torn line is one that `read` leaves out, and this one stands by itself.
        torn = path.exists() and _read(path)[-1:] not in (b"", b"\n")
        text = json.dumps(asdict(line), ensure_ascii=False)
        with path.open("ab", buffering=0) as stream:
            stream.write(("\n" * torn + text + "\n").encode())
            os.fsync(stream)


def read(directory: Path) -> Sequence[Line]:
    """Return all attempts in order, without lines that a killed process left unfinished."""
    path = directory / LOG_FILE
    if not path.exists():
        return []
    texts = _read(path).decode(errors="replace").splitlines()
    return [line for line in map(_parse, texts) if line is not None]


def _read(path: Path) -> bytes:
    with opened(path) as stream:
        return stream.read()


def _parse(text: str) -> Line | None:
    known = {declared.name for declared in fields(Line)}
    try:
        values = {name: value for name, value in json.loads(text).items() if name in known}
        return schema.convert(values, Line, LOG_FILE)
    except (ValueError, AttributeError, DatasetError):
        return None


State: TypeAlias = Literal["new", "resumes", "completes", "retries", "done", "oom", "failed"]
PENDING: Sequence[State] = ("new", "resumes", "completes", "retries")
ATTEMPTS = 2
"""How often a failing run is tried, the first time included."""


@dataclass(frozen=True)
class Look:
    """The state of a job, how often it was attempted and failed, and the error of a run that did not finish."""

    job: Job
    state: State
    attempts: int
    failures: int
    error: str = ""


def look(job: Job, lines: Sequence[Line], *, retry_failed: bool = False) -> Look:
    """Return the state of a job, given its lines of the log.

    A finished run is verified; one that lacks tasks is completed, one that ran out of memory is finished, too. A failed
    one is tried again until the log has `ATTEMPTS` failures of it, or with ``retry_failed``. Raises `UsageError`, which
    names what differs, for a run with other options, and `ResultError` for one that does not hold.
    """
    failures = sum(line.status == "failed" for line in lines)
    results = kept(job)
    state: State
    if results is None:
        # The last failure leaves a run: if there is none, somebody removed it to begin again.
        failures = failures if failures < ATTEMPTS else 0
        state = "resumes" if job.directory.partial.path.exists() else "new"
        return Look(job, state, len(lines), failures)
    if differing := list(_differences(job, results)):
        raise UsageError(
            f"{job.directory} is a run of other options ({'; '.join(differing)}): give the same options to go on, "
            "name another --out DIR, or remove that run to do it again"
        )
    match status(results):
        case "ok":
            state = "completes" if lacks(job, results) else "done"
        case "oom":
            state = "oom"
        case "failed":
            failures = max(failures, 1)  # the result is proof of a failure, even if the log has lost its line
            state = "retries" if failures < ATTEMPTS or retry_failed else "failed"
    error = results[0].warnings[0] if state not in ("done", "completes") and results[0].warnings else ""
    return Look(job, state, len(lines), failures, error)


def kept(job: Job) -> Sequence[Result] | None:
    """Return the results in a job's directory, the headline first, None without a run.

    Raises `ResultError` for a run that does not hold, and `UsageError` for a directory of something else.
    """
    directory = job.directory
    if is_free(directory.path):
        return None
    if not directory.exists:
        raise UsageError(f"{directory} holds no run ({RESULT_FILE} is missing): remove it, or name another --out DIR")
    if problems := directory.verify():
        raise ResultError(f"{problems[0].message}; remove {directory} to run it again")
    return list(directory.read().results.values())


def lacks(job: Job, results: Sequence[Result]) -> bool:
    """Tell whether a run that ended well was not scored in all that is asked for now: the same model completes it."""
    kept_run = Run(job.directory, {result.setting: result for result in results})
    return status(results) == "ok" and not kept_run.has(job.plan.tasks, paper=job.plan.paper)


def status(results: Sequence[Result]) -> Status:
    """Return the status of a run with several results: the worst of them."""
    statuses: list[Status] = [result.run.status for result in results]
    return max(statuses, key=("ok", "oom", "failed").index)


@dataclass(frozen=True)
class OverGroup:
    """How a model of a grid does on a group in one setting: its values by metric, then dataset, each over all seeds.

    ``floors`` is the MRR of the best heuristic baseline by dataset; ``lacking`` are the datasets without a finished run
    of every seed, which the rest is without.
    """

    label: str
    setting: Setting
    values: Mapping[str, Mapping[str, float]]
    floors: Mapping[str, float]
    lacking: Sequence[str]


def over_group(jobs: Sequence[Job]) -> list[OverGroup]:
    """Return how every model does on the datasets that the jobs are scored on, by setting, as far as runs are there.

    A model that learned from several training datasets is one for each of them.
    """
    by_model = defaultdict[str, dict[str, list[Job]]](dict)
    for job in jobs:
        label = f"{job.label} of {job.train.name}" if job.transfers else job.label
        by_model[label].setdefault(job.test.name, []).append(job)
    rows = []
    for label, datasets in by_model.items():
        finished = {name: runs for name, own in datasets.items() if len(runs := _finished(own)) == len(own)}
        for setting in jobs[0].plan.tasks:
            scored = {name: [run[setting] for run in runs] for name, runs in finished.items()}
            values = {
                metric: {name: fmean(result.metrics[metric] for result in results) for name, results in scored.items()}
                for metric in METRICS
            }
            floors = best_baselines([results[0] for results in scored.values()])
            rows.append(OverGroup(label, setting, values, floors, [name for name in datasets if name not in finished]))
    return rows


def _finished(jobs: Sequence[Job]) -> list[Mapping[Setting, Result]]:
    """Return the results of the jobs that have a run without a failure."""
    runs = [job.directory.read().results for job in jobs if job.directory.exists]
    return [results for results in runs if status(list(results.values())) == "ok"]


def matrices(jobs: Sequence[Job]) -> dict[str, Matrix]:
    """Return the matrix of each model of a grid with training datasets, by label.

    A cell is the mean over seeds of the MRR of the first task; a cell without a value has a status.
    """
    trained, tested = (
        list(dict.fromkeys(places)) for places in zip(*((job.train, job.test) for job in jobs), strict=True)
    )
    family, topics = _topics([*trained, *tested])
    rows, columns = [topics[place] for place in trained], [topics[place] for place in tested]
    made = {}
    for label in dict.fromkeys(job.label for job in jobs):
        values, statuses = np.full((len(rows), len(columns)), math.nan), {}
        scored = defaultdict[tuple[str, str], list[Result]](list)
        for job in jobs:
            if job.label == label and job.directory.exists:
                scored[topics[job.train], topics[job.test]].append(load(job.directory.path))
        for (row, train), (column, test) in product(enumerate(rows), enumerate(columns)):
            cell = scored[train, test]
            if reached := [result.metrics["mrr"] for result in cell if result.run.status == "ok"]:
                values[row, column] = fmean(reached)
            else:
                statuses[train, test] = cell[0].run.status if cell else "-"
        plan = next(job.plan for job in jobs if job.label == label)
        first = plan.tasks[0]
        seeds = sorted({job.plan.seed for job in jobs})
        mean = f", mean of seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else ""
        name = f"{family}, protocol {first.protocol}, {first.vocabulary} relations{mean}"
        model = next((result.run.model for cell in scored.values() for result in cell), plan.model)
        made[label] = Matrix(name, model, rows, values, statuses, [] if rows == columns else columns)
    return made


def publish(out: Path, jobs: Sequence[Job], made: Mapping[str, Matrix]) -> list[Path]:
    """Write the matrix of every model beside its runs, with its plan, its scenarios and a picture; return the paths."""
    written = []
    for label, matrix in made.items():
        plan = next(job.plan for job in jobs if job.label == label)
        asked = {"model": plan.model, "seed": plan.seed, "candidate_seed": plan.candidate_seed}
        files = {
            "matrix.csv": matrix.table("csv"),
            "matrix.md": f"{matrix.model}, {matrix.name}\n\n{matrix.table('markdown')}",
            "matrix.json": json.dumps(matrix.to_dict(), ensure_ascii=False, indent=1),
            "plan.json": json.dumps(asked | {"settings": dict(plan.settings)}, indent=1),
        }
        version = matrix.name.partition(",")[0].removeprefix("wikitopics-")
        if version in wikitopics.VERSIONS and (scenarios := matrix.scenarios()):
            files["scenarios.toml"] = scenario_file(scenarios, version).rstrip()
        for name, text in files.items():
            replace_file(out / label / name, f"{text}\n".encode())
        if pictures.available():
            draw_matrix(matrix, out / label / "heatmap.png")
            files["heatmap.png"] = ""
        written += [out / label / name for name in files]
    return written


def _topics(places: Sequence[Place]) -> tuple[str, dict[Place, str]]:
    """Return the common part of the names of a family's datasets, and the rest of each; else their whole names."""
    names = {place: "/".join(Path(place.source).parts[-2:]) for place in places}
    families = {name.rpartition("/")[0] for name in names.values()}
    if len(families) > 1 or not families.copy().pop():
        return "datasets", names
    return families.pop(), {place: name.rpartition("/")[2] for place, name in names.items()}


def _differences(job: Job, results: Sequence[Result]) -> Iterator[str]:
    """Give the options in which a finished run differs from the plan, by its results and the command they record."""
    plan, headline = job.plan, results[0]
    asked: dict[str, tuple[object, object]] = {"seed": (headline.run.seed, plan.seed)}
    asked |= {"dataset": (f"{headline.dataset} {headline.dataset_version}", f"{job.test.name} {job.test.version}")}
    if words := shlex.split(headline.run.environment.get("command", "")):
        settings = [text.partition("=") for option, text in pairwise(words) if option == "--set"]
        there = {key: value for key, _, value in settings}
        asked["model"] = (words[2], plan.model)
        for key in sorted({*there, *plan.settings}):
            # A recorded command hides the value of a setting that is private, such as a folder.
            if there.get(key) != "...":
                asked[key] = (there.get(key, "the default"), plan.settings.get(key, "the default"))
    else:
        recorded = headline.run.hyperparameters
        asked |= {key: (recorded[key], text) for key, text in plan.settings.items() if key in recorded}
        asked = {key: pair for key, pair in asked.items() if key not in plan.settings or not _alike(*pair)}
    if drawn := [result for result in results if result.protocol in SAMPLED]:
        asked["candidate seed"] = (drawn[0].candidate_seed, plan.candidate_seed)
    if len(headline.ranks) and headline.ranks.named != plan.with_names:
        asked["names of the test triples"] = ("yes", "no") if headline.ranks.named else ("no", "yes")
    for name, (there_value, here_value) in asked.items():
        if there_value != here_value:
            yield f"{name}: {there_value} there, {here_value} here"


def _alike(recorded: object, text: object) -> bool:
    """Tell whether a recorded hyper-parameter equals the value of a text: 0.001 and 1e-3 are the same."""
    try:
        return str(recorded) == text or recorded == json.loads(str(text).lower())
    except ValueError:
        return False
