"""The results as an Atom feed: an entry of the feed per entry of the leaderboard, dated by its card."""

from __future__ import annotations

import uuid
from xml.etree import ElementTree

from leaderboard.board.board import Board, Standing
from leaderboard.board.tables import short
from leaderboard.site.cells import model_page

ATOM = "http://www.w3.org/2005/Atom"
NAME = "mtbench leaderboard"
FILE = "feed.xml"


def feed(board: Board) -> str:
    """Return the feed, newest first; empty where no entry has a date. An entry keeps its id as long as its name."""
    dated = sorted((one for one in board.standings if one.entry.card.date), key=lambda one: one.entry.card.date)
    if not dated:
        return ""
    root = ElementTree.Element("feed", xmlns=ATOM)
    _head(root, NAME, NAME, dated[-1].entry.card.date)
    ElementTree.SubElement(root, "link", rel="self", href=FILE)
    ElementTree.SubElement(root, "link", href="index.html")
    for one in reversed(dated):
        card = one.entry.card
        entry = ElementTree.SubElement(root, "entry")
        _head(entry, f"{NAME} {one.entry.slug}", card.name, card.date)
        for author in card.authors:
            ElementTree.SubElement(ElementTree.SubElement(entry, "author"), "name").text = author
        ElementTree.SubElement(entry, "link", href=model_page(one.entry.slug))
        ElementTree.SubElement(entry, "summary").text = _said(board, one)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _head(element: ElementTree.Element, of: str, title: str, date: str) -> None:
    ElementTree.SubElement(element, "id").text = uuid.uuid5(uuid.NAMESPACE_URL, of).urn
    ElementTree.SubElement(element, "title").text = title
    ElementTree.SubElement(element, "updated").text = f"{date}T00:00:00Z"


def _said(board: Board, one: Standing) -> str:
    """Return the coverage, the lift and the figures of an entry in a sentence each."""
    lift = "" if one.lift is None else f", mean lift over the best heuristic baseline {one.lift:+.3f}"
    figures = [
        f"{short(line.dataset)} {figure.mean:.3f}"
        for line in board.lines(one.entry.slug)
        if line.place is not None and (figure := line.figure())
    ]
    told = f" MRR in both directions: {', '.join(figures)}." if figures else ""
    return f"Ranked on {len(one.covered)} of {len(board.suite)} datasets{lift}.{told}"
