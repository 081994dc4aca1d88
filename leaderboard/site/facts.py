"""What a page says beyond the board: the audit of a dataset, strata of ranks, curves of a training, tasks, transfer.

Each part needs something that may be absent: the dataset, a file of the run, a folder. Then the page says so.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from leaderboard.board import DatasetBoard, Figure, Line
from leaderboard.entries import HEADLINE, Entry
from leaderboard.site import drawings, inline
from leaderboard.site.drawings import MOST, Pair, Panel
from leaderboard.site.readings import PAPER, value
from leaderboard.site.views import Cell, Column, Group, Row, Table, figure_cell, slug
from mtbench.audit import audit
from mtbench.datasets import load
from mtbench.errors import MtbenchError
from mtbench.learned import HISTORY_FILE, TASKS_FILE
from mtbench.splits import Dataset

PANELS = {
    "half_link": "By half-links observable in the test graph",
    "inverse_visible": "By whether the inverse is observable",
    "relation_seen": "By whether the relation type was trained on",
    "distance": "By the distance of head and tail",
    "degree": "By the degree of the ends",
    "task": "By the predictive pattern of the relation type",
}
OURS = ("metafam", "metafam-strict")
"""Datasets made by this package, whose targets and tasks may be shown by name."""


class Data:
    """The datasets of a rendering, each loaded at most once."""

    def __init__(self) -> None:
        self._found: dict[str, Dataset | str] = {}

    def get(self, name: str) -> Dataset | str:
        """Return a dataset, or in one sentence that it cannot be had."""
        if name not in self._found:
            try:
                self._found[name] = load(name)
            except MtbenchError:  # its message names folders of this machine
                self._found[name] = "this needs the dataset, which was not at hand when the page was made."
        return self._found[name]


def findings(part: DatasetBoard, data: Data) -> tuple[Sequence[str], str]:
    """Return what the audit of a dataset finds, or why there is none."""
    found = data.get(part.name)
    return ((), found) if isinstance(found, str) else (audit(found).findings, "")


def paper_against_ours(part: DatasetBoard, names: Mapping[str, str]) -> str:
    """Return a picture of all reported MRRs beside ours under the same convention; empty where none are reported.

    ``names`` are those of the entries, by slug.
    """
    lines = {line.entry.slug: line for line in part.lines}
    panels: dict[str, list[Pair]] = {}
    said = []
    for protocol in ("dual", "entity", "relation"):
        for model, cells in part.reported.items():
            cell = cells.get((protocol, "mrr"))
            if cell is None:
                continue
            line = lines.get(model)
            ours = value(line, PAPER, protocol) if line else None
            printed = None if cell.mean is None else Figure(cell.mean, cell.std)
            label = names.get(model, model)
            panels.setdefault(protocol, []).append(Pair(label, printed, ours, "" if printed else "out of memory"))
            said.append(f"{protocol} {label}: reported {cell}, here {ours or 'not run'}")
    if not panels:
        return ""
    title = f"Reported and re-evaluated MRR on {part.name}, each row under its own convention. {'; '.join(said)}."
    return inline.draw(f"{slug(part.name)}-paper", partial(drawings.draw_pairs, panels), title)


def strata(name: str, lines: Sequence[Line], data: Data) -> tuple[str, Sequence[Table], str]:
    """Return the picture of the strata of up to four entries on a dataset, its tables, or why there are none."""
    found = data.get(lines[0].dataset) if lines else "nothing is ranked here yet."
    if isinstance(found, str):
        return "", (), found
    lines = lines[:MOST]
    panels = [Panel(PANELS[key], rows) for key in PANELS if len(rows := _rows(key, lines, found)) > 1]
    if not panels:
        return "", (), "all targets lie in one stratum."
    names = [line.entry.card.name for line in lines]
    tables = [_panel_table(f"{name}-{number}", panel, names) for number, panel in enumerate(panels)]
    title = f"MRR of {', '.join(names)} on {lines[0].dataset} by stratum; the figures are in the tables below it."
    return inline.draw(f"{name}-picture", partial(drawings.draw_panels, panels, names), title), tables, ""


def _rows(key: str, lines: Sequence[Line], data: Dataset) -> list[tuple[str, int, float, Mapping[str, Figure]]]:
    gathered: dict[str, tuple[int, float, dict[str, list[float]]]] = {}
    for line in lines:
        for run in line.entry.runs[line.dataset]:
            result = run.results.get(HEADLINE)
            if result is None or not len(result.ranks):
                continue
            try:
                rows = result.by(key, data)
            except MtbenchError:  # the strata do not apply to the dataset, or the run is of another version of it
                continue
            for row in rows:
                _, _, found = gathered.setdefault(row.label, (row.targets, row.chance["mrr"], {}))
                found.setdefault(line.entry.card.name, []).append(row.metrics["mrr"])
    return [
        (label, targets, chance, {entry: _figure(some) for entry, some in found.items()})
        for label, (targets, chance, found) in gathered.items()
    ]


def _figure(values: Sequence[float]) -> Figure:
    return Figure(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def _panel_table(name: str, panel: Panel, entries: Sequence[str]) -> Table:
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
    columns = [Column("Targets"), *(Column(entry) for entry in entries), Column("Chance")]
    return Table(name, panel.name, "Stratum", columns, [Group(rows)])


def curves(entry: Entry, dataset: str) -> str:
    """Return the learning curves of an entry on a dataset, a line per seed; empty where no run kept any."""
    history: dict[str, Sequence[Mapping[str, float]]] = {}
    for run in entry.runs[dataset]:
        path = run.directory / HISTORY_FILE
        if path.is_file():
            for stage, records in json.loads(path.read_text(encoding="utf-8")).items():
                if records and "valid_mrr" in records[0]:
                    history[f"seed {run.headline.run.seed}" + (f", {stage}" if stage != "train" else "")] = records
    if not history:
        return ""
    said = []
    for stage, records in history.items():
        best = max(records, key=lambda record: record.get("valid_mrr", -math.inf))
        said.append(f"{stage}: best validation MRR {best['valid_mrr']:.3f} in epoch {best['epoch']:.0f}")
    title = f"Training of {entry.card.name} on {dataset}. {'; '.join(said)}."
    return inline.draw(f"{slug(dataset)}-curves", partial(drawings.draw_curves, history), title)


def tasks(entry: Entry, dataset: str) -> list[Table]:
    """Return the shares of relation types in tasks that the first run of an entry kept, a table per graph.

    Only of datasets made by this package: the names of others are not ours to publish.
    """
    path = entry.runs[dataset][0].directory / TASKS_FILE
    if dataset not in OURS or not path.is_file():
        return []
    found = []
    for graph, told in json.loads(path.read_text(encoding="utf-8"))["graphs"].items():
        columns = [Column("Ground truth", sort="text"), *(Column(f"Task {k + 1}") for k in range(told["tasks"]))]
        relations = sorted(told["relations"].items(), key=lambda one: (one[1]["truth"] or "~", one[0]))
        rows = [
            Row(
                relation,
                [
                    Cell(one["truth"] or "unknown"),
                    *(Cell(f"{share:.2f}", value=share, shade=shade(share)) for share in one["alpha"]),
                ],
                words=relation,
            )
            for relation, one in relations
        ]
        hard = told["hard"]
        agreement = f"; agreement with the ground truth: ARI {hard['ari']:.3f}, NMI {hard['nmi']:.3f}" if hard else ""
        seed = entry.runs[dataset][0].headline.run.seed
        caption = f"{graph.capitalize()} graph, seed {seed}: share of each relation type in each task{agreement}"
        found.append(Table(f"tasks-{slug(dataset)}-{slug(graph)}", caption, "Relation type", columns, [Group(rows)]))
    return found


def transfers(entries: Path) -> list[Table]:
    """Return the matrices of `mtbench transfer` that lie beside the entries, in ``transfer/``, as shaded tables."""
    folder = entries.parent / "transfer"
    found = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/matrix.json")]):
        name = slug(path.parent.name if path.name == "matrix.json" else path.stem)
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            topics = [str(topic) for topic in told["topics"]]
            missing = {(one["train"], one["test"]): str(one["status"]) for one in told["not_scored"]}
            rows = [
                Row(
                    topic,
                    [
                        _transfer_cell(mrr, missing.get((topic, other), ""))
                        for other, mrr in zip(topics, line, strict=True)
                    ],
                    words=topic,
                )
                for topic, line in zip(topics, told["mrr"], strict=True)
            ]
            caption = f"{told['model']}, {told['name']}: MRR, trained on the row and tested on the column"
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MtbenchError(
                f"{path}: no matrix of mtbench transfer ({error}); remove it, or make it again"
            ) from error
        columns = [Column(topic) for topic in topics]
        found.append(Table(f"transfer-{name}", caption, "Trained on", columns, [Group(rows)], dense=True))
    return found


def _transfer_cell(mrr: float | None, status: str) -> Cell:
    if mrr is None:
        return Cell(status or "-", kind="oom" if status == "oom" else "missing")
    return Cell(f"{mrr:.3f}", value=mrr, shade=shade(mrr))


def shade(share: float) -> int:
    """Return one of ten steps of shading for a number from 0 to 1."""
    return min(9, max(0, int(10 * share)))
