"""The tables of the first page: entries by dataset, where each stands, and who is not ranked and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from leaderboard.board import readings
from leaderboard.board.board import Board, DatasetBoard, Figure, Line, Overall
from leaderboard.board.readings import Reading
from leaderboard.board.tables import TAILS, short
from leaderboard.entries.entries import Entry
from leaderboard.site.cells import (
    DASH,
    MISSING,
    Bar,
    Cell,
    Column,
    Group,
    Notes,
    Row,
    Table,
    address,
    beside_paper,
    count,
    dataset_column,
    duration,
    figure_cell,
    memory,
    paper_cell,
    percent,
    seen,
    signed,
    slug,
)
from mtbench.results.result import FLAG_SPREAD
from mtbench.results.runs import Regime

REGIME_NAMES = {
    "zero-shot": "Zero-shot",
    "test-time-adaptation": "Test-time adaptation",
    "fine-tuned": "Fine-tuned",
    "supervised": "Supervised",
}


def dataset_page(name: str) -> str:
    """Return the address of a dataset's page."""
    return address("datasets", f"{slug(name)}.html")


def model_page(entry: str) -> str:
    """Return the address of an entry's page."""
    return address("models", f"{entry}.html")


def matrices(board: Board, regime: Regime) -> list[Table]:
    """Return the entries of a regime by dataset, a table per reading."""
    return [_matrix(board, regime, reading) for reading in readings.READINGS]


def _matrix(board: Board, regime: Regime, reading: Reading) -> Table:
    notes = Notes()
    best = {part.name: _best(part, regime, reading) for part in board.datasets}
    columns = [dataset_column(part.name, part.record.title, dataset_page(part.name)) for part in board.datasets]
    if reading == readings.STANDARD:
        columns += [Column("Mean", "Over all datasets of the suite"), Column("Overall", "Rank of the mean")]
    rows = []
    for row in board.overall[regime]:
        cells = [_matrix_cell(row.entry, part, reading, best[part.name], notes) for part in board.datasets]
        if reading == readings.STANDARD:
            cells += _overall(row, board.suite)
        name = row.entry.card.name
        rows.append(Row(name, cells, model_page(row.entry.slug), words=f"{name} {row.entry.slug}"))
    caption = f"{REGIME_NAMES[regime]}: dual MRR by dataset"
    caption += ", reported and re-evaluated" if reading == readings.PAPER else f" ({reading.label.lower()})"
    key = f"matrix-{regime}-{reading.key}"
    return Table(key, caption, "Entry", columns, [Group(rows)], reading.key, tuple(notes), dense=True)


def _matrix_cell(entry: Entry, part: DatasetBoard, reading: Reading, best: float | None, notes: Notes) -> Cell:
    line = part.line(entry)
    figure = None if line is None else line.figure(reading)
    if reading == readings.PAPER:
        cell = beside_paper(figure, part.paper(entry.card.model), "mrr", notes)
        return replace(cell, kind="missing oom") if figure is None and cell.kind == "oom" else cell
    if line is None or figure is None:
        if line is not None and line.one_sided:
            return replace(MISSING, detail=TAILS)
        return Cell(line.failed, kind="oom") if line is not None and line.failed else MISSING
    cell = figure_cell(figure, best=line.place is not None and figure.mean == best)
    return cell if line.place is not None else replace(cell, detail="not ranked", kind="unranked")


def _best(part: DatasetBoard, regime: Regime, reading: Reading) -> float | None:
    """Return the mean to mark as the best of several; conventions of the paper do not compare with each other."""
    ranked = [line for line in part.of(regime) if line.place is not None and line.figure(reading)]
    return part.best(regime, reading) if reading != readings.PAPER and len(ranked) > 1 else None


def _overall(row: Overall, suite: Sequence[str]) -> list[Cell]:
    if row.mean is None:
        return [MISSING, replace(MISSING, detail=f"lacks {len(row.missing)} of {len(suite)}")]
    return [figure_cell(Figure(row.mean)), count(row.rank)]


STANDING = {
    readings.STANDARD: (
        Column("Rank", "The ranks that remain possible at 95 %"),
        Column("MRR", "Mean over seeds, with the sample standard deviation"),
        Column("95 % interval", "From 0 to 1; the upright mark is the best floor"),
        Column("Tied", "Entries that share a letter are statistically tied", "text"),
        Column("Lift", "Above the best floor: the best scorer that learns nothing"),
        Column("Ties decide", "How far the best and the worst order of ties lie apart"),
        Column("Seen", "Test targets in a graph the model learned from, computed from the triples"),
        Column("Time", "Wall clock per run, mean over seeds"),
        Column("Memory", "Largest peak of a run"),
        Column("Device", sort="text"),
        Column("Parameters"),
        Column("Seeds"),
    ),
    readings.SLOTS: (
        Column("MRR, slots", "Candidates from all slots of the dictionary"),
        Column("MRR, standard"),
        Column("Difference"),
    ),
    readings.PESSIMISTIC: (
        Column("MRR, pessimistic"),
        Column("MRR, expected"),
        Column("MRR, optimistic"),
        Column("Ties decide"),
        Column("Targets tied"),
    ),
    readings.PAPER: (
        Column("Convention", "Which of the paper's code bases made the row", "text"),
        Column("Reported"),
        Column("Re-evaluated", "The same convention, here"),
        Column("Difference"),
        Column("MRR, standard"),
    ),
}


