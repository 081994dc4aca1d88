"""The transfer matrix: what a model trained on a topic reaches on every other topic, and the scenarios it suggests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtbench.files import tables
from mtbench.names import FloatArray


@dataclass(frozen=True)
class Scenario:
    """Two topics to train on together, and for each a test topic on which it does better than its partner.

    ``between`` is the larger MRR of the two topics on each other: the lower it is, the less they have in
    common. ``gains`` are, per test topic, the MRR under its own training topic less that under its partner.
    """

    train: tuple[str, str]
    test: tuple[str, str]
    between: float
    gains: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Matrix:
    """The MRR ``(n, m)`` of a model trained on the topic of the row and scored on that of the column.

    ``tests`` are the topics of the columns, if they differ from those of the rows. Cells that are not scored yet, or
    ran out of memory, are NaN; ``statuses`` says which, by row and column.
    """

    name: str
    model: str
    topics: Sequence[str]
    values: FloatArray
    statuses: Mapping[tuple[str, str], str]
    tests: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.topics), len(self.columns)):
            raise ValueError(f"{len(self.topics)} and {len(self.columns)} topics, values of shape {self.values.shape}")

    @property
    def columns(self) -> Sequence[str]:
        """The topics that are scored on."""
        return self.tests or self.topics

    def table(self, format: str = "text") -> str:  # noqa: A002
        """Return the matrix as ``text``, ``markdown``, ``latex`` or ``csv``, which has all digits."""
        rows = [[row, *(self._cell(row, column, format) for column in self.columns)] for row in self.topics]
        return tables.lay_out(["train \\ test" if format != "csv" else "train", *self.columns], rows, format)

    def _cell(self, row: str, column: str, format: str) -> tables.Cell:  # noqa: A002
        value = float(self.values[self.topics.index(row), self.columns.index(column)])
        if math.isnan(value):
            return self.statuses.get((row, column), "")
        return value if format == "csv" else f"{value:.3f}"

    def scenarios(self, most: int = 5) -> list[Scenario]:
        """Return the scenarios the matrix suggests by the rule of the paper's appendix "Datasets Construction".

        Its words: train on two topics "such that when trained on one and evaluated on the other the performance
        is low"; then "one test topic for each training topic", such that the model trained on that one "performs
        well" there, which "may not necessarily be observed" under the other. It names no threshold. Here pairs
        are sorted by the larger of their two values on each other, and the test topic of a training topic is where
        it exceeds its partner by most; a pair in which a topic never exceeds its partner makes no scenario.
        Topics are left out until no cell is missing among the rest. A matrix whose columns differ from its rows
        suggests none.
        """
        if self.tests:
            return []
        known = list(range(len(self.topics)))
        # The topic with most missing cells goes first: dropping every topic with a missing cell would keep fewer.
        while (missing := np.isnan(self.values[np.ix_(known, known)])).any():
            del known[int((missing.sum(axis=0) + missing.sum(axis=1)).argmax())]
        scenarios = []
        for first, second in itertools.combinations(known, 2):
            tests = [index for index in known if index not in (first, second)]
            if not tests:
                continue
            gain = self.values[first, tests] - self.values[second, tests]
            best, worst = int(gain.argmax()), int(gain.argmin())
            if gain[best] <= 0 or gain[worst] >= 0:
                continue
            scenarios.append(
                Scenario(
                    train=(self.topics[first], self.topics[second]),
                    test=(self.topics[tests[best]], self.topics[tests[worst]]),
                    between=float(max(self.values[first, second], self.values[second, first])),
                    gains=(float(gain[best]), float(-gain[worst])),
                )
            )
        return sorted(scenarios, key=lambda scenario: (scenario.between, scenario.train))[:most]

    def to_dict(self) -> dict[str, object]:
        """Return the matrix and its scenarios as plain JSON values; a missing cell is null."""
        return {
            "name": self.name,
            "model": self.model,
            "topics": list(self.topics),
            **({"tests": list(self.tests)} if self.tests else {}),
            "mrr": [[None if math.isnan(value) else value for value in row] for row in self.values.tolist()],
            "not_scored": [
                {"train": row, "test": column, "status": status} for (row, column), status in self.statuses.items()
            ],
            "scenarios": [vars(scenario) for scenario in self.scenarios()],
        }


def scenario_table(scenarios: Sequence[Scenario]) -> str:
    """Return scenarios as a table, the pair that transfers worst first."""
    rows = [
        [
            " + ".join(scenario.train),
            f"{scenario.between:.3f}",
            *(f"{topic} (+{gain:.3f})" for topic, gain in zip(scenario.test, scenario.gains, strict=True)),
        ]
        for scenario in scenarios
    ]
    headings = ["train on", "MRR on each other", "test for the first", "test for the second"]
    return tables.lay_out(headings, rows, "text")


def scenario_file(scenarios: Sequence[Scenario], version: str) -> str:
    """Return scenarios over published topics as a file for ``mtbench build wikitopics --scenario``."""
    lines = ["# Proposed by mtbench grid; build them with", "# mtbench build wikitopics --raw DUMP --scenario FILE"]
    lines.append("[scenarios]")
    for scenario in scenarios:
        train, test = (", ".join(f'"{topic}"' for topic in part) for part in (scenario.train, scenario.test))
        lines.append(f'{"-".join(scenario.train)} = {{ version = "{version}", train = [{train}], test = [{test}] }}')
    return "\n".join(lines) + "\n"
