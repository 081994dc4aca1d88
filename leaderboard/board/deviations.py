"""How far our runs are from every figure of the paper, in the evaluation setting of its row, and the reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from scipy.special import fdtri, stdtrit

from leaderboard.board import reported
from leaderboard.board.board import PAPER, Figure, Figures, command
from leaderboard.board.ranking import by_paper
from leaderboard.board.reported import Cell
from leaderboard.board.tables import short
from leaderboard.entries.entries import Entry
from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.files.tables import heading, lay_out
from mtbench.names import METRICS
from mtbench.runs.directory import Run

Verdict: TypeAlias = Literal["within", "explained", "open", "not run"]
VERDICTS: tuple[Verdict, ...] = ("within", "explained", "open", "not run")
LEVEL = 0.95
"""The level of the prediction interval in which a figure agrees with the paper's, and of the test of the scatters."""
PAPER_SEEDS = 3
"""The seeds behind a mean and a deviation of the paper (Zhou et al. 2023, section 5)."""
HALF_DIGIT = 0.0005
"""Half a unit of the last digit that is printed."""
DRAWS_WIDE = 3.0
"""Standard deviations of the mean of our random draws within which these explain a gap."""


@dataclass(frozen=True)
class Reason:
    """Why a figure differs from the paper's; ``key`` stands in the tables."""

    key: str
    text: str


ERRATUM = Reason("a", "the printed figure is wrong (errata in `published.md`)")
MEMORY = Reason("b", "the paper's run was out of memory")
INVERSES = Reason("c", "our run has no inverse relations, the paper's had")
INTEGER = Reason(
    "d",
    "a random integer is part of every rank, and the gap is within the paper's spread and three deviations of the mean "
    "of our draws (at most: of m (1 - m) / n for a mean m of n ranks; exact for MR)",
)
REASONS = (ERRATUM, MEMORY, INVERSES, INTEGER)
"""In the order in which they are tried; see `docs/models.md` and `docs/ties-and-settings.md`."""


@dataclass(frozen=True)
class Ours:
    """Our runs of a row of the paper on a dataset: their hyper-parameters and figures."""

    settings: Mapping[str, Parameter]
    figures: Mapping[str, Figures]


@dataclass(frozen=True)
class Deviation:
    """A cell of the paper beside our figure, None if not run, with a verdict and, if it is explained, the reason."""

    cell: Cell
    ours: Figure | None
    verdict: Verdict
    reason: Reason | None = None

    @property
    def scattered(self) -> bool:
        """Whether our seeds lie significantly farther apart than the paper's, by the F test of their variances."""
        if self.ours is None or not self.ours.deviation or self.cell.std is None:
            return False
        quantile = float(fdtri((self.ours.seeds or 2) - 1, PAPER_SEEDS - 1, (1 + LEVEL) / 2))
        return self.ours.deviation**2 > quantile * (self.cell.std + HALF_DIGIT) ** 2

    def __str__(self) -> str:
        """Return ours, then the paper's with its deviation, the verdict if it is not ``within``, ``*`` if scattered."""
        if self.ours is None:
            return ""
        mark = self.reason.key if self.reason else "open" if self.verdict == "open" else ""
        theirs = str(self.cell) if self.cell.mean is None else f"{self.cell.mean:.3f}"
        deviation = "" if self.cell.std is None else f" ± {self.cell.std:.3f}"
        return " ".join(filter(None, (f"{self.ours.mean:.3f} / {theirs}{deviation}", mark, "*" * self.scattered)))


def deviations(entries: Sequence[Entry]) -> list[Deviation]:
    """Return every printed cell in the order of the tables, beside the entry of its row.

    Of several entries of a row, one in the row's own evaluation setting comes first, then one with the row's name.
    """
    rows = {(cell.dataset, cell.model): _ours(entries, cell) for cell in reported.cells()}
    return [_judged(cell, rows[cell.dataset, cell.model]) for cell in reported.cells()]


