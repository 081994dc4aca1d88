"""What a trainable model looks like to ``mtbench run``, and how models are found."""

from __future__ import annotations

import importlib
import math
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Protocol, TypeAlias

from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.data.splits import Dataset, Split
from mtbench.errors import MissingExtraError, UnknownNameError, UsageError, raised
from mtbench.names import FloatArray, Scorer
from mtbench.runs.origin import REGIMES, Regime, RunInfo
from mtbench.runs.result import Result

GROUP = "mtbench.models"
UNLISTED = "one that is not installed is package.module:factory (docs/your-model.md, docs/foundation-models.md)"


@dataclass(frozen=True)
class Progress:
    """One report of a run: batch ``batch`` of ``batches`` in epoch ``epoch`` of at most ``epochs``.

    ``loss`` is the mean over the epoch so far; ``valid_mrr`` the last validation MRR, None where a stage has no
    validation set. While test triples are ranked, which is one epoch of as many batches as scores, there is no loss.
    """

    stage: str
    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float | None
    valid_mrr: float | None = None

    @property
    def share(self) -> float:
        """The share of the epoch's batches that are done."""
        return self.batch / max(1, self.batches)

    @property
    def told(self) -> str:
        """How far the stage has got, in words."""
        if self.loss is None:
            return f"{self.share:.0%}"
        mrr = "" if self.valid_mrr is None else f"  valid MRR {self.valid_mrr:.3f}"
        return f"epoch {self.epoch}/{self.epochs}  loss {self.loss:.3f}{mrr}"


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


@dataclass(frozen=True)
class ModelInfo:
    """What a model tells of itself, as it is recorded with every result of a run.

    ``device`` is what it computes on. ``pretraining_graphs`` names every graph that a model with weights of its own
    learned from, that of one of our datasets as ``DATASET/train``, and the training graph of the run only if it did, or
    will; where there are None, that graph is recorded. ``url`` and ``commit`` are those of the code it ran.

    ``trained_as`` is for a model whose checkpoints serve every run that learned the same, whatever it was scored on
    then: what its training goes by where that is not its own name or hyper-parameters, empty where it is. Runs of one
    seed on one training graph in which all of that is alike may begin with each other's checkpoints.

    Raises `UnknownNameError` for a regime that does not exist, and `UsageError` for a value of another type, before
    anything is trained.
    """

    name: str
    regime: Regime = "zero-shot"
    hyperparameters: Mapping[str, Parameter] = field(default_factory=dict)
    device: str = "cpu"
    pretraining_graphs: Sequence[str] | None = None
    url: str = ""
    commit: str = ""
    trained_as: Mapping[str, Parameter] | None = None

    def __post_init__(self) -> None:
        if self.regime not in REGIMES:
            raise UnknownNameError("regime", self.regime, REGIMES)
        for key in ("name", "device", "url", "commit"):
            if not isinstance(text := getattr(self, key), str):
                raise UsageError(f"ModelInfo: {key} must be a text, not {text!r}")
        if not self.name.strip():
            raise UsageError("ModelInfo: name must not be empty: results are filed under it")
        graphs = self.pretraining_graphs
        if graphs is not None and not (
            isinstance(graphs, list | tuple) and all(isinstance(graph, str) for graph in graphs)
        ):
            raise UsageError(f"{self.name}: pretraining_graphs must be a list of names of graphs, not {graphs!r}")
        for key in ("hyperparameters", "trained_as"):
            values = getattr(self, key)
            if values is None and key == "trained_as":
                continue
            if not isinstance(values, Mapping):
                raise UsageError(f"{self.name}: {key} must be a mapping of names to values, not {values!r}")
            for name, value in values.items():
                whole = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
                if not (isinstance(name, str) and whole):
                    raise UsageError(
                        f"{self.name}: {key} must be texts, finite numbers, true or false by name: "
                        f"{name!r} is {value!r}, of type {type(value).__name__}"
                    )


@dataclass(frozen=True, eq=False)
class Assignment:
    """How much each relation belongs to each task: names, and shares float ``(R, K)`` whose rows sum to 1.

    A name that is no relation of the graph (an empty slot, an inverse) is left out of every comparison.
    """

    relations: Sequence[str]
    alpha: FloatArray


class Explanation(Protocol):
    """Why a run ranked some targets as it did: a text by ``str()``, JSON, and a picture."""

    def to_dict(self) -> dict[str, object]:
        """Return all of it as plain values."""
        ...

    def draw(self, path: Path) -> None:
        """Draw what there is to see into a PNG or SVG file; raises the errors of `mtbench.files.pictures.page`."""
        ...


