"""The parts of a page beyond the board: strata and audit of a dataset, learning curves, tasks of relations, transfer.

Each of them needs something that may be absent (the dataset, a file of the run, a folder); then the page says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from leaderboard.board.board import PAPER, DatasetBoard, Figure, Line, over_seeds
from leaderboard.entries.entries import Entry
from leaderboard.entries.runs import may_name_targets
from leaderboard.site import pictures
from leaderboard.site.cells import DASH, Cell, Column, Group, Row, Table, figure_cell, slug
from leaderboard.site.pictures import MOST
from mtbench.analysis.auditing import audit
from mtbench.data.loading import load
from mtbench.data.splits import Dataset
from mtbench.errors import MtbenchError, ResultError, UsageError
from mtbench.names import FloatArray
from mtbench.runs.directory import HISTORY_FILE, TASKS_FILE, Run
from mtbench.runs.origin import splits_of
from mtbench.runs.strata import QUERY, STRATA, Labels, by, by_target
from mtbench.settings.setting import Setting
from mtbench.settings.table import MAIN

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
    """The datasets of a rendering, the strata of their targets and the ranks of runs, each computed once."""

    def __init__(self) -> None:
        self._datasets: dict[str, Dataset | None] = {}
        self._labels: dict[tuple[str, str], Labels | None] = {}
        self._ranks: dict[tuple[Run, Setting], dict[str, FloatArray] | None] = {}

    def get(self, name: str) -> Dataset | None:
        """Return a dataset, None if it can be neither loaded nor fetched."""
        if name not in self._datasets:
            try:
                self._datasets[name] = load(name)
            except MtbenchError:  # not shown, because its message names folders of this machine
                self._datasets[name] = None
        return self._datasets[name]

    @property
    def absent(self) -> list[str]:
        """The datasets that were asked for and are not at hand."""
        return [name for name, dataset in self._datasets.items() if dataset is None]

    def labels(self, key: str, dataset: Dataset) -> Labels | None:
        """Return the stratum of every test target, None where the dataset lacks what the division needs."""
        if (dataset.name, key) not in self._labels:
            try:
                self._labels[dataset.name, key] = STRATA[key](dataset.test, dataset.train)
            except UsageError:
                self._labels[dataset.name, key] = None
        return self._labels[dataset.name, key]

    def by_target(self, run: Run, dataset: Dataset, setting: Setting) -> dict[str, FloatArray] | None:
        """Return the reciprocal rank of every test target in a setting, and that of chance.

        None for a run on another version of the dataset, or without ranks.
        """
        if (run, setting) not in self._ranks:
            result = run.results.get(setting)
            try:
                split = None if result is None or not len(result.ranks) else splits_of(result, dataset)[0]
                values_of = None if result is None or split is None else by_target(result, split, ("metrics", "chance"))
                made = {kind: values["mrr"] for kind, values in values_of.items()} if values_of else None
            except ResultError:
                made = None
            self._ranks[run, setting] = made
        return self._ranks[run, setting]

    def half_links(self, run: Run, name: str, setting: Setting) -> dict[str, float] | None:
        """Return the MRR of a run by the half-links of its queries (`mtbench.runs.strata.QUERIES`), None if unknown."""
        dataset, result = self.get(name), run.results.get(setting)
        if dataset is None or result is None:
            return None
        try:
            return {stratum.label: stratum.metrics["mrr"] for stratum in by(result, QUERY, dataset)}
        except ResultError:  # of another version of the dataset
            return None


def strata(
    name: str, lines: Sequence[Line], data: Data, setting: Setting, *, drawn: bool = True
) -> tuple[str, Sequence[Table], str]:
    """Return picture and tables of the strata of up to `MOST` entries on a dataset, and else why there are none."""
    if not lines:
        return "", (), "nothing is ranked here yet."
    if (dataset := data.get(lines[0].dataset)) is None:
        return "", (), ABSENT
    lines = lines[:MOST]
    if not any(setting in run.results for line in lines for run in line.entry.runs[line.dataset]):
        return "", (), f"no run was ranked under the protocol {setting.protocol} among relation types that are present."
    # A division with a single stratum says nothing.
    panels = {
        title: rows
        for key, title in PANELS.items()
        if len(rows := stratum_rows(key, lines, dataset, data, setting)) > 1
    }
    if not panels:
        return "", (), "all test triples lie in one stratum."
    names = [line.name for line in lines]
    columns = [*map(Column, names), Column("Chance")]
    tables = []
    for number, (title, rows) in enumerate(panels.items()):
        cells = [[*map(figure_cell, row.means), figure_cell(Figure(row.chance or 0.0))] for row in rows]
        shown = [Row(row.label, row_cells, words=row.label) for row, row_cells in zip(rows, cells, strict=True)]
        tables.append(Table(f"{name}-{number}", title, "Stratum (triples)", columns, [Group(shown)]))
    if not drawn:
        return "", tables, ""
    said = f"MRR of {', '.join(names)} on {lines[0].dataset} by stratum; the figures are in the tables below it."
    return pictures.inline(pictures.draw_panels(panels, names, left=190), f"{name}-picture", said), tables, ""


def stratum_rows(key: str, lines: Sequence[Line], dataset: Dataset, data: Data, setting: Setting) -> list[pictures.Row]:
    """Return the strata that have targets, each with the MRR of the entries and of chance."""
    ranked = [
        [of_run for run in line.entry.runs[line.dataset] if (of_run := data.by_target(run, dataset, setting))]
        for line in lines
    ]
    labels = data.labels(key, dataset)
    if not any(ranked) or labels is None:
        return []
    sizes = np.bincount(labels.case, minlength=len(labels.names))

    def means(values: FloatArray) -> FloatArray:
        return np.bincount(labels.case, values, len(labels.names)) / np.maximum(sizes, 1)

    chance = means(next(seeds for seeds in ranked if seeds)[0]["chance"])
    by_line = [[means(of_run["metrics"]) for of_run in seeds] for seeds in ranked]
    return [
        pictures.Row(
            f"{label} ({sizes[place]:,})",
            [over_seeds(float(of_run[place]) for of_run in seeds) if seeds else None for seeds in by_line],
            chance=float(chance[place]),
        )
        for place, label in enumerate(labels.names)
        if sizes[place]
    ]


def findings(part: DatasetBoard, data: Data) -> tuple[Sequence[str], str]:
    """Return the findings of a dataset's audit, or why there is none."""
    # Without seeds no candidates are drawn again: their hashes are published.
    dataset = data.get(part.name)
    return ((), ABSENT) if dataset is None else (audit(dataset, seeds=()).findings, "")


