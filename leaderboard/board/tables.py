"""A board as Markdown and LaTeX for a paper, and an entry as its BibTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from leaderboard.board.board import Board, DatasetBoard, Line
from leaderboard.entries.cards import Card
from leaderboard.entries.entries import Entry
from mtbench.files import tables
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


FORMATS: Mapping[str, Callable[[Board], str]] = {"markdown": markdown, "latex": latex}


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


ESCAPED = str.maketrans(
    {"\\": "/", "{": "(", "}": ")", "~": r"\~{}", "^": r"\^{}", **{one: f"\\{one}" for one in "&%$#_"}}
)
"""What BibTeX would read as mark-up; braces it counts even where they are escaped."""


def snippet(board: Board, entry: Entry) -> str:
    """Return what is pasted into a paper for an entry: BibTeX, and its row of the table that ``latex`` gives."""
    return f"{bibtex(entry.slug, entry.card)}\n\n{latex_row(board, entry.slug)}"


def bibtex(slug: str, card: Card) -> str:
    """Return the BibTeX of an entry; the paper that describes the model is named in its note and address."""
    described = f"{_escaped(card.citation)}. " if card.citation else ""
    fields = {
        "title": f"{{{_escaped(card.name)}}}",
        "author": " and ".join(map(_author, card.authors)),
        "year": str(card.year or card.date[:4]),
        "note": f"{described}Entry {_escaped(slug)} of the mtbench leaderboard, {card.date}".rstrip(", "),
        "url": card.url.translate({ord("{"): "%7B", ord("}"): "%7D"}),
    }
    lines = [f"  {name:6} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{mtbench-{slug},", *lines, "}"])


def _author(name: str) -> str:
    """Return an author's name; braces keep that of a group whole."""
    return f"{{{_escaped(name)}}}" if name.startswith("The ") else _escaped(name)


def _escaped(text: str) -> str:
    return " ".join(text.split()).translate(ESCAPED)