def _ours(entries: Sequence[Entry], cell: Cell) -> Ours | None:
    candidates: list[tuple[bool, bool, Ours]] = []
    for entry in entries:
        runs = [run for run in entry.runs.get(cell.dataset, ()) if run.headline.run.status == "ok"]
        if entry.card.model != cell.model or not runs:
            continue
        name, figures = by_paper(runs, cell.model)
        if figures:
            own = {protocol: by_metric for (view, protocol), by_metric in figures.items() if view == PAPER}
            candidates.append((name == cell.setting.code, entry.slug == cell.model, Ours(_settings(runs), own)))
    return max(candidates, key=lambda candidate: candidate[:2])[2] if candidates else None


def _settings(runs: Sequence[Run]) -> Mapping[str, Parameter]:
    """Return the hyper-parameters that are the same in all runs."""
    first, *others = (run.headline.run.hyperparameters for run in runs)
    return {key: value for key, value in first.items() if all(values.get(key) == value for values in others)}


def _judged(cell: Cell, ours: Ours | None) -> Deviation:
    figure = ours.figures.get(cell.protocol, {}).get(cell.metric) if ours else None
    if ours is None or figure is None:
        return Deviation(cell, None, "not run")
    if cell.mean is None:
        return Deviation(cell, figure, "explained", MEMORY)
    gap, spread = abs(figure.mean - cell.mean), reach(cell.std or 0.0, figure.seeds or 1)
    # The first reason that holds is taken; a figure that agrees needs none.
    if gap <= spread:
        return Deviation(cell, figure, "within")
    if cell.erratum:
        return Deviation(cell, figure, "explained", ERRATUM)
    if ours.settings.get("inverses") is False:
        return Deviation(cell, figure, "explained", INVERSES)
    # The random integer explains no more than its own draws can.
    if gap <= spread + DRAWS_WIDE * draw_error(cell, figure):
        return Deviation(cell, figure, "explained", INTEGER)
    return Deviation(cell, figure, "open")


def reach(deviation: float, seeds: int) -> float:
    """Return how far the mean over new seeds may lie from a mean of the paper, given the paper's deviation over seeds.

    It is the prediction interval of a replication that does everything alike: Student's, because the deviation is
    itself estimated from few seeds, and half a unit of the last printed digit.
    """
    quantile = float(stdtrit(PAPER_SEEDS - 1, (1 + LEVEL) / 2))
    return quantile * deviation * math.sqrt(1 / PAPER_SEEDS + 1 / seeds) + HALF_DIGIT


def draw_error(cell: Cell, ours: Figure) -> float:
    """Return the largest standard deviation that random integers give our mean over seeds, 0 where none is drawn.

    A uniform integer from 0 to N moves a rank with variance N (N + 2) / 12. All other metrics lie from 0 to 1, so that
    their variance is at most m (1 - m) for the mean m.
    """
    invented = cell.setting.invented
    ranks = catalog.record(cell.dataset).part("test", "targets").triples * len(cell.setting.lists)
    if not invented:
        return 0.0
    variance = invented * (invented + 2) / 12 if cell.metric == "mr" else ours.mean * (1 - ours.mean)
    return math.sqrt(variance / (ranks * (ours.seeds or 1)))


def markdown(entries: Sequence[Entry]) -> str:
    """Return all deviations as Markdown: counts by row and dataset, reasons, what to run, and a table per dataset."""
    cells = deviations(entries)
    counts = Counter(deviation.verdict for deviation in cells)
    scattered = sum(deviation.scattered for deviation in cells)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    apart = f"of {scattered} our seeds lie significantly farther apart than the paper's (*)"
    total = f"{len(cells)} figures: {verdicts}; {apart}."
    explained = Counter(deviation.reason for deviation in cells if deviation.reason)
    reasons = [f"* **{why.key}** ({explained[why]}): {why.text}." for why in REASONS if explained[why]]
    parts = [total, _summary(cells), *filter(None, ["\n".join(reasons), _commands(cells)])]
    for dataset in reported.datasets():
        if run := [deviation for deviation in cells if deviation.cell.dataset == dataset and deviation.ours]:
            parts += [f"### {dataset}", _table(run)]
    return "\n\n".join(parts)


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
