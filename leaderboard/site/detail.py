"""The tables of the other pages: every metric of a dataset or of an entry, its runs and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from leaderboard.board import readings, reported
from leaderboard.board.board import DatasetBoard, Figure, Line
from leaderboard.board.readings import Reading
from leaderboard.board.tables import short
from leaderboard.entries.entries import Entry
from leaderboard.site.cells import (
    DASH,
    MISSING,
    REGIME_NAMES,
    Cell,
    Column,
    Group,
    Notes,
    Row,
    Table,
    beside_paper,
    dataset_page,
    duration,
    figure_cell,
    filled,
    memory,
    model_page,
    number,
    paper_cell,
)
from leaderboard.site.standing import how
from mtbench.files import tables
from mtbench.names import METRICS
from mtbench.runs.directory import CONVENTIONS_FILE, HEADLINE, Run
from mtbench.runs.files import RANKS_FILE, RESULT_FILE
from mtbench.runs.origin import REGIMES, Regime

PROTOCOLS = {
    "dual": "Dual: two lists, 24 other tails and 24 other heads, each with up to 26 other relation types",
    "entity": "Entity-centric: two lists, 50 other tails and 50 other heads",
    "relation": "Relation-centric: up to 50 other relation types",
    "dual-tail": "Dual, tails alone: the list of 24 other tails and up to 26 other relation types",
    "entity-tail": "Entity-centric, tails alone: the list of 50 other tails",
}
"""What pages show: what ranks all a target can be asked for, and then one list of it, where runs have it."""
FILES = (RESULT_FILE, RANKS_FILE, CONVENTIONS_FILE)
"""What may be downloaded of a run."""


def of_dataset(part: DatasetBoard, protocol: str, names: Mapping[str, str]) -> list[Table]:
    """Return all metrics of a dataset under a protocol, a table per regime and setting, with baselines and chance.

    ``names`` are those of the entries, by slug.
    """
    found: list[Table] = []
    regimes: list[Regime] = [regime for regime in REGIMES if part.of(regime)]
    for reading in readings.READINGS:
        for regime in regimes:
            notes = Notes()
            rows = [
                row
                for line in part.of(regime)
                if (row := _row(line, reading, protocol, notes, line.name, model_page(line.entry.slug)))
            ]
            caption = f"{protocol.capitalize()}, {REGIME_NAMES[regime].lower()}: every metric, {how(reading)}"
            found += _metrics(f"{protocol}-{regime}-{reading.key}", caption, rows, reading.key, notes)
        if reading in (readings.STANDARD, readings.SLOTS):
            found += _baselines(part, protocol, reading)
        if reading == readings.PAPER:
            found += _only_reported(part, protocol, readings.PAPER.key if regimes else "", names)
    return found


def of_entry(lines: Sequence[Line], protocol: str) -> list[Table]:
    """Return all metrics of an entry under a protocol, a row per dataset, a table per evaluation setting."""
    found: list[Table] = []
    for reading in readings.READINGS:
        notes = Notes()
        rows = [
            row
            for line in lines
            if (row := _row(line, reading, protocol, notes, short(line.dataset), dataset_page(line.dataset)))
        ]
        caption = f"{protocol.capitalize()}: every metric by dataset, {how(reading)}"
        found += _metrics(f"{protocol}-{reading.key}", caption, rows, reading.key, notes, "Dataset")
    return found


def _metrics(
    key: str, caption: str, rows: Sequence[Row], reading: str, notes: Notes, stub: str = "Entry"
) -> list[Table]:
    """Return a table of every metric, none without rows."""
    columns = [Column(tables.heading(metric)) for metric in METRICS]
    return [Table(key, caption, stub, columns, [Group(rows)], reading, tuple(notes), dense=True)] if rows else []


def _row(line: Line, reading: Reading, protocol: str, notes: Notes, label: str, page: str) -> Row | None:
    found = line.read(reading, protocol)
    printed = {metric: line.reported.get((protocol, metric)) for metric in METRICS} if reading == readings.PAPER else {}
    if not found and not any(printed.values()):
        if reading == readings.STANDARD and line.failed and protocol == "dual":
            return Row(label, [Cell(line.failed, kind="oom")] * len(METRICS), f"../{page}", words=label)
        return None
    cells = [_cell(found.get(metric), printed.get(metric), metric, notes) for metric in METRICS]
    detail = "" if line.place is not None else "not ranked"
    if reading == readings.PAPER and line.own:
        detail = f"setting {line.own}"
    words = f"{label} {line.entry.slug} {line.dataset}"
    return Row(label, cells, f"../{page}", detail, words, "" if line.place else "unranked")


def _cell(figure: Figure | None, printed: reported.Cell | None, metric: str, notes: Notes) -> Cell:
    cell = beside_paper(figure, printed, metric, notes)
    if figure is None or figure.low is None or figure.high is None:
        return cell
    low, high = number(metric, figure.low), number(metric, figure.high)
    return cell if low == high else replace(cell, below=f"{low} to {high}")


def _only_reported(part: DatasetBoard, protocol: str, reading: str, names: Mapping[str, str]) -> list[Table]:
    """Return the table of the rows of the paper that nobody has run here."""
    known = {line.entry.card.model for line in part.lines}
    notes = Notes()
    rows = [
        Row(
            names.get(model, model),
            [paper_cell(cells.get((protocol, metric)), notes) for metric in METRICS],
            f"../{model_page(model)}" if model in names else "",
            words=f"{names.get(model, '')} {model}",
        )
        for model, cells in part.reported.items()
        if model not in known and any(key[0] == protocol for key in cells)
    ]
    caption = f"{protocol.capitalize()}: reported in the paper, not re-evaluated yet"
    return _metrics(f"{protocol}-reported", caption, rows, reading, notes)


def _baselines(part: DatasetBoard, protocol: str, reading: Reading) -> list[Table]:
    """Return the table of the heuristic baselines and chance, which depend on the candidates alone."""
    found = part.baselines.get((protocol, "slots" if reading == readings.SLOTS else "present"), {})
    rows = [
        Row(
            name.replace("_", " "),
            [figure_cell(Figure(given[metric]), metric) if metric in given else Cell(DASH) for metric in METRICS],
            kind="baseline",
        )
        for name, given in found.items()
    ]
    caption = f"{protocol.capitalize()}: heuristic baselines, which learn nothing, and chance, {how(reading)}"
    tables = _metrics(f"{protocol}-baselines-{reading.key}", caption, rows, reading.key, Notes(), "Heuristic baseline")
    return [replace(table, dense=False) for table in tables]


def runs_table(entry: Entry) -> Table:
    """Return the runs of an entry."""
    groups = [
        Group([_run_row(run) for run in runs], dataset, f"../{dataset_page(dataset)}")
        for dataset, runs in entry.runs.items()
    ]
    columns = (
        Column("Status", sort="text"),
        Column("MRR"),
        Column("Time"),
        Column("Memory"),
        Column("Device", sort="text"),
    )
    return filled(Table("runs", "The runs", "Run", columns, groups))


def _run_row(run: Run) -> Row:
    info, headline = run.headline.run, run.results.get(HEADLINE)
    known = headline is not None and headline.run.status == "ok"
    cells = [
        Cell(info.status, kind="" if info.status == "ok" else "oom"),
        figure_cell(Figure(headline.metrics["mrr"]) if headline is not None and known else None),
        duration(info.wall_seconds),
        memory(info.peak_memory_bytes),
        Cell(info.device) if info.device else MISSING,
    ]
    return Row(f"seed {info.seed}", cells, words=f"{run.headline.dataset} seed {info.seed}")


def settings(entry: Entry) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the hyper-parameters: those all runs share, then what single datasets have otherwise."""
    by_dataset: dict[str, dict[str, str]] = {}
    for dataset, runs in entry.runs.items():
        gathered: dict[str, list[str]] = {}
        for run in runs:
            for key, value in run.headline.run.hyperparameters.items():
                gathered.setdefault(str(key), []).append(str(value))
        by_dataset[dataset] = {key: ", ".join(dict.fromkeys(some)) for key, some in gathered.items()}
    if not any(by_dataset.values()):
        return []
    first = next(iter(by_dataset.values()))
    shared = {key: text for key, text in first.items() if all(one.get(key) == text for one in by_dataset.values())}
    found = [("On all datasets", sorted(shared.items()))] if shared else []
    for dataset, own in by_dataset.items():
        if other := sorted((key, text) for key, text in own.items() if key not in shared):
            found.append((f"On {dataset}", other))
    return found
