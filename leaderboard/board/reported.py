"""What others printed: every cell of the paper's tables with its errata and its setting, and the field's figures.

Source: Zhou et al. 2023, "A Multi-Task Perspective for Link Prediction with New Relation Types and Nodes", main
text and appendix; the settings are those of `mtbench.settings.table`, which says where each comes from.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from mtbench.settings.setting import Setting
from mtbench.settings.table import codes_of, setting_in


@dataclass(frozen=True)
class Cell:
    """One printed figure: mean and standard deviation over the paper's seeds, or neither for a run out of memory.

    ``table`` and ``where`` say where it is printed; ``erratum`` says what is known to be wrong with it.
    """

    table: str
    where: str
    dataset: str
    protocol: str
    model: str
    metric: str
    mean: float | None
    std: float | None
    status: str
    erratum: str = ""

    @property
    def setting(self) -> Setting:
        """The setting in which it was scored: candidates, vocabulary and ties."""
        return setting_in(codes_of(self.model)[0], self.protocol)

    def __str__(self) -> str:
        if self.mean is None:
            return self.status.upper()
        return f"{self.mean:.3f}" if self.std is None else f"{self.mean:.3f} ({self.std:.3f})"


@cache
def cells() -> tuple[Cell, ...]:
    """Return every cell, in the order of the tables."""
    text = (resources.files("leaderboard.board") / "paper.json").read_text(encoding="utf-8")
    return tuple(Cell(**fields) for fields in json.loads(text))


def best(printed: Iterable[Cell]) -> Cell | None:
    """Return the cell to quote where a figure is printed more than once: one without an erratum, else the first."""
    cells = list(printed)
    return next((cell for cell in cells if not cell.erratum), cells[0] if cells else None)


def of(dataset: str, model: str) -> dict[tuple[str, str], Cell]:
    """Return the cells of a model on a dataset, by protocol and metric."""
    gathered: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells():
        if (cell.dataset, cell.model) == (dataset, model):
            gathered.setdefault((cell.protocol, cell.metric), []).append(cell)
    return {key: chosen for key, printed in gathered.items() if (chosen := best(printed))}


def datasets() -> tuple[str, ...]:
    """Return the datasets of the paper, in the order of its tables."""
    return tuple(dict.fromkeys(cell.dataset for cell in cells()))


def models() -> tuple[str, ...]:
    """Return the rows of the paper's tables, in their order."""
    return tuple(dict.fromkeys(cell.model for cell in cells()))


@dataclass(frozen=True)
class Elsewhere:
    """A foundation model as others measured it: zero-shot MRR, share of ranks up to 10 by graph, ties pessimistic."""

    name: str
    source: str
    figures: Mapping[str, tuple[float, float]]


@cache
def elsewhere() -> Mapping[str, Elsewhere]:
    """Return the models of ``field.toml`` by the name that an entry of them has here."""
    table = tomllib.loads((resources.files("leaderboard.board") / "field.toml").read_text(encoding="utf-8"))
    return {
        model: Elsewhere(
            table["names"][model], table["source"], {name: (mrr, hits) for name, (mrr, hits) in of.items()}
        )
        for model, of in table["figures"].items()
    }
