"""What a grid consists of, as it is typed or declared in a file: a job per model, dataset and seed."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from pydantic import NonNegativeInt

from leaderboard.entries.cards import SLUG
from mtbench.data import catalog, store
from mtbench.data.catalog import Parameter, Record
from mtbench.data.loading import load, locate
from mtbench.errors import MtbenchError, UnknownNameError, UsageError
from mtbench.files import schema
from mtbench.runs.directory import RunDirectory
from mtbench.runs.result import Result
from mtbench.settings.table import HEADLINE, settings_of
from mtbench.training import models
from mtbench.training.models import Context, Progress, silent
from mtbench.training.run import Plan, run


@dataclass(frozen=True)
class Chosen:
    """A model to run, under a label: its settings, and by the name of a dataset those that differ there."""

    label: str
    model: str
    settings: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """Which models run on which datasets with which seeds, and how: a run each.

    With ``train`` every model learns from the training graph of each of those datasets, and each is scored on the test
    graph of every one of ``datasets``.
    """

    models: Sequence[Chosen]
    datasets: Sequence[str]
    train: Sequence[str] = ()
    seeds: Sequence[int] = (0,)
    protocols: Sequence[str] = (HEADLINE.protocol,)
    vocabularies: Sequence[str] = (HEADLINE.vocabulary,)
    candidate_seed: int = 0
    paper: bool = False
    with_names: bool = True
    device: str = "auto"


_SEEDS = re.compile(r"(\d+)(?:-(\d+))?")


def typed_model(text: str) -> tuple[str, dict[str, str]]:
    """Return the model and the settings of ``MODEL`` or ``MODEL:KEY=VALUE,...``.

    A model may be ``package.module:factory``, whose settings follow after one more colon. Raises `UsageError` for
    settings of another form.
    """
    name, colon, last = text.rpartition(":")
    if not colon or ("=" not in last and name not in models.names()):
        return text, {}
    return name, models.parse_settings(last.split(","), f"the settings in {text!r} must be {name}:KEY=VALUE,...")


def typed_seeds(text: str) -> list[int]:
    """Return the seeds of ``3``, ``0-2`` or ``0,2,5-7``, each once; raises `UsageError` for another form."""
    found: list[int] = []
    for part in text.split(","):
        matched = _SEEDS.fullmatch(part.strip())
        if matched is None:
            raise UsageError(f"seeds are written 0-2, or 0,3,7, not {text!r}")
        first = int(matched[1])
        last = first if matched[2] is None else int(matched[2])
        if last < first:
            raise UsageError(f"the seeds {part.strip()} go from a larger number to a smaller one")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class DeclaredSettings:
    """Hyper-parameters in a file: the table ``set``."""

    set: Mapping[str, Parameter] = field(default_factory=dict)

    def typed(self) -> dict[str, str]:
        """Return the settings as the texts that would be typed."""
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.set.items()}


@dataclass(frozen=True, kw_only=True)
class DeclaredModel(DeclaredSettings):
    """A table ``[models.LABEL]``; where a dataset needs other settings, ``[models.LABEL.datasets.NAME]`` has them."""

    model: str
    datasets: Mapping[str, DeclaredSettings] = field(default_factory=dict)


@dataclass(frozen=True)
class Declared:
    """A grid in a file, ``grid.toml``; its keys are the names here."""

    datasets: tuple[str, ...]
    models: Mapping[str, DeclaredModel]
    train: tuple[str, ...] = ()
    seeds: tuple[NonNegativeInt, ...] = (0,)
    protocols: tuple[str, ...] = (HEADLINE.protocol,)
    vocabularies: tuple[str, ...] = (HEADLINE.vocabulary,)
    candidate_seed: NonNegativeInt = 0
    paper: bool = False
    without_names: bool = False


def read_declared(path: Path) -> Grid:
    """Return the grid a file declares; raises `UsageError` naming the file, the key and what was expected there."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): name a grid with --file grid.toml") from error
    found = schema.read_toml(text, Declared, str(path), UsageError)
    for name in ("datasets", "models", "seeds", "protocols", "vocabularies"):
        if not getattr(found, name):
            raise UsageError(f"{path}: {name} must hold at least one value")
    for label, model in found.models.items():
        for name in model.datasets:
            if name not in (known := found.train or found.datasets):
                raise UnknownNameError(f"dataset in {path}: models.{label}:", name, known)
    return Grid(
        models=[
            Chosen(label, one.model, one.typed(), {name: own.typed() for name, own in one.datasets.items()})
            for label, one in found.models.items()
        ],
        datasets=list(dict.fromkeys(found.datasets)),
        train=list(dict.fromkeys(found.train)),
        seeds=list(dict.fromkeys(found.seeds)),
        protocols=list(dict.fromkeys(found.protocols)),
        vocabularies=list(dict.fromkeys(found.vocabularies)),
        candidate_seed=found.candidate_seed,
        paper=found.paper,
        with_names=not found.without_names,
    )


