"""Draw the house: ``python docs/house.py`` writes the picture of docs/house.md, tests compare them.

Matplotlib (the extra ``plots``) draws it. The floors are the list in that page, what a room is for is the first line of
its folder's docstring.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "house.md"
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
WIDTH, MARGIN, LINE = 960, 16, 15
COLOURS = {"leaderboard": "#f6dfe1", "reference_models": "#ddf0dd", "mtbench": "#dfe8f5"}


def floors() -> list[tuple[str, list[str]]]:
    """Return the floors of the page from the top down, each with its package and its rooms (``.`` is the package)."""
    (block,) = re.findall(r"```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        package = line.split(maxsplit=1)[0] if line[0] != " " else found[-1][0]
        found.append((package, line.removeprefix(package).split()))
    return found


def path(package: str, room: str) -> Path:
    """Return the folder of a room, or the file of one that is a single module."""
    place = ROOT / package / room
    return place if place.is_dir() else place.with_suffix(".py")


def told() -> list[tuple[str, list[list[str]]]]:
    """Return what the picture says: for each floor its package, and the lines of text of each of its rooms."""
    found = []
    for package, rooms in floors():
        shown = [room for room in rooms if not room.startswith("__")]
        if shown:
            width = (WIDTH - 2 * MARGIN + 8) / len(shown)
            found.append((package, [_text(package, room, int(width / 7)) for room in shown]))
    return found


def draw() -> str:
    """Return the picture as SVG: a row for each floor, a box for each room, with text as text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    floors_told = told()
    heights = [12 + LINE * max(map(len, rooms)) for _, rooms in floors_told]
    total = 2 * MARGIN + sum(heights) + 12 * (len(heights) - 1)
    figure = Figure(figsize=(WIDTH / 72, total / 72), dpi=72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(total, 0))
    axes.set_axis_off()
    top = MARGIN
    for (package, rooms), height in zip(floors_told, heights, strict=True):
        width = (WIDTH - 2 * MARGIN + 8) / len(rooms)
        for number, lines in enumerate(rooms):
            left = MARGIN + number * width
            axes.add_patch(Rectangle((left, top), width - 8, height, facecolor=COLOURS[package], edgecolor="#8a94a6"))
            for row, line in enumerate(lines):
                weight, colour = ("normal", "#444455") if row else ("bold", "black")
                axes.text(left + 8, top + 16 + row * LINE, line, fontsize=12, fontweight=weight, color=colour)
        top += height + 12
    drawn = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "house"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"font-family: [^;]*;", "font-family: sans-serif;", drawn.getvalue().decode())
    return re.sub(r'="(\d+)pt"', r'="\1"', text, count=2)  # a letter of 12 points is 12 pixels high


def _text(package: str, room: str, width: int) -> list[str]:
    place = path(package, room)
    source = place / "__init__.py" if place.is_dir() else place
    first = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    name = package if room == "." else f"{package}/{room}"
    return [name, *textwrap.wrap(" ".join(first.replace("`", "").split()), width)]


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
