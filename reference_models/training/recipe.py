"""Recipes: the hyper-parameters of a model on a dataset, declared in TOML and checked field by field."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import resources
from typing import TypeVar

from mtbench.data.catalog import Parameter
from mtbench.errors import UnknownNameError, UsageError
from reference_models.equivariant.network import Architecture

RECIPES = ("default", "fast", "as-run")
CHOICES = {
    "slots": ("all", "present"),
    "statistics": ("graph", "batch"),
    "positives": ("graph", "targets"),
    "mask": ("none", "pair", "triple"),
    "loss": ("paper", "joint"),
    # How the paper is read where it is open (docs/models.md, What is open): results record it, and checkpoints.
    "adjacency": ("others", "tasks"),
    "mean": ("literal", "normalised"),
    "assignment": ("hard",),
    "linear_layers": ("single", "perceptron"),
    "selection": ("dual", "entity", "none"),
    "chosen_by": ("mrr", "hits"),
}


def _limits(names: str, wanted: str, holds: Callable[[float], bool]) -> dict[str, tuple[Callable[[float], bool], str]]:
    return dict.fromkeys(names.split(), (holds, wanted))


LIMITS = {
    **_limits(
        "tasks width gin_layers batch tail_negatives relation_negatives epochs patience layers negatives "
        "relation_layers entity_layers relation_scale entity_scale heads bins steps every draws masks lists",
        "at least 1",
        lambda number: number >= 1,
    ),
    **_limits("hops anneal_epochs adaptation_epochs typed", "0 or more", lambda number: number >= 0),
    **_limits(
        "learning_rate clip anneal temperature outliers", "a number above 0", lambda number: 0 < number < math.inf
    ),
    **_limits(
        "weight_decay one_hot concentration margin", "a number, 0 or more", lambda number: 0 <= number < math.inf
    ),
    **_limits("holdout messages least most dropout", "a number between 0 and 1", lambda number: 0 < number < 1),
    **_limits("family_dropout", "0 or a number between 0 and 1", lambda number: 0 <= number < 1),
}
_READERS: dict[str, Callable[[str], Parameter]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
}


@dataclass(frozen=True)
class Hyperparameters:
    """A flat table of hyper-parameters, with a subclass per family of models; raises `UsageError` for a bad value.

    ``recipe`` names the tables they were read from, see `read`.
    """

    recipe: str = field(default="default", kw_only=True)

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name in CHOICES and value not in CHOICES[name]:
                raise UsageError(f"{name} must be one of {', '.join(CHOICES[name])}, not {value!r}")
            if name in LIMITS:
                holds, wanted = LIMITS[name]
                if not holds(value):
                    raise UsageError(f"{name} must be {wanted}, not {value}")

    def as_parameters(self) -> dict[str, Parameter]:
        """Return the recipe as a flat table, to be recorded with a result; what older results lack only if set."""
        defaults = {("recipe", "default"), ("chosen_by", "mrr"), ("loops", True)}
        return {key: value for key, value in asdict(self).items() if (key, value) not in defaults}


Kind = TypeVar("Kind", bound=Hyperparameters)


@dataclass(frozen=True)
class Recipe(Hyperparameters):
    """All hyper-parameters of a double-equivariant model.

    ``slots`` says which relation slots the network has (`graphs.graph.Slots`): ``all`` of the dictionary, or those that
    are ``present`` and one for all empty ones. ``statistics`` says over which nodes batch norm behind the first layer
    is: all of the ``graph``, or those scored in a ``batch``, and then no others are computed. ``positives`` says which
    triples are trained on (`docs/models.md`, Positives): ``graph``, every observable triple, hidden from the graph
    while it is a positive; or ``targets``, the missing triples of the training graph, of which ``holdout`` (a share, in
    whole connected components) is kept for early stopping. ``mask`` says which edges a batch hides (same page, Mask).
    ``one_hot`` and ``concentration`` weigh the two regularisers and are multiplied by ``anneal`` after each epoch,
    ``anneal_epochs`` times at most. ``adjacency``, ``mean``, ``linear_layers`` and ``assignment``, which has one value,
    say how the formula is read, and ``decay_attention`` whether ``weight_decay`` holds for the task logits, too (same
    page, What is open). ``checkpointing`` saves memory and costs time (`network.Architecture`). ``reassign`` searches
    the hard assignment of relations to tasks after each epoch (`batches.reassign`); the paper has no such step.
    ``chosen_by`` says by what validation the epoch is chosen: the ``mrr``, or ``hits`` as in the published code
    (`fitting.validation`), where the untrained network is one to choose, too.
    """

    tasks: int
    width: int
    gin_layers: int
    hops: int
    inverses: bool
    slots: str
    statistics: str
    learn_epsilon: bool
    adjacency: str
    mean: str
    assignment: str
    linear_layers: str
    checkpointing: bool
    positives: str
    mask: str
    loss: str
    holdout: float
    batch: int
    tail_negatives: int
    relation_negatives: int
    learning_rate: float
    weight_decay: float
    decay_attention: bool
    clip: float
    one_hot: float
    concentration: float
    anneal: float
    anneal_epochs: int
    reassign: bool
    epochs: int
    patience: int
    adaptation_epochs: int
    chosen_by: str = field(default="mrr", kw_only=True)

    def penalty_scale(self, epoch: int) -> float:
        """Return the factor of the regulariser weights in an epoch, counted from 1."""
        return float(self.anneal ** min(epoch - 1, self.anneal_epochs))

    def architecture(self) -> Architecture:
        """Return the sizes of the network, and how its layers are read."""
        sizes = self.width, self.gin_layers, self.tasks, self.hops
        return Architecture(*sizes, self.checkpointing, self.adjacency, self.mean, self.linear_layers)


def refuse(model: str, recipe: Recipe, **only: Parameter) -> None:
    """Raise `UsageError` for a hyper-parameter that differs from the ``only`` value that ``model`` can have."""
    for key, value in only.items():
        if getattr(recipe, key) != value:
            shown = str(value).lower() if isinstance(value, bool) else value
            raise UsageError(f"{model} has {key}={shown} only: for other values run mtdea")


def read(kind: type[Kind], model: str, dataset: str, settings: Mapping[str, str]) -> Kind:
    """Return the recipe of a model on a dataset with ``settings`` (texts, ``key=value``) laid over it.

    The table ``[default]`` of ``recipes/MODEL.toml`` holds for every dataset. The table of the dataset's pair of test
    graphs (the part of its name before a slash) overrides it, then that of the dataset itself (without variants in
    brackets). With ``recipe=NAME`` among the settings, the tables ``[NAME]``, ``["NAME:PAIR"]`` and
    ``["NAME:DATASET"]`` follow. Raises `UnknownNameError` for a setting that ``kind`` does not have or a recipe that
    the model does not have, and `UsageError` for a bad value.
    """
    text = (resources.files("reference_models") / "recipes" / f"{model}.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    dataset, recipe = dataset.partition("[")[0], settings.get("recipe", "default")
    known = [name for name in RECIPES if name in tables]
    if recipe not in known:
        raise UnknownNameError("recipe", recipe, known)
    pair = dataset.partition("/")[0]
    laid = [tables["default"], *(tables.get(name, {}) for name in (pair, dataset) if name not in RECIPES)]
    if recipe != "default":
        laid += [tables[recipe], *(tables.get(f"{recipe}:{name}", {}) for name in (pair, dataset))]
    values: dict[str, Parameter] = {key: value for table in laid for key, value in table.items()}
    values |= {key: _parse(kind, key, text) for key, text in settings.items()}
    return kind(**values)  # type: ignore[arg-type]


def _parse(recipe: type[Hyperparameters], key: str, text: str) -> Parameter:
    kinds = {declared.name: str(declared.type) for declared in fields(recipe)}
    if key not in kinds:
        raise UnknownNameError("hyper-parameter", key, kinds)
    try:
        return _READERS[kinds[key]](text)
    except (KeyError, ValueError) as error:
        raise UsageError(f"{key} must be {kinds[key]}, not {text!r}") from error
