"""How far our runs are from every figure of the paper, in the evaluation setting of its row, and the reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import fdtri, stdtrit

from leaderboard.board import reported
from leaderboard.board.board import Figure, command, over_seeds
from leaderboard.board.ranking import readings
from leaderboard.board.reported import Cell
from leaderboard.board.tables import short
from leaderboard.entries.entries import Entry, folders, load
from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.evaluation.paper import sampled_hits
from mtbench.files.tables import heading, lay_out
from mtbench.names import METRICS, PARTS
from mtbench.runs.directory import Run
from mtbench.runs.result import Metrics

Verdict: TypeAlias = Literal["within", "explained", "open", "not run"]
VERDICTS: tuple[Verdict, ...] = ("within", "explained", "open", "not run")
LEVEL = 0.95
"""The level of the prediction interval in which a figure agrees with the paper's, and of the test of the scatters."""
PAPER_SEEDS = 3
"""The seeds behind a mean and a deviation of the paper (Zhou et al. 2023, section 5)."""
HALF_DIGIT = 0.0005
"""Half a unit of the last digit that is printed."""
NORMAL = 1.96
"""Standard deviations of a normal variable within which it lies as often as `LEVEL` says."""


@dataclass(frozen=True)
class Reason:
    """Why a figure differs from the paper's; ``key`` stands in the tables.

    ``runs`` is what the folder of runs that show it adds to the name of a row, empty where none are needed. They show
    it where they agree with the paper; of a choice that moves a figure ``across``, also where the paper's lies between
    theirs and ours; of ``drawn`` seeds, where more than one in twenty of all draws of `PAPER_SEEDS` agrees with every
    figure of the row under the figure's protocol.
    """

    key: str
    text: str
    runs: str = ""
    across: bool = False
    drawn: bool = False


ERRATUM = Reason("misprint", "the printed figure contradicts others that are printed")
MEMORY = Reason("no memory", "the paper's run was out of memory")
INVERSES = Reason("inverses", "our run has no inverse relations, the paper's had")
TIES = Reason(
    "ties", "exact arithmetic ties what rounding tells apart: one unit in the last place gives the figure", "rounded"
)
AS_RUN = Reason(
    "as run",
    "trained as the published code does, what is asked in sight or ties against the target, the figure comes out",
    "as-run",
)
EPOCHS = Reason(
    "epochs",
    "validation hardly tells epochs apart: another choice of them moves the figure to the paper's or past it",
    "epochs",
    across=True,
)
SEEDS = Reason(
    "seeds",
    "it depends on the seeds: of all threes of ten, so many agree with each figure of the row, more than one in twenty",
    "seeds",
    drawn=True,
)
REASONS = (ERRATUM, MEMORY, INVERSES, TIES, AS_RUN, EPOCHS, SEEDS)
"""In the order in which they are tried."""
REPLICATION = "replication"
"""The folder beside that of the leaderboard's entries: runs that show reasons, and never rank."""
SHOWN = ("by the paper's text", "as run", "no training", "the paper's")
"""The figures of `pictured`, in its order."""


@dataclass(frozen=True)
class Ours:
    """Our runs of a row of the paper on a dataset: their hyper-parameters, and metrics in the setting of a code."""

    settings: Mapping[str, Parameter]
    metrics: Mapping[str, Sequence[Metrics]]
    setting: str = ""

    def of(self, cell: Cell) -> Figure | None:
        """Return the figure beside a cell, the mean over runs."""
        metrics = self.metrics.get(cell.protocol, ())
        return over_seeds(seed[cell.metric] for seed in metrics) if metrics else None


