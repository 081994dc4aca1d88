"""Where the entries of a dataset stand, with intervals, ties, time, memory and device, and what is not ranked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leaderboard.board import readings
from leaderboard.board.board import DatasetBoard, Figure, Line
from leaderboard.board.readings import Reading
from leaderboard.board.tables import short
from leaderboard.site.cells import (
    DASH,
    MISSING,
    REGIME_NAMES,
    Bar,
    Cell,
    Column,
    Group,
    Notes,
    Row,
    Table,
    count,
    dataset_page,
    duration,
    figure_cell,
    filled,
    memory,
    model_page,
    paper_cell,
    percent,
    seen,
    signed,
)
from mtbench.runs.origin import Regime
from mtbench.runs.result import FLAG_SPREAD

STANDING = {
    readings.STANDARD: (
        Column("Rank", "The ranks that remain possible at 95 %"),
        Column("MRR", "Mean over seeds, with the sample standard deviation"),
        Column("95 % interval", "From 0 to 1; the upright mark is the best heuristic baseline"),
        Column("Tied", "Entries that share a letter are statistically tied", "text"),
        Column("Lift", "Above the best heuristic baseline"),
        Column("Ties decide", "How far the optimistic and the pessimistic MRR lie apart"),
        Column("Seen", "Test triples in a graph the model learned from, computed from the triples"),
        Column("Time", "Wall clock per run, mean over seeds"),
        Column("Memory", "Largest peak of a run"),
        Column("Device", sort="text"),
        Column("Parameters"),
        Column("Seeds"),
    ),
    readings.SLOTS: (
        Column("MRR, all relation ids", "Relation candidates from all ids, unused ones included"),
        Column("MRR, standard"),
        Column("Difference"),
    ),
    readings.PESSIMISTIC: (
        Column("MRR, pessimistic"),
        Column("MRR, realistic", "Ties averaged"),
        Column("MRR, optimistic"),
        Column("Ties decide"),
        Column("Tied ranks"),
    ),
    readings.PAPER: (
        Column("Setting", "Which of the paper's code bases made the row", "text"),
        Column("Reported"),
        Column("Re-evaluated", "In the same setting, here"),
        Column("Difference"),
        Column("MRR, standard"),
    ),
}


def standings(part: DatasetBoard, regime: Regime) -> list[Table]:
    """Return where the ranked entries of a regime stand on a dataset, a table per evaluation setting."""
    lines = [line for line in part.of(regime) if line.place is not None]
    tables = []
    for reading in readings.READINGS if lines else ():
        notes, several = Notes(), _compares(lines, reading)
        rows = [
            _row(line, _standing(line, reading, notes, best=several and part.leads(line, reading, regime)), line.device)
            for line in lines
        ]
        caption = f"{REGIME_NAMES[regime]}: dual MRR, {how(reading)}"
        if reading == readings.STANDARD and part.baseline:
            name, mrr = part.baseline
            caption += f"; best heuristic baseline: {name.replace('_', ' ')}, {mrr:.3f}"
        key = f"standing-{regime}-{reading.key}"
        table = Table(key, caption, "Entry", STANDING[reading], [Group(rows)], reading.key, tuple(notes))
        tables.append(filled(table))
    return tables


def _compares(lines: Sequence[Line], reading: Reading) -> bool:
    """Tell whether one of several is marked as the best; the settings of the paper do not compare with each other."""
    return reading != readings.PAPER and sum(line.figure(reading) is not None for line in lines) > 1


def how(reading: Reading) -> str:
    """Return how a caption names an evaluation setting."""
    return f"evaluation setting: {reading.label.lower()}"


def _row(line: Line, cells: Sequence[Cell], *words: str) -> Row:
    """Return the row of an entry, found by its names, dataset, regime and ``words``."""
    known = [line.name, line.entry.slug, line.dataset, line.regime, *words]
    return Row(line.name, cells, f"../{model_page(line.entry.slug)}", words=" ".join(known))


def _standing(line: Line, reading: Reading, notes: Notes, *, best: bool) -> list[Cell]:
    figure, headline = line.figure(reading), line.figure()
    main = figure_cell(figure, best=best)
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
    place, figure, baseline = line.place, line.figure(), line.baseline
    assert place is not None
    rank = f"{place.best}" if place.best == place.worst else f"{place.best}{DASH}{place.worst}"
    interval = Cell("not computed", kind="muted")
    if figure is not None and place.low is not None and place.high is not None:
        label = f"{place.low:.3f} to {place.high:.3f}, over {place.covers}"
        label += f"; best heuristic baseline {baseline[1]:.3f}" if baseline else ""
        bar = Bar(figure.mean, place.low, place.high, baseline[1] if baseline else None, label)
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


def unranked(lines: Iterable[Line]) -> Table | None:
    """Return what of some lines is shown but not ranked, with the reasons."""
    left = [line for line in lines if line.place is None]
    several = len({line.dataset for line in left}) > 1
    rows = [
        _row(
            line,
            [
                Cell(short(line.dataset), href=f"../{dataset_page(line.dataset)}") if several else MISSING,
                figure_cell(line.figure()),
                Cell("; ".join(line.remarks), kind="prose"),
            ],
        )
        for line in left
    ]
    columns = (Column("Dataset", sort="text"), Column("MRR so far"), Column("Why it is not ranked", sort="text"))
    return filled(Table("unranked", "Shown, but not ranked", "Entry", columns, [Group(rows)])) if rows else None
