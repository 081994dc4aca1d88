"""A board as Markdown and LaTeX: for a README, for a paper, and for whoever reads no pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from leaderboard.board.board import Board, DatasetBoard, Figure, Line
from leaderboard.entries.entries import Entry
from mtbench.files import tables
from mtbench.files.tables import Cell

BOLD_FROM, BOLD_TO = "\ue000\ue000", "\ue001\ue001"
"""Stand around what is bold while a table is laid out, which escapes every mark-up; as wide as that of Markdown."""
BOLD = {"markdown": ("**", "**"), "latex": (r"\textbf{", "}")}
HEADING = {"markdown": "## {}", "latex": r"\paragraph{{{}}}"}
NONE = "-"


def summary(board: Board) -> str:
    """Return a Markdown table per regime for a README: headline MRR of every entry by dataset, over what was reported.

    The best ranked mean of a column is bold. Below each entry that has a row in the paper stand its reported figure
    and, behind the slash, what the same convention gives here; the last row is the best of the scorers that learn
    nothing. Datasets that nobody was scored on are left out.
    """
    parts = [part for part in board.datasets if part.lines]
    floors = [next((line.best_floor[1] for line in part.lines if line.best_floor), None) for part in parts]
    floor: list[Cell] = ["best floor", *(NONE if value is None else f"{value:.3f}" for value in floors)]
    found = []
    for regime in board.overall:
        best = {part.name: _best(part, regime) for part in parts}
        rows: list[list[Cell]] = []
        for entry in board.entries:
            if entry.card.regime != regime:
                continue
            lines = {part.name: _line(part, entry) for part in parts}
            rows.append([entry.card.name, *(_headline(lines[part.name], best[part.name]) for part in parts)])
            printed = [_reported(part, entry, lines[part.name]) for part in parts]
            if any(text != NONE for text in printed):
                rows.append(["reported / here by its convention", *printed])
        headings = [f"{regime}, dual MRR", *(_short(part.name) for part in parts)]
        found.append(_lay_out(headings, [*rows, floor], "markdown"))
    return "\n\n".join(found)


def markdown(board: Board) -> str:
    """Return the whole board as Markdown: overall, and by regime and dataset."""
    return _document(board, "markdown")


def latex(board: Board) -> str:
    """Return the whole board as LaTeX, which needs the package booktabs."""
    return _document(board, "latex")


FORMATS: Mapping[str, Callable[[Board], str]] = {"markdown": markdown, "latex": latex, "summary": summary}


def _document(board: Board, format: str) -> str:  # noqa: A002
    return "\n\n".join([*_overall(board, format), *_standings(board, format), *_unranked(board, format)])


def _overall(board: Board, format: str) -> Iterator[str]:  # noqa: A002
    for regime, found in board.overall.items():
        best = {part.name: _best(part, regime) for part in board.datasets}
        rows: list[list[Cell]] = []
        for row in found:
            cells = [_headline(row.by_dataset.get(name), best[name]) for name in board.suite]
            mean = NONE if row.mean is None else f"{row.mean:.3f}"
            standing = f"lacks {len(row.missing)}" if row.rank is None else str(row.rank)
            rows.append([row.entry.card.name, *cells, mean, standing])
        headings = ["dual MRR", *map(_short, board.suite), "mean", "rank"]
        yield _titled(f"Overall, {regime}", _lay_out(headings, rows, format), format)


def _standings(board: Board, format: str) -> Iterator[str]:  # noqa: A002
    headings = ["entry", "rank", "MRR", "95 % interval", "tied", "lift", "ties", "paper", "here", "seeds"]
    for part in board.datasets:
        for regime in dict.fromkeys(line.regime for line in part.lines):
            best = _best(part, regime)
            rows = [_standing(line, best) for line in part.of(regime) if line.place is not None]
            if rows:
                yield _titled(f"{part.name}, {regime}", _lay_out(headings, rows, format), format)


def _standing(line: Line, best: float | None) -> list[Cell]:
    place = line.place
    assert place is not None
    rank = f"{place.best}" if place.best == place.worst else f"{place.best} to {place.worst}"
    interval = NONE if place.low is None or place.high is None else f"{place.low:.3f} to {place.high:.3f}"
    printed = line.reported.get(("dual", "mrr"))
    return [
        line.entry.card.name,
        rank,
        _headline(line, best),
        interval,
        place.group or NONE,
        NONE if line.lift is None else f"{line.lift:+.3f}",
        NONE if line.tie_spread is None else f"{line.tie_spread:.3f}",
        NONE if printed is None else f"{printed}" + ("*" if printed.erratum else ""),
        str(_own(line) or NONE),
        len(line.seeds),
    ]


def _unranked(board: Board, format: str) -> Iterator[str]:  # noqa: A002
    rows: list[list[Cell]] = [
        [line.entry.card.name, part.name, str(line.figure() or NONE), "; ".join(line.remarks)]
        for part in board.datasets
        for line in part.lines
        if line.place is None
    ]
    known = {entry.slug for entry in board.entries}
    rows += [[name, NONE, NONE, "; ".join(found)] for name, found in board.problems.items() if name not in known]
    if rows:
        yield _titled("Not ranked", _lay_out(["entry", "dataset", "MRR so far", "why"], rows, format), format)


def _headline(line: Line | None, best: float | None) -> str:
    figure = line.figure() if line is not None else None
    if line is None or figure is None:
        failed = sorted(set(line.unfinished.values())) if line is not None else []
        return ", ".join(failed).upper() or NONE
    deviation = "" if figure.deviation is None else f" ({figure.deviation:.3f})"
    mean = f"{figure.mean:.3f}"
    if line.place is not None and figure.mean == best:
        mean = f"{BOLD_FROM}{mean}{BOLD_TO}"
    return mean + deviation + ("" if line.place is not None else ", not ranked")


def _reported(part: DatasetBoard, entry: Entry, line: Line | None) -> str:
    printed = part.reported.get(entry.card.model, {}).get(("dual", "mrr"))
    if printed is None:
        return NONE
    ours = _own(line) if line is not None else None
    return f"{printed.mean:.3f} / {_mean(ours)}" if printed.mean is not None else f"{printed} / {_mean(ours)}"


def _mean(figure: Figure | None) -> str:
    return NONE if figure is None else f"{figure.mean:.3f}"


def _own(line: Line) -> Figure | None:
    return line.conventions.get(line.own or "", {}).get("dual", {}).get("mrr")


def _line(part: DatasetBoard, entry: Entry) -> Line | None:
    return next((line for line in part.lines if line.entry.slug == entry.slug), None)


def _best(part: DatasetBoard, regime: str | None = None) -> float | None:
    return max(
        (
            figure.mean
            for line in part.lines
            if line.place is not None and regime in (None, line.regime) and (figure := line.figure())
        ),
        default=None,
    )


def _short(dataset: str) -> str:
    return dataset.removeprefix("wikitopics-")


def _titled(title: str, table: str, format: str) -> str:  # noqa: A002
    return f"{HEADING[format].format(title)}\n\n{table}"


def _lay_out(headings: Sequence[str], rows: Sequence[Sequence[Cell]], format: str) -> str:  # noqa: A002
    before, after = BOLD[format]
    return tables.lay_out(headings, rows, format).replace(BOLD_FROM, before).replace(BOLD_TO, after)