def standings(parts: Sequence[DatasetBoard], regime: Regime, up: str = "") -> list[Table]:
    """Return where the ranked entries of a regime stand on some datasets, a table per reading.

    ``up`` leads from the page to the first one.
    """
    tables = []
    for reading in readings.READINGS:
        notes = Notes()
        groups = []
        for part in parts:
            best = _best(part, regime, reading)
            lines = [line for line in part.of(regime) if line.place is not None]
            if rows := [_row(line, _standing(line, reading, best, notes), up, line.device) for line in lines]:
                said = _floor(lines) if reading == readings.STANDARD else ""
                groups.append(Group(rows, part.name, up + dataset_page(part.name), said))
        if groups:
            caption = f"{REGIME_NAMES[regime]}: dual MRR, {how(reading)}"
            if len(parts) == 1:
                caption = "; ".join(filter(None, [caption, groups[0].detail]))
                groups = [Group(groups[0].rows)]
            key = f"standing-{regime}-{reading.key}"
            tables.append(Table(key, caption, "Entry", STANDING[reading], groups, reading.key, tuple(notes)))
    return tables


def how(reading: Reading) -> str:
    """Return how a caption names a reading."""
    return "by the paper's conventions" if reading == readings.PAPER else f"{reading.label.lower()} reading"


def _row(line: Line, cells: Sequence[Cell], up: str, *words: str) -> Row:
    """Return the row of an entry, found by its names, dataset, regime and ``words``."""
    known = [line.name, line.entry.slug, line.dataset, line.regime, *words]
    return Row(line.name, cells, up + model_page(line.entry.slug), words=" ".join(known))


def _floor(lines: Sequence[Line]) -> str:
    floor = next((line.best_floor for line in lines if line.best_floor), None)
    return "" if floor is None else f"best floor: {floor[0].replace('_', ' ')}, {floor[1]:.3f}"


def _standing(line: Line, reading: Reading, best: float | None, notes: Notes) -> list[Cell]:
    figure, headline = line.figure(reading), line.figure()
    main = figure_cell(figure, best=figure is not None and figure.mean == best)
    if reading == readings.STANDARD:
        return _standard(line, main)
    if reading == readings.SLOTS:
        return [main, figure_cell(headline), signed(_less(figure, headline))]
    if reading == readings.PESSIMISTIC:
        tied = MISSING if line.tie_rate is None else Cell(percent(line.tie_rate), value=line.tie_rate)
        return [main, figure_cell(headline), figure_cell(line.figure(readings.OPTIMISTIC)), _spread(line), tied]
    printed = line.reported.get(("dual", "mrr"))
    reported = None if printed is None or printed.mean is None else Figure(printed.mean)
    convention = Cell(line.own) if line.own else Cell("no row in the paper", kind="muted")
    return [convention, paper_cell(printed, notes), main, signed(_less(figure, reported)), figure_cell(headline)]


def _standard(line: Line, main: Cell) -> list[Cell]:
    place, figure, floor = line.place, line.figure(), line.best_floor
    assert place is not None
    rank = f"{place.best}" if place.best == place.worst else f"{place.best}{DASH}{place.worst}"
    interval = Cell("not computed", kind="muted")
    if figure is not None and place.low is not None and place.high is not None:
        label = f"{place.low:.3f} to {place.high:.3f}, over {place.covers}"
        label += f"; best floor {floor[1]:.3f}" if floor else ""
        bar = Bar(figure.mean, place.low, place.high, floor[1] if floor else None, label)
        interval = Cell(bar=bar, value=figure.mean)
    unfinished = ", ".join(f"seed {seed} {status}" for seed, status in sorted(line.unfinished.items()))
    return [
        Cell(rank, value=place.best + place.worst / 1000),
        main,
        interval,
        Cell(place.group or DASH),
        replace(signed(line.lift), kind="up" if (line.lift or 0) > 0 else "down"),
        _spread(line),
        seen(line.overlaps),
        duration(line.seconds),
        memory(line.memory),
        Cell(line.device or DASH),
        count(line.entry.card.parameters),
        replace(count(len(line.seeds)), detail=unfinished),
    ]


def _spread(line: Line) -> Cell:
    spread, figure = line.tie_spread, line.figure()
    if spread is None or figure is None or figure.low is None or figure.high is None:
        return MISSING
    if spread <= FLAG_SPREAD:
        return Cell(f"{spread:.3f}", value=spread)
    label = f"{figure.low:.3f} to {figure.high:.3f} as ties are broken"
    return Cell(f"{spread:.3f}", value=spread, kind="warn", bar=Bar(figure.mean, figure.low, figure.high, label=label))


def _less(first: Figure | None, second: Figure | None) -> float | None:
    return None if first is None or second is None else first.mean - second.mean


def unranked(lines: Iterable[Line], unread: Mapping[str, str], up: str = "") -> Table | None:
    """Return what of some lines is shown but not ranked, with the reasons; ``unread`` could not be read, and why."""
    rows = [
        _row(
            line,
            [
                Cell(short(line.dataset), href=up + dataset_page(line.dataset)),
                Cell(REGIME_NAMES[line.regime]),
                figure_cell(line.figure()),
                Cell("; ".join(line.remarks), kind="prose"),
            ],
            up,
        )
        for line in lines
        if line.place is None
    ]
    dash = Cell(DASH)
    rows += [Row(name, [dash, dash, MISSING, Cell(why, kind="prose")], words=name) for name, why in unread.items()]
    columns = (
        Column("Dataset", sort="text"),
        Column("Regime", sort="text"),
        Column("MRR so far"),
        Column("Why it is not ranked", sort="text"),
    )
    return Table("unranked", "Shown, but not ranked", "Entry", columns, [Group(rows)]) if rows else None