@dataclass(frozen=True)
class Job:
    """One run of a grid: the label of its model, its folder, what it learns from and is scored on, and its plan."""

    label: str
    folder: str
    train: Place
    test: Place
    transfers: bool
    plan: Plan

    @property
    def directory(self) -> RunDirectory:
        """Return the run directory, ``OUT/LABEL/DATASET/seedK``."""
        return RunDirectory.to_make(self.plan.out)

    def run(self, report: Callable[[Progress], None] = silent) -> tuple[Path, list[Result]]:
        """Carry it out; a model's error is recorded in its run, never raised."""
        source = load(self.train.source) if self.transfers else None
        return run(self.plan, load(self.test.source), report, source=source, keep_failures=True)

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what tells the jobs of a grid apart: label, folder of the dataset, seed."""
        return self.label, self.folder, self.plan.seed

    def __str__(self) -> str:
        return f"{self.label}/{self.folder}/seed{self.plan.seed}"


def jobs(grid: Grid, out: Path) -> list[Job]:
    """Return the jobs of a grid, all models and datasets with the first seed before any with the second.

    A training dataset is done with before the next one.
    A grid that is stopped early then has something of every model. Paths are absolute, as other processes
    read them. Raises `UnknownNameError` for a dataset, protocol or vocabulary that does not exist, and
    `UsageError` for labels or datasets that would share a folder.
    """
    places = {source: place_of(source) for source in (*grid.datasets, *grid.train)}
    _expect_distinct("datasets", [(place.folder, source) for source, place in places.items()])
    for chosen in grid.models:
        if not SLUG.fullmatch(chosen.label):
            raise UsageError(
                f"{chosen.label!r} cannot name a folder of runs: a label has a-z, 0-9, '.', '_' and '-', as in mtdea-k4"
            )
    typed = [
        " ".join([each.model, *(f"{key}={value}" for key, value in each.settings.items())]) for each in grid.models
    ]
    _expect_distinct("models", list(zip((each.label for each in grid.models), typed, strict=True)))
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file: name a directory with --out DIR")
    cells = [(train or test, test) for train, test in product(grid.train or [""], grid.datasets)]
    tasks = settings_of(grid.protocols, grid.vocabularies)
    found = []
    for seed, (train, test), chosen in product(grid.seeds, cells, grid.models):
        learned, scored = places[train], places[test]
        folder = f"{learned.folder}-to-{scored.folder}" if grid.train else scored.folder
        plan = Plan(
            model=chosen.model,
            out=out.absolute() / chosen.label / folder / f"seed{seed}",
            tasks=tasks,
            seed=seed,
            candidate_seed=grid.candidate_seed,
            device=grid.device,
            settings={**chosen.settings, **chosen.overrides.get(train, {})},
            paper=grid.paper,
            with_names=grid.with_names,
        )
        found.append(Job(chosen.label, folder, learned, scored, bool(grid.train), plan))
    return found


def check(jobs: Sequence[Job], *, here: bool = True) -> None:
    """Make every model once for each of its datasets, so that a wrong name or setting is told before anything runs.

    ``here`` is False where the runs will be on other machines, whose devices are not those of this one. Raises the
    `MtbenchError` a model greets its settings with; any other error of a model is left for its run to record.
    """
    for job in {(job.label, job.train.source): job for job in jobs}.values():
        plan = job.plan
        make = models.factory(plan.model)
        device = plan.device if here or plan.device != "cuda" else "auto"
        try:
            make(Context(job.train.name, plan.seed, device, None, plan.settings))
        except Exception as error:
            if isinstance(error, MtbenchError):
                raise


def trainings(jobs: Sequence[Job]) -> list[str]:
    """Return what every job learns, which is the same text for jobs that learn the same; empty if it is its own alone.

    It is asked of models (`ModelInfo.trained_as`) where several jobs have one seed and one training graph. What a model
    learns from one dataset to be scored on others is the same for all of them, whatever it tells.
    """
    alike = Counter((job.train.graph, job.plan.seed) for job in jobs)
    asked: dict[tuple[str, str], Mapping[str, Parameter] | None] = {}
    learned = []
    for job in jobs:
        several = alike[job.train.graph, job.plan.seed] > 1
        if several and (place := (job.label, job.train.source)) not in asked:
            asked[place] = _trained_as(job)
        told = asked[place] if several else None
        if several and told is None and job.transfers:
            told = {"model": job.plan.model, "train": job.train.source, **job.plan.settings}
        learned.append(json.dumps([job.train.graph, job.plan.seed, told], sort_keys=True) if told is not None else "")
    return learned


def _trained_as(job: Job) -> Mapping[str, Parameter] | None:
    """Return what the training of a job goes by, None where its model does not tell or cannot be made."""
    plan = job.plan
    with suppress(Exception):  # its run will say why
        info = models.factory(plan.model)(Context(job.train.name, plan.seed, "cpu", None, plan.settings)).info
        if info.trained_as is not None:
            return {"model": info.name, **info.hyperparameters, **info.trained_as}
    return None


@dataclass(frozen=True)
class Place:
    """A dataset of a grid: what to load, the name of its folder ("/" replaced, or its directory's), name and version.

    ``graph`` is the same for datasets with one training graph and validation targets: their content.
    """

    source: str
    folder: str
    name: str
    version: str
    graph: str


def place_of(source: str) -> Place:
    """Return the place of a dataset by name or directory; only a folder of files has to be read for it."""
    place = locate(source)
    if isinstance(place, Record):
        return Place(place.id, place.id.replace("/", "-"), place.id, place.version, _graph(place))
    resolved = place.resolve()
    folder = re.sub(r"[^\w.-]+", "-", resolved.name)
    if not store.is_stored(resolved):
        data = load(resolved)
        return Place(str(resolved), folder, data.name, data.version, _graph(data.measured()))
    manifest = store.read_manifest(resolved)
    graph = _graph(manifest.declared(manifest.info))
    return Place(str(resolved), folder, manifest.dataset, manifest.version, graph)


def _graph(record: Record) -> str:
    parts = ("train/graph", "valid/targets", "valid/known")
    content = (record.parts[name].content_sha256 for name in parts if name in record.parts)
    return " ".join((*content, str(record.graph("train").relation_slots)))


def named(patterns: Sequence[str]) -> list[str]:
    """Return datasets by name, those of the catalogue or directories that match for a pattern, as wikitopics-v1/*."""
    chosen: list[str] = []
    for pattern in patterns:
        if not set(pattern) & set("*?["):
            chosen.append(pattern)
            continue
        matching = fnmatch.filter(catalog.names(), pattern) or [
            str(path) for path in sorted(Path().glob(pattern)) if path.is_dir()
        ]
        if not matching:
            raise UsageError(f"{pattern} matches no dataset (mtbench list shows them) and no directory")
        chosen += matching
    return list(dict.fromkeys(chosen))


def _expect_distinct(kind: str, named: Sequence[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for folder, what in named:
        if folder in seen:
            raise UsageError(f"two {kind} would have the folder {folder}: {seen[folder]} and {what}")
        seen[folder] = what