class Model(ABC):
    """A model that trains on one graph and scores triples of another: ``info``, `fit` and `scorer`.

    A model never sees the test targets: ``scorer`` is handed the test split without them and may adapt to its
    observable triples. The other methods are what a model may tell besides; by default it tells nothing.
    """

    info: ModelInfo

    @abstractmethod
    def fit(self, train: Split, valid: Split) -> None:
        """Train on the observable triples of ``train``; ``valid`` has the same graph, and targets."""

    @abstractmethod
    def scorer(self, observable: Split) -> Scorer:
        """Return what scores triples of the graph ``observable``: a function of triples ``(m, 3)``, or rows."""

    def history(self) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """Return per stage of training a record per epoch: ``epoch``, ``loss``, and what else, as ``valid_mrr``."""
        return {}

    def assignments(self) -> Mapping[str, Assignment]:
        """Return the tasks it sorted relations into, for the graphs ``train`` and ``test``, as far as it did."""
        return {}

    def peak_memory(self) -> int | None:
        """Return the most bytes it held at once on a device of its own, None where the process's memory counts."""
        return None

    def explain(self, scorer: Scorer, test: Split, result: Result, rows: Sequence[int]) -> Explanation:
        """Say why its ``scorer`` ranked some targets of ``test`` (their rows) as in a finished run.

        Its name must be that of its entry point, or MODULE:CLASS, for the run is remade by it (`remade`).
        Raises `UsageError` where it does not.
        """
        raise UsageError(f"{self.info.name} does not explain its scores")


def expect_training_graph(model: Model, train: Split) -> None:
    """Raise `UsageError` where a model without weights of its own has nothing to learn from."""
    if not len(train.graph) and model.info.pretraining_graphs is None:
        raise UsageError(
            f"{train.dataset} has no training graph, which {model.info.name} learns from: take a model that brings "
            "weights (mtbench run tally-foundation), or give it a graph to learn from (mtbench grid MODEL --train NAME)"
        )


Factory: TypeAlias = Callable[[Context], Model]


def context_of(run: RunInfo, dataset: str, device: str, workdir: Path | None) -> Context:
    """Return what a model is told so that it becomes that of a recorded run, with its checkpoints in ``workdir``."""
    settings = {key: str(value) for key, value in run.hyperparameters.items()}
    return Context(dataset, run.seed, device, workdir, settings)


def remade(make: Factory, run: RunInfo, data: Dataset, device: str, checkpoints: Path | None) -> Model:
    """Return the model of a recorded run as it was trained; raises `UsageError` where it would have to be trained."""
    model = make(replace(context_of(run, data.name, device, checkpoints), report=_refuse))
    model.fit(data.train, data.valid)
    return model


def _refuse(progress: Progress) -> None:
    raise UsageError(f"its checkpoints are not of a finished training, which stands at {progress.stage}")


def command(name: str, context: Context, model: Model | None, test: str = "") -> str:
    """Return what a run was begun with; a setting that its model does not tell, such as a folder, is left open.

    ``test`` is the dataset that it was scored on, where that is another one.
    """
    known = {key: str(value).lower() for key, value in (model.info.hyperparameters if model else {}).items()}
    settings = [
        word
        for key, value in context.settings.items()
        for word in ("--set", f"{key}={value if known.get(key) == value.lower() else '...'}")
    ]
    if test:
        words = ["grid", name, "--train", context.dataset, "--test", test, *settings, "--seeds"]
    else:
        words = ["run", name, "--dataset", context.dataset, *settings, "--seed"]
    return shlex.join(["mtbench", *words, str(context.seed)])


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
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise UsageError(f"{wanted}, not {text!r}")
        if key in settings:
            raise UsageError(f"{wanted}: {key} is given twice")
        settings[key] = value
    return settings


def names() -> list[str]:
    """Return the names of all installed models, sorted."""
    return sorted(_entry_points())


def factory(name: str) -> Factory:
    """Return the factory of an installed model, or of ``package.module:factory``.

    An unknown name raises `UnknownNameError`; a model whose libraries are not installed raises
    `MissingExtraError` with the command that installs them. The factory raises `UsageError` where what it makes is no
    `Model`.
    """
    make = _imported(name) if ":" in name else _installed(name)

    def checked(context: Context) -> Model:
        model: object = make(context)
        if isinstance(model, Model) and isinstance(getattr(model, "info", None), ModelInfo):
            return model
        raise UsageError(
            f"{name} makes {type(model).__name__}, which is no model: derive it from mtbench.training.models.Model and "
            "set info = ModelInfo(name, ...), which holds what were attributes (docs/your-model.md)"
        )

    return checked


def _imported(name: str) -> Callable[[Context], object]:
    expected = "expected package.module:factory, importable from here"
    made = attribute(name, "model", expected)
    if not callable(made):
        raise UsageError(f"{name!r} is of type {type(made).__name__}, not a function that makes a model: {expected}")
    return made


def _installed(name: str) -> Callable[[Context], object]:
    points = _entry_points()
    if name not in points:
        raise UnknownNameError("model", name, points, UNLISTED)
    try:
        loaded: Callable[[Context], object] = points[name].load()
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
        named: object = getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise UsageError(f"cannot import the {what} {path!r} ({error}): {expected}") from error
    except Exception as error:
        raise UsageError(f"cannot import the {what} {path!r}: {raised(error)}") from error
    return named