@dataclass(frozen=True)
class Deviation:
    """A cell of the paper beside our figure, None if not run, with a verdict and, if it is explained, the reason.

    ``shown`` is the figure of the runs that show the reason, or the share of their draws.
    """

    cell: Cell
    ours: Figure | None
    verdict: Verdict
    reason: Reason | None = None
    shown: str = ""

    @property
    def scattered(self) -> bool:
        """Whether our seeds lie significantly farther apart than the paper's, by the F test of their variances."""
        if self.ours is None or not self.ours.deviation or self.cell.std is None:
            return False
        quantile = float(fdtri((self.ours.seeds or 2) - 1, PAPER_SEEDS - 1, (1 + LEVEL) / 2))
        return self.ours.deviation**2 > quantile * (self.cell.std + HALF_DIGIT) ** 2

    def __str__(self) -> str:
        """Return ours, then the paper's with its deviation, and in words what is to say of them."""
        if self.ours is None:
            return ""
        theirs = str(self.cell) if self.cell.mean is None else f"{self.cell.mean:.3f}"
        deviation = "" if self.cell.std is None else f" ± {self.cell.std:.3f}"
        why = " ".join(filter(None, (self.reason.key, self.shown))) if self.reason else ""
        words = [why, "open" * (self.verdict == "open"), "seeds apart" * self.scattered]
        return "; ".join(filter(None, (f"{self.ours.mean:.3f}, paper {theirs}{deviation}", *words)))


def deviations(entries: Sequence[Entry], replication: Sequence[Entry] = ()) -> list[Deviation]:
    """Return every printed cell in the order of the tables, beside the entry of its row.

    Of several entries of a row, one in the row's own evaluation setting comes first, then one with the row's name.
    ``replication`` are those that show reasons, named as the row and what `Reason.runs` says.
    """
    by_slug, cells = {entry.slug: entry for entry in replication}, reported.cells()
    # Runs are read once for a row on a dataset, whichever of its cells asks for them.
    rows = {
        row: (_ours(entries, cell), _showing(by_slug, cell))
        for row, cell in {(cell.dataset, cell.model): cell for cell in cells}.items()
    }
    lists: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        lists.setdefault((cell.dataset, cell.model, cell.protocol), []).append(cell)
    return [
        _judged(cell, *rows[cell.dataset, cell.model], lists[cell.dataset, cell.model, cell.protocol]) for cell in cells
    ]


def replication(root: Path) -> list[Entry]:
    """Return the entries that show reasons, which lie beside the folder ``root`` of a leaderboard's, if any do."""
    folder = root.resolve().parent / REPLICATION
    return [load(entry) for entry in folders(folder)] if folder.is_dir() else []


def pictured(entries: Sequence[Entry], replication: Sequence[Entry], model: str) -> dict[str, list[Figure | None]]:
    """Return what is `SHOWN` of a row on every dataset: its dual MRR, None where there is none."""
    by_slug = {entry.slug: entry for entry in replication}
    figures = {}
    for dataset in reported.datasets():
        cell = reported.of(dataset, model)["dual", "mrr"]
        untrained = by_slug.get("no-training")
        read = [
            _ours(entries, cell),
            _showing(by_slug, cell).get(AS_RUN),
            _read(untrained, cell) if untrained else None,
        ]
        printed = None if cell.mean is None else Figure(cell.mean, cell.std)
        figures[dataset] = [*(ours.of(cell) if ours else None for ours in read), printed]
    return figures


def _showing(by_slug: Mapping[str, Entry], cell: Cell) -> dict[Reason, Ours]:
    """Return the runs that show a reason for the row of a cell, as far as there are any on its dataset."""
    named = {reason: by_slug.get(f"{cell.model}-{reason.runs}") for reason in REASONS if reason.runs}
    return {reason: read for reason, entry in named.items() if entry and (read := _read(entry, cell))}


def _ours(entries: Sequence[Entry], cell: Cell) -> Ours | None:
    rows = [entry for entry in entries if entry.card.model == cell.model]
    candidates = [(entry.slug == cell.model, read) for entry in rows if (read := _read(entry, cell))]
    best = max(
        candidates, key=lambda candidate: (candidate[1].setting == cell.setting.code, candidate[0]), default=None
    )
    return best[1] if best else None


