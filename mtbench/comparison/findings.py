"""What a comparison holds: models with intervals, pairs with p-values, runs that were left out."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from mtbench.comparison.clusters import CLUSTERS
from mtbench.errors import UnknownNameError
from mtbench.files import tables


@dataclass(frozen=True)
class Row:
    """One model: its mean over seeds, interval, and the ranks that remain possible for it.

    ``per_seed`` is aligned with ``seeds``, ``deviation`` the standard deviation over them: None for a single
    seed, whose interval ``covers`` targets only. Models that share a letter of ``group`` do not differ.
    ``adjusted`` and ``z`` hold every metric adjusted for chance, as means over seeds.
    """

    model: str
    seeds: tuple[int, ...]
    per_seed: tuple[float, ...]
    mean: float
    deviation: float | None
    low: float
    high: float
    covers: str
    best_rank: int
    worst_rank: int
    group: str
    adjusted: Mapping[str, float | None]
    z: Mapping[str, float | None]


@dataclass(frozen=True)
class Pair:
    """The difference between a better and a worse model on the same targets.

    ``difference`` is the value of ``first`` less that of ``second``; ``corrected`` is the p-value after
    Holm's correction for all pairs, ``detectable`` the smallest difference found with a power of 80 %.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    corrected: float
    detectable: float
    covers: str


@dataclass(frozen=True)
class Unfinished:
    """A run without ranks, shown but not compared."""

    source: str
    model: str
    seed: int
    status: str


