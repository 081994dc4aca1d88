"""Which kind of target the entries of a dataset get right: `mtbench.results.strata` of many runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from leaderboard.board.board import Figure, Line, over_seeds
from leaderboard.entries.entries import HEADLINE, Run
from leaderboard.site import pictures
from leaderboard.site.cells import Column, Group, Row, Table, count, figure_cell
from leaderboard.site.pictures import MOST, Panel, Rows
from mtbench.data.loading import load
from mtbench.data.splits import Dataset
from mtbench.errors import MtbenchError, ResultError, UsageError
from mtbench.results.strata import Strata, by

PANELS = {
    "half_link": "By half-links observable in the test graph",
    "inverse_visible": "By whether the inverse is observable",
    "relation_seen": "By whether the relation type was trained on",
    "distance": "By the distance of head and tail",
    "degree": "By the degree of the ends",
    "task": "By the predictive pattern of the relation type",
}


class Data:
    """The datasets of a rendering and the strata of its runs, each had at most once."""

    def __init__(self) -> None:
        self._found: dict[str, Dataset | str] = {}
        self._strata: dict[tuple[Run, str], Strata | None] = {}

    def get(self, name: str) -> Dataset | str:
        """Return a dataset, or in one sentence that it cannot be had."""
        if name not in self._found:
            try:
                self._found[name] = load(name)
            except MtbenchError:  # its message names folders of this machine
                self._found[name] = "this needs the dataset, which was not at hand when the page was made."
        return self._found[name]

    def by(self, key: str, run: Run, found: Dataset) -> Strata | None:
        """Return the headline of a run by stratum, None where run or dataset have none.

        A dataset may lack what a division needs, and a run may be of another version of it or without ranks.
        """
        if (run, key) not in self._strata:
            result = run.results.get(HEADLINE)
            try:
                self._strata[run, key] = None if result is None else by(result, key, found)
            except (ResultError, UsageError):
                self._strata[run, key] = None
        return self._strata[run, key]


def strata(name: str, lines: Sequence[Line], data: Data) -> tuple[str, Sequence[Table], str]:
    """Return the picture of the strata of up to four entries on a dataset, its tables, or why there are none."""
    found = data.get(lines[0].dataset) if lines else "nothing is ranked here yet."
    if isinstance(found, str):
        return "", (), found
    lines = lines[:MOST]
    if not any(HEADLINE in run.results for line in lines for run in line.entry.runs[line.dataset]):
        return "", (), f"no run was ranked under the protocol {HEADLINE[0]} among relation types that are present."
    panels = [Panel(title, rows) for key, title in PANELS.items() if len(rows := _rows(key, lines, found, data)) > 1]
    if not panels:
        return "", (), "all targets lie in one stratum."
    names = {line.entry.slug: line.name for line in lines}
    tables = [_panel_table(f"{name}-{number}", panel, names) for number, panel in enumerate(panels)]
    title = (
        f"MRR of {', '.join(names.values())} on {lines[0].dataset} by stratum; the figures are in the tables below it."
    )
    return pictures.draw(f"{name}-picture", partial(pictures.draw_panels, panels, names), title), tables, ""


def _rows(key: str, lines: Sequence[Line], found: Dataset, data: Data) -> Rows:
    runs = {
        line.entry.slug: seeds
        for line in lines
        if (seeds := [one for run in line.entry.runs[line.dataset] if (one := data.by(key, run, found))])
    }
    first = next(iter(runs.values()), [()])[0]
    return tuple(
        (
            row.label,
            row.targets,
            row.chance["mrr"],
            {slug: over_seeds(one[row.label].metrics["mrr"] for one in seeds) for slug, seeds in runs.items()},
        )
        for row in first
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
    columns = [Column("Targets"), *(Column(entry) for entry in entries.values()), Column("Chance")]
    return Table(name, panel.name, "Stratum", columns, [Group(rows)])
