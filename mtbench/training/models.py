"""What a trainable model looks like to ``mtbench run``, and how models are found."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.data.splits import Split
from mtbench.errors import MissingExtraError, UnknownNameError, UsageError, raised
from mtbench.names import FloatArray, IntArray, Scorer
from mtbench.runs.runs import Regime, RunInfo
from mtbench.statistics.features import Statistics

GROUP = "mtbench.models"


@dataclass(frozen=True)
class Progress:
    """One report of a training loop: batch ``batch`` of ``batches`` in epoch ``epoch`` of at most ``epochs``.

    ``loss`` is the mean over the epoch so far; ``valid_mrr`` the last validation MRR, None where a stage
    has no validation set.
    """

    stage: str
    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float
    valid_mrr: float | None = None


def silent(progress: Progress) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Context:
    """What a model is told about the run it takes part in.

    ``dataset`` is the dataset's name (a model may keep a recipe per dataset), ``device`` one of
    ``auto``, ``cpu`` and ``cuda``, ``settings`` the hyper-parameters given on the command line as text,
    and ``workdir`` a directory for checkpoints that outlives an interrupted run, None for no checkpoints.
    """

    dataset: str
    seed: int = 0
    device: str = "auto"
    workdir: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    report: Callable[[Progress], None] = silent


class Model(Protocol):
    """A model that trains on one graph and scores triples of another.

    ``hyperparameters`` and ``device`` are recorded in the result. A model never sees the test targets:
    ``scorer`` is handed the test split without them and may adapt to its observable triples. What else it
    can tell is optional: `TellsHistory`, `TellsAssignments`, `TellsMemory`, `TellsPretraining`, `TellsSource`,
    `ExplainsScores`.
    """

    name: str
    regime: Regime
    device: str
    hyperparameters: Mapping[str, Parameter]

    def fit(self, train: Split, valid: Split) -> None:
        """Train on the observable triples of ``train``; ``valid`` has the same graph, and targets."""
        ...

    def scorer(self, observable: Split) -> Scorer:
        """Return what scores triples of the graph ``observable``: a function of triples ``(m, 3)``, or rows."""
        ...


@dataclass(frozen=True, eq=False)
class Assignment:
    """How much each relation belongs to each task: names, and shares float ``(R, K)`` whose rows sum to 1.

    A name that is no relation of the graph (an empty slot, an inverse) is left out of every comparison.
    """

    relations: Sequence[str]
    alpha: FloatArray


@runtime_checkable
class TellsHistory(Protocol):
    """Optional: a model that tells how its training went, for ``history.json`` and ``training.png``."""

    def history(self) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """Return per stage one record per epoch, with ``epoch``, ``loss`` and whatever else, as ``valid_mrr``."""
        ...


@runtime_checkable
class TellsAssignments(Protocol):
    """Optional: a model that sorts relations into tasks, for ``tasks.json`` and ``alpha.png``."""

    def assignments(self) -> Mapping[str, Assignment]:
        """Return the assignment it learned for the graphs ``train`` and ``test``, as far as it has one."""
        ...


@runtime_checkable
class TellsMemory(Protocol):
    """Optional: a model on a device with a memory of its own, whose peak is recorded instead of the process's."""

    def peak_memory(self) -> int | None:
        """Return the most bytes it held there at once, None where the process's own memory counts."""
        ...


class StatisticsScorer(Protocol):
    """A scorer to which a triple is its ``statistics`` and nothing else."""

    statistics: Statistics

    def score_statistics(self, statistics: NDArray[np.float32], triples: IntArray, /) -> ArrayLike:
        """Return the scores ``(m,)`` that triples ``(m, 3)`` would have with these statistics ``(m, WIDTH)``."""
        ...


@runtime_checkable
class ExplainsScores(Protocol):
    """Optional: a model that scores by `mtbench.statistics` alone, for ``mtbench show RUN --explain``.

    Its name must be that of its entry point, or MODULE:CLASS, for the run is remade by it.
    """

    def restored(self, train: Split, observable: Split) -> StatisticsScorer:
        """Return what `Model.scorer` returned in the run whose checkpoints are in the workdir, without training.

        Nothing is written there. Raises `UsageError` where they are not those of this model on these graphs.
        """
        ...