@dataclass(frozen=True)
class Comparison:
    """Models on one task, best first, with all that tells a difference from chance.

    ``bound`` is what two models of independent errors can need at most, and ``detectable`` the median
    over the pairs compared; the first stands in where there is no pair.
    """

    dataset: str
    dataset_version: str
    split: str
    protocol: str
    vocabulary: str
    candidate_seed: int
    metric: str
    level: float
    draws: int
    seed: int
    cluster: str
    clusters: int
    targets: int
    chance: float
    bound: float
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def detectable(self) -> float | None:
        """The median over pairs of the smallest difference that is found with a power of 80 %; None without pairs."""
        return statistics.median(pair.detectable for pair in self.pairs) if self.pairs else None

    @property
    def task(self) -> str:
        """Dataset, split, protocol, vocabulary and candidate seed, separated by slashes."""
        parts = (self.dataset, self.split, self.protocol, self.vocabulary, str(self.candidate_seed))
        return "/".join(parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences a reader should know: what intervals cover, what was left out, what the targets can show."""
        alone = ", ".join(row.model for row in self.rows if len(row.seeds) == 1)
        found = (
            [f"one seed only ({alone}): the interval covers the choice of targets, not that of seeds"] if alone else []
        )
        found += [
            f"{run.source} ({run.model}, seed {run.seed}) ended as {run.status} and is not compared"
            for run in self.unfinished
        ]
        return (*found, self._resolves())

    def _resolves(self) -> str:
        sample = f"{self.targets} targets in {self.clusters} {CLUSTERS[self.cluster]}"
        if self.cluster == "none":
            sample = f"{self.targets} targets, taken as independent,"
        sample += f" ({1 - self.level:.2g} level, 80 % power)"
        needed, unit = [pair.detectable for pair in self.pairs], heading(self.metric)
        if not needed:
            worst = number(self.bound, self.metric)
            return (
                f"{sample} tell apart any two models whose errors are not opposed if they differ by {worst} {unit}, "
                f"most by less; the spread over seeds comes on top"
            )
        least, typical, most = (
            number(value, self.metric) for value in (min(needed), statistics.median(needed), max(needed))
        )
        over = f" (median of {len(needed)} pairs, {least} to {most})" if len(needed) > 1 else ""
        return f"{sample} and these seeds tell apart models that differ by {typical} {unit}{over}"

    def table(self, format: str = "text") -> str:  # noqa: A002
        """Return the models as a table in ``text``, ``markdown``, ``latex`` or ``csv``."""
        return grid(*model_cells(self, format), format)

    def pair_table(self, format: str = "text") -> str:  # noqa: A002
        """Return the differences between models as a table in ``text``, ``markdown``, ``latex`` or ``csv``."""
        return grid(*pair_cells(self, format), format)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values, ready for JSON."""
        return asdict(self) | {"detectable": self.detectable, "notes": list(self.notes)}

    def __str__(self) -> str:
        sections = [f"{self.task}: {heading(self.metric)}", self.table()]
        if self.pairs:
            sections.append(self.pair_table())
        return "\n\n".join([*sections, "\n".join(self.notes)])


FORMATS = (*(name for name in tables.FORMATS if name != "csv"), "csv")
SMALLEST = 0.0001
"""P-values below this are shown as such."""

Cells: TypeAlias = tuple[list[str], list[list[str]]]


def grid(headings: Sequence[str], rows: Sequence[Sequence[str]], format: str) -> str:  # noqa: A002
    """Return cells below headings, the first column to the left; raises `UnknownNameError` for another format."""
    from tabulate import tabulate

    if format not in FORMATS:
        raise UnknownNameError("table format", format, FORMATS)
    if format == "csv":
        page = io.StringIO()
        csv.writer(page, lineterminator="\n").writerows([headings, *rows])
        return page.getvalue().rstrip("\n")
    left = sum(heading in ("Model", "Better", "Worse") for heading in headings)
    align = ["left"] * left + ["right"] * (len(headings) - left)
    return tabulate(rows, headings, tables.FORMATS[format], disable_numparse=True, colalign=align if rows else None)


def heading(metric: str) -> str:
    """Return how a metric reads at the head of a column."""
    return tables.HEADINGS.get(metric, metric.capitalize())


def number(value: float, metric: str) -> str:
    """Return a value of a metric with the decimals its tables have."""
    return f"{value:.{tables.PLACES.get(metric, 4)}f}"


def model_cells(found: Comparison, format: str = "text") -> Cells:  # noqa: A002
    """Return headings and one row per model, then one per run that was left out; CSV has all digits."""
    metric = found.metric
    if format == "csv":
        names = ["seeds", "mean", "deviation", "low", "high", "covers", "best_rank", "worst_rank", "group"]
        plain: list[list[object]] = [
            [row.model, "ok", len(row.seeds)]
            + [getattr(row, name) for name in names[1:]]
            + [row.adjusted[metric], row.z[metric]]
            for row in found.rows
        ]
        plain += [[run.model, run.status, *[None] * (len(names) + 2)] for run in found.unfinished]
        return ["model", "status", *names, "adjusted", "z"], _plain(plain)
    adjusted = "AMRI" if metric == "mr" else f"Adjusted {heading(metric)}"
    level = f"{100 * found.level:g} %"
    headings = [
        "Model",
        "Seeds",
        heading(metric),
        "SD",
        f"{level} from",
        "to",
        "Covers",
        "Rank",
        "Group",
        adjusted,
        "z",
    ]
    rows = [
        [
            row.model,
            str(len(row.seeds)),
            number(row.mean, metric),
            "" if row.deviation is None else number(row.deviation, metric),
            number(row.low, metric),
            number(row.high, metric),
            row.covers,
            str(row.best_rank) if row.best_rank == row.worst_rank else f"{row.best_rank}-{row.worst_rank}",
            row.group,
            "" if (index := row.adjusted[metric]) is None else f"{index:.4f}",
            "" if (z := row.z[metric]) is None else f"{z:.1f}",
        ]
        for row in found.rows
    ]
    empty = [""] * (len(headings) - 1)
    rows += [[f"{run.model} seed {run.seed}: {run.status}", *empty] for run in found.unfinished]
    return headings, rows


def pair_cells(found: Comparison, format: str = "text") -> Cells:  # noqa: A002
    """Return headings and one row per pair of models; CSV has all digits."""
    if format == "csv":
        names = ["first", "second", "difference", "low", "high", "p_value", "corrected", "detectable", "covers"]
        return names, _plain([[getattr(pair, name) for name in names] for pair in found.pairs])
    level = f"{100 * found.level:g} %"
    headings = ["Better", "Worse", "Difference", f"{level} from", "to", "p", "p (Holm)", "Detectable"]
    rows = [
        [
            pair.first,
            pair.second,
            *(number(value, found.metric) for value in (pair.difference, pair.low, pair.high)),
            _probability(pair.p_value),
            _probability(pair.corrected),
            number(pair.detectable, found.metric),
        ]
        for pair in found.pairs
    ]
    return headings, rows


def _plain(rows: Sequence[Sequence[object]]) -> list[list[str]]:
    return [["" if cell is None else str(cell) for cell in row] for row in rows]


def _probability(value: float) -> str:
    return f"<{SMALLEST}" if value < SMALLEST else f"{value:.4f}"
