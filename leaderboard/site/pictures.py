"""The pictures of the site, as part of a page: the SVG matplotlib writes, with the page's own colours."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from xml.etree import ElementTree

from leaderboard.board.board import Figure
from mtbench.files import pictures
from mtbench.files.pictures import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}href"
THEME = {
    "#000000": "currentColor",
    "black": "currentColor",
    "#ffffff": "var(--surface)",
    "white": "var(--surface)",
    GREY: "var(--muted)",
    "#dddddd": "var(--line)",
    **{colour: f"var(--series-{number})" for number, colour in enumerate(COLOURS, start=1)},
}
KEPT = re.compile(r"fill|stroke|opacity|clip|text-anchor|font-size|font-weight|font-style|visibility")


def draw(name: str, drawing: Callable[[Path], None], description: str) -> str:
    """Return a picture as SVG for a page; ``name`` begins all its ids, ``description`` is read in its place.

    ``drawing`` draws into the SVG file it is given, as all pictures of `mtbench` do. Raises what it raises.
    """
    import matplotlib as mpl

    with tempfile.TemporaryDirectory(prefix="mtbench-") as folder, mpl.rc_context({"svg.fonttype": "none"}):
        path = Path(folder) / "picture.svg"
        drawing(path)
        return themed(path.read_text(encoding="utf-8"), name, description)


def themed(text: str, name: str, description: str) -> str:
    """Return the text of an SVG file as part of a page."""
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}metadata", f"{SVG}style", f"{SVG}title"):
                parent.remove(child)
    for element in root.iter():
        _restyle(element, name)
    attributes = {
        "viewBox": root.get("viewBox") or "0 0 100 100",
        "role": "img",
        "class": "picture",
        "aria-labelledby": f"{name}-title",
        "stroke-linejoin": "round",
        "fill": "currentColor",
    }
    root.attrib.clear()
    root.attrib.update(attributes)
    title = ElementTree.Element("title", {"id": f"{name}-title"})
    title.text = description
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _restyle(element: ElementTree.Element, name: str) -> None:
    """Put the page's colours into the attributes of an element, and ``name`` before every id it has or refers to."""
    element.tag = element.tag.removeprefix(SVG)
    found: dict[str, str] = {}
    for key, value in element.attrib.items():
        for part, stated in _declarations(value) if key == "style" else [(key, value)]:
            shown = THEME.get(stated.lower(), stated).replace("url(#", f"url(#{name}-")
            if part == "id":
                shown = f"{name}-{shown}"
            found[part] = shown
        if key == XLINK:
            found["href"] = re.sub("^#", f"#{name}-", found.pop(key))
    element.attrib.clear()
    element.attrib.update(found)


def _declarations(style: str) -> list[tuple[str, str]]:
    """Return the declarations of a style that are attributes of SVG; of a font only its size and weight."""
    found = []
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font":
            if size := re.search(r"([\d.]+)px", value):
                found.append(("font-size", size[1]))
            if re.search(r"\b(bold|[6-9]00)\b", value):
                found.append(("font-weight", "600"))
        elif KEPT.match(key) and value:
            found.append((key, value.removesuffix("px") if key in ("font-size", "stroke-width") else value))
    return found


MARKERS = ("o", "s", "D", "^")
MOST = len(MARKERS)
"""Entries drawn in one picture: more are not told apart."""

WIDTH, ROW, BELOW, BESIDE = 7.2, 0.27, 0.85, 1.9
"""In inches: a picture, one row, what stands below the axes and beside them."""


SIDES = (("reported", -0.16, COLOURS[1], "white"), ("re-evaluated", 0.16, COLOURS[0], COLOURS[0]))
"""Of a pair: what a side is called, how far from the middle of its row it is drawn, its colour and what fills it."""


@dataclass(frozen=True)
class Pair:
    """A figure as it was reported and as it is re-evaluated under the same convention; None where it is not."""

    label: str
    reported: Figure | None
    ours: Figure | None
    remark: str = ""


Rows: TypeAlias = Sequence[tuple[str, int, float, Mapping[str, Figure]]]
"""Of each stratum its label, the number of targets, chance, and the MRR per entry, by slug."""


@dataclass(frozen=True)
class Panel:
    """The MRR of some entries by stratum."""

    name: str
    rows: Rows


