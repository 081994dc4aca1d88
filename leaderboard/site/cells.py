"""The tables of the site as plain data that one template draws, and how numbers are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TypeAlias

from leaderboard.board import reported
from leaderboard.board.board import Figure, Overlap
from mtbench.files import tables

DASH = "–"  # noqa: RUF001
MINUS = "−"  # noqa: RUF001
UNITS = {"h": 3600.0, "min": 60.0}


@dataclass(frozen=True)
class Tip:
    """What a tap on a text shows: sentences, and below them a command."""

    said: str
    typed: str = ""


@dataclass(frozen=True)
class Badge:
    """A word on a row, and what it means; ``kind`` is its class in the style sheet."""

    label: str
    tip: Tip
    kind: str = ""


@dataclass(frozen=True)
class Cell:
    """One cell: its text, what stands small beside and below it, and the ``value`` by which a column is sorted."""

    text: str = ""
    detail: str = ""
    value: float | None = None
    kind: str = ""
    best: bool = False
    note: int | None = None
    href: str = ""
    shade: int | None = None
    below: str = ""
    tip: Tip | None = None


@dataclass(frozen=True)
class Column:
    """A column: its heading, what it means, and whether a click sorts it as ``number``, ``text`` or not at all.

    A column that ``opens`` a group has a box to tick, which shows the columns that are ``part`` of it.
    """

    label: str
    title: str = ""
    sort: str = "number"
    opens: str = ""
    part: str = ""


@dataclass(frozen=True)
class Row:
    """A row: its heading with a link, more links and badges, and its cells; a filter searches ``words``."""

    label: str
    cells: Sequence[Cell]
    href: str = ""
    detail: str = ""
    words: str = ""
    kind: str = ""
    links: Sequence[tuple[str, str]] = ()
    badges: Sequence[Badge] = ()


@dataclass(frozen=True)
class Group:
    """Rows under one heading, which are sorted among themselves."""

    rows: Sequence[Row]
    title: str = ""
    href: str = ""


@dataclass(frozen=True)
class Table:
    """A table; ``view`` names the switch under which it shows, empty for always."""

    id: str
    caption: str
    stub: str
    columns: Sequence[Column]
    groups: Sequence[Group]
    view: str = ""
    notes: Sequence[str] = ()
    dense: bool = False


def filled(table: Table) -> Table:
    """Return a table without the columns that are empty in all rows."""
    rows = [row for group in table.groups for row in group.rows]
    kept = [number for number in range(len(table.columns)) if any(row.cells[number] != MISSING for row in rows)]
    groups = [
        replace(group, rows=[replace(row, cells=[row.cells[number] for number in kept]) for row in group.rows])
        for group in table.groups
    ]
    return replace(table, columns=[table.columns[number] for number in kept], groups=groups)


Notes: TypeAlias = dict[str, int]
"""The footnotes of one table, each with its number."""

MISSING = Cell(DASH, kind="missing")


def figure_cell(figure: Figure | None, metric: str = "mrr", *, best: bool = False) -> Cell:
    """Return the cell of a mean with its deviation, and its number of seeds if they are few; a dash for None."""
    if figure is None:
        return MISSING
    deviation = "" if figure.deviation is None else number(metric, figure.deviation)
    beside = ", ".join(filter(None, (deviation, figure.few if metric == "mrr" else "")))
    return Cell(number(metric, figure.mean), f"({beside})" if beside else "", value=figure.mean, best=best)


def paper_cell(printed: reported.Cell | None, notes: Notes) -> Cell:
    """Return the cell of a figure of the paper, with out of memory and errata."""
    if printed is None:
        return MISSING
    note = notes.setdefault(printed.erratum, len(notes) + 1) if printed.erratum else None
    if printed.mean is None:
        return Cell("OOM", "out of memory", kind="oom", note=note)
    return replace(figure_cell(Figure(printed.mean, printed.std), printed.metric), note=note)


def beside_paper(figure: Figure | None, printed: reported.Cell | None, metric: str, notes: Notes) -> Cell:
    """Return the cell of a figure with the paper's small beside it."""
    ours = figure_cell(figure, metric)
    if printed is None:
        return ours
    theirs = paper_cell(printed, notes)
    return replace(ours, detail=f"reported {theirs.text}", kind=theirs.kind or ours.kind, note=theirs.note)


def number(metric: str, value: float) -> str:
    """Return the value of a metric as the pages show it."""
    return tables.number(metric, value, 3)


def signed(value: float | None) -> Cell:
    """Return the cell of a difference with its sign, which 0.000 has not."""
    if value is None:
        return MISSING
    text = f"{value:+.3f}"
    return Cell(text[1:] if float(text) == 0 else text.replace("-", MINUS), value=value)


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f} %"


def seen(overlaps: Sequence[Overlap]) -> Cell:
    """Return the largest share of the targets in a graph that a model learned from, or that it is unknown."""
    if not overlaps:
        return Cell("no graph", value=0.0, kind="muted")
    known = [overlap.share for overlap in overlaps if overlap.share is not None]
    if len(known) < len(overlaps):
        return Cell("unknown", f"at least {percent(max(known))}" if known else "", kind="muted")
    return Cell(percent(max(known)), value=max(known), kind="warn" if max(known) > 0 else "")


def duration(seconds: float | None) -> Cell:
    """Return a time in hours, minutes or seconds, the largest unit of which it has one."""
    if seconds is None:
        return MISSING
    text = next((f"{seconds / size:.1f} {unit}" for unit, size in UNITS.items() if seconds >= size), f"{seconds:.0f} s")
    return Cell(text, value=seconds)


def memory(size: int | None) -> Cell:
    """Return a number of bytes as MB or GB."""
    if size is None:
        return MISSING
    return Cell(f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB", value=float(size))


def count(value: int | None) -> Cell:
    """Return a whole number with commas between thousands."""
    return MISSING if value is None else Cell(f"{value:,}", value=float(value))


CODE = "mtbench.zip"
"""The archive of the package itself, which a site offers while nobody knows the address of its repository."""


def code() -> str:
    """Return where the code of this package is: at the address that ``pyproject.toml`` gives, else in `CODE`."""
    urls = dict(url.split(", ", 1) for url in metadata.metadata("mtbench-kg").get_all("Project-URL", ()))
    address = urls.get("Repository", "ADDRESS")
    return CODE if "ADDRESS" in address else address


def slug(name: str) -> str:
    """Return a name in the characters of files and ids."""
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-") or "unnamed"


def dataset_page(name: str) -> str:
    """Return the address of a dataset's page."""
    return f"datasets/{slug(name)}.html"


def model_page(entry: str) -> str:
    """Return the address of an entry's page."""
    return f"models/{entry}.html"
