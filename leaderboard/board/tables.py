"""A board as Markdown and LaTeX: for a README, for a paper, and for whoever reads no pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from leaderboard.board import readings
from leaderboard.board.board import Board, DatasetBoard, Line
from leaderboard.entries.entries import Entry
from mtbench.files import tables

BOLD_FROM, BOLD_TO = "\ue000\ue000", "\ue001\ue001"
"""Stand around what is bold while a table is laid out, which escapes every mark-up; as wide as that of Markdown."""
BOLD = {"markdown": ("**", "**"), "latex": (r"\textbf{", "}")}
HEADING = {"markdown": "## {}", "latex": r"\paragraph{{{}}}"}
NONE, TAILS = "-", "tails alone"
ONE_SIDED = (
    f"{TAILS}: ranked by an earlier evaluator, as dual-tail; the headline ranks heads too, and the model has to be run "
    "again for it."
)
STANDING = ["entry", "rank", "MRR", "95 % interval", "tied", "lift", "ties", "paper", "here", "seeds"]

Row: TypeAlias = Sequence[tables.Cell]
Titled: TypeAlias = tuple[str, Sequence[str], Sequence[Row]]
"""A title, headings and rows: a table before it is laid out."""


def summary(board: Board) -> str:
    """Return a Markdown table per regime for a README: headline MRR of every entry by dataset, over what was reported.

    The best ranked mean of a column is bold. Below each entry that has a row in the paper stand its reported figure
    and, behind the slash, what the same convention gives here; the last row is the best of the scorers that learn
    nothing. Datasets that nobody was scored on are left out.
    """
    parts = [part for part in board.datasets if part.lines]
    floors = [next((line.best_floor[1] for line in part.lines if line.best_floor), None) for part in parts]
    found = []
    for regime in board.overall:
        rows: list[Row] = []
        for entry in board.entries:
            if entry.card.regime != regime:
                continue
            rows.append([entry.card.name, *(_headline(part, part.line(entry)) for part in parts)])
            printed = [_reported(part, entry) for part in parts]
            if any(text != NONE for text in printed):
                rows.append(["reported / here by its convention", *printed])
        headings = [f"{regime}, dual MRR", *(short(part.name) for part in parts)]
        found.append(_lay_out(headings, [*rows, ["best floor", *map(_number, floors)]], "markdown"))
    if any(line.one_sided for part in parts for line in part.lines):
        found.append(ONE_SIDED)
    return "\n\n".join(found)


def markdown(board: Board) -> str:
    """Return the whole board as Markdown: overall, and by regime and dataset."""
    return _document(board, "markdown")


def latex(board: Board) -> str:
    """Return the whole board as LaTeX, which needs the package booktabs."""
    return _document(board, "latex")


FORMATS: Mapping[str, Callable[[Board], str]] = {"markdown": markdown, "latex": latex, "summary": summary}


def _document(board: Board, format: str) -> str:  # noqa: A002
    return "\n\n".join(
        f"{HEADING[format].format(title)}\n\n{_lay_out(headings, rows, format)}"
        for title, headings, rows in (*_overall(board), *_standings(board), *_unranked(board))
    )


def _overall(board: Board) -> Iterator[Titled]:
    suite = [part for part in board.datasets if part.name in board.suite]
    for regime, found in board.overall.items():
        rows = [
            [
                row.entry.card.name,
                *(_headline(part, part.line(row.entry)) for part in suite),
                _number(row.mean),
                f"lacks {len(row.missing)}" if row.rank is None else str(row.rank),
            ]
            for row in found
        ]
        yield f"Overall, {regime}", ["dual MRR", *map(short, board.suite), "mean", "rank"], rows


def _standings(board: Board) -> Iterator[Titled]:
    for part in board.datasets:
        for regime in dict.fromkeys(line.regime for line in part.lines):
            if rows := [_standing(part, line) for line in part.of(regime) if line.place is not None]:
                yield f"{part.name}, {regime}", STANDING, rows


def _standing(part: DatasetBoard, line: Line) -> Row:
    place, printed = line.place, line.reported.get(("dual", "mrr"))
    assert place is not None
    return [
        line.name,
        f"{place.best}" if place.best == place.worst else f"{place.best} to {place.worst}",
        _headline(part, line),
        NONE if place.low is None or place.high is None else f"{place.low:.3f} to {place.high:.3f}",
        place.group or NONE,
        NONE if line.lift is None else f"{line.lift:+.3f}",
        _number(line.tie_spread),
        NONE if printed is None else f"{printed}" + ("*" if printed.erratum else ""),
        str(line.figure(readings.PAPER) or NONE),
        len(line.seeds),
    ]


def _unranked(board: Board) -> Iterator[Titled]:
    rows = [
        [line.name, part.name, str(line.figure() or NONE), "; ".join(line.remarks)]
        for part in board.datasets
        for line in part.lines
        if line.place is None
    ]
    rows += [[name, NONE, NONE, found] for name, found in board.unread.items()]
    if rows:
        yield "Not ranked", ["entry", "dataset", "MRR so far", "why"], rows


def _headline(part: DatasetBoard, line: Line | None) -> str:
    figure = None if line is None else line.figure()
    if line is not None and line.one_sided:
        return TAILS
    if line is None or figure is None:
        return (line.failed if line is not None else "") or NONE
    if line.place is None:
        return f"{figure}, not ranked"
    mean, space, deviation = str(figure).partition(" ")
    if figure.mean == part.best(line.regime):
        mean = f"{BOLD_FROM}{mean}{BOLD_TO}"
    return mean + space + deviation


def _reported(part: DatasetBoard, entry: Entry) -> str:
    printed, line = part.paper(entry.card.model), part.line(entry)
    if printed is None:
        return NONE
    here = None if line is None else line.figure(readings.PAPER)
    ours = NONE if here is None else _number(here.mean)
    return f"{printed if printed.mean is None else _number(printed.mean)} / {ours}"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def short(dataset: str) -> str:
    """Return a dataset's name without the collection's where that is plain."""
    return dataset.removeprefix("wikitopics-")


def _lay_out(headings: Sequence[str], rows: Sequence[Row], format: str) -> str:  # noqa: A002
    before, after = BOLD[format]
    return tables.lay_out(headings, rows, format).replace(BOLD_FROM, before).replace(BOLD_TO, after)