@runtime_checkable
class TellsPretraining(Protocol):
    """Optional: a model that brings weights, so that it can score before, or without, learning anything in ``fit``.

    ``pretraining_graphs`` names every graph it learned from, that of one of our datasets as ``DATASET/train``; the
    training graph of the run only if it did, or will. Of any other model that graph is recorded.
    """

    pretraining_graphs: Sequence[str]


@runtime_checkable
class TellsSource(Protocol):
    """Optional: a model that tells the address and the commit of the code it ran, which are recorded."""

    url: str
    commit: str


@runtime_checkable
class SharesTraining(Protocol):
    """Optional: a model whose checkpoints serve every run that learned the same, whatever it was then scored on.

    ``trained_as`` is what its training goes by where that is not its own name or hyper-parameters. Runs of one seed on
    one training graph in which all of that is alike may begin with each other's checkpoints.
    """

    trained_as: Mapping[str, Parameter]


Factory: TypeAlias = Callable[[Context], Model]


def context_of(run: RunInfo, dataset: str, device: str, workdir: Path | None) -> Context:
    """Return what a model is told so that it becomes that of a recorded run, with its checkpoints in ``workdir``."""
    settings = {key: str(value) for key, value in run.hyperparameters.items()}
    return Context(dataset, run.seed, device, workdir, settings)


def command(name: str, context: Context, model: Model | None) -> str:
    """Return what a run was begun with; a setting that its model does not tell, such as a folder, is left open."""
    known = {key: str(value).lower() for key, value in (model.hyperparameters if model else {}).items()}
    settings = [
        word
        for key, value in context.settings.items()
        for word in ("--set", f"{key}={value if known.get(key) == value.lower() else '...'}")
    ]
    return shlex.join(["mtbench", "run", name, "--dataset", context.dataset, *settings, "--seed", str(context.seed)])


@contextmanager
def remaking(run: RunInfo, dataset: str, directory: Path) -> Iterator[None]:
    """Say what to type next where a model or its checkpoints are not those of this version of the package."""
    try:
        yield
    except UsageError as error:
        known = dataset if catalog.find(dataset) else "DIR"
        again = f"train again with mtbench run {run.model} --dataset {known} --seed {run.seed} --force"
        raise UsageError(f"{directory}: the model cannot be remade ({error}): {again}") from error


def parse_settings(texts: Sequence[str], wanted: str = "--set takes KEY=VALUE") -> dict[str, str]:
    """Return settings given as ``KEY=VALUE``; `UsageError` says what is ``wanted`` for another form, or a repeat."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageError(f"{wanted}, not {text!r}")
        if key in found:
            raise UsageError(f"{wanted}: {key} is given twice")
        found[key] = value
    return found


def names() -> list[str]:
    """Return the names of all installed models, sorted."""
    return sorted(_entry_points())


def factory(name: str) -> Factory:
    """Return the factory of an installed model, or of ``package.module:factory``.

    An unknown name raises `UnknownNameError`; a model whose libraries are not installed raises
    `MissingExtraError` with the command that installs them.
    """
    if ":" in name:
        expected = "expected package.module:factory, importable from here"
        made = attribute(name, "model", expected)
        if not callable(made):
            raise UsageError(
                f"{name!r} is of type {type(made).__name__}, not a function that makes a model: {expected}"
            )
        return made
    found = _entry_points()
    if name not in found:
        raise UnknownNameError("model", name, found)
    try:
        loaded: Factory = found[name].load()
    except ModuleNotFoundError as error:
        if error.name in ("torch", "torch_geometric", "safetensors"):
            raise MissingExtraError(f"model {name} ({error.name} is not installed)", "models") from error
        raise
    return loaded


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def attribute(path: str, what: str, expected: str) -> object:
    """Return what ``package.module:name`` names; raises `UsageError` if that cannot be imported.

    ``what`` and ``expected`` tell a user what the name was to be of.
    """
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise UsageError(f"{path!r} does not name a {what}: {expected}")
    try:
        found: object = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise UsageError(f"cannot import the {what} {path!r} ({error}): {expected}") from error
    except Exception as error:
        raise UsageError(f"cannot import the {what} {path!r}: {raised(error)}") from error
    return found
