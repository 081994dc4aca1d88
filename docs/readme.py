"""Draw the pictures of the README and of `deviations.md` and fill this in: ``python docs/readme.py``; tests compare.

The README's is the first of the leaderboard's first page, the tables what ``mtbench leaderboard render --format
deviations`` prints.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from leaderboard.board import deviations, ranking
from leaderboard.board.board import Board
from leaderboard.board.tables import short
from leaderboard.entries import checks
from leaderboard.site import front, pictures

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "deviations.md"
PICTURE = ROOT / "docs" / "pictures" / "board.svg"
SEEN = ROOT / "docs" / "pictures" / "replication.svg"
ENTRIES = ROOT / "leaderboard" / "results"


@cache
def board() -> Board:
    """Return the leaderboard."""
    return ranking.rank(*checks.gather(ENTRIES))


def picture() -> str:
    """Return the best trained model of each dataset against the best heuristic baseline, as SVG."""
    return pictures.alone(*front.drawing(board()))


def seen() -> str:
    """Return ISDEA by the paper's text and as run, no training, and the paper's figure on every dataset, as SVG."""
    figures = deviations.pictured(board().entries, deviations.replication(ENTRIES), "isdea")
    rows = [pictures.Row(short(dataset), means) for dataset, means in figures.items()]
    said = "; ".join(
        f"{row.label}: {', '.join(f'{mean.mean:.3f}' if mean else 'not run' for mean in row.means)}" for row in rows
    )
    drawn = pictures.draw_panels({"ISDEA, dual MRR in the setting of its row": rows}, deviations.SHOWN, height=36)
    return pictures.alone(drawn, f"Dual MRR of ISDEA: {', '.join(deviations.SHOWN)}. {said}.")


def filled(text: str) -> str:
    """Return the page with every figure of the paper beside ours."""
    before, mark, rest = text.partition("<!-- deviations -->")
    _, end, after = rest.partition("<!-- end -->")
    return f"{before}{mark}\n\n{deviations.markdown(board().entries, deviations.replication(ENTRIES))}\n\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
    SEEN.write_text(seen(), encoding="utf-8")