def _read(entry: Entry, cell: Cell) -> Ours | None:
    """Return the figures of an entry's runs in the setting of a row; None where it has none on the dataset."""
    runs = [run for run in entry.runs.get(cell.dataset, ()) if run.headline.run.status == "ok"]
    name, metrics = readings(runs, cell.model)
    return Ours(_settings(runs), metrics, name or "") if metrics else None


def _settings(runs: Sequence[Run]) -> Mapping[str, Parameter]:
    """Return the hyper-parameters that are the same in all runs."""
    first, *others = (run.headline.run.hyperparameters for run in runs)
    return {key: value for key, value in first.items() if all(values.get(key) == value for values in others)}


def _judged(
    cell: Cell,
    ours: Ours | None,
    shown: Mapping[Reason, Ours] = MappingProxyType({}),
    row: Sequence[Cell] = (),
) -> Deviation:
    """Return the verdict on a cell; ``row`` are the cells of its row under its protocol, itself among them."""
    figure = ours.of(cell) if ours else None
    if ours is None or figure is None:
        return Deviation(cell, None, "not run")
    if cell.mean is None:
        return Deviation(cell, figure, "explained", MEMORY)
    # The first reason that holds is taken; a figure that agrees needs none.
    if _agrees(figure, cell):
        return Deviation(cell, figure, "within")
    if cell.erratum:
        return Deviation(cell, figure, "explained", ERRATUM)
    if ours.settings.get("inverses") is False:
        return Deviation(cell, figure, "explained", INVERSES)
    for reason, runs in shown.items():
        if word := _shown(reason, runs, cell, figure, row):
            return Deviation(cell, figure, "explained", reason, word)
    return Deviation(cell, figure, "open")


def _shown(reason: Reason, runs: Ours, cell: Cell, ours: Figure, row: Sequence[Cell]) -> str:
    """Return what runs show of a reason, their figure or the share of their draws; empty if they do not show it."""
    again = runs.of(cell)
    if again is None or cell.mean is None:
        return ""
    if reason.drawn:
        share = _share(runs.metrics[cell.protocol], (cell, *row))
        return f"{share:.0%} of draws" if share > 1 - LEVEL else ""
    holds = _agrees(again, cell) or (reason.across and _between(cell.mean, ours, again))
    return f"{again.mean:.3f}" if holds else ""


def _share(seeds: Sequence[Metrics], row: Sequence[Cell]) -> float:
    """Return the share of all draws of `PAPER_SEEDS` seeds whose means agree with every cell of a row."""
    cells = [cell for cell in row if cell.mean is not None and not cell.erratum]
    draws = list(combinations(seeds, PAPER_SEEDS))
    agree = sum(all(_agrees(over_seeds(seed[cell.metric] for seed in draw), cell) for cell in cells) for draw in draws)
    return agree / max(1, len(draws))


def _between(mean: float, *figures: Figure) -> bool:
    return min(figure.mean for figure in figures) <= mean <= max(figure.mean for figure in figures)


def _agrees(ours: Figure, cell: Cell) -> bool:
    """Whether our figure is one that a replication could give."""
    assert cell.mean is not None
    wide = math.hypot(reach(cell.std or 0.0, ours.seeds or 1), NORMAL * draw_error(cell))
    return abs(ours.mean - cell.mean) <= wide


def reach(deviation: float, seeds: int) -> float:
    """Return how far the mean over new seeds may lie from a mean of the paper, given the paper's deviation over seeds.

    It is the prediction interval of a replication that does everything alike: Student's, because the deviation is
    itself estimated from few seeds, and half a unit of the last printed digit.
    """
    quantile = float(stdtrit(PAPER_SEEDS - 1, (1 + LEVEL) / 2))
    return quantile * deviation * math.sqrt(1 / PAPER_SEEDS + 1 / seeds) + HALF_DIGIT