def paper_against_ours(part: DatasetBoard, names: Mapping[str, str]) -> str:
    """Return a picture of all reported MRRs beside ours in the same evaluation setting, empty if none is reported.

    ``names`` are the names of the entries by slug.
    """
    panels: dict[str, list[pictures.Row]] = {}
    said = []
    for protocol in MAIN:
        for model, cells in part.reported.items():
            cell = cells.get((protocol, "mrr"))
            if cell is None:
                continue
            printed = None if cell.mean is None else Figure(cell.mean, cell.std)
            lines = [line for line in part.lines if line.entry.card.model == model]
            pairs = [(line.name, line.figure(PAPER, protocol)) for line in lines] or [(names.get(model, model), None)]
            for label, ours in pairs:
                row = pictures.Row(label, (printed, ours), remark="" if printed else "out of memory")
                panels.setdefault(protocol.capitalize(), []).append(row)
                said.append(f"{protocol} {label}: reported {cell}, here {ours or 'not run'}")
    if not panels:
        return ""
    title = f"Reported and re-evaluated MRR on {part.name}, each row in its own evaluation setting. {'; '.join(said)}."
    drawn = pictures.draw_panels(panels, ("reported, MRR", "re-evaluated, MRR"), hollow=0)
    return pictures.inline(drawn, f"{slug(part.name)}-paper", title)


