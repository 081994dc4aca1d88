"""A grid declared in a file, ``grid.toml``: its keys are those of the classes here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import NonNegativeInt

from leaderboard.grid.jobs import Chosen, Grid
from mtbench.data.catalog import Parameter
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import schema


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters: the table ``set``."""

    set: Mapping[str, Parameter] = field(default_factory=dict)

    def typed(self) -> dict[str, str]:
        """Return the settings as the texts that would be typed."""
        return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.set.items()}


@dataclass(frozen=True, kw_only=True)
class Model(Settings):
    """A table ``[models.LABEL]``; where a dataset needs other settings, ``[models.LABEL.datasets.NAME]`` has them."""

    model: str
    datasets: Mapping[str, Settings] = field(default_factory=dict)


@dataclass(frozen=True)
class Declared:
    """The whole file."""

    datasets: tuple[str, ...]
    models: Mapping[str, Model]
    seeds: tuple[NonNegativeInt, ...] = (0,)
    protocols: tuple[str, ...] = ("dual",)
    vocabularies: tuple[str, ...] = ("present",)
    candidate_seed: NonNegativeInt = 0
    paper: bool = False
    without_names: bool = False


def read(path: Path) -> Grid:
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
            if name not in found.datasets:
                raise UnknownNameError(f"dataset in {path}: models.{label}:", name, found.datasets)
    return Grid(
        models=[
            Chosen(label, one.model, one.typed(), {name: own.typed() for name, own in one.datasets.items()})
            for label, one in found.models.items()
        ],
        datasets=list(dict.fromkeys(found.datasets)),
        seeds=list(dict.fromkeys(found.seeds)),
        protocols=list(dict.fromkeys(found.protocols)),
        vocabularies=list(dict.fromkeys(found.vocabularies)),
        candidate_seed=found.candidate_seed,
        paper=found.paper,
        with_names=not found.without_names,
    )
