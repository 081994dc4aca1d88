"""Which kind of target the entries of a dataset get right: `mtbench.results.strata` of many runs at once.

A page per entry divides the targets of a dataset the same way again and again, and shortest paths take longest: each
dataset is loaded once here, and each of its divisions made once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from leaderboard.board.board import Figure, Line, over_seeds
from leaderboard.entries.entries import HEADLINE
from leaderboard.site import pictures
from leaderboard.site.cells import Cell, Column, Group, Row, Table, figure_cell
from leaderboard.site.pictures import MOST, Panel, Stratum
from mtbench.data.loading import load
from mtbench.data.splits import Dataset, Split, encode
from mtbench.errors import MtbenchError, UsageError
from mtbench.names import FloatArray
from mtbench.ranking.ranks import Counts
from mtbench.results.labelling import STRATA, Labels
from mtbench.results.result import Result

PANELS = {
    "half_link": "By half-links observable in the test graph",
    "inverse_visible": "By whether the inverse is observable",
    "relation_seen": "By whether the relation type was trained on",
    "distance": "By the distance of head and tail",
    "degree": "By the degree of the ends",
    "task": "By the predictive pattern of the relation type",
}


class Data:
    """The datasets of a rendering and the divisions of their test targets, each had at most once."""

    def __init__(self) -> None:
        self._found: dict[str, Dataset | str] = {}
        self._labels: dict[tuple[str, str], Labels | None] = {}

    def get(self, name: str) -> Dataset | str:
        """Return a dataset, or in one sentence that it cannot be had."""
        if name not in self._found:
            try:
                self._found[name] = load(name)
            except MtbenchError:  # its message names folders of this machine
                self._found[name] = "this needs the dataset, which was not at hand when the page was made."
        return self._found[name]

    def labels(self, data: Dataset, key: str) -> Labels | None:
        """Return the stratum of every test target, None for a division that the dataset does not allow."""
        if (data.name, key) not in self._labels:
            try:
                self._labels[data.name, key] = STRATA[key](data.test, data.train)
            except UsageError:
                self._labels[data.name, key] = None
        return self._labels[data.name, key]


def strata(name: str, lines: Sequence[Line], data: Data) -> tuple[str, Sequence[Table], str]:
    """Return the picture of the strata of up to four entries on a dataset, its tables, or why there are none."""
    found = data.get(lines[0].dataset) if lines else "nothing is ranked here yet."
    if isinstance(found, str):
        return "", (), found
    lines = lines[:MOST]
    panels = [Panel(PANELS[key], rows) for key in PANELS if len(rows := _rows(key, lines, found, data)) > 1]
    if not panels:
        return "", (), "all targets lie in one stratum."
    names = {line.entry.slug: line.entry.card.name for line in lines}
    tables = [_panel_table(f"{name}-{number}", panel, names) for number, panel in enumerate(panels)]
    title = (
        f"MRR of {', '.join(names.values())} on {lines[0].dataset} by stratum; the figures are in the tables below it."
    )
    return pictures.draw(f"{name}-picture", partial(pictures.draw_panels, panels, names), title), tables, ""


def _rows(key: str, lines: Sequence[Line], found: Dataset, data: Data) -> Sequence[Stratum]:
    labels = data.labels(found, key)
    if labels is None:
        return ()
    chance: FloatArray | None = None
    runs: dict[str, list[FloatArray]] = {}
    for line in lines:
        for run in line.entry.runs[line.dataset]:
            result = run.results.get(HEADLINE)
            if result is not None and (values := by_target(result, found.test)) is not None:
                runs.setdefault(line.entry.slug, []).append(values)
                chance = by_target(_tied(result), found.test)
    if chance is None:
        return ()
    rows = []
    for number, label in enumerate(labels.names):
        chosen = labels.case == number
        if chosen.any():
            means = {entry: over_seeds(float(values[chosen].mean()) for values in some) for entry, some in runs.items()}
            rows.append((label, int(chosen.sum()), float(chance[chosen].mean()), means))
    return rows


def by_target(result: Result, split: Split) -> FloatArray | None:
    """Return the reciprocal rank of every target ``(m,)``, in the order of the split; None for a run of another one."""
    ranks = result.ranks
    if not len(ranks) or result.content_sha256 != split.content_sha256 or len(ranks) != len(split.targets):
        return None
    values = result.per_target()["mrr"]
    if not ranks.named:
        return values  # they are kept in the order of the split
    names = zip(ranks.heads.tolist(), ranks.relations.tolist(), ranks.tails.tolist(), strict=True)
    rows = encode(list(names), split.entities, split.relations, f"ranks of {result.run.model} on {result.dataset}")
    ordered = np.empty_like(values)
    ordered[np.lexsort(split.targets.T)] = values[np.lexsort(rows.T)]
    return ordered


def _tied(result: Result) -> Result:
    """Return what a scorer that ties everything gets: chance."""
    sides = {
        side: Counts(np.zeros_like(counts.count), counts.count, counts.count)
        for side, counts in result.ranks.sides.items()
    }
    return replace(result, ranks=replace(result.ranks, sides=sides))


def _panel_table(name: str, panel: Panel, entries: Mapping[str, str]) -> Table:
    rows = [
        Row(
            label,
            [
                Cell(f"{targets:,}", value=float(targets)),
                *(figure_cell(found.get(entry)) for entry in entries),
                figure_cell(Figure(chance)),
            ],
            words=label,
        )
        for label, targets, chance, found in panel.rows
    ]
    columns = [Column("Targets"), *(Column(entry) for entry in entries.values()), Column("Chance")]
    return Table(name, panel.name, "Stratum", columns, [Group(rows)])
