"""A board as Markdown and LaTeX: for a README, for a paper, and for whoever reads no pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from leaderboard.board import readings
from leaderboard.board.board import Board, DatasetBoard, Line
from leaderboard.entries.entries import Entry
from mtbench.files import tables
from mtbench.runs.origin import REGIMES
from mtbench.runs.result import EVALUATOR_VERSION

BOLD_FROM, BOLD_TO, OVER, STAR = "\ue000\ue000", "\ue001\ue001", "\ue002", "\ue003\ue003"
"""Stand around what is bold, within a name and behind a number while a table is laid out, which escapes all mark-up."""
MARKS = {
    "markdown": {BOLD_FROM: "**", BOLD_TO: "**", OVER: "/", STAR: r"\*"},
    "latex": {BOLD_FROM: r"\textbf{", BOLD_TO: "}", STAR: r"\rlap{$^{*}$}"},
}
CAPTION = (
    f"Realistic MRR (ties averaged) of the dual protocol, mean over tail and head prediction, present relation types; "
    f"mtbench, evaluator version {EVALUATOR_VERSION}. Lift: mean over the covered datasets above the best heuristic "
    "baseline, a scorer that learns nothing. Bold: the best of three or more seeds. A star: fewer than three seeds. A "
    "dash: not run in both directions, or not ranked."
)
NONE = "-"
Row: TypeAlias = Sequence[tables.Cell]


def summary(board: Board) -> str:
    """Return a Markdown table per regime for a README: headline MRR of every entry by dataset, over what was reported.

    The best mean of a column and regime is bold (`DatasetBoard.leads`). Below each entry that has a row in the paper
    stand its reported figure and, behind the slash, what the same setting gives here; the last row is the best
    heuristic baseline. Datasets that nobody was scored on are left out.
    """
    parts = [part for part in board.datasets if part.lines]
    baselines = [part.baseline and part.baseline[1] for part in parts]
    found = []
    for regime in REGIMES:
        rows: list[Row] = []
        for entry in board.entries:
            if entry.card.regime != regime:
                continue
            rows.append([entry.card.name, *(_headline(part, part.line(entry)) for part in parts)])
            printed = [_reported(part, entry) for part in parts]
            if any(text != NONE for text in printed):
                rows.append(["reported / here in its setting", *printed])
        if not rows:
            continue
        headings = [f"{regime}, dual MRR", *(short(part.name) for part in parts)]
        found.append(_lay_out(headings, [*rows, ["best heuristic baseline", *map(_number, baselines)]], "markdown"))
    return "\n\n".join(found)


def markdown(board: Board) -> str:
    """Return the standard table as Markdown, with what it shows below it."""
    return f"{_lay_out(*_standard(board), 'markdown', 2)}\n\n{CAPTION}"


def latex(board: Board) -> str:
    """Return the standard table as LaTeX to be pasted into a paper; it needs the packages booktabs and graphicx."""
    head, rule, rows = _lay_out(*_standard(board), "latex", 2).partition("\\midrule\n")
    baseline, end, others = rows.partition("\\\\\n")
    table = f"{head}{rule}{baseline}{end}{rule}{others}"
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering\scriptsize\setlength{\tabcolsep}{2pt}",
            rf"\caption{{{CAPTION.replace('%', chr(92) + '%')}}}",
            r"\label{tab:mtbench}",
            r"\resizebox{\textwidth}{!}{%",
            table,
            r"}",
            r"\end{table*}",
        ]
    )


def latex_row(board: Board, slug: str) -> str:
    """Return the row of one entry in the LaTeX table, below a comment with the headings."""
    headings, rows = _standard(board, slug)
    told = f"% {' & '.join(_plain(one) for one in headings)}"
    row = _lay_out(headings, rows[1:], "latex").partition("\\midrule\n")[2].partition("\n")[0]
    return f"{told}\n{' '.join(row.split())}"


FORMATS: Mapping[str, Callable[[Board], str]] = {"markdown": markdown, "latex": latex, "summary": summary}


def _standard(board: Board, slug: str = "") -> tuple[Sequence[str], Sequence[Row]]:
    """Return headings and rows of the standard table: the best heuristic baseline, then what is ranked anywhere.

    With ``slug``, only that entry is below the baseline.
    """
    suite = [part for part in board.datasets if part.name in board.suite]
    rows: list[Row] = [
        ["best heuristic baseline", NONE, NONE, NONE, *(_number(part.baseline and part.baseline[1]) for part in suite)]
    ]
    for one in board.standings:
        if slug == one.entry.slug if slug else one.covered:
            coverage = f"{len(one.covered)}/{len(board.suite)}"
            lift = NONE if one.lift is None else f"{one.lift:+.3f}"
            figures = [_mean(part, part.line(one.entry)) for part in suite]
            rows.append([one.entry.card.name, one.entry.card.regime, coverage, lift, *figures])
    return ["model", "regime", "coverage", "lift", *(short(part.name).replace("/", OVER) for part in suite)], rows


def _mean(part: DatasetBoard, line: Line | None) -> str:
    figure = None if line is None or line.place is None else line.figure()
    if figure is None:
        return NONE
    mean = f"{figure.mean:.3f}{STAR * bool(figure.few)}"
    return f"{BOLD_FROM}{mean}{BOLD_TO}" if line and part.leads(line) else mean


def _headline(part: DatasetBoard, line: Line | None) -> str:
    figure = None if line is None else line.figure()
    if line is None or figure is None:
        return (line.failed if line is not None else "") or NONE
    if line.place is None:
        return f"{figure}, not ranked"
    mean, space, deviation = str(figure).partition(" ")
    if part.leads(line, regime=line.regime):
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


def _lay_out(headings: Sequence[str], rows: Sequence[Row], format: str, left: int = 1) -> str:  # noqa: A002
    return _plain(tables.lay_out(headings, rows, format, left), format)


def _plain(text: str, format: str = "markdown") -> str:  # noqa: A002
    """Return a text with marks as the mark-up of a format."""
    for mark, shown in MARKS[format].items():
        text = text.replace(mark, shown)
    return re.sub(rf"(\S+){OVER}(\S+)", r"\\shortstack{\1\\\\\2}", text)
