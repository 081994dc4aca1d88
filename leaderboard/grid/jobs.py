"""What a grid consists of: one job per model, dataset and seed, each with a folder of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leaderboard.entries.cards import SLUG
from mtbench.data import catalog, store
from mtbench.data.loading import directory_given, load
from mtbench.errors import MtbenchError, UsageError
from mtbench.experiments import models
from mtbench.experiments.models import Context
from mtbench.experiments.run import Plan


@dataclass(frozen=True)
class Chosen:
    """A model to run, under a label: its settings, and by the name of a dataset those that differ there."""

    label: str
    model: str
    settings: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """Which models run on which datasets with which seeds, and how: a `mtbench.experiments.run.Plan` each."""

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
    """One run of a grid: the label of its model, the folder, name and version of its dataset, and its plan."""

    label: str
    folder: str
    dataset: str
    version: str
    plan: Plan

    @property
    def directory(self) -> Path:
        """Return the run directory, ``OUT/LABEL/DATASET/seedK``."""
        return self.plan.directory()

    @property
    def partial(self) -> Path:
        """Return where `mtbench.experiments.run` keeps the checkpoints until the run is complete."""
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
        for given, (source, folder, dataset, version) in places.items()
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


def _place(source: str) -> tuple[str, str, str, str]:
    """Return what to load of a dataset, the name of its folder ("/" replaced, or its directory's), name and version."""
    directory = directory_given(source)
    if directory is None:
        record = catalog.record(source)
        return record.id, record.id.replace("/", "-"), record.id, record.version
    resolved = directory.resolve()
    folder = re.sub(r"[^\w.-]+", "-", resolved.name)
    if not store.is_stored(resolved):
        data = load(resolved)
        return str(resolved), folder, data.name, data.version
    manifest = store.read_manifest(resolved)
    return str(resolved), folder, manifest.dataset, manifest.version


def _expect_distinct(kind: str, named: Sequence[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for folder, what in named:
        if folder in seen:
            raise UsageError(f"two {kind} would have the folder {folder}: {seen[folder]} and {what}")
        seen[folder] = what
