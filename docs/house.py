"""Draw the house: ``python docs/house.py`` writes the picture of docs/house.md, tests compare them.

The floors are the list in that page, what a room is for is the first line of its folder's docstring.
"""

from __future__ import annotations

import ast
import re
import textwrap
from html import escape
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


def draw() -> str:
    """Return the picture as SVG: a row for each floor, a box for each room, nothing but text and rectangles."""
    drawn: list[str] = []
    y, above = MARGIN, ""
    for package, rooms in floors():
        shown = [room for room in rooms if not room.startswith("__")]
        if not shown:
            continue
        y += 12 if above and package != above else 0
        width = (WIDTH - 2 * MARGIN + 8) / len(shown)
        texts = [_text(package, room, int(width / 7)) for room in shown]
        height = 12 + LINE * max(map(len, texts))
        for number, lines in enumerate(texts):
            x = MARGIN + number * width
            drawn.append(
                f'<rect x="{x:.0f}" y="{y}" width="{width - 8:.0f}" height="{height}" rx="4" '
                f'fill="{COLOURS[package]}" stroke="#8a94a6"/>'
            )
            for row, line in enumerate(lines):
                style = ' font-weight="bold"' if not row else ' fill="#445"'
                drawn.append(f'<text x="{x + 8:.0f}" y="{y + 16 + row * LINE}"{style}>{escape(line)}</text>')
        y, above = y + height + 8, package
    size = f'width="{WIDTH}" height="{y + MARGIN}" viewBox="0 0 {WIDTH} {y + MARGIN}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{y + MARGIN}" fill="white"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def _text(package: str, room: str, width: int) -> list[str]:
    place = path(package, room)
    source = place / "__init__.py" if place.is_dir() else place
    first = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    name = package if room == "." else f"{package}/{room}"
    return [name, *textwrap.wrap(" ".join(first.replace("`", "").split()), width)]


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