def curves(entry: Entry, dataset: str) -> str:
    """Return the learning curves of an entry on a dataset, a line per seed; empty if no run has any."""
    history: dict[str, Sequence[Mapping[str, float]]] = {}
    for run in entry.runs[dataset]:
        path = run.directory.path / HISTORY_FILE
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
    return pictures.inline(pictures.draw_curves(history), f"{slug(dataset)}-curves", title)


def tasks(entry: Entry, dataset: str) -> list[Table]:
    """Return the shares of relation types in tasks in the first run of an entry, a table per graph.

    Only for datasets made by this package: the names of others may not be published.
    """
    path = entry.runs[dataset][0].directory.path / TASKS_FILE
    if not may_name_targets(dataset) or not path.is_file():
        return []
    tables = []
    for graph, graph_tasks in json.loads(path.read_text(encoding="utf-8"))["graphs"].items():
        columns = [Column("Ground truth", sort="text"), *(Column(f"Task {k + 1}") for k in range(graph_tasks["tasks"]))]
        relations = sorted(graph_tasks["relations"].items(), key=lambda about: (about[1]["truth"] or "~", about[0]))
        rows = [
            Row(
                relation,
                [
                    Cell(about["truth"] or "unknown"),
                    *(Cell(f"{share:.2f}", value=share, shade=shade(share)) for share in about["alpha"]),
                ],
                words=relation,
            )
            for relation, about in relations
        ]
        hard = graph_tasks["hard"]
        agreement = f"; agreement with the ground truth: ARI {hard['ari']:.3f}, NMI {hard['nmi']:.3f}" if hard else ""
        seed = entry.runs[dataset][0].headline.run.seed
        caption = f"{graph.capitalize()} graph, seed {seed}: share of each relation type in each task{agreement}"
        tables.append(Table(f"tasks-{slug(dataset)}-{slug(graph)}", caption, "Relation type", columns, [Group(rows)]))
    return tables


def transfers(entries: Path) -> list[Table]:
    """Return the matrices of `mtbench grid --train` in the folder ``transfer`` beside the entries, as shaded tables."""
    folder = entries.parent / "transfer"
    tables = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/matrix.json")]):
        plan, name = path.with_name("plan.json"), path.parent.name if path.name == "matrix.json" else path.stem
        try:
            matrix = json.loads(path.read_text(encoding="utf-8"))
            options = json.loads(plan.read_text(encoding="utf-8"))["settings"] if plan.exists() else {}
            tests = [str(topic) for topic in matrix.get("tests", matrix["topics"])]
            missing = {
                (unscored["train"], unscored["test"]): str(unscored["status"]) for unscored in matrix["not_scored"]
            }
            rows = []
            for topic, line in zip(map(str, matrix["topics"]), matrix["mrr"], strict=True):
                cells = [
                    Cell(f"{mrr:.3f}", value=mrr, shade=shade(mrr))
                    if mrr is not None
                    else Cell(missing.get((topic, test), DASH), kind="missing oom")
                    for test, mrr in zip(tests, line, strict=True)
                ]
                rows.append(Row(topic, cells, words=topic))
            settings = f" ({', '.join(f'{key}={value}' for key, value in sorted(options.items()))})" if options else ""
            caption = f"{matrix['model']}{settings}, {matrix['name']}: MRR, trained on the row and tested on the column"
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MtbenchError(f"{path}: no matrix of mtbench grid ({error}); remove it, or make it again") from error
        columns = list(map(Column, tests))
        tables.append(Table(f"transfer-{slug(name)}", caption, "Trained on", columns, [Group(rows)], dense=True))
    return tables


def shade(share: float) -> int:
    """Return one of ten steps of shading for a number from 0 to 1."""
    return min(9, max(0, int(10 * share)))
