"""The tables of the other pages: every metric of a dataset or of an entry, its runs and their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from leaderboard.board.board import DatasetBoard, Figure, Line
from leaderboard.board.reported import Cell as Reported
from leaderboard.entries.entries import HEADLINE, TASKS, Entry, Run
from leaderboard.site.cells import (
    DASH,
    Cell,
    Column,
    Group,
    Notes,
    Row,
    Table,
    address,
    duration,
    figure_cell,
    memory,
    number,
    reported_cell,
    short,
)
from leaderboard.site.front import REGIME_NAMES, dataset_page, model_page
from leaderboard.site.readings import PAPER, READINGS, SLOTS, STANDARD, Reading, Value, values
from mtbench.experiments.run import CONVENTIONS_FILE
from mtbench.files import tables
from mtbench.names import METRICS
from mtbench.results.result import Metrics
from mtbench.results.runs import RANKS_FILE, REGIMES, RESULT_FILE, Regime

PROTOCOLS = {
    "dual": "Dual: 24 other tails and up to 26 other relation types in one list",
    "entity": "Entity-centric: 50 other tails",
    "relation": "Relation-centric: up to 50 other relation types",
}
FILES = (RESULT_FILE, RANKS_FILE, CONVENTIONS_FILE)
"""What may be downloaded of a run."""


def of_dataset(part: DatasetBoard, protocol: str, names: Mapping[str, str]) -> list[Table]:
    """Return all metrics of a dataset under a protocol, a table per regime and reading, with floors and chance.

    ``names`` are those of the entries, by slug.
    """
    found = []
    regimes: list[Regime] = [regime for regime in REGIMES if part.of(regime)]
    for reading in READINGS:
        for regime in regimes:
            notes = Notes()
            rows = [
                row
                for line in part.of(regime)
                if (row := _metrics_row(line, reading, protocol, notes, line.entry.card.name, _link(line)))
            ]
            if rows:
                caption = f"{protocol.capitalize()}, {REGIME_NAMES[regime].lower()}: every metric, {_name(reading)}"
                key = f"{protocol}-{regime}-{reading.key}"
                columns = _columns()
                found.append(Table(key, caption, "Entry", columns, [Group(rows)], reading.key, notes.texts, dense=True))
        if reading in (STANDARD, SLOTS):
            found += _yardsticks(part, protocol, reading)
        if reading == PAPER:
            found += _only_reported(part, protocol, PAPER.key if regimes else "", names)
    return found


def _only_reported(part: DatasetBoard, protocol: str, reading: str, names: Mapping[str, str]) -> Iterator[Table]:
    """Give the rows of the paper that nobody has run here."""
    known = {line.entry.card.model for line in part.lines}
    notes = Notes()
    rows = [
        Row(
            names.get(model, model),
            [reported_cell(cells.get((protocol, metric)), notes) for metric in METRICS],
            f"../{model_page(model)}" if model in names else "",
            words=f"{names.get(model, '')} {model}",
        )
        for model, cells in part.reported.items()
        if model not in known and any(key[0] == protocol for key in cells)
    ]
    if rows:
        caption = f"{protocol.capitalize()}: reported in the paper, not re-evaluated yet"
        columns, key = _columns(), f"{protocol}-reported"
        yield Table(key, caption, "Entry", columns, [Group(rows)], reading, notes.texts, dense=True)


def of_entry(lines: Sequence[Line], protocol: str) -> list[Table]:
    """Return all metrics of an entry under a protocol, a row per dataset, a table per reading."""
    found = []
    for reading in READINGS:
        notes = Notes()
        rows = [
            row
            for line in lines
            if (row := _metrics_row(line, reading, protocol, notes, line.dataset, f"../{dataset_page(line.dataset)}"))
        ]
        if rows:
            caption = f"{protocol.capitalize()}: every metric by dataset, {_name(reading)}"
            key = f"{protocol}-{reading.key}"
            found.append(
                Table(key, caption, "Dataset", _columns(), [Group(rows)], reading.key, notes.texts, dense=True)
            )
    return found


def _link(line: Line) -> str:
    return f"../{model_page(line.entry.slug)}"


def _name(reading: Reading) -> str:
    return "by the paper's conventions" if reading == PAPER else f"{reading.label.lower()} reading"


def _columns() -> list[Column]:
    return [Column(tables.heading(metric), "Lower is better" if metric == "mr" else "") for metric in METRICS]


def _metrics_row(line: Line, reading: Reading, protocol: str, notes: Notes, label: str, href: str) -> Row | None:
    found = values(line, reading, protocol)
    printed = {metric: line.reported.get((protocol, metric)) for metric in METRICS}
    if not found and (reading != PAPER or not any(printed.values())):
        if reading == STANDARD and line.unfinished and protocol == "dual":
            failed = ", ".join(sorted(set(line.unfinished.values()))).upper()
            return Row(label, [Cell(failed, kind="oom") for _ in METRICS], href, words=label)
        return None
    cells = [
        _paper_cell(found.get(metric), printed[metric], metric, notes)
        if reading == PAPER
        else _metric_cell(found.get(metric), metric)
        for metric in METRICS
    ]
    detail = "" if line.place is not None else "not ranked"
    if reading == PAPER and line.own:
        detail = f"convention {line.own}"
    return Row(
        label, cells, href, detail, f"{label} {line.entry.slug} {line.dataset}", "" if line.place else "unranked"
    )


def _metric_cell(found: Value | None, metric: str) -> Cell:
    if found is None:
        return Cell(DASH, kind="missing")
    cell = figure_cell(found.figure, metric)
    if found.low is None or found.high is None:
        return cell
    low, high = number(metric, found.low), number(metric, found.high)
    return cell if low == high else Cell(cell.text, cell.detail, cell.value, below=f"{low} to {high}")


def _paper_cell(found: Value | None, printed: Reported | None, metric: str, notes: Notes) -> Cell:
    ours = figure_cell(found.figure if found else None, metric)
    if printed is None:
        return ours
    cell = reported_cell(printed, notes)
    return Cell(
        ours.text, f"reported {cell.text}", ours.value, "oom" if cell.kind == "oom" else ours.kind, note=cell.note
    )


def _yardsticks(part: DatasetBoard, protocol: str, reading: Reading) -> Iterator[Table]:
    """Give the floors and chance, which depend on the candidates alone."""
    task = (protocol, "slots" if reading == SLOTS else "present")
    if task not in part.chance:
        return
    found: Mapping[str, Metrics] = {**part.floors[task], "chance": part.chance[task]}
    rows = [
        Row(
            name.replace("_", " "),
            [figure_cell(Figure(given[metric]), metric) if metric in given else Cell(DASH) for metric in METRICS],
            kind="floor",
        )
        for name, given in found.items()
    ]
    caption = f"{protocol.capitalize()}: floors, which learn nothing, and chance, {_name(reading)}"
    yield Table(f"{protocol}-floors-{reading.key}", caption, "Floor", _columns(), [Group(rows)], reading.key)


def runs_table(entry: Entry, published: Callable[[Path], Sequence[str]]) -> Table:
    """Return the runs of an entry with links to their files; ``published`` gives the parts of a file's address."""
    groups = []
    for dataset, runs in entry.runs.items():
        rows = [_run_row(run, published) for run in runs]
        groups.append(Group(rows, dataset, f"../{dataset_page(dataset)}"))
    columns = (
        Column("Status", sort="text"),
        Column("MRR"),
        Column("Time"),
        Column("Memory"),
        Column("Device", sort="text"),
        *(Column(name.partition(".")[0].capitalize(), f"{name}, of the headline task", sort="") for name in FILES),
    )
    return Table("runs", "The runs, and their files to download", "Run", columns, groups)


