"""Comparisons as tables: plain text, Markdown, LaTeX or comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from mtbench.errors import UnknownNameError
from mtbench.files import tables

if TYPE_CHECKING:
    from mtbench.comparison.findings import Comparison

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
