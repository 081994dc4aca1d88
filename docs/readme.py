"""Draw the picture of the README and fill in `deviations.md`: ``python docs/readme.py``; tests compare them.

The picture is the first of the leaderboard's first page, the table what ``mtbench leaderboard render --format
deviations`` prints.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from leaderboard.board import deviations, ranking
from leaderboard.board.board import Board
from leaderboard.entries import checks
from leaderboard.site import front, pictures

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "deviations.md"
PICTURE = ROOT / "docs" / "pictures" / "board.svg"
ENTRIES = ROOT / "leaderboard" / "results"


@cache
def board() -> Board:
    """Return the leaderboard."""
    return ranking.rank(*checks.gather(ENTRIES))


def picture() -> str:
    """Return the best trained model of each dataset against the best heuristic baseline, as SVG."""
    return pictures.alone(*front.drawing(board()))


def filled(text: str) -> str:
    """Return the page with every figure of the paper beside ours."""
    before, mark, rest = text.partition("<!-- deviations -->")
    _, end, after = rest.partition("<!-- end -->")
    return f"{before}{mark}\n\n{deviations.markdown(board().entries)}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
