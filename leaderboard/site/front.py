"""The first page: the best model against the best heuristic baseline, one table of all entries, and two pictures."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leaderboard.board.board import (
    REGIME_NAMES,
    REGIMES,
    Board,
    DatasetBoard,
    Figure,
    Line,
    Regime,
    Standing,
    command,
    estimate,
)
from leaderboard.board.ranking import rescored
from leaderboard.board.tables import short
from leaderboard.entries.cards import Card
from leaderboard.entries.entries import Entry
from leaderboard.site import pictures
from leaderboard.site.cells import (
    MISSING,
    Badge,
    Cell,
    Column,
    Group,
    Row,
    Table,
    Tip,
    code,
    count,
    duration,
    figure_cell,
    filled,
    model_page,
    signed,
    slug,
)
from leaderboard.site.pictures import Best, Point
from mtbench.runs.result import EVALUATOR_VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

OWN = ("The mtbench developers",)
"""The authors of entries that are the maintainers' own."""

STRICT = "-strict"
"""The end of the name of a dataset's variant without its known leak."""

TIMES = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h", 360_000: "100 h"}


def drawing(board: Board) -> tuple[Drawing, str]:
    """Return a picture of the best trained model against the best heuristic baseline by dataset, and it in words."""
    rows, said = [], []
    for part in (part for scenario in scenarios(board) for part in scenario.every):
        line = part.leader
        figure = None if line is None else line.figure()
        name = ", ".join(filter(None, (line.name, figure.few))) if line and figure else ""
        baseline = None if part.baseline is None else part.baseline[1]
        rows.append(Best(short(part.name), baseline, name, None if figure is None else figure.mean))
        said.append(f"{short(part.name)}: {f'{name} {figure.mean:.3f}' if figure else 'not run'}, {baseline or 0:.3f}")
    title = f"MRR in both directions of the best trained model and of the best heuristic baseline. {'; '.join(said)}."
    return pictures.draw_best(rows), title


def best(board: Board) -> str:
    """Return the picture of `drawing` for the page."""
    drawn, said = drawing(board)
    return pictures.inline(drawn, "best", said)


def scatter(board: Board) -> str:
    """Return a picture of the mean lift of entries against their time per run; empty if no entry has both."""
    shown = [
        (standing.entry.card.name, time, standing.lift, standing.rank is None)
        for standing in board.standings
        if standing.lift is not None and (time := seconds(board, standing))
    ]
    if not shown:
        return ""
    low, high = min(time for _, time, *_ in shown), max(time for _, time, *_ in shown)
    ticks = {time: label for time, label in TIMES.items() if low / 8 <= time <= high * 8}
    names = "ranked", "not ranked: some datasets, or few seeds"
    said = "; ".join(f"{name} {lift:+.3f} in {duration(time).text}" for name, time, lift, _ in shown)
    title = f"Mean lift over the best heuristic baseline against the time of a run: {said}."
    return pictures.inline(pictures.draw_points([Point(*point) for point in shown], ticks, names), "scatter", title)


def seconds(board: Board, standing: Standing) -> float | None:
    """Return the mean seconds of a run over the datasets on which an entry is ranked, None if unknown."""
    lines = [line for line in board.lines(standing.entry.slug) if line.dataset in standing.covered and line.seconds]
    return statistics.fmean(line.seconds or 0.0 for line in lines) if lines else None


@dataclass(frozen=True)
class Scenario:
    """One column: ``every`` dataset of it, the ``datasets`` of its mean, and ``each`` that ticking its box shows."""

    key: str
    label: str
    every: Sequence[DatasetBoard]
    datasets: Sequence[DatasetBoard]
    each: Sequence[DatasetBoard]


def scenarios(board: Board) -> list[Scenario]:
    """Return the columns of datasets, those of the paper first; a strict variant stands beside its dataset."""
    by_name: dict[str, list[DatasetBoard]] = {name: [] for name in LABELS}
    for part in board.datasets:
        if part.name not in board.paper and not any(line.figure() for line in part.lines):
            continue
        by_name.setdefault(short(part.name).removesuffix(STRICT).partition("/")[0], []).append(part)
    made = []
    for name, parts in by_name.items():
        plain = [part for part in parts if not part.name.endswith(STRICT)] or parts
        if parts:
            each = [part for part in parts if [part] != plain]
            made.append(Scenario(slug(name), LABELS.get(name, name), parts, plain, each))
    return made


LABELS = {"metafam": "MetaFam", "fbnell": "FBNELL", "mt1": "MT1", "mt2": "MT2", "mt3": "MT3", "mt4": "MT4"}


