"""What was reported: every cell of the paper's tables as data, with its errata and its evaluation setting.

Source: Zhou et al. 2023, "A Multi-Task Perspective for Link Prediction with New Relation Types and Nodes", main
text and appendix; the settings are those of `mtbench.settings.table`, which says where each comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from mtbench.settings.setting import Setting
from mtbench.settings.table import codes_of, setting_in


@dataclass(frozen=True)
class Cell:
    """One printed figure: mean and standard deviation over the paper's seeds, or neither for a run out of memory.

    ``table`` and ``where`` say where it stands; ``erratum`` is what is known to be wrong with it.
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
        """How it was scored: candidates, vocabulary and ties."""
        return setting_in(codes_of(self.model)[0], self.protocol)

    def __str__(self) -> str:
        if self.mean is None:
            return self.status.upper()
        return f"{self.mean:.3f}" if self.std is None else f"{self.mean:.3f} ({self.std:.3f})"


@cache
def cells() -> tuple[Cell, ...]:
    """Return every cell, in the order of the tables."""
    text = (resources.files("leaderboard.board") / "paper.json").read_text(encoding="utf-8")
    return tuple(Cell(**one) for one in json.loads(text))


def best(found: Iterable[Cell]) -> Cell | None:
    """Return the cell to quote of several for one figure: one without an erratum, else the first."""
    some = list(found)
    return next((cell for cell in some if not cell.erratum), some[0] if some else None)


def of(dataset: str, model: str) -> dict[tuple[str, str], Cell]:
    """Return what is reported of a model on a dataset, by protocol and metric."""
    gathered: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells():
        if (cell.dataset, cell.model) == (dataset, model):
            gathered.setdefault((cell.protocol, cell.metric), []).append(cell)
    return {key: one for key, some in gathered.items() if (one := best(some))}


def datasets() -> tuple[str, ...]:
    """Return the datasets of the paper, in the order of its tables."""
    return tuple(dict.fromkeys(cell.dataset for cell in cells()))


def models() -> tuple[str, ...]:
    """Return the rows of the paper's tables, in their order."""
    return tuple(dict.fromkeys(cell.model for cell in cells()))
