"""Topic transfer: a model trained on each topic and scored on every other, cell by cell, as often stopped as you like.

The matrix of ISDEA over the eleven topics of WikiTopics is where the paper's scenarios come from (appendix
"Datasets Construction", its heatmaps of dual-sampling MRR). Here it is made for any model.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from mtbench.analysis.matrix import Matrix, scenario_file
from mtbench.builders import wikitopics
from mtbench.data import catalog, store
from mtbench.data.loading import load
from mtbench.data.splits import Dataset
from mtbench.errors import UnknownNameError, UsageError
from mtbench.evaluation.tasks import Task, task
from mtbench.files import atomic, pictures
from mtbench.runs import result as results
from mtbench.runs.result import Result
from mtbench.runs.runs import RESULT_FILE
from mtbench.training import costs, models
from mtbench.training.costs import Failure
from mtbench.training.models import Context, Model, Progress
from mtbench.training.run import CHECKPOINTS, Trainee, alone, folder_name, unscored

VERSIONS = {version: f"wikitopics-{version}" for version in wikitopics.VERSIONS}
PLAN_FILE, MATRIX_FILE, SCENARIO_FILE, PICTURE_FILE = "plan.json", "matrix", "scenarios.toml", "heatmap.png"
CELLS, TRAINED_FILE = "cells", "trained.json"


@dataclass(frozen=True)
class Plan:
    """Which topics to train and score on, with what model, and where the cells are kept.

    ``datasets`` maps each topic to a dataset of the catalogue or a directory made by ``build``; its train graph
    is trained on and its test graph is scored. ``version`` is that of the published topics, empty for others.
    """

    name: str
    datasets: Mapping[str, str]
    version: str = ""
    model: str = "isdea"
    protocol: str = "dual"
    vocabulary: str = "present"
    seed: int = 0
    candidate_seed: int = 0
    device: str = "auto"
    settings: Mapping[str, str] = field(default_factory=dict)
    out: Path | None = None

    def directory(self) -> Path:
        """Return ``out``, or a directory below ``transfer`` named by topics, model, settings and seed."""
        return self.out or Path("transfer") / folder_name((self.name, self.model), self.settings, self.seed)

    def identity(self) -> dict[str, object]:
        """Return what all cells of a directory have in common; topics may be added later."""
        names = ("name", "model", "protocol", "vocabulary", "seed", "candidate_seed")
        return {**{name: getattr(self, name) for name in names}, "settings": dict(self.settings)}


def topics_of(source: str, chosen: Sequence[str] = ()) -> tuple[str, str, dict[str, str]]:
    """Return a name, a version and the datasets by topic of ``v1``, ``v2``, or a directory of built datasets.

    ``chosen`` keeps some of the topics, in the order given. Raises `UnknownNameError` for a version or topic that
    does not exist and `UsageError` for fewer than two topics.
    """
    version = source.removeprefix("wikitopics-")
    folder = Path(source).expanduser()
    if version in VERSIONS:
        name = VERSIONS[version]
        found = {one.partition("/")[2]: one for one in catalog.names() if one.startswith(f"{name}/")}
    elif folder.is_dir():
        name, version = folder.resolve().name, ""
        found = {path.parent.name: str(path.parent) for path in sorted(folder.glob(f"*/{store.MANIFEST}"))}
    else:
        raise UnknownNameError("version or directory of topics", source, VERSIONS)
    for topic in chosen:
        if topic not in found:
            raise UnknownNameError("topic", topic, found)
    wanted = list(dict.fromkeys(chosen)) or list(found)
    if len(wanted) < 2:
        raise UsageError(f"{source}: a transfer matrix needs at least two topics, not {len(wanted)}")
    return name, version, {topic: found[topic] for topic in wanted}


def transfer(plan: Plan, report: Callable[[Progress], None] = models.silent) -> Matrix:
    """Train on every topic, score on every topic, and return the matrix, which is also written down.

    Each cell is a run directory of its own below ``cells/TRAIN/TEST``, complete or absent, and never scored
    again: a process that was stopped is continued by the same plan, and so is a matrix of fewer topics by one
    of more. A topic's model is trained once, from its checkpoints below ``checkpoints``; a model that keeps none
    is trained again by every process that has cells of its row left. The ``wall_seconds`` of a cell are
    those of its row so far. A cell that runs out of memory is one with the status ``oom``, and
    all of a row whose training does; delete its folder to try it again.

    After every row ``matrix.csv``, ``matrix.md``, ``matrix.json``, the proposed scenarios and, with matplotlib,
    ``heatmap.png`` are brought up to date. Raises `UsageError` for a directory of another plan, or
    one that another process is at work on.
    """
    make = models.factory(plan.model)
    directory = plan.directory()
    data = {topic: load(source) for topic, source in plan.datasets.items()}
    tasks = {
        topic: task(found.test, plan.protocol, plan.vocabulary, plan.candidate_seed, dataset_version=found.version)
        for topic, found in data.items()
    }
    with alone(directory):
        _expect_same_plan(plan, directory)
        for topic in plan.datasets:
            pending = [other for other in plan.datasets if _finished(directory, topic, other, data[other]) is None]
            if pending:
                _row(plan, make, directory, topic, pending, data, tasks, report)
                _publish(plan, directory, _matrix(plan, directory, data))
        matrix = _matrix(plan, directory, data)
        _publish(plan, directory, matrix)
    return matrix


def _row(
    plan: Plan,
    make: models.Factory,
    directory: Path,
    topic: str,
    pending: Sequence[str],
    data: Mapping[str, Dataset],
    tasks: Mapping[str, Task],
    report: Callable[[Progress], None],
) -> None:
    """Train on a topic and score the pending test topics, saving each."""
    own, folder = data[topic], directory / CHECKPOINTS / topic
    cost = costs.resumed(folder, time.perf_counter())

    def labelled(progress: Progress) -> None:
        report(replace(progress, stage=f"{topic}: {progress.stage}"))

    context = Context(own.name, plan.seed, plan.device, folder, plan.settings, cost.keeping(labelled))
    trainee = Trainee(plan.model, context, cost)

    def score(model: Model, other: str) -> Result:
        return tasks[other].run(model.scorer(data[other].test.observable()))

    try:
        _forget(folder)
        model = costs.attempt(partial(trainee.train, make, own), keep=False)
        if not isinstance(model, Failure):
            _remember(folder)
        for other in pending:
            found = model if isinstance(model, Failure) else costs.attempt(partial(score, model, other), keep=False)
            result = unscored(tasks[other], found) if isinstance(found, Failure) else found
            cell = _cell(directory, topic, other)
            shutil.rmtree(cell, ignore_errors=True)
            trainee.describe(result).save(cell)
            _forget(folder)
    finally:
        cost.keep()


def _remember(folder: Path) -> None:
    """Write down which checkpoints are those of the finished training."""
    if folder.is_dir():
        names = sorted(path.name for path in folder.iterdir())
        atomic.replace_file(folder / TRAINED_FILE, json.dumps(names).encode())


def _forget(folder: Path) -> None:
    """Remove what a model kept while it adapted to one test graph: the next must not take it for its own."""
    if not (folder / TRAINED_FILE).exists():
        return
    kept = {*json.loads((folder / TRAINED_FILE).read_text(encoding="utf-8")), TRAINED_FILE, costs.COST_FILE}
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _cell(directory: Path, topic: str, other: str) -> Path:
    return directory / CELLS / topic / other


def _finished(directory: Path, topic: str, other: str, data: Dataset) -> Result | None:
    cell = _cell(directory, topic, other)
    if not (cell / RESULT_FILE).exists():
        return None
    result = results.load(cell)
    if result.content_sha256 != data.test.content_sha256:
        raise UsageError(f"{cell} was scored on other data than {data.name} is now: name another --out, or delete it")
    return result


def _matrix(plan: Plan, directory: Path, data: Mapping[str, Dataset]) -> Matrix:
    topics = list(plan.datasets)
    values = np.full((len(topics), len(topics)), math.nan)
    statuses = {}
    model = plan.model
    for row, topic in enumerate(topics):
        for column, other in enumerate(topics):
            result = _finished(directory, topic, other, data[other])
            if result is not None and result.run.status == "ok":
                values[row, column], model = result.metrics["mrr"], result.run.model
            else:
                statuses[topic, other] = "-" if result is None else result.run.status
    name = f"{plan.name}, protocol {plan.protocol}, {plan.vocabulary} relations"
    return Matrix(name, model, topics, values, statuses)


def _publish(plan: Plan, directory: Path, matrix: Matrix) -> None:
    files = {
        "csv": matrix.table("csv"),
        "md": f"{matrix.model}, {matrix.name}\n\n{matrix.table('markdown')}",
        "json": json.dumps(matrix.to_dict(), ensure_ascii=False, indent=1),
    }
    for suffix, text in files.items():
        atomic.replace_file(directory / f"{MATRIX_FILE}.{suffix}", f"{text}\n".encode())
    if plan.version and (found := matrix.scenarios()):
        atomic.replace_file(directory / SCENARIO_FILE, scenario_file(found, plan.version).encode())
    if pictures.available():
        from mtbench.analysis.pictures import draw_matrix

        draw_matrix(matrix, directory / PICTURE_FILE)


def _expect_same_plan(plan: Plan, directory: Path) -> None:
    path, here = directory / PLAN_FILE, json.loads(json.dumps(plan.identity()))
    if not path.exists():
        if not atomic.is_free(directory):
            raise UsageError(f"{directory} holds other files: name a new directory with --out DIR")
        atomic.replace_file(path, (json.dumps(here, indent=1) + "\n").encode())
        return
    there = json.loads(path.read_text(encoding="utf-8"))
    if differing := [f"{key}: {there.get(key)} there, {here[key]} here" for key in here if there.get(key) != here[key]]:
        raise UsageError(
            f"{directory} holds the cells of another matrix ({'; '.join(differing)}): give the same options to "
            "continue it, or name another with --out DIR"
        )