def _run_row(run: Run, published: Callable[[Path], Sequence[str]]) -> Row:
    info = run.headline.run
    headline = run.results.get(HEADLINE)
    known = headline is not None and headline.run.status == "ok"
    cells = [
        Cell(info.status, kind="" if info.status == "ok" else "oom"),
        figure_cell(Figure(headline.metrics["mrr"]) if headline is not None and known else None),
        duration(info.wall_seconds),
        memory(info.peak_memory_bytes),
        Cell(info.device or DASH),
    ]
    for name in FILES:
        parts = published(run.directory / name)
        cells.append(Cell(name, href="../" + address(*parts)) if parts else Cell(DASH, kind="missing"))
    return Row(f"seed {info.seed}", cells, words=f"{run.headline.dataset} seed {info.seed}")


def further_files(entry: Entry, published: Callable[[Path], Sequence[str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the files of the other tasks of each run: a label, and links with their addresses."""
    found = []
    for dataset, runs in entry.runs.items():
        for run in runs:
            links = [
                (f"{protocol} {vocabulary} {name}", "../" + address(*parts))
                for protocol, vocabulary in TASKS
                for name in FILES[:2]
                if (parts := published(run.directory / f"{protocol}-{vocabulary}" / name))
            ]
            if links:
                found.append((f"{short(dataset)}, seed {run.headline.run.seed}", links))
    return found


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
