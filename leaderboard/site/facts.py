"""What a page says beyond the board: strata and audit of a dataset, curves of a training, tasks of relations, transfer.

Each part needs something that may be absent: the dataset, a file of the run, a folder. Then the page says so.
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
from mtbench.runs.strata import STRATA, Labels, by_target
from mtbench.settings.table import HEADLINE, MAIN

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
        self._found: dict[str, Dataset | None] = {}
        self._labels: dict[tuple[str, str], Labels | None] = {}
        self._ranks: dict[Run, dict[str, FloatArray] | None] = {}

    def get(self, name: str) -> Dataset | None:
        """Return a dataset, None where it can neither be loaded nor fetched."""
        if name not in self._found:
            try:
                self._found[name] = load(name)
            except MtbenchError:  # its message names folders of this machine
                self._found[name] = None
        return self._found[name]

    @property
    def absent(self) -> list[str]:
        """The datasets that were asked for and could not be had."""
        return [name for name, found in self._found.items() if found is None]

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
    if not lines:
        return "", (), "nothing is ranked here yet."
    if (found := data.get(lines[0].dataset)) is None:
        return "", (), ABSENT
    lines = lines[:MOST]
    if not any(HEADLINE in run.results for line in lines for run in line.entry.runs[line.dataset]):
        name = HEADLINE.protocol
        return "", (), f"no run was ranked under the protocol {name} among relation types that are present."
    panels = {title: rows for key, title in PANELS.items() if len(rows := stratum_rows(key, lines, found, data)) > 1}
    if not panels:
        return "", (), "all test triples lie in one stratum."
    names = [line.name for line in lines]
    columns = [*map(Column, names), Column("Chance")]
    tables = []
    for number, (title, rows) in enumerate(panels.items()):
        cells = [[*map(figure_cell, row.means), figure_cell(Figure(row.chance or 0.0))] for row in rows]
        shown = [Row(row.label, some, words=row.label) for row, some in zip(rows, cells, strict=True)]
        tables.append(Table(f"{name}-{number}", title, "Stratum (triples)", columns, [Group(shown)]))
    if not drawn:
        return "", tables, ""
    said = f"MRR of {', '.join(names)} on {lines[0].dataset} by stratum; the figures are in the tables below it."
    return pictures.inline(pictures.draw_panels(panels, names, left=190), f"{name}-picture", said), tables, ""


def stratum_rows(key: str, lines: Sequence[Line], found: Dataset, data: Data) -> list[pictures.Row]:
    """Return the strata that have targets, each with the MRR of the entries and of chance."""
    ranked = [[one for run in line.entry.runs[line.dataset] if (one := data.by_target(run, found))] for line in lines]
    labels = data.labels(key, found)
    if not any(ranked) or labels is None:
        return []
    sizes = np.bincount(labels.case, minlength=len(labels.names))

    def means(values: FloatArray) -> FloatArray:
        return np.bincount(labels.case, values, len(labels.names)) / np.maximum(sizes, 1)

    chance = means(next(seeds for seeds in ranked if seeds)[0]["chance"])
    by_line = [[means(one["metrics"]) for one in seeds] for seeds in ranked]
    return [
        pictures.Row(
            f"{label} ({sizes[place]:,})",
            [over_seeds(float(one[place]) for one in seeds) if seeds else None for seeds in by_line],
            chance=float(chance[place]),
        )
        for place, label in enumerate(labels.names)
        if sizes[place]
    ]


def findings(part: DatasetBoard, data: Data) -> tuple[Sequence[str], str]:
    """Return what the audit of a dataset finds, or why there is none; its candidates are known by their hashes."""
    found = data.get(part.name)
    return ((), ABSENT) if found is None else (audit(found, seeds=()).findings, "")


def paper_against_ours(part: DatasetBoard, names: Mapping[str, str]) -> str:
    """Return a picture of all reported MRRs beside ours in the same evaluation setting; empty where none are reported.

    ``names`` are those of the entries, by slug.
    """
    panels: dict[str, list[pictures.Row]] = {}
    said = []
    for protocol in MAIN:
        for model in part.reported:
            cell = part.paper(model, protocol)
            if cell is None:
                continue
            printed = None if cell.mean is None else Figure(cell.mean, cell.std)
            found = [line for line in part.lines if line.entry.card.model == model]
            pairs = [(line.name, line.figure(PAPER, protocol)) for line in found] or [(names.get(model, model), None)]
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
    """Return the learning curves of an entry on a dataset, a line per seed; empty where no run kept any."""
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
    """Return the shares of relation types in tasks that the first run of an entry kept, a table per graph.

    Only of datasets made by this package: the names of others are not ours to publish.
    """
    path = entry.runs[dataset][0].directory.path / TASKS_FILE
    if not may_name_targets(dataset) or not path.is_file():
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
    """Return the matrices of `mtbench grid --train` that lie beside the entries, in ``transfer/``, as shaded tables."""
    folder = entries.parent / "transfer"
    found = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/matrix.json")]):
        plan, name = path.with_name("plan.json"), path.parent.name if path.name == "matrix.json" else path.stem
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            given = json.loads(plan.read_text(encoding="utf-8"))["settings"] if plan.exists() else {}
            tests = [str(topic) for topic in told.get("tests", told["topics"])]
            missing = {(one["train"], one["test"]): str(one["status"]) for one in told["not_scored"]}
            rows = []
            for topic, line in zip(map(str, told["topics"]), told["mrr"], strict=True):
                cells = [
                    Cell(f"{mrr:.3f}", value=mrr, shade=shade(mrr))
                    if mrr is not None
                    else Cell(missing.get((topic, other), DASH), kind="missing oom")
                    for other, mrr in zip(tests, line, strict=True)
                ]
                rows.append(Row(topic, cells, words=topic))
            settings = f" ({', '.join(f'{key}={value}' for key, value in sorted(given.items()))})" if given else ""
            caption = f"{told['model']}{settings}, {told['name']}: MRR, trained on the row and tested on the column"
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise MtbenchError(f"{path}: no matrix of mtbench grid ({error}); remove it, or make it again") from error
        columns = list(map(Column, tests))
        found.append(Table(f"transfer-{slug(name)}", caption, "Trained on", columns, [Group(rows)], dense=True))
    return found


def shade(share: float) -> int:
    """Return one of ten steps of shading for a number from 0 to 1."""
    return min(9, max(0, int(10 * share)))
