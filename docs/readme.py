"""Fill in the tables of the README and of `deviations.md`: ``python docs/readme.py`` writes them, tests compare them.

The leaderboard's are what ``mtbench leaderboard render --format summary`` (and ``deviations``) prints, the datasets'
is of the catalogue. The picture is the first of the leaderboard's first page.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from leaderboard.board import deviations, ranking, tables
from leaderboard.board.board import Board
from leaderboard.entries import checks
from leaderboard.site import front, pictures
from mtbench.data import catalog
from mtbench.files.tables import lay_out

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "deviations.md")
PICTURE = ROOT / "docs" / "pictures" / "board.svg"
ENTRIES = ROOT / "leaderboard" / "results"
DATASETS = {
    "metafam": "the inverse of every test triple is in the graph; one of its two patterns is absent",
    "metafam-strict": "ours: no inverse in sight, both patterns in the graph, new relation names in test",
    "fbnell": "195 of the 592 test triples are on relation types of training",
    "fbnell-strict": "ours: the other 397",
    "wikitopics-mt1/health": "7 relation types to rank against, the paper prints 8",
    "wikitopics-mt1/taxonomy": "9 relation types to rank against, the paper prints 10",
    "wikitopics-mt2/location": "94 of the 48,364 training triples are of its second topic",
    "wikitopics-mt2/science": "the same training graph",
    "wikitopics-mt3/art": "29 relation types in training, the paper prints 99",
    "wikitopics-mt3/infrastructure": "the same training graph",
    "wikitopics-mt4/health": "the paper's statistics name other topics than its text",
    "wikitopics-mt4/science": "the same training graph",
}
"""The datasets to begin with, and the one thing to know of each."""


def datasets() -> str:
    """Return the table of datasets: sizes from the catalogue, how many defects are known, and the one to know."""
    rows = []
    for name, defect in DATASETS.items():
        record = catalog.record(name)
        sizes = [record.parts[part].triples for part in ("train/graph", "test/graph", "test/targets")]
        types = record.graphs["test"].relations
        rows.append([name, defect, *(f"{size:,}" for size in sizes), types, len(record.defects)])
    headings = [
        "Dataset",
        "What to know",
        "Train graph",
        "Inference graph",
        "Test triples",
        "Test types",
        "Known defects",
    ]
    return lay_out(headings, rows, "markdown", left=2)


@cache
def board() -> Board:
    """Return the leaderboard."""
    return ranking.rank(*checks.gather(ENTRIES))


def leaderboard() -> str:
    """Return the summary of the leaderboard's entries."""
    return tables.summary(board())


def picture() -> str:
    """Return the best trained model of each dataset against the best heuristic baseline, as SVG."""
    return pictures.alone(*front.drawing(board()))


def compared() -> str:
    """Return every figure of the paper beside ours."""
    return deviations.markdown(board().entries)


def filled(text: str) -> str:
    """Return a page with its tables made anew."""
    for mark, table in (("leaderboard", leaderboard), ("datasets", datasets), ("deviations", compared)):
        text = re.sub(
            rf"<!-- {mark} -->\n.*?<!-- end -->",
            lambda found, mark=mark, table=table: f"<!-- {mark} -->\n\n{table()}\n\n<!-- end -->",
            text,
            flags=re.DOTALL,
        )
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
