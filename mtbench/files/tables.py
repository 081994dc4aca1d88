"""Tables as plain text, Markdown, LaTeX or CSV, with every name escaped for where it is shown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tabulate import tabulate

from mtbench.errors import UnknownNameError, printable
from mtbench.names import METRICS

Cell: TypeAlias = str | int | float | None

FORMATS = {"text": "simple", "markdown": "github", "latex": "latex_booktabs", "csv": "", "html": "html"}
HEADINGS = {"mr": "MR", "mrr": "MRR"}
PLACES = {"mr": 2}
NO_RANGE = "-"
"""Stands where the order of ties changes nothing."""

MARKDOWN = re.compile(r"([\\|_*`~<>\[\]$]|&(?=#?\w+;)|:(?=//)|(?<=www)\.)")
"""What begins markup, an entity, a formula or a link in a cell."""
LATEX = re.compile(r"^( *)(?=[\[*])", re.MULTILINE)
"""A row that begins so is read as an argument of the command that ends the row above."""
FORMULA = re.compile(r"(?=[=+@\t\r-])(?![+-]?[\d.]*$)")
"""Where a spreadsheet takes a text for a formula and computes it."""


def render(rows: Sequence[tuple[str, Mapping[str, float]]], format: str = "text", decimals: int = 4) -> str:  # noqa: A002
    """Return labelled rows of metrics as a table in ``text``, ``markdown``, ``latex``, ``csv`` or ``html``.

    Ranks are printed with two decimals and everything else with ``decimals``; CSV is for programs and has
    all digits. A metric a row lacks stays empty. Raises `UnknownNameError` for another format.
    """
    names = [name for name in METRICS if any(name in values for _, values in rows)]
    if format == "csv":
        return lay_out(["name", *names], [[label, *map(values.get, names)] for label, values in rows], format)
    cells = [
        [label, *(number(name, values[name], decimals) if name in values else "" for name in names)]
        for label, values in rows
    ]
    return lay_out(["", *map(heading, names)], cells, format)


def lay_out(headings: Sequence[str], rows: Sequence[Sequence[Cell]], format: str, left: int = 1) -> str:  # noqa: A002
    """Return rows under headings; the first ``left`` columns are text, to the left, the others to the right.

    Cells are shown as they are, save for what would end a cell or be read as markup. Raises
    `UnknownNameError` for a format that does not exist.
    """
    if format not in FORMATS:
        raise UnknownNameError("table format", format, FORMATS)
    if format == "csv":
        page = io.StringIO()
        csv.writer(page, lineterminator="\n").writerows([[_inert(cell) for cell in row] for row in (headings, *rows)])
        return page.getvalue().removesuffix("\n")
    shown = [[_plain(cell, format) for cell in row] for row in (headings, *rows)]
    align = ["left"] * left + ["right"] * (len(headings) - left)
    table = tabulate(shown[1:], shown[0], FORMATS[format], disable_numparse=True, colalign=align if rows else None)
    return LATEX.sub(r"\1{}", table) if format == "latex" else table


def heading(metric: str) -> str:
    """Return a metric's name as a reader writes it."""
    return HEADINGS.get(metric, metric.capitalize())


def number(metric: str, value: float, decimals: int = 4) -> str:
    """Return the value of a metric with as many places as are worth reading."""
    return f"{value:.{PLACES.get(metric, decimals)}f}"


def bounds(optimistic: Mapping[str, float], pessimistic: Mapping[str, float], decimals: int = 4) -> str:
    """Return the range of the MRR over the orders of ties, or a dash where ties do not matter."""
    low, high = (number("mrr", values["mrr"], decimals) for values in (pessimistic, optimistic))
    return NO_RANGE if low == high else f"{low} to {high}"


def _plain(cell: Cell, format: str) -> str:  # noqa: A002
    text = "" if cell is None else printable(" ".join(str(cell).split("\n")))
    return MARKDOWN.sub(r"\\\1", text) if format == "markdown" else text


def _inert(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
