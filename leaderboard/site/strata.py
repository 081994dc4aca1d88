"""Which kind of test triple the entries of a dataset get right: the strata of `mtbench.runs`, of many runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from leaderboard.board.board import Figure, Line, over_seeds
from leaderboard.site import pictures
from leaderboard.site.cells import Column, Group, Row, Table, count, figure_cell
from leaderboard.site.pictures import MOST, Panel, Rows
from mtbench.data.loading import load
from mtbench.data.splits import Dataset
from mtbench.errors import MtbenchError, ResultError, UsageError
from mtbench.names import FloatArray
from mtbench.runs.directory import HEADLINE, Run
from mtbench.runs.origin import splits_of
from mtbench.runs.strata import STRATA, Labels, by_target

PANELS = {
    "half_link": "By half-links in the inference graph",
    "inverse_visible": "By whether the inverse is in the inference graph",
    "relation_seen": "By whether the relation type was trained on",
    "distance": "By the distance of head and tail",
    "degree": "By the degree of the ends",
    "task": "By the predictive pattern of the relation type",
}


ABSENT = "this needs the dataset, which was not at hand when the page was made."


class Data:
    """The datasets of a rendering, the labels of their targets and what runs make of these, each had at most once."""

    def __init__(self) -> None:
        self._found: dict[str, Dataset | str] = {}
        self._labels: dict[tuple[str, str], Labels | None] = {}
        self._ranks: dict[Run, dict[str, FloatArray] | None] = {}

    def get(self, name: str) -> Dataset | str:
        """Return a dataset, or in one sentence that it cannot be had."""
        if name not in self._found:
            try:
                self._found[name] = load(name)
            except MtbenchError:  # its message names folders of this machine
                self._found[name] = ABSENT
        return self._found[name]

    def labels(self, key: str, found: Dataset) -> Labels | None:
        """Return the stratum of every test target, None where the dataset lacks what the division needs."""
        if (found.name, key) not in self._labels:
            try:
                self._labels[found.name, key] = STRATA[key](found.test, found.train)
            except UsageError:
                self._labels[found.name, key] = None
        return self._labels[found.name, key]

    def by_target(self, run: Run, found: Dataset) -> dict[str, FloatArray] | None:
        """Return the reciprocal rank of every test target under the headline, and that of chance.

        None for a run on another version of the dataset, or without ranks.
        """
        if run not in self._ranks:
            result = run.results.get(HEADLINE)
            try:
                split = None if result is None or not len(result.ranks) else splits_of(result, found)[0]
                told = None if result is None or split is None else by_target(result, split, ("metrics", "chance"))
                self._ranks[run] = {kind: values["mrr"] for kind, values in told.items()} if told else None
            except ResultError:
                self._ranks[run] = None
        return self._ranks[run]


def strata(name: str, lines: Sequence[Line], data: Data, *, drawn: bool = True) -> tuple[str, Sequence[Table], str]:
    """Return the picture of the strata of up to four entries on a dataset, its tables, or why there are none."""
    found = data.get(lines[0].dataset) if lines else "nothing is ranked here yet."
    if isinstance(found, str):
        return "", (), found
    lines = lines[:MOST]
    if not any(HEADLINE in run.results for line in lines for run in line.entry.runs[line.dataset]):
        return "", (), f"no run was ranked under the protocol {HEADLINE[0]} among relation types that are present."
    panels = [Panel(title, rows) for key, title in PANELS.items() if len(rows := _rows(key, lines, found, data)) > 1]
    if not panels:
        return "", (), "all test triples lie in one stratum."
    names = {line.entry.slug: line.name for line in lines}
    tables = [_panel_table(f"{name}-{number}", panel, names) for number, panel in enumerate(panels)]
    title = (
        f"MRR of {', '.join(names.values())} on {lines[0].dataset} by stratum; the figures are in the tables below it."
    )
    return pictures.inline(pictures.draw_panels(panels, names), f"{name}-picture", title) if drawn else "", tables, ""


def _rows(key: str, lines: Sequence[Line], found: Dataset, data: Data) -> Rows:
    """Return the strata that have targets, each with the MRR of the entries."""
    told = {
        line.entry.slug: seeds
        for line in lines
        if (seeds := [one for run in line.entry.runs[line.dataset] if (one := data.by_target(run, found))])
    }
    labels = data.labels(key, found)
    if not told or labels is None:
        return ()
    chance = next(iter(told.values()))[0]["chance"]
    sizes = np.bincount(labels.case, minlength=len(labels.names))

    def means(values: FloatArray) -> FloatArray:
        return np.bincount(labels.case, values, len(labels.names)) / np.maximum(sizes, 1)

    of_chance = means(chance)
    of_entries = {slug: [means(one["metrics"]) for one in seeds] for slug, seeds in told.items()}
    return tuple(
        (
            label,
            int(sizes[place]),
            float(of_chance[place]),
            {slug: over_seeds(float(one[place]) for one in seeds) for slug, seeds in of_entries.items()},
        )
        for place, label in enumerate(labels.names)
        if sizes[place]
    )


def _panel_table(name: str, panel: Panel, entries: Mapping[str, str]) -> Table:
    rows = [
        Row(
            label,
            [count(targets), *(figure_cell(found.get(entry)) for entry in entries), figure_cell(Figure(chance))],
            words=label,
        )
        for label, targets, chance, found in panel.rows
    ]
    columns = [Column("Triples"), *(Column(entry) for entry in entries.values()), Column("Chance")]
    return Table(name, panel.name, "Stratum", columns, [Group(rows)])
