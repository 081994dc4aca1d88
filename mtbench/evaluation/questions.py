"""What a task asks of a scorer: its triples, of which split, and which candidates they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtbench.data import graphs
from mtbench.data.splits import Split, unique
from mtbench.errors import UsageError
from mtbench.names import Direction, IntArray
from mtbench.ranking.ranks import SHOWN

PROTOCOL, VOCABULARY = -3, -2
"""Where the parts of a task's name stand that several tasks on one split differ in."""


@dataclass(frozen=True, eq=False)
class Questions:
    """The distinct triples ``(k, 3)`` of a task, or of several, sorted; its name, its split and its candidates' hash.

    ``rows`` are those that every direction asks for; ``direction`` is the one whose triples these are, empty for all.
    The hashes of several tasks are separated by spaces, and their ``name`` ends in options of the command line.
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

    @classmethod
    def together(cls, tasks: Sequence[Questions]) -> Questions:
        """Return what tasks on one split ask for, each triple once; raises `UsageError` for tasks on several splits."""
        first, *others = tasks
        if not others:
            return first
        if other := next((one for one in others if one.split.content_sha256 != first.split.content_sha256), None):
            raise UsageError(f"{first.name} and {other.name} are on different splits: score them apart")
        triples = np.concatenate([one.triples for one in tasks])
        _, places = np.unique(graphs.keys(first.split, triples), return_index=True)
        whole = replace(first, triples=triples[places], rows={})
        asked = {way: [one.of(way) for one in tasks if way in one.rows] for one in tasks for way in one.rows}
        protocols, vocabularies = (
            dict.fromkeys(one.name.split("/")[place] for one in tasks) for place in (PROTOCOL, VOCABULARY)
        )
        options = [f"--protocol {name}" for name in protocols] + [f"--vocabulary {name}" for name in vocabularies]
        *start, _, _, seed = first.name.split("/")
        return replace(
            whole,
            name=" ".join(["/".join([*start, seed]), *options]),
            candidates_sha256=" ".join(one.candidates_sha256 for one in tasks),
            rows={way: unique(np.concatenate([whole.places(one) for one in some])) for way, some in asked.items()},
        )

    def places(self, part: Questions) -> IntArray:
        """Return the rows ``(k,)`` in which the triples of another one, all of them also here, stand."""
        known, wanted = (graphs.keys(self.split, triples) for triples in (self.triples, part.triples))
        found: IntArray = np.searchsorted(known, wanted)
        return found

    def of(self, direction: Direction) -> Questions:
        """Return what one direction asks for."""
        return replace(self, triples=self.triples[self.rows[direction]], direction=direction)

    def shown(self, rows: IntArray) -> str:
        """Return the first few of the triples in some rows by name, and how many more there are."""
        names = "; ".join(f"({', '.join(name)})" for name in self.split.named(self.triples[rows[:SHOWN]]))
        return names + (f"; and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")
