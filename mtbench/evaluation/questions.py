"""What a task asks of a scorer: its triples, of which split, and which candidates they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mtbench.data.splits import Split
from mtbench.names import Direction, IntArray
from mtbench.ranking.scorers import SHOWN


@dataclass(frozen=True, eq=False)
class Questions:
    """The distinct triples ``(k, 3)`` of a task, sorted; its name, its split and its candidates' hash.

    ``rows`` are those that every direction asks for; ``direction`` is the one whose triples these are, empty for all.
    """

    name: str
    split: Split
    triples: IntArray
    candidates_sha256: str
    rows: Mapping[Direction, IntArray]
    direction: str = ""

    @property
    def where(self) -> str:
        """Dataset and split, as messages begin."""
        return f"{self.split.dataset} {self.split.name}" + (f", direction {self.direction}" if self.direction else "")

    def of(self, direction: Direction) -> Questions:
        """Return what one direction asks for."""
        return replace(self, triples=self.triples[self.rows[direction]], direction=direction)

    def shown(self, rows: IntArray) -> str:
        """Return the first few of the triples in some rows by name, and how many more there are."""
        names = "; ".join(f"({', '.join(name)})" for name in self.split.named(self.triples[rows[:SHOWN]]))
        return names + (f"; and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")
