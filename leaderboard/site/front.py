"""The tables of the first page: entries by dataset, where each stands, and who is not ranked and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leaderboard.board.board import Board, DatasetBoard, Figure, Line, Overall
from leaderboard.site.cells import (
    DASH,
    Bar,
    Cell,
    Column,
    Group,
    Notes,
    Row,
    Table,
    address,
    count,
    dataset_column,
    duration,
    figure_cell,
    memory,
    number,
    percent,
    reported_cell,
    seen,
    short,
    signed,
    slug,
)
from leaderboard.site.readings import PAPER, PESSIMISTIC, READINGS, SLOTS, STANDARD, Reading, bounds, value
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
    return [_matrix(board, regime, reading) for reading in READINGS]


def _matrix(board: Board, regime: Regime, reading: Reading) -> Table:
    rows = board.overall[regime]
    notes = Notes()
    best = {part.name: _best(part.of(regime), reading) for part in board.datasets}
    columns = [dataset_column(part.name, part.record.title, dataset_page(part.name)) for part in board.datasets]
    if reading == STANDARD:
        columns = [
            *columns,
            Column("Mean", "Over all datasets of the suite"),
            Column("Overall", "Rank of the mean"),
        ]
    shown = []
    for row in rows:
        cells = [_matrix_cell(row, part, reading, best[part.name], notes) for part in board.datasets]
        if reading == STANDARD:
            cells += _overall(row, board.suite)
        card = row.entry.card
        shown.append(Row(card.name, cells, model_page(row.entry.slug), words=f"{card.name} {row.entry.slug}"))
    caption = f"{REGIME_NAMES[regime]}: dual MRR by dataset"
    caption += ", reported and re-evaluated" if reading == PAPER else f" ({reading.label.lower()})"
    return Table(
        f"matrix-{regime}-{reading.key}",
        caption,
        "Entry",
        columns,
        [Group(shown)],
        reading.key,
        notes.texts,
        dense=True,
    )


def _matrix_cell(row: Overall, part: DatasetBoard, reading: Reading, best: float | None, notes: Notes) -> Cell:
    line = next((one for one in part.lines if one.entry.slug == row.entry.slug), None)
    figure = value(line, reading) if line is not None else None
    if reading == PAPER:
        printed = reported_cell(part.reported.get(row.entry.card.model, {}).get(("dual", "mrr")), notes)
        ours = number("mrr", figure.mean) if figure else DASH
        if printed.kind == "missing":
            return figure_cell(figure)
        kind = f"{'missing ' if figure is None else ''}{printed.kind}"
        mean = figure.mean if figure else None
        return Cell(ours, f"reported {printed.text}", mean, kind.strip(), note=printed.note)
    if line is None:
        return Cell(DASH, kind="missing")
    if figure is None:
        failed = sorted(set(line.unfinished.values()))
        return Cell(", ".join(failed).upper() or DASH, kind="oom" if failed else "missing")
    cell = figure_cell(figure, best=line.place is not None and figure.mean == best)
    if line.place is None:
        return Cell(cell.text, "not ranked", cell.value, kind="unranked")
    return cell


def _best(lines: Iterable[Line], reading: Reading) -> float | None:
    """Return the mean to mark as the best; conventions of the paper do not compare with each other."""
    if reading == PAPER:
        return None
    found = [figure.mean for line in lines if line.place is not None and (figure := value(line, reading))]
    return max(found, default=None) if len(found) > 1 else None


def _overall(row: Overall, suite: Sequence[str]) -> list[Cell]:
    if row.mean is None:
        lacks = f"lacks {len(row.missing)} of {len(suite)}"
        return [Cell(DASH, kind="missing"), Cell(DASH, lacks, kind="missing")]
    return [figure_cell(Figure(row.mean)), count(row.rank)]


STANDING = {
    STANDARD: (
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
    SLOTS: (
        Column("MRR, slots", "Candidates from all slots of the dictionary"),
        Column("MRR, standard"),
        Column("Difference"),
    ),
    PESSIMISTIC: (
        Column("MRR, pessimistic"),
        Column("MRR, expected"),
        Column("MRR, optimistic"),
        Column("Ties decide"),
        Column("Targets tied"),
    ),
    PAPER: (
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
    for reading in READINGS:
        notes = Notes()
        groups = []
        for part in parts:
            lines = [line for line in part.of(regime) if line.place is not None]
            best = _best(lines, reading)
            rows = [_standing(line, reading, best, notes, up) for line in lines]
            if rows:
                said = _floor(lines) if reading == STANDARD else ""
                groups.append(Group(rows, part.name, up + dataset_page(part.name), said))
        if groups:
            how = "by the paper's conventions" if reading == PAPER else f"{reading.label.lower()} reading"
            caption = f"{REGIME_NAMES[regime]}: dual MRR, {how}"
            if len(parts) == 1:
                caption = "; ".join(filter(None, [caption, groups[0].detail]))
                groups = [Group(groups[0].rows)]
            key = f"standing-{regime}-{reading.key}"
            tables.append(Table(key, caption, "Entry", STANDING[reading], groups, reading.key, notes.texts))
    return tables


def _floor(lines: Sequence[Line]) -> str:
    floor = next((line.best_floor for line in lines if line.best_floor), None)
    return "" if floor is None else f"best floor: {floor[0].replace('_', ' ')}, {floor[1]:.3f}"


def _standing(line: Line, reading: Reading, best: float | None, notes: Notes, up: str) -> Row:
    figure = value(line, reading)
    main = figure_cell(figure, best=figure is not None and figure.mean == best)
    headline = line.figure()
    if reading == STANDARD:
        cells = _standard(line, main)
    elif reading == SLOTS:
        cells = [main, figure_cell(headline), signed(_less(figure, headline))]
    elif reading == PESSIMISTIC:
        cells = [main, figure_cell(headline), figure_cell(bounds(line, "dual", "present")[0].get("mrr"))]
        tied = (
            Cell(DASH, kind="missing") if line.tie_rate is None else Cell(percent(line.tie_rate), value=line.tie_rate)
        )
        cells += [_spread(line), tied]
    else:
        printed = line.reported.get(("dual", "mrr"))
        difference = figure.mean - printed.mean if figure and printed and printed.mean is not None else None
        convention = Cell(line.own) if line.own else Cell("no row in the paper", kind="muted")
        cells = [convention, reported_cell(printed, notes), main, signed(difference), figure_cell(headline)]
    card = line.entry.card
    return Row(
        card.name,
        cells,
        up + model_page(line.entry.slug),
        words=f"{card.name} {line.entry.slug} {line.dataset} {line.regime} {line.device}",
    )


def _standard(line: Line, main: Cell) -> list[Cell]:
    place, figure = line.place, line.figure()
    assert place is not None
    rank = f"{place.best}" if place.best == place.worst else f"{place.best}{DASH}{place.worst}"
    floor = line.best_floor
    bar = None
    if figure is not None and place.low is not None and place.high is not None:
        label = f"{place.low:.3f} to {place.high:.3f}, over {place.covers}"
        label += f"; best floor {floor[1]:.3f}" if floor else ""
        bar = Bar(figure.mean, place.low, place.high, floor[1] if floor else None, label)
    lift = replace(signed(line.lift), kind="up" if (line.lift or 0) > 0 else "down")
    seeds = Cell(
        str(len(line.seeds)),
        ", ".join(f"seed {seed} {status}" for seed, status in sorted(line.unfinished.items())),
        float(len(line.seeds)),
    )
    return [
        Cell(rank, value=place.best + place.worst / 1000),
        main,
        Cell(bar=bar, value=figure.mean if figure else None) if bar else Cell("not computed", kind="muted"),
        Cell(place.group or DASH),
        lift,
        _spread(line),
        seen(line.overlaps),
        duration(line.seconds),
        memory(line.memory),
        Cell(line.device or DASH),
        count(line.entry.card.parameters),
        seeds,
    ]


def _spread(line: Line) -> Cell:
    spread = line.tie_spread
    if spread is None:
        return Cell(DASH, kind="missing")
    best, worst = line.optimistic["mrr"].mean, line.pessimistic["mrr"].mean
    label = f"{worst:.3f} to {best:.3f} as ties are broken"
    mean = line.figure()
    bar = Bar(mean.mean if mean else best, worst, best, label=label) if spread > FLAG_SPREAD else None
    return Cell(f"{spread:.3f}", value=spread, kind="warn" if spread > FLAG_SPREAD else "", bar=bar)


def _less(first: Figure | None, second: Figure | None) -> float | None:
    return None if first is None or second is None else first.mean - second.mean


def unranked(parts: Sequence[DatasetBoard], problems: Sequence[tuple[str, str]], up: str = "") -> Table | None:
    """Return what is shown but not ranked, with the reasons; ``problems`` are entries that could not be read."""
    rows = [
        Row(
            line.entry.card.name,
            [
                Cell(short(line.dataset), href=up + dataset_page(line.dataset)),
                Cell(REGIME_NAMES[line.regime]),
                figure_cell(line.figure()),
                Cell("; ".join(line.remarks), kind="prose"),
            ],
            up + model_page(line.entry.slug),
            words=f"{line.entry.card.name} {line.entry.slug} {line.dataset} {line.regime}",
        )
        for part in parts
        for line in part.lines
        if line.place is None
    ]
    rows += [
        Row(name, [Cell(DASH), Cell(DASH), Cell(DASH, kind="missing"), Cell(reason, kind="prose")], words=name)
        for name, reason in problems
    ]
    if not rows:
        return None
    columns = (
        Column("Dataset", sort="text"),
        Column("Regime", sort="text"),
        Column("MRR so far"),
        Column("Why it is not ranked", sort="text"),
    )
    return Table("unranked", "Shown, but not ranked", "Entry", columns, [Group(rows)])