def standings(board: Board) -> Table:
    """Return the table of all entries below the best heuristic baseline, which stays on top in any order of rows."""
    suite = len(board.paper)
    columns = [
        Column(
            "Rank",
            f"In its regime, by the mean lift; only of entries that are ranked on all {suite} datasets of the paper, "
            "with three seeds or with weights that were trained elsewhere",
        ),
        Column("Coverage", f"On how many of the {suite} datasets the entry is ranked in both directions"),
        Column("Lift", "Mean over these of how far the MRR lies above the best heuristic baseline"),
    ]
    for scenario in scenarios(board):
        names = " and ".join(part.name for part in scenario.datasets)
        columns.append(
            Column(scenario.label, f"Mean of {names}" if len(scenario.datasets) > 1 else names, opens=scenario.key)
        )
        columns += [Column(_below(part), part.name, part=scenario.key) for part in scenario.each]
    columns += [
        Column("Parameters", "Trained ones, on the largest dataset"),
        Column("Time", "Training and scoring: wall clock of a run, mean over the covered datasets"),
    ]
    cells = [MISSING, MISSING, signed(0.0)]
    for scenario in scenarios(board):
        cells += [_baseline(scenario.datasets), *(_baseline([part]) for part in scenario.each)]
    cells += [MISSING, MISSING]
    pinned = Row("Best heuristic baseline", cells, detail="learns nothing", kind="baseline")
    by_regime = {
        regime: [_row(board, standing) for standing in board.standings if standing.regime == regime]
        for regime in REGIMES
    }
    groups = [Group([pinned]), *(Group(rows, REGIME_NAMES[regime]) for regime, rows in by_regime.items() if rows)]
    caption = "MRR in both directions; within a regime by coverage and then by lift"
    return filled(Table("standings", caption, "Model", columns, groups, dense=True))


def leaders(board: Board) -> Table:
    """Return the first entry of each regime: its figure over the datasets it is ranked on, its lift, and its cost."""
    rows = []
    for regime in REGIMES:
        first = next((standing for standing in board.standings if standing.regime == regime and standing.covered), None)
        if first is None:
            continue
        lines = {line.dataset: line for line in board.lines(first.entry.slug)}
        mean = statistics.fmean(figure.mean for name in first.covered if (figure := lines[name].figure()))
        baselines = [baseline[1] for name in first.covered if (baseline := lines[name].baseline)]
        cells = [
            Cell(f"{mean:.3f}", value=mean, below=f"on {len(first.covered)}/{len(board.paper)}"),
            Cell(f"{statistics.fmean(baselines):.3f}") if baselines else MISSING,
            duration(seconds(board, first)),
        ]
        card, href = first.entry.card, model_page(first.entry.slug)
        said = f"{REGIME_NAMES[regime]}{'; by the maintainers' * (card.authors == OWN)}"
        rows.append(Row(card.name, cells, href, said, kind="fixed"))
    columns = [Column("MRR", sort=""), Column("Baseline", sort=""), Column("A run takes", sort="")]
    caption = "Means over the datasets it is ranked on; the best heuristic baseline there learns nothing"
    return Table("leaders", caption, "First in its regime", columns, [Group(rows)])


def _below(part: DatasetBoard) -> str:
    name = short(part.name)
    return name.partition("/")[2] or ("strict" if name.endswith(STRICT) else name)


def _baseline(parts: Sequence[DatasetBoard]) -> Cell:
    known = [(part, part.baseline) for part in parts if part.baseline]
    if len(known) < len(parts):
        return MISSING
    said = "; ".join(f"{part.name}: {name.replace('_', ' ')}, {mrr:.3f}" for part, (name, mrr) in known)
    mean = statistics.fmean(mrr for _, (_, mrr) in known)
    return Cell(f"{mean:.3f}", value=mean, tip=Tip(said, f"mtbench baselines {known[0][0].name}"))


def _row(board: Board, standing: Standing) -> Row:
    entry, card = standing.entry, standing.entry.card
    lines = {line.dataset: line for line in board.lines(entry.slug)}
    cells = [
        count(standing.rank),
        Cell(f"{len(standing.covered)}/{len(board.paper)}", value=len(standing.covered)),
        signed(standing.lift),
    ]
    for group in scenarios(board):
        cells += [_cell(card, group.datasets, lines), *(_cell(card, [part], lines) for part in group.each)]
    time = seconds(board, standing)
    cells += [count(card.parameters), duration(time)]
    return entry_row(board, entry, standing.regime, cells, board.paper)