def draw_error(cell: Cell) -> float:
    """Return the standard deviation that random integers give a figure of the paper, 0 where none is drawn.

    Its seeds share their integers: they lie closer together than one draw lies to the mean over draws, which is ours.
    The ranks are taken to be those of a model that is right about every entity; of any other an integer moves less, but
    MR, which it moves alike.
    """
    setting = cell.setting
    if not setting.invented:
        return 0.0
    rank = 1 + np.arange(setting.invented + 1)
    number = sum(setting.number(PARTS[part][1]) for part in setting.lists[0]) + setting.invented
    values = {"mr": rank, "mrr": 1 / rank, **sampled_hits(rank - 1, number)}[cell.metric]
    return float(
        values.std() / math.sqrt(catalog.record(cell.dataset).part("test", "targets").triples * len(setting.lists))
    )


def markdown(entries: Sequence[Entry], replication: Sequence[Entry] = ()) -> str:
    """Return all deviations as Markdown: causes, counts by row and dataset, what to run, and a table per dataset."""
    cells = deviations(entries, replication)
    parts = [_causes(cells), _summary(cells), *filter(None, [_commands(cells)])]
    for dataset in reported.datasets():
        if run := [deviation for deviation in cells if deviation.cell.dataset == dataset and deviation.ours]:
            parts += [f"### {dataset}", _table(run)]
    return "\n\n".join(parts)


def _causes(judged_cells: Sequence[Deviation]) -> str:
    """Return how many figures each cause explains, with those that need none and those that have none."""
    verdicts = Counter(judged.verdict for judged in judged_cells)
    explained = Counter(judged.reason for judged in judged_cells if judged.reason)
    scattered = sum(judged.scattered for judged in judged_cells)
    rows = [("within", verdicts["within"], "what a replication that does everything alike would give 19 times in 20")]
    rows += [(reason.key, explained[reason], reason.text) for reason in REASONS if explained[reason]]
    rows += [("open", verdicts["open"], "no cause is known")]
    rows += [
        ("not run", verdicts["not run"], "there is no run in the setting as it is now; the commands are below")
    ] * bool(verdicts["not run"])
    rows += [("", len(judged_cells), f"of {scattered} our seeds lie significantly farther apart than the paper's")]
    return lay_out(["cause", "figures", "what it is"], [list(map(str, row)) for row in rows], "markdown", left=3)


def _summary(judged_cells: Sequence[Deviation]) -> str:
    """Return how many figures of each row and dataset are within, explained and open."""
    counts = Counter((judged.cell.model, judged.cell.dataset, judged.verdict) for judged in judged_cells)
    rows = []
    for model in reported.models():
        cells = []
        for dataset in reported.datasets():
            numbers = [counts[model, dataset, verdict] for verdict in VERDICTS[:-1]]
            cells.append(" / ".join(map(str, numbers)) if any(numbers) else "not run")
        rows.append([model, *cells])
    return lay_out(["within / explained / open", *map(short, reported.datasets())], rows, "markdown")


def _commands(judged_cells: Iterable[Deviation]) -> str:
    """Return what is not run with the commands that run it, empty if there is nothing."""
    missing: dict[str, set[str]] = {}
    for deviation in judged_cells:
        if deviation.verdict == "not run":
            missing.setdefault(deviation.cell.model, set()).add(deviation.cell.dataset)
    lines = [
        f"* `{command(model, [name for name in reported.datasets() if name in datasets])}`"
        for model, datasets in missing.items()
    ]
    return "What is not run, and how:\n\n" + "\n".join(lines) if lines else ""


def _table(shown: Sequence[Deviation]) -> str:
    metrics = [metric for metric in METRICS if any(deviation.cell.metric == metric for deviation in shown)]
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for deviation in shown:
        key = (deviation.cell.model, deviation.cell.protocol, deviation.cell.table)
        rows.setdefault(key, {})[deviation.cell.metric] = str(deviation)
    table = [[*key, *(cells.get(metric, "") for metric in metrics)] for key, cells in rows.items()]
    return lay_out(["row", "protocol", "table", *map(heading, metrics)], table, "markdown", left=3)
