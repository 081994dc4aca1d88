"""What a grid consists of: one job per model, dataset and seed, each with a folder of its own."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from leaderboard.entries.cards import SLUG
from mtbench.data import store
from mtbench.data.catalog import Parameter, Record
from mtbench.data.loading import load, locate
from mtbench.errors import MtbenchError, UsageError
from mtbench.training import models
from mtbench.training.models import Context
from mtbench.training.run import Plan


@dataclass(frozen=True)
class Chosen:
    """A model to run, under a label: its settings, and by the name of a dataset those that differ there."""

    label: str
    model: str
    settings: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """Which models run on which datasets with which seeds, and how: a `mtbench.training.run.Plan` each."""

    models: Sequence[Chosen]
    datasets: Sequence[str]
    seeds: Sequence[int] = (0,)
    protocols: Sequence[str] = ("dual",)
    vocabularies: Sequence[str] = ("present",)
    candidate_seed: int = 0
    paper: bool = False
    with_names: bool = True
    device: str = "auto"


@dataclass(frozen=True)
class Job:
    """One run of a grid: the label of its model, the folder, name and version of its dataset, and its plan.

    ``graph`` is the same for datasets with one training graph and validation targets: their content.
    """

    label: str
    folder: str
    dataset: str
    version: str
    graph: str
    plan: Plan

    @property
    def directory(self) -> Path:
        """Return the run directory, ``OUT/LABEL/DATASET/seedK``."""
        return self.plan.directory()

    @property
    def partial(self) -> Path:
        """Return where `mtbench.training.run` keeps the checkpoints until the run is complete."""
        return self.directory.parent / f".{self.directory.name}.partial"

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what tells the jobs of a grid apart: label, folder of the dataset, seed."""
        return self.label, self.folder, self.plan.seed

    def __str__(self) -> str:
        return f"{self.label}/{self.folder}/seed{self.plan.seed}"


def jobs(grid: Grid, out: Path) -> list[Job]:
    """Return the jobs of a grid, all models and datasets with the first seed before any with the second.

    A grid that is stopped early then has something of every model. Paths are absolute, as other processes
    read them. Raises `UnknownNameError` for a dataset, protocol or vocabulary that does not exist, and
    `UsageError` for labels or datasets that would share a folder.
    """
    places = {given: _place(given) for given in grid.datasets}
    _expect_distinct("datasets", [(folder, given) for given, (_, folder, *_) in places.items()])
    for chosen in grid.models:
        if not SLUG.fullmatch(chosen.label):
            raise UsageError(
                f"{chosen.label!r} cannot name a folder of runs: a label has a-z, 0-9, '.', '_' and '-', as in mtdea-k4"
            )
    _expect_distinct(
        "models",
        [
            (each.label, " ".join([each.model, *(f"{key}={value}" for key, value in each.settings.items())]))
            for each in grid.models
        ],
    )
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file: name a directory with --out DIR")
    found = [
        Job(
            chosen.label,
            folder,
            dataset,
            version,
            graph,
            Plan(
                model=chosen.model,
                dataset=source,
                protocols=tuple(grid.protocols),
                vocabularies=tuple(grid.vocabularies),
                seed=seed,
                candidate_seed=grid.candidate_seed,
                device=grid.device,
                settings={**chosen.settings, **chosen.overrides.get(given, {})},
                out=out.absolute() / chosen.label / folder / f"seed{seed}",
                paper=grid.paper,
                with_names=grid.with_names,
            ),
        )
        for seed in grid.seeds
        for given, (source, folder, dataset, version, graph) in places.items()
        for chosen in grid.models
    ]
    for job in found[:1]:
        job.plan.tasks()
    return found


def check(jobs: Sequence[Job], *, here: bool = True) -> None:
    """Make every model once for each of its datasets, so that a wrong name or setting is told before anything runs.

    ``here`` is False where the runs will be on other machines, whose devices are not those of this one. Raises the
    `MtbenchError` a model greets its settings with; any other error of a model is left for its run to record.
    """
    for job in {(job.label, job.folder): job for job in jobs}.values():
        plan = job.plan
        make = models.factory(plan.model)
        device = plan.device if here or plan.device != "cuda" else "auto"
        try:
            make(Context(job.dataset, plan.seed, device, None, plan.settings))
        except Exception as error:
            if isinstance(error, MtbenchError):
                raise


def trainings(jobs: Sequence[Job]) -> list[str]:
    """Return what every job learns, which is the same text for jobs that learn the same; empty if it is its own alone.

    It is asked of models (`ModelInfo.trained_as`) where several jobs have one seed and one training graph.
    """
    alike = Counter((job.graph, job.plan.seed) for job in jobs)
    asked: dict[tuple[str, str], Mapping[str, Parameter] | None] = {}
    found = []
    for job in jobs:
        several = alike[job.graph, job.plan.seed] > 1
        if several and (place := (job.label, job.folder)) not in asked:
            asked[place] = _trained_as(job)
        told = asked[place] if several else None
        found.append(json.dumps([job.graph, job.plan.seed, told], sort_keys=True) if told is not None else "")
    return found


def _trained_as(job: Job) -> Mapping[str, Parameter] | None:
    """Return what the training of a job goes by, None where its model does not tell or cannot be made."""
    plan = job.plan
    with suppress(Exception):  # its run will say why
        info = models.factory(plan.model)(Context(job.dataset, plan.seed, "cpu", None, plan.settings)).info
        if info.trained_as is not None:
            return {"model": info.name, **info.hyperparameters, **info.trained_as}
    return None


def _place(source: str) -> tuple[str, str, str, str, str]:
    """Return what to load of a dataset, the folder's name ("/" replaced, or its directory's), name, version, graph."""
    place = locate(source)
    if isinstance(place, Record):
        return place.id, place.id.replace("/", "-"), place.id, place.version, _graph(place)
    resolved = place.resolve()
    folder = re.sub(r"[^\w.-]+", "-", resolved.name)
    if not store.is_stored(resolved):
        data = load(resolved)
        return str(resolved), folder, data.name, data.version, _graph(data.measured())
    manifest = store.read_manifest(resolved)
    return str(resolved), folder, manifest.dataset, manifest.version, _graph(manifest.declared(manifest.info))


def _graph(record: Record) -> str:
    content = (record.parts[name].content_sha256 for name in ("train/graph", "valid/targets"))
    return " ".join((*content, str(record.graph("train").relation_slots)))


def _expect_distinct(kind: str, named: Sequence[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for folder, what in named:
        if folder in seen:
            raise UsageError(f"two {kind} would have the folder {folder}: {seen[folder]} and {what}")
        seen[folder] = what
