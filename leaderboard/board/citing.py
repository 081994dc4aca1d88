"""An entry in a paper: its BibTeX, and its row of the standard table."""

from __future__ import annotations

from leaderboard.board.board import Board
from leaderboard.board.tables import latex_row
from leaderboard.entries.cards import Card
from leaderboard.entries.entries import Entry

ESCAPED = str.maketrans(
    {"\\": "/", "{": "(", "}": ")", "~": r"\~{}", "^": r"\^{}", **{one: f"\\{one}" for one in "&%$#_"}}
)
"""What BibTeX would read as mark-up; braces it counts even where they are escaped."""


def snippet(board: Board, entry: Entry) -> str:
    """Return what is pasted into a paper for an entry: BibTeX, and its row of the table that ``latex`` gives."""
    return f"{bibtex(entry.slug, entry.card)}\n\n{latex_row(board, entry.slug)}"


def bibtex(slug: str, card: Card) -> str:
    """Return the BibTeX of an entry; the paper that describes the model is named in its note and address."""
    described = f"{_plain(card.citation)}. " if card.citation else ""
    fields = {
        "title": f"{{{_plain(card.name)}}}",
        "author": " and ".join(map(_author, card.authors)),
        "year": str(card.year or card.date[:4]),
        "note": f"{described}Entry {_plain(slug)} of the mtbench leaderboard, {card.date}".rstrip(", "),
        "url": card.url.translate({ord("{"): "%7B", ord("}"): "%7D"}),
    }
    lines = [f"  {name:6} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{mtbench-{slug},", *lines, "}"])


def _author(name: str) -> str:
    """Return an author's name; braces keep that of a group whole."""
    return f"{{{_plain(name)}}}" if name.startswith("The ") else _plain(name)


def _plain(text: str) -> str:
    return " ".join(text.split()).translate(ESCAPED)
