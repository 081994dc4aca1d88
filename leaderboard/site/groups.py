"""The pages of the questions over groups of graphs: who is best in each regime, where, on what, and graph by graph."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leaderboard.board import reported
from leaderboard.board.board import PESSIMISTIC, REGIME_NAMES, REGIMES, Board, Figure, Regime, installed
from leaderboard.board.groups import GroupBoard, Member, Question, group_board
from leaderboard.board.tables import short
from leaderboard.site.cells import (
    MISSING,
    Cell,
    Column,
    Group,
    Row,
    Table,
    Tip,
    count,
    dataset_page,
    duration,
    figure_cell,
    filled,
    percent,
    signed,
    slug,
)
from leaderboard.site.facts import Data
from leaderboard.site.front import entry_row
from mtbench.analysis.groups import GroupMean
from mtbench.errors import typed
from mtbench.names import SIDES
from mtbench.runs.strata import QUERIES

TITLES = {
    "entities+relations": "New entities and relation types",
    "entities": "New entities",
    "one graph": "One graph",
}
STRATA = {
    "both": ("Both", "The asked half (h, r, .) and the answer's (., r, t) are in the inference graph"),
    "asked half only": ("Asked", "The asked half (h, r, .) is in the inference graph, the answer's is not"),
    "answer's half only": (
        "Answer",
        "The answer's half (., r, t) is in the inference graph, the asked is not",
    ),
    "none": ("Neither", "No half of the triple is in the inference graph"),
}


@dataclass(frozen=True)
class Section:
    """One group on a page: its title, its standings, and the figures graph by graph."""

    key: str
    group: str
    title: str
    said: str
    standings: Table | None
    by_graph: Sequence[Table]


def sections(board: Board, question: Question, data: Data) -> list[Section]:
    """Return the groups of a question, in their order."""
    made = []
    for group in question.groups:
        of_group = group_board(board, question, group)
        said = f"{len(of_group.graphs)} graphs. A figure is the mean over them."
        tables = [by_graph(of_group, regime) for regime in REGIMES if of_group.of(regime)]
        table = standings(board, of_group, data) if of_group.members else None
        made.append(Section(slug(group), group, TITLES[group], said, table, tables))
    return made


def standings(board: Board, of_group: GroupBoard, data: Data) -> Table:
    """Return the entries of a group by regime, below the best heuristic baseline and above what others measured."""
    asks_entities = set(of_group.question.setting.sides) != {SIDES[1]}
    columns = [
        Column("Rank", "In its regime, by the mean MRR; only of entries that were run on all graphs"),
        Column("Graphs", "On how many graphs of the group it was run; small, the fewest seeds on one"),
        Column(
            "MRR",
            "Mean over the graphs of the realistic MRR (ties averaged), and its 95 % interval, of three graphs or more",
        ),
        Column("Pessimistic", "The MRR when every tie counts against the true triple, as the field's own code counts"),
        Column("Hits@10"),
        Column("Lift", "Mean over the graphs of how far the MRR lies above the best heuristic baseline"),
        Column("Unseen", "MRR on the graphs of whose test triples no entry of the regime with all graphs has seen 5 %"),
        *(Column(label, said) for label, said in (STRATA.values() if asks_entities else ())),
        Column("Time", "Training and scoring: wall clock of a run, mean over the graphs"),
        Column("Parameters"),
    ]
    best = [_baseline_row(of_group, len(columns))]
    groups = [Group(best)] if of_group.baselines else []
    for regime in REGIMES:
        if members := of_group.of(regime):
            clean = of_group.clean(regime)
            rows = [_row(board, of_group, member, data, asks_entities) for member in members]
            unseen = f", {len(clean)} of {len(of_group.graphs)} graphs unseen" if clean else ""
            groups.append(Group(rows, f"{REGIME_NAMES[regime]}{unseen}"))
    if asks_entities and (rows := list(_elsewhere(board, of_group, len(columns)))):
        groups.append(Group(rows, "Measured by others, pre-trained elsewhere"))
    caption = (
        f"Filtered MRR on {len(of_group.graphs)} graphs, by regime; regimes are not compared. In brackets: over fewer"
    )
    return filled(Table(f"group-{slug(of_group.group)}", caption, "Model", columns, groups, dense=True))


def _baseline_row(of_group: GroupBoard, width: int) -> Row:
    cells = [MISSING] * width
    if (mrr := of_group.baseline()) and (hits := of_group.baseline("hits@10")):
        cells[1] = _coverage(mrr.graphs, len(of_group.graphs))
        cells[2] = _mean(mrr)
        cells[4:6] = [_number(hits.mean), signed(0.0)]
    return Row("Best heuristic baseline", cells, detail="learns nothing", kind="baseline")


def _row(board: Board, of_group: GroupBoard, member: Member, data: Data, asks_entities: bool) -> Row:
    mean, lift = member.mean(), of_group.lift(member)
    main = replace(_bracketed(_mean(mean), whole=member.whole), best=member.rank == 1)
    if member.remarks:
        main = replace(main, kind="unranked", detail="not ranked", tip=Tip(f"{'; '.join(member.remarks)}."))
    unseen = of_group.unseen(member)
    cells = [
        count(member.rank),
        replace(
            _coverage(len(member.lines), len(member.graphs)) if member.whole else _missing_graphs(member, of_group),
            # weights that were trained elsewhere are what they are with any seed
            below="" if member.regime == "elsewhere" else f"{member.seeds} seed{'s' * (member.seeds > 1)}",
        ),
        main,
        _bracketed(_number(member.mean(view=PESSIMISTIC).mean), whole=member.whole),
        _bracketed(_number(member.mean("hits@10").mean), whole=member.whole),
        MISSING if lift is None else replace(signed(lift.mean), kind="up" if lift.mean > 0 else "down"),
        MISSING if unseen is None else _number(unseen),
        *(_bracketed(cell, whole=member.whole) for cell in (_strata(member, data) if asks_entities else ())),
        duration(member.seconds),
        count(member.entry.card.parameters),
    ]
    return entry_row(board, member.entry, member.regime, cells, of_group.graphs)


def _missing_graphs(member: Member, of_group: GroupBoard) -> Cell:
    lacking = [graph for graph in member.graphs if graph not in member.lines]
    model = installed(member.entry.card.model)[0]
    protocol = of_group.question.setting.protocol
    command = typed("run", model, "--group", of_group.group, "--protocol", protocol)
    cell = _coverage(len(member.lines), len(member.graphs))
    return replace(cell, tip=Tip(f"Not run on {', '.join(map(short, lacking))}.", command))


def _coverage(number: int, of: int) -> Cell:
    return Cell(f"{number}/{of}", value=number)


def _mean(mean: GroupMean) -> Cell:
    interval = f"{mean.low:.3f} to {mean.high:.3f}" if mean.graphs > 2 else ""  # that of two leaves 0 to 1
    return Cell(f"{mean.mean:.3f}", value=mean.mean, below=interval)


def _number(value: float) -> Cell:
    return Cell(f"{value:.3f}", value=value)


def _bracketed(cell: Cell, *, whole: bool) -> Cell:
    return cell if whole or cell == MISSING else replace(cell, text=f"({cell.text})")


def by_half_link(member: Member, data: Data) -> dict[str, float] | None:
    """Return the MRR of the strata of a member, each the mean over the graphs that have it; None without datasets."""
    by_stratum: dict[str, list[float]] = {name: [] for name in QUERIES}
    for graph, line in member.lines.items():
        setting = member.question.setting
        strata = [data.half_links(run, graph, setting) for run in line.entry.runs[graph] if setting in run.results]
        if None in strata:
            return None
        for name in QUERIES:
            if means := [of_run[name] for of_run in strata if of_run and name in of_run]:
                by_stratum[name].append(statistics.fmean(means))
    return {name: statistics.fmean(values) for name, values in by_stratum.items() if values}


def _strata(member: Member, data: Data) -> list[Cell]:
    figures = by_half_link(member, data) or {}
    return [_number(figures[name]) if name in figures else MISSING for name in QUERIES]


def _elsewhere(board: Board, of_group: GroupBoard, width: int) -> Iterable[Row]:
    """Give the rows of the models that others measured and no entry has."""
    models = {entry.card.model for entry in board.entries}
    for model, measured in reported.elsewhere().items():
        figures = [measured.figures[graph] for graph in of_group.graphs if graph in measured.figures]
        if model in models or not figures:
            continue
        cells = [MISSING] * width
        cells[1] = _coverage(len(figures), len(of_group.graphs))
        whole = len(figures) == len(of_group.graphs)
        cells[3], hits = (_bracketed(_number(statistics.fmean(of)), whole=whole) for of in zip(*figures, strict=True))
        cells[4] = replace(hits, detail="pessimistic")
        yield Row(
            measured.name,
            cells,
            detail="reported",
            words=f"{measured.name} reported",
            links=[("source", measured.source)],
        )


def by_graph(of_group: GroupBoard, regime: Regime) -> Table:
    """Return the MRR of the entries of a regime on every graph, the best bold, what they have seen of its targets."""
    members = of_group.of(regime)
    columns = [Column("Best baseline"), *(Column(member.entry.card.name) for member in members)]
    rows = []
    for graph in of_group.graphs:
        figures = [member.read(graph).get("mrr") for member in members]
        best = max(
            (
                figure.mean
                for member, figure in zip(members, figures, strict=True)
                if figure and member.rank and graph not in member.seen
            ),
            default=None,
        )
        baseline = of_group.baselines.get(graph)
        cells = [
            Cell(f"{baseline[1]['mrr']:.3f}", value=baseline[1]["mrr"], tip=Tip(baseline[0].replace("_", " ")))
            if baseline
            else MISSING
        ]
        cells += [_of_graph(member, graph, figure, best) for member, figure in zip(members, figures, strict=True)]
        rows.append(Row(short(graph), cells, dataset_page(graph) if any(figures) else "", words=graph))
    caption = f"{REGIME_NAMES[regime]}: MRR by graph; small, the share of test triples it has seen"
    return Table(f"graphs-{slug(of_group.group)}-{regime}", caption, "Graph", columns, [Group(rows)], dense=True)


def _of_graph(member: Member, graph: str, figure: Figure | None, best: float | None) -> Cell:
    if figure is None:
        return MISSING
    cell = figure_cell(
        replace(figure, seeds=None),
        best=bool(member.rank)
        and graph not in member.seen
        and best is not None
        and round(figure.mean, 3) == round(best, 3),
    )
    line = member.lines[graph]
    if line.unmeasured:
        return replace(cell, detail="seen: unknown", kind="warn")
    share = max((overlap.share or 0.0 for overlap in line.seen), default=0.0)
    return replace(cell, detail=f"{percent(share)} seen", kind="warn") if share else replace(cell, detail="")
