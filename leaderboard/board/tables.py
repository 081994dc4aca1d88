"""A board as Markdown and LaTeX for a paper, and an entry as its BibTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from leaderboard.board.board import PESSIMISTIC, Board, DatasetBoard, Line
from leaderboard.board.groups import GroupBoard
from leaderboard.entries.cards import Card
from leaderboard.entries.entries import Entry
from mtbench.files import tables
from mtbench.runs.result import EVALUATOR_VERSION

BOLD_FROM, BOLD_TO, OVER, STAR = "\ue000\ue000", "\ue001\ue001", "\ue002", "\ue003\ue003"
"""Marks for bold text, a break in a name and a star, because laying out a table escapes all mark-up."""
MARKS = {
    "markdown": {BOLD_FROM: "**", BOLD_TO: "**", OVER: "/", STAR: r"\*"},
    "latex": {BOLD_FROM: r"\textbf{", BOLD_TO: "}", STAR: r"\rlap{$^{*}$}"},
}
CAPTION = (
    f"Realistic MRR (ties averaged) of the dual protocol, mean over tail and head prediction, present relation types; "
    f"mtbench, evaluator version {EVALUATOR_VERSION}. Lift: mean over the covered datasets above the best heuristic "
    "baseline, a scorer that learns nothing. Regime: pre-trained elsewhere, trained on the pair's training graph, or "
    "adapted to the inference graph. Bold: the best of three or more seeds. A star: fewer than three seeds. A "
    "dash: not run in both directions, or not ranked."
)
NONE = "-"
Row: TypeAlias = Sequence[tables.Cell]


def markdown(board: Board) -> str:
    """Return the standard table as Markdown, with its caption below."""
    return f"{_lay_out(*_standard(board), 'markdown', 2)}\n\n{CAPTION}"


def latex(board: Board) -> str:
    """Return the standard table as LaTeX for a paper; it needs the packages booktabs and graphicx."""
    # A rule below the baseline, which is the first row.
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
    comment = f"% {' & '.join(plain(heading) for heading in headings)}"
    row = _lay_out(headings, rows[1:], "latex").partition("\\midrule\n")[2].partition("\n")[0]
    return f"{comment}\n{' '.join(row.split())}"


FORMATS: Mapping[str, Callable[[Board], str]] = {"markdown": markdown, "latex": latex}


def group_table(of_group: GroupBoard, format: str) -> str:  # noqa: A002
    """Return the standings of a group of graphs as ``markdown``, or as ``latex`` for the package booktabs."""
    number = len(of_group.graphs)
    rows: list[Row] = []
    if (mrr := of_group.baseline()) and (hits := of_group.baseline("hits@10")):
        means = [_number(mrr.mean), _number(hits.mean)]
        rows.append([NONE, "best heuristic baseline", NONE, f"{mrr.graphs}/{number}", *means, NONE, NONE, NONE])
    for member in of_group.members:
        unseen, lift, clean = of_group.unseen(member), of_group.lift(member), of_group.clean(member.regime)
        figures = member.mean(), member.mean("hits@10"), member.mean(view=PESSIMISTIC)
        shown = "{}" if member.whole else "({})"
        rows.append(
            [
                NONE if member.rank is None else str(member.rank),
                member.entry.card.name,
                member.regime,
                f"{len(member.lines)}/{number}",
                *(shown.format(_number(figure.mean)) for figure in figures),
                NONE if lift is None else f"{lift.mean:+.3f}",
                NONE if unseen is None else f"{unseen:.3f} ({len(clean)})",
            ]
        )
    headings = ["rank", "model", "regime", "graphs", "MRR", "Hits@10", "pessimistic MRR", "lift", "unseen (graphs)"]
    caption = (
        f"{of_group.question.label}, {of_group.group}: means over {number} graphs under the protocol "
        f"{of_group.question.setting.protocol}, ties averaged. In brackets: over fewer graphs, where only lifts "
        "compare. No rank: not run on all graphs, contaminated, learned from graphs that nobody compared with the "
        "targets, of few seeds, or unverified. Unseen: graphs of whose test triples no entry of the regime with all "
        "graphs has seen 5 %. Regime: pre-trained elsewhere, trained on the pair's training graph, or adapted to the "
        "inference graph."
    )
    table = _lay_out(headings, rows, format, 3)
    return f"{table}\n\n{caption}" if format == "markdown" else f"% {caption}\n{table}"


def _standard(board: Board, slug: str = "") -> tuple[Sequence[str], Sequence[Row]]:
    """Return headings and rows of the standard table: the best heuristic baseline, then every ranked entry.

    With ``slug``, only that entry is below the baseline.
    """
    suite = [part for part in board.datasets if part.name in board.paper]
    rows: list[Row] = [
        ["best heuristic baseline", NONE, NONE, NONE, *(_number(part.baseline and part.baseline[1]) for part in suite)]
    ]
    for standing in board.standings:
        if slug == standing.entry.slug if slug else standing.covered:
            coverage = f"{len(standing.covered)}/{len(board.paper)}"
            lift = NONE if standing.lift is None else f"{standing.lift:+.3f}"
            figures = [_mean(part, part.line(standing.entry)) for part in suite]
            rows.append([standing.entry.card.name, standing.regime, coverage, lift, *figures])
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
    """Return the name of a dataset without ``wikitopics-``."""
    return dataset.removeprefix("wikitopics-")


def _lay_out(headings: Sequence[str], rows: Sequence[Row], format: str, left: int = 1) -> str:  # noqa: A002
    return plain(tables.lay_out(headings, rows, format, left), format)


def plain(text: str, format: str = "markdown") -> str:  # noqa: A002
    """Return a text with its marks replaced by the mark-up of a format; plain text has that of Markdown."""
    for mark, shown in MARKS["latex" if format == "latex" else "markdown"].items():
        text = text.replace(mark, shown)
    return re.sub(rf"(\S+){OVER}(\S+)", r"\\shortstack{\1\\\\\2}", text)


ESCAPED = str.maketrans(
    {"\\": "/", "{": "(", "}": ")", "~": r"\~{}", "^": r"\^{}", **{one: f"\\{one}" for one in "&%$#_"}}
)
"""Characters that BibTeX reads as mark-up; it counts braces even where they are escaped, so that they are replaced."""


def snippet(board: Board, entry: Entry) -> str:
    """Return the BibTeX of an entry and its row of the table of `latex`, to be pasted into a paper."""
    return f"{bibtex(entry.slug, entry.card)}\n\n{latex_row(board, entry.slug)}"


def bibtex(slug: str, card: Card) -> str:
    """Return the BibTeX of an entry; its note and address name the paper that describes the model."""
    described = f"{escaped(card.citation)}. " if card.citation else ""
    fields = {
        "title": f"{{{escaped(card.name)}}}",
        "author": " and ".join(map(_author, card.authors)),
        "year": str(card.year or card.date[:4]),
        "note": f"{described}Entry {escaped(slug)} of the mtbench leaderboard, {card.date}".rstrip(", "),
        "url": card.url.translate({ord("{"): "%7B", ord("}"): "%7D"}),
    }
    lines = [f"  {name:6} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{mtbench-{slug},", *lines, "}"])


def _author(name: str) -> str:
    """Return an author's name; the braces around a group's name keep BibTeX from splitting it."""
    return f"{{{escaped(name)}}}" if name.startswith("The ") else escaped(name)


def escaped(text: str) -> str:
    """Return a text in one line, without what BibTeX and LaTeX read as mark-up."""
    return " ".join(text.split()).translate(ESCAPED)
