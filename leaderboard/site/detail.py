"""The tables on pages of datasets and entries: standings, what is not ranked, every metric, the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from leaderboard.board import reported
from leaderboard.board.board import (
    OPTIMISTIC,
    PAPER,
    PESSIMISTIC,
    REGIME_NAMES,
    REGIMES,
    SLOTS,
    STANDARD,
    VIEWS,
    DatasetBoard,
    Figure,
    Figures,
    Line,
    Regime,
    View,
)
from leaderboard.board.tables import short
from leaderboard.entries.entries import Entry
from leaderboard.site.cells import (
    DASH,
    MISSING,
    Cell,
    Column,
    Group,
    Notes,
    Row,
    Table,
    beside_paper,
    count,
    dataset_page,
    duration,
    figure_cell,
    filled,
    memory,
    model_page,
    number,
    paper_cell,
    percent,
    seen,
    signed,
)
from mtbench.files import tables
from mtbench.names import METRICS
from mtbench.runs.directory import CONVENTIONS_FILE, Run
from mtbench.runs.files import RANKS_FILE, RESULT_FILE
from mtbench.runs.result import FLAG_SPREAD
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE, MAIN, VOCABULARIES, setting_of

STANDING = {
    STANDARD: (
        Column("Rank", "The ranks that remain possible at 95 %"),
        Column(
            "MRR", "Mean over seeds with the sample deviation; small, its 95 % interval over seeds and test triples"
        ),
        Column("Tied", "Entries that share a letter are statistically tied", "text"),
        Column("Lift", "Above the best heuristic baseline"),
        Column("Ties decide", "How far the optimistic and the pessimistic MRR lie apart"),
        Column("Seen", "Test triples in a graph the model learned from, computed from the triples"),
        Column("Time", "Wall clock per run, mean over seeds; small, the device"),
        Column("Memory", "Largest peak of a run"),
        Column("Parameters"),
        Column("Seeds"),
    ),
    SLOTS: (
        Column("MRR, all relation ids", "Relation candidates from all ids, unused ones included"),
        Column("MRR, standard"),
        Column("Difference"),
    ),
    PESSIMISTIC: (
        Column("MRR, pessimistic"),
        Column("MRR, realistic", "Ties averaged"),
        Column("MRR, optimistic"),
        Column("Ties decide"),
        Column("Tied ranks"),
    ),
    PAPER: (
        Column("Setting", "Which of the paper's code bases made the row", "text"),
        Column("Reported"),
        Column("Re-evaluated", "In the same setting, here"),
        Column("Difference"),
        Column("MRR, standard"),
    ),
}


def standings(part: DatasetBoard) -> list[Table]:
    """Return the standings of the ranked entries on a dataset by regime, a table per view."""
    by_regime = {
        regime: lines for regime in REGIMES if (lines := [line for line in part.of(regime) if line.place is not None])
    }
    tables = []
    for view in VIEWS if by_regime else ():
        notes, groups = Notes(), []
        for regime, lines in by_regime.items():
            # An entry by itself is not marked as the best.
            several = view != PAPER and sum(line.figure(view) is not None for line in lines) > 1
            marked = [(line, several and part.leads(line, view, regime)) for line in lines]
            rows = [_entry_row(line, _standing(line, view, notes, best=best), line.device) for line, best in marked]
            groups.append(Group(rows, REGIME_NAMES[regime]))
        caption = f"Dual MRR, {how(view)}"
        if view == STANDARD and part.baseline:
            name, mrr = part.baseline
            caption += f"; best heuristic baseline: {name.replace('_', ' ')}, {mrr:.3f}"
        tables.append(
            filled(Table(f"standing-{view.key}", caption, "Entry", STANDING[view], groups, view.key, tuple(notes)))
        )
    return tables


def how(view: View) -> str:
    """Return the name of a view in a caption."""
    return f"evaluation setting: {view.label.lower()}"


def _entry_row(line: Line, cells: Sequence[Cell], *words: str) -> Row:
    """Return the row of an entry, found by its names, dataset, regime and ``words``."""
    known = [line.name, line.entry.slug, line.dataset, REGIME_NAMES[line.regime], *words]
    return Row(line.name, cells, f"../{model_page(line.entry.slug)}", words=" ".join(known))


def _standing(line: Line, view: View, notes: Notes, *, best: bool) -> list[Cell]:
    figure, headline = line.figure(view), line.figure()
    main = figure_cell(figure, best=best)
    if view == STANDARD:
        return _standard(line, main)
    if view == SLOTS:
        return [main, figure_cell(headline), signed(_less(figure, headline))]
    if view == PESSIMISTIC:
        tied = MISSING if line.tie_rate is None else Cell(percent(line.tie_rate), value=line.tie_rate)
        return [main, figure_cell(headline), figure_cell(line.figure(OPTIMISTIC)), _spread(line), tied]
    printed = line.reported.get((HEADLINE.protocol, "mrr"))
    reported = None if printed is None or printed.mean is None else Figure(printed.mean)
    convention = Cell(line.own) if line.own else Cell("no row in the paper", kind="muted")
    return [convention, paper_cell(printed, notes), main, signed(_less(figure, reported)), figure_cell(headline)]


def _standard(line: Line, main: Cell) -> list[Cell]:
    place = line.place
    assert place is not None
    rank = f"{place.best}" if place.best == place.worst else f"{place.best}{DASH}{place.worst}"
    interval = f"{place.low:.3f} to {place.high:.3f}" if place.low is not None else ""
    unfinished = ", ".join(f"seed {seed} {status}" for seed, status in sorted(line.unfinished.items()))
    return [
        Cell(rank, value=place.best + place.worst / 1000),  # sorted by the best rank, then by the worst
        replace(main, below=interval),
        Cell(place.group or DASH),
        replace(signed(line.lift), kind="up" if (line.lift or 0) > 0 else "down"),
        _spread(line),
        seen(line.overlaps),
        replace(duration(line.seconds), below=line.device),
        memory(line.memory),
        count(line.entry.card.parameters),
        replace(count(len(line.seeds)), detail=unfinished),
    ]


def _spread(line: Line) -> Cell:
    figure = line.figure()
    if figure is None or figure.low is None or figure.high is None:
        return MISSING
    spread = figure.high - figure.low
    if spread <= FLAG_SPREAD:
        return Cell(f"{spread:.3f}", value=spread)
    return Cell(f"{spread:.3f}", "", spread, "warn", below=f"{figure.low:.3f} to {figure.high:.3f}")


def _less(first: Figure | None, second: Figure | None) -> float | None:
    return None if first is None or second is None else first.mean - second.mean


def among_all(part: DatasetBoard) -> Table | None:
    """Return the figures of every entry that was ranked among all entities or all relation types; None without any."""
    shown = {metric: tables.heading(metric) for metric in ("mrr", "hits@10")}
    settings = {label: setting_of(name) for label, name in (("Entities", "full"), ("Relation types", "full-relation"))}

    def cells(read: Callable[[Setting], Figures]) -> list[Cell]:
        return [figure_cell(read(setting).get(metric), metric) for setting in settings.values() for metric in shown]

    best = {
        setting: max(part.baselines.get(setting, {}).values(), key=lambda metrics: metrics["mrr"], default={})
        for setting in settings.values()
    }
    baseline = cells(lambda setting: {name: Figure(value) for name, value in best[setting].items()})
    groups = [Group([Row("Best heuristic baseline", baseline, kind="baseline")])]
    for regime in REGIMES:
        rows = [_entry_row(line, cells(partial(_in, line))) for line in part.of(regime) if not line.faults]
        rows = [row for row in rows if any(cell != MISSING for cell in row.cells)]
        rows.sort(key=lambda row: -(row.cells[0].value or 0.0))
        groups += [Group(rows, REGIME_NAMES[regime])] if rows else []
    columns = [Column(f"{label}: {heading}") for label in settings for heading in shown.values()]
    caption = "Among all entities, or all relation types, of the inference graph"
    return filled(Table("among-all", caption, "Entry", columns, groups)) if len(groups) > 1 else None


def _in(line: Line, setting: Setting) -> Figures:
    return line.read(STANDARD, setting.protocol)


def unranked(lines: Iterable[Line]) -> Table | None:
    """Return the lines that are shown but not ranked, with the reasons; None without any."""
    left = [line for line in lines if line.place is None and line.remarks]
    several = len({line.dataset for line in left}) > 1
    rows = [
        _entry_row(
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


PROTOCOLS = {
    "dual": "Dual: two lists, 24 other tails and 24 other heads, each with up to 26 other relation types",
    "entity": "Entity-centric: two lists, 50 other tails and 50 other heads",
    "relation": "Relation-centric: up to 50 other relation types",
    "full": "Full: all entities of the inference graph, as tails and as heads",
    "full-relation": "Full, relations: all relation types of the inference graph",
}
"""The protocols that pages show, explained."""
FILES = (RESULT_FILE, RANKS_FILE, CONVENTIONS_FILE)
"""The files of a run that can be downloaded."""


def of_dataset(part: DatasetBoard, protocol: str, names: Mapping[str, str]) -> list[Table]:
    """Return all metrics on a dataset under a protocol, a table per regime and view, with baselines and chance.

    ``names`` are the names of the entries by slug.
    """
    tables: list[Table] = []
    regimes: list[Regime] = [regime for regime in REGIMES if part.of(regime)]
    for view in VIEWS:
        for regime in regimes:
            notes = Notes()
            rows = [
                row
                for line in part.of(regime)
                if (row := _metric_row(line, view, protocol, notes, line.name, model_page(line.entry.slug)))
            ]
            caption = f"{protocol.capitalize()}, {REGIME_NAMES[regime].lower()}: every metric, {how(view)}"
            tables += _metrics(f"{protocol}-{regime}-{view.key}", caption, rows, view.key, notes)
        if view in (STANDARD, SLOTS):
            tables += _baselines(part, protocol, view)
        if view == PAPER:
            tables += _only_reported(part, protocol, PAPER.key if regimes else "", names)
    return tables


def of_entry(lines: Sequence[Line], protocol: str) -> list[Table]:
    """Return all metrics of an entry under a protocol, a row per dataset, a table per view."""
    tables: list[Table] = []
    for view in VIEWS:
        notes = Notes()
        rows = [
            row
            for line in lines
            if (row := _metric_row(line, view, protocol, notes, short(line.dataset), dataset_page(line.dataset)))
        ]
        caption = f"{protocol.capitalize()}: every metric by dataset, {how(view)}"
        tables += _metrics(f"{protocol}-{view.key}", caption, rows, view.key, notes, "Dataset")
    return tables


def _metrics(key: str, caption: str, rows: Sequence[Row], view: str, notes: Notes, stub: str = "Entry") -> list[Table]:
    """Return one table of every metric, or no table without rows."""
    columns = [Column(tables.heading(metric)) for metric in METRICS]
    return [Table(key, caption, stub, columns, [Group(rows)], view, tuple(notes), dense=True)] if rows else []


def _metric_row(line: Line, view: View, protocol: str, notes: Notes, label: str, page: str) -> Row | None:
    figures = line.read(view, protocol)
    printed = {metric: line.reported.get((protocol, metric)) for metric in METRICS} if view == PAPER else {}
    if not figures and not any(printed.values()):
        if view == STANDARD and line.failed and protocol == HEADLINE.protocol:
            return Row(label, [Cell(line.failed, kind="oom")] * len(METRICS), f"../{page}", words=label)
        return None
    cells = [_cell(figures.get(metric), printed.get(metric), metric, notes) for metric in METRICS]
    ranked = line.place is not None if protocol in MAIN else not line.faults
    detail = "" if ranked else "not ranked"
    if view == PAPER and line.own:
        detail = f"setting {line.own}"
    words = f"{label} {line.entry.slug} {line.dataset}"
    return Row(label, cells, f"../{page}", detail, words, "" if ranked else "unranked")


def _cell(figure: Figure | None, printed: reported.Cell | None, metric: str, notes: Notes) -> Cell:
    cell = beside_paper(figure, printed, metric, notes)
    if figure is None or figure.low is None or figure.high is None:
        return cell
    low, high = number(metric, figure.low), number(metric, figure.high)
    return cell if low == high else replace(cell, below=f"{low} to {high}")


def _only_reported(part: DatasetBoard, protocol: str, view: str, names: Mapping[str, str]) -> list[Table]:
    """Return the table of the paper's rows that are not run here."""
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
    return _metrics(f"{protocol}-reported", caption, rows, view, notes)