def entry_row(board: Board, entry: Entry, regime: Regime, cells: Sequence[Cell], datasets: Collection[str]) -> Row:
    """Return the row of an entry in a table over some datasets, with its links and its badges."""
    card = entry.card
    own = code() if card.authors == OWN else ""
    return Row(
        card.name,
        cells,
        model_page(entry.slug),
        f"{card.year}" if card.year else "",
        f"{card.name} {entry.slug} {REGIME_NAMES[regime]} {card.year or ''}",
        regime,
        [(name, address) for name, address in (("paper", card.url), ("code", own or card.code)) if address],
        badges(board, entry, within=datasets),
    )


def _cell(card: Card, parts: Sequence[DatasetBoard], lines: dict[str, Line]) -> Cell:
    """Return the mean over some datasets, or what it lacks with the command that runs it."""
    own = [(line, figure) for part in parts if (line := lines.get(part.name)) and (figure := line.figure())]
    if len(own) == len(parts):
        mean = statistics.fmean(figure.mean for _, figure in own)
        if remarks := dict.fromkeys(text for line, _ in own if line.place is None for text in line.remarks):
            return Cell(f"{mean:.3f}", "not ranked", mean, "unranked", tip=Tip(f"{'; '.join(remarks)}."))
        fewest = min((figure.seeds for _, figure in own if figure.seeds), default=None)
        return figure_cell(Figure(mean, seeds=fewest), best=all(part.leads(lines[part.name]) for part in parts))
    there = {line.dataset for line, _ in own}
    missing = [part.name for part in parts if part.name not in there]
    failed = sorted(lines[name].failed for name in missing if name in lines and lines[name].failed)
    text = f"{len(own)} of {len(parts)}" if own else failed[0] if failed else "not run"
    return Cell(text, kind="missing", tip=_how(card, missing, list(lines.values())))


def _how(card: Card, missing: Sequence[str], lines: Sequence[Line]) -> Tip:
    """Return the command that makes the missing runs, and about how long they take."""
    cost = "How long it takes is not known: no run of it is recorded."
    if (time := estimate(lines, missing)) is not None:
        cost = (
            f"Estimated at {duration(time).text} per seed, from its recorded runs and the size of the training graph."
        )
    return Tip(f"Not run in both directions on {' and '.join(missing)}. {cost}", command(card.model, missing))


def badges(board: Board, entry: Entry, within: Collection[str] | None = None) -> list[Badge]:
    """Return the badges of an entry: whether it verifies, who ran it, what it has seen ``within`` some datasets."""
    card = entry.card
    badges = []
    if entry.slug not in board.problems:
        said = f"Verified: all metrics match the ranks (evaluator version {EVALUATOR_VERSION})."
        badges.append(Badge("verified ranks", Tip(said, f"mtbench leaderboard check {entry.slug}"), "good"))
    else:
        badges.append(Badge("does not hold", Tip("; ".join(board.problems[entry.slug][:3])), "bad"))
    if runs := rescored(entry):
        said = f"The weights beside these runs give the ranks that are published: {', '.join(runs)}."
        badges.append(Badge("re-scored from weights", Tip(said), "good"))
    if card.authors == OWN:
        badges.append(Badge("by the maintainers", Tip("Who keeps this leaderboard made the model.")))
    lines = [line for line in board.lines(entry.slug) if within is None or line.dataset in within]
    if unverified := [line for line in lines if not line.verified]:
        names = ", ".join(short(line.dataset) for line in unverified)
        said = (
            "Counts can be made up: nobody but its authors has seen the model give these ranks. It is never the first."
        )
        badges.append(Badge("unverified by us", Tip(f"{said} On {names}."), "warn"))
    if card.retrained:
        badges.append(Badge("retrained by us", Tip("The maintainers of the leaderboard trained it, by its paper.")))
    if card.contaminated:
        badges.append(Badge("contaminated", Tip(card.contaminated), "bad"))
    elif touched := [line for line in lines if line.contaminated]:
        names = ", ".join(short(line.dataset) for line in touched) if len(touched) < 3 else f"{len(touched)} datasets"
        said = "; ".join(f"on {short(line.dataset)} {' and '.join(line.contaminated)}" for line in touched)
        badges.append(Badge(f"contaminated: {names}", Tip(f"{said}."), "bad"))
    for name in card.leaks:
        if name in entry.runs:
            said = f"It can see the known leak of {name}: the inverse of every test triple is in the inference graph."
            badges.append(Badge(f"leak: {short(name)}", Tip(said), "warn"))
    return badges


REGIMES_SAID: Mapping[Regime, str] = {
    "elsewhere": "The model never saw a graph of the pair: it learned from other graphs, or learned nothing.",
    "trained": "The model learned from the training graph of the pair; the inference graph was only read.",
    "adapted": "Some of the model or all was fitted to the inference graph: at test time, later, or from the start.",
}
