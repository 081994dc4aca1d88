"""One run: load a dataset, train a model on it, score it with the standard evaluator, keep all of it."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mtbench.data.loading import load
from mtbench.data.splits import Dataset
from mtbench.errors import MtbenchError, UsageError
from mtbench.evaluation.paper import read_all
from mtbench.evaluation.tasks import Task
from mtbench.files.atomic import replace_file
from mtbench.names import Scorer
from mtbench.runs.directory import CONVENTIONS_FILE, FAILURE_FILE, RunDirectory
from mtbench.runs.origin import RunInfo
from mtbench.runs.result import Result
from mtbench.settings.setting import Setting, seed_of
from mtbench.settings.table import HEADLINE, MAIN, settings_of
from mtbench.training import costs, learned, models
from mtbench.training.costs import Cost
from mtbench.training.models import Context, Model, ModelInfo, Progress


@dataclass(frozen=True)
class Plan:
    """What to run: a model by name or ``package.module:factory``, a dataset, and the tasks to score it on.

    ``train`` names another dataset, whose training graph the model learns from before it is scored on this one. The
    first protocol and vocabulary are the headline, whose result lies in the run directory itself;
    every further combination lies below it in ``PROTOCOL-VOCABULARY``. ``all`` stands for several protocols
    or both vocabularies. ``candidate_seed`` numbers the frozen candidates, ``seed`` the model's own randomness.
    ``paper`` also scores the model in every evaluation setting of the paper's tables, for each protocol, into
    ``conventions.json`` in the run directory. ``with_names`` says whether the ranks name their triples. What a
    model tells of its training and its tasks is always kept there (`mtbench.training.learned`).
    ``start`` is the directory of a finished run of the same options: its
    checkpoints take the place of training, so that further tasks are only scored.
    """

    model: str
    dataset: str
    train: str = ""
    protocols: Sequence[str] = (HEADLINE.protocol,)
    vocabularies: Sequence[str] = (HEADLINE.vocabulary,)
    seed: int = 0
    candidate_seed: int = 0
    device: str = "auto"
    settings: Mapping[str, str] = field(default_factory=dict)
    out: Path | None = None
    restart: bool = False
    force: bool = False
    paper: bool = False
    with_names: bool = True
    start: Path | None = None

    def __post_init__(self) -> None:
        for name in ("seed", "candidate_seed"):
            seed_of(getattr(self, name), name)

    def tasks(self) -> tuple[Setting, ...]:
        """Return the protocols and vocabularies to score, the headline first."""
        return settings_of(self.protocols, self.vocabularies)

    def directory(self) -> RunDirectory:
        """Return the run directory: ``out``, or one below ``runs`` named by model, dataset, settings and seed."""
        given = Path(self.dataset).expanduser()
        dataset = given.resolve().name if given.is_dir() else self.dataset
        return RunDirectory.to_make(
            self.out or Path("runs") / folder_name((self.model, dataset), self.settings, self.seed)
        )


def folder_name(parts: Sequence[str], settings: Mapping[str, str], seed: int) -> str:
    """Return what a directory of runs is called: names, settings and seed, less what a path should not hold."""
    words = [*parts, *(f"{key}={value}" for key, value in sorted(settings.items())), f"seed{seed}"]
    return re.sub(r"[^\w.,=+-]+", "-", "-".join(words))


@dataclass
class Trainee:
    """A model on its way from a dataset to results: what it is told, what it costs, and itself once it is made.

    ``test`` is the dataset that it is scored on, where that is another one.
    """

    name: str
    context: Context
    cost: Cost
    test: str = ""
    model: Model | None = None

    def describe(self, result: Result) -> Result:
        """Return a result that says how it came about; a model that was never made is described by what was asked."""
        context, model = self.context, self.model
        info = model.info if model else ModelInfo(self.name, hyperparameters=context.settings, device=context.device)
        graphs = info.pretraining_graphs
        run = RunInfo(
            model=info.name,
            seed=context.seed,
            regime=info.regime,
            hyperparameters=info.hyperparameters,
            pretraining_graphs=(f"{context.dataset}/train",) if graphs is None else tuple(graphs),
            url=info.url,
            commit=info.commit,
            device=info.device,
            wall_seconds=self.cost.seconds(),
            peak_memory_bytes=(model and model.peak_memory()) or self.cost.peak(),
            status=result.run.status,
            environment=self.cost.environment() | {"command": models.command(self.name, context, model, self.test)},
        )
        return replace(result, run=run)


def run(
    plan: Plan, report: Callable[[Progress], None] = models.silent, *, keep_failures: bool = False
) -> tuple[Path, list[Result]]:
    """Carry out a plan and return the run directory and its results, the headline first.

    Checkpoints are kept in a hidden directory beside the run directory until everything is scored;
    then it is renamed to the run directory. An interrupted run therefore leaves no run directory, and
    the same plan continues it; its wall time is that of all its processes. A model that runs out of
    memory gives results of the status ``oom``, without ranks, for every task it did not reach.
    Any other error of a model is raised and leaves the checkpoints; with ``keep_failures`` it becomes
    results of the status ``failed`` and a ``failure.txt`` in the run directory, which is what a grid of
    runs needs (`mtbench.training.costs.attempt`). An error after everything is scored is raised, too, but the run is
    kept: it lacks what was to be written beside its results.

    A run directory of the same options is completed: tasks it lacks are scored, from its checkpoints if its model
    keeps them, once the model has given its first task the same ranks again. Raises `UsageError` if the run directory
    has all that is asked for or is another run's (with ``force``: if it holds more than a run), if another process is
    at work on it, or if the checkpoints there belong to other options.
    """
    started = time.perf_counter()
    plan.tasks()  # an unknown name is refused before anything is loaded
    make = models.factory(plan.model)
    directory = plan.directory()
    _kept(plan, directory)
    data = load(plan.dataset)
    trained_on = data.name
    if plan.train:
        source = load(plan.train)
        trained_on, data = source.name, replace(data, train=source.train, valid=source.valid)
    with directory.alone():
        # Another process may have finished there while the dataset was built.
        results = _kept(plan, directory)
        settings = list(dict.fromkeys([*(one.setting for one in results), *plan.tasks()]))
        start = None if plan.start is None else RunDirectory(plan.start)
        partial = directory.begin(restart=plan.restart, start=start, more=bool(results))
        cost = costs.resumed(partial.checkpoints, started)
        context = Context(trained_on, plan.seed, plan.device, cost.folder, plan.settings, cost.keeping(report))
        trainee = Trainee(plan.model, context, cost, data.name if plan.train else "")

        def asked(setting: Setting) -> Task:
            return Task.of(data.test, setting, plan.candidate_seed, data.version)

        def keep(result: Result) -> None:
            described = trainee.describe(result)
            described.save(partial.place(result.setting, settings[0]), force=True, with_names=plan.with_names)
            results.append(described)

        def work() -> None:
            trainee.model = model = make(context)
            model.fit(data.train, data.valid)
            if plan.train:
                partial.remember_training()
            score = model.scorer(data.test.observable())
            if results:
                _expect_same(results[0], trainee.describe(asked(settings[0]).run(score)), directory)
            for setting in settings[len(results) :]:
                keep(asked(setting).run(score))
            learned.write(model, data, partial.path, with_names=plan.with_names)
            if plan.paper:
                read = _conventions(plan, _readable(settings), model.info.name, score, data)
                replace_file(partial.path / CONVENTIONS_FILE, f"{json.dumps(read, indent=2)}\n".encode())

        try:
            if (failure := costs.attempt(work, keep=keep_failures)) is not None:
                if len(results) == len(settings):
                    raise MtbenchError(f"{directory}: everything is scored, but then {failure.sentence}")
                for setting in settings[len(results) :]:
                    keep(replace(asked(setting).unfinished(failure.status), warnings=(failure.sentence,)))
                replace_file(partial.path / FAILURE_FILE, failure.trace.encode())
        finally:
            cost.keep()
            if len(results) == len(settings) and not isinstance(sys.exception(), KeyboardInterrupt):
                directory.finish()
    return directory.path, results


def _readable(settings: Sequence[Setting]) -> list[str]:
    """Return the protocols of some settings that the paper has, too."""
    return [name for name in dict.fromkeys(setting.protocol for setting in settings) if name in MAIN]


def _conventions(plan: Plan, protocols: Sequence[str], model: str, score: Scorer, data: Dataset) -> dict[str, object]:
    """Return what one scorer gets in the standard and each setting of the paper, per protocol."""
    read = {name: read_all(score, data.test, name, plan.candidate_seed) for name in protocols}
    return {
        "dataset": data.name,
        "dataset_version": data.version,
        "split": data.test.name,
        "content_sha256": data.test.content_sha256,
        "model": model,
        "seed": plan.seed,
        "protocols": {name: [result.to_dict() for result in results] for name, results in read.items()},
    }


def _kept(plan: Plan, directory: RunDirectory) -> list[Result]:
    """Return the results in the run directory that a plan completes, first task first; `UsageError` if it cannot."""
    if plan.force or plan.restart or plan.start or not directory.exists:
        directory.expect_replaceable(force=plan.force)
        return []
    kept = directory.read().results
    lacks = {setting.protocol for setting in plan.tasks() if setting not in kept}
    if plan.paper:
        file = directory.path / CONVENTIONS_FILE
        read = json.loads(file.read_text("utf-8"))["protocols"] if file.exists() else ()
        lacks |= set(_readable(plan.tasks())) - set(read)
    seeds = {(one.run.seed, one.candidate_seed, one.run.status) for one in kept.values()}
    if not lacks or seeds != {(plan.seed, plan.candidate_seed, "ok")}:
        directory.expect_replaceable(force=False)
    return list(kept.values())


def _expect_same(kept: Result, again: Result, directory: RunDirectory) -> None:
    """Raise `UsageError` unless a model gives the ranks that a run has kept, so that its further tasks belong to it."""
    one, other = (
        (
            *(result.dataset, result.dataset_version, result.evaluator_version, result.run.model),
            json.dumps(dict(result.run.hyperparameters), sort_keys=True),
            *(result.ranks.greater.tolist(), result.ranks.equal.tolist()),
        )
        for result in (kept, again)
    )
    if one != other:
        raise UsageError(
            f"{directory} holds other ranks than this model gives now: name another with --out DIR, or replace it "
            "with --force"
        )