def _baselines(part: DatasetBoard, protocol: str, view: View) -> list[Table]:
    """Return the table of the heuristic baselines and chance, which depend on the candidates alone."""
    by_baseline = part.baselines.get(setting_of(protocol, VOCABULARIES[view == SLOTS]), {})
    rows = [
        Row(
            name.replace("_", " "),
            [figure_cell(Figure(metrics[metric]), metric) if metric in metrics else Cell(DASH) for metric in METRICS],
            kind="baseline",
        )
        for name, metrics in by_baseline.items()
    ]
    caption = f"{protocol.capitalize()}: heuristic baselines, which learn nothing, and chance, {how(view)}"
    tables = _metrics(f"{protocol}-baselines-{view.key}", caption, rows, view.key, Notes(), "Heuristic baseline")
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
    """Return the hyper-parameters: those that all runs share, then those of single datasets."""
    by_dataset: dict[str, dict[str, str]] = {}
    for dataset, runs in entry.runs.items():
        gathered: dict[str, list[str]] = {}
        for run in runs:
            for key, value in run.headline.run.hyperparameters.items():
                gathered.setdefault(str(key), []).append(str(value))
        by_dataset[dataset] = {key: ", ".join(dict.fromkeys(texts)) for key, texts in gathered.items()}
    if not any(by_dataset.values()):
        return []
    first = next(iter(by_dataset.values()))
    shared = {
        key: text
        for key, text in first.items()
        if all(other_texts.get(key) == text for other_texts in by_dataset.values())
    }
    sections = [("On all datasets", sorted(shared.items()))] if shared else []
    for dataset, own in by_dataset.items():
        if differing := sorted((key, text) for key, text in own.items() if key not in shared):
            sections.append((f"On {dataset}", differing))
    return sections