def draw_pairs(panels: Mapping[str, Sequence[Pair]], path: Path) -> None:
    """Draw reported figures beside ours, a panel per protocol and a row per entry, with a deviation as error bar."""
    most = max(len(pairs) for pairs in panels.values())
    with pictures.page(path, 2.2 + 2.6 * len(panels), 1.35 + 0.36 * most) as figure:
        shared = figure.subplots(1, len(panels), squeeze=False, sharex=True)[0]
        for axes, (name, pairs) in zip(shared, panels.items(), strict=True):
            _draw_pairs(axes, name, pairs)
        handles = [
            shared[0].plot([], [], "o", color=colour, markerfacecolor=face, label=label)[0]
            for label, _, colour, face in SIDES
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def _draw_pairs(axes: Axes, name: str, pairs: Sequence[Pair]) -> None:
    for row, pair in enumerate(pairs):
        for found, (_, shift, colour, face) in zip((pair.reported, pair.ours), SIDES, strict=True):
            if found is not None:
                axes.errorbar(
                    found.mean,
                    row + shift,
                    xerr=found.deviation or 0,
                    fmt="o",
                    color=colour,
                    markerfacecolor=face,
                    markersize=5.5,
                    capsize=2.5,
                    linewidth=1.3,
                )
        if pair.remark:
            axes.text(0.02, row, pair.remark, fontsize=9, va="center", color=GREY)
    axes.set_yticks(range(len(pairs)), [pictures.literal(pair.label) for pair in pairs])
    axes.set_ylim(len(pairs) - 0.45, -0.55)
    axes.set_xlim(0, 1)
    pictures.plain(axes, name, "MRR", "")
    axes.tick_params(axis="y", length=0)


def draw_panels(panels: Sequence[Panel], entries: Mapping[str, str], path: Path) -> None:
    """Draw the MRR by stratum, a panel per way to divide the targets, a mark per entry and one for chance.

    ``entries`` are the names that are shown, by slug.
    """
    lines = [2 + len(panel.rows) for panel in panels]
    height = ROW * sum(lines) + BELOW
    with pictures.page(path, WIDTH, height) as figure:
        # One set of axes for all panels, placed by hand: a set each takes five times as long to draw.
        figure.set_layout_engine("none")
        axes = figure.add_axes((BESIDE / WIDTH, BELOW / height, 1 - (BESIDE + 0.2) / WIDTH, 1 - BELOW / height))
        labels: dict[float, str] = {}
        top = 0
        for panel, size in zip(panels, lines, strict=True):
            axes.text(0.008, top + 1.1, panel.name, fontsize=11, va="center")
            for row, (label, targets, chance, found) in enumerate(panel.rows, top + 2):
                labels[row] = f"{pictures.literal(label)} ({targets:,})"
                _draw_row(axes, row, chance, found, entries)
            top += size
        axes.set_yticks(list(labels), list(labels.values()))
        axes.set_ylim(sum(lines) - 0.4, 0)
        axes.set_xlim(-0.01, 1.01)
        pictures.plain(axes, "", "MRR", "")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        handles = [
            axes.plot([], [], marker, color=colour, label=pictures.literal(name))[0]
            for name, marker, colour in zip(entries.values(), MARKERS, COLOURS, strict=False)
        ]
        handles.append(axes.plot([], [], "|", color=GREY, markersize=9, markeredgewidth=2, label="chance")[0])
        figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=9)


def _draw_row(axes: Axes, row: int, chance: float, found: Mapping[str, Figure], entries: Mapping[str, str]) -> None:
    axes.plot([chance], [row], "|", color=GREY, markersize=12, markeredgewidth=2)
    step = 0.6 / max(1, len(entries))
    for place, (entry, marker, colour) in enumerate(zip(entries, MARKERS, COLOURS, strict=False)):
        if entry in found:
            value = found[entry]
            y = row + (place - (len(entries) - 1) / 2) * step
            low, high = value.mean - (value.deviation or 0), value.mean + (value.deviation or 0)
            axes.plot(
                [low, value.mean, high], [y] * 3, marker=marker, markevery=[1], color=colour, markersize=5, lw=1.1
            )


def draw_curves(history: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """Draw the training loss and the validation MRR by epoch, a line per seed; a diamond marks the weights kept."""
    from matplotlib.ticker import MaxNLocator

    with pictures.page(path, WIDTH, 2.9) as figure:
        figure.set_layout_engine("none")
        left, right = (figure.add_axes((start, 0.27, 0.41, 0.61)) for start in (0.07, 0.57))
        for axes, key, title in ((left, "loss", "Training loss"), (right, "valid_mrr", "Validation MRR")):
            for (stage, records), colour in zip(history.items(), COLOURS, strict=False):
                told = [(record["epoch"], record[key]) for record in records if key in record]
                if not told:
                    continue
                axes.plot(*zip(*told, strict=True), color=colour, linewidth=1.4, label=stage)
                if key == "valid_mrr":
                    axes.plot(*max(told, key=lambda one: one[1]), "D", color=colour, markersize=5)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
            pictures.plain(axes, title, "Epoch", "")
        right.set_ylim(0, 1.1 * right.get_ylim()[1])
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False, fontsize=9)
