"""One run: train a model on a dataset, score it with the standard evaluator, keep all of it."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from mtbench.data.catalog import Record
from mtbench.data.splits import Dataset
from mtbench.errors import MtbenchError, UsageError
from mtbench.evaluation import paper
from mtbench.evaluation.tasks import Task
from mtbench.names import Scorer
from mtbench.runs.directory import RunDirectory
from mtbench.runs.origin import RunInfo
from mtbench.runs.result import Result
from mtbench.settings.setting import Setting, seed_of
from mtbench.settings.table import HEADLINE
from mtbench.training import costs, learned, models
from mtbench.training.costs import Cost
from mtbench.training.models import Context, Model, ModelInfo, Progress


@dataclass(frozen=True)
class Plan:
    """How to run a model, known by name or as ``package.module:factory``, and the directory that its run is to fill.

    ``tasks`` are the settings to score it in (`mtbench.settings.table.settings_of`): the result in the first lies in
    the run directory itself, that in every further one below it, in ``PROTOCOL-VOCABULARY``. ``candidate_seed`` numbers
    the frozen candidates, ``seed`` the model's own randomness. ``paper`` also scores the model in every evaluation
    setting of the paper's tables (`mtbench.evaluation.paper`). ``with_names`` says whether the ranks name their
    triples. What a model tells of its training and its tasks is always kept (`mtbench.training.learned`). ``start`` is
    the directory of a finished run of the same options: its checkpoints take the place of training, so that further
    tasks are only scored.
    """

    model: str
    out: Path
    tasks: Sequence[Setting] = (HEADLINE,)
    seed: int = 0
    candidate_seed: int = 0
    device: str = "auto"
    settings: Mapping[str, str] = field(default_factory=dict)
    restart: bool = False
    force: bool = False
    paper: bool = False
    with_names: bool = True
    start: Path | None = None

    def __post_init__(self) -> None:
        for name in ("seed", "candidate_seed"):
            seed_of(getattr(self, name), name)


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
    plan: Plan,
    data: Dataset,
    report: Callable[[Progress], None] = models.silent,
    *,
    source: Dataset | None = None,
    keep_failures: bool = False,
) -> tuple[Path, list[Result]]:
    """Carry out a plan on a dataset and return the run directory and its results, the headline first.

    The model learns from the training graph of ``data``, or of ``source`` where that is given, and is scored on the
    test graph of ``data``.

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
    make = models.factory(plan.model)
    learned_from = source or data
    directory = RunDirectory.to_make(plan.out)
    with directory.alone():
        results = _kept(plan, directory)
        scored = len(results)
        settings = list(dict.fromkeys([*(result.setting for result in results), *plan.tasks]))
        partial = directory.begin(restart=plan.restart, start=plan.start, more=bool(results))
        cost = costs.resumed(partial.checkpoints, started)
        context = Context(learned_from.name, plan.seed, plan.device, cost.folder, plan.settings, cost.keeping(report))
        trainee = Trainee(plan.model, context, cost, data.name if source else "")

        def task(setting: Setting) -> Task:
            return Task.of(data.test, setting, plan.candidate_seed, data.version)

        def score_in(setting: Setting, score: Scorer) -> Result:
            stage = f"scoring {setting.name}"
            return task(setting).run(
                score, progress=lambda done, total: context.report(Progress(stage, 1, 1, done, total, None))
            )

        def keep(result: Result) -> None:
            described = trainee.describe(result)
            described.save(partial.place(result.setting, settings[0]), force=True, with_names=plan.with_names)
            results.append(described)

        def work() -> None:
            trainee.model = model = make(context)
            models.expect_training_graph(model, learned_from.train)
            model.fit(learned_from.train, learned_from.valid)
            if source is not None:
                partial.remember_training()
            score = model.scorer(data.test.observable())
            if results:
                _expect_same(results[0], trainee.describe(score_in(settings[0], score)), directory)
            for setting in settings[len(results) :]:
                keep(score_in(setting, score))
            beside = learned.told(model, data, with_names=plan.with_names)
            if plan.paper:
                beside |= paper.conventions(score, data.test, results)
            partial.write_beside(beside)

        trace = ""
        try:
            if (failure := costs.attempt(work, keep=keep_failures)) is not None:
                if len(results) == len(settings):
                    raise MtbenchError(f"{directory}: everything is scored, but then {failure.sentence}")
                for setting in settings[len(results) :]:
                    keep(replace(task(setting).unfinished(failure.status), warnings=(failure.sentence,)))
                trace = failure.trace
        finally:
            cost.keep()
            error = sys.exception()
            # A run that was scored before gains nothing by an error, and would lose its checkpoints to other ones.
            gained = error is None or (len(results) > scored and not isinstance(error, KeyboardInterrupt))
            if len(results) == len(settings) and gained:
                directory.finish(trace)
    return directory.path, results


def finished(plan: Plan, dataset: Record | None = None) -> list[Result]:
    """Return the results of a plan that was carried out before, in the order of its tasks; none where it was not.

    Nor are there any where the run is of another dataset, or of another version, than the record says.
    """
    directory = RunDirectory.to_make(plan.out)
    if plan.force or plan.restart or not directory.exists:
        return []
    kept = directory.read()
    command = shlex.split(kept.headline.run.environment.get("command", ""))
    given = dict(word.split("=", 1) for before, word in pairwise(command) if before == "--set")
    same = (
        command[1:3] == ["run", plan.model]
        and given.keys() == plan.settings.keys()
        # A setting that the model does not tell is "..." in the command, and cannot be compared.
        and all(given[key] in ("...", value) for key, value in plan.settings.items())
        and kept.has(plan.tasks, paper=plan.paper)
        and all(_seeded(plan, result) for result in kept.results.values())
        and (dataset is None or (kept.headline.dataset, kept.headline.dataset_version) == (dataset.id, dataset.version))
    )
    return [kept.results[setting] for setting in plan.tasks] if same else []


def _seeded(plan: Plan, result: Result) -> bool:
    """Whether a result is of a plan's seeds; a ranking among all candidates has no seed of theirs."""
    return result.run.seed == plan.seed and (result.setting.full or result.candidate_seed == plan.candidate_seed)


def _kept(plan: Plan, directory: RunDirectory) -> list[Result]:
    """Return the results in the run directory that a plan completes, first task first; `UsageError` if it cannot."""
    if directory.exists and not (plan.force or plan.restart or plan.start):
        kept = directory.read()
        results = list(kept.results.values())
        same = all(result.run.status == "ok" and _seeded(plan, result) for result in results)
        if same and not kept.has(plan.tasks, paper=plan.paper):
            return results
    directory.expect_replaceable(force=plan.force)
    return []


def _expect_same(kept: Result, again: Result, directory: RunDirectory) -> None:
    """Raise `UsageError` unless a model gives the ranks that a run has kept, so that its further tasks belong to it."""
    kept_as, given_now = (
        (
            *(result.dataset, result.dataset_version, result.evaluator_version, result.run.model),
            json.dumps(dict(result.run.hyperparameters), sort_keys=True),
            *(result.ranks.greater.tolist(), result.ranks.equal.tolist()),
        )
        for result in (kept, again)
    )
    if kept_as != given_now:
        raise UsageError(
            f"{directory} holds other ranks than this model gives now: name another with --out DIR, or replace it "
            "with --force"
        )
