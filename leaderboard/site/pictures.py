"""The pictures of the site: drawn by matplotlib, in the colours of the page, with their words as text."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from leaderboard.board.board import Figure as Mean
from mtbench.files.pictures import literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES = ("#0b6aa8", "#c2410c", "#0a7d5a", "#a2478a", "#946200", "#3b7fa8")
INK, MUTED, LINE, SURFACE = "#1d1c1a", "#66625b", "#e0dcd5", "#ffffff"
VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    LINE: "line",
    SURFACE: "surface",
    **{colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)},
}
"""Pictures are drawn in the colours of a light page, which become these variables of the style sheet."""
DARK = {
    "ink": "#e9e6e1",
    "muted": "#a5a19a",
    "line": "#35373c",
    "surface": "#1b1c1f",
    "series-1": "#6db7ea",
    "series-2": "#f2945c",
    "series-3": "#5cc9a0",
    "series-4": "#dd9ccb",
}
"""The colours of a picture by itself on a dark page."""
MARKERS = "osD^"
MOST = len(MARKERS)
"""The most entries in one picture: more cannot be told apart."""
WIDTH, RIGHT, ROW = 600, 585, 24
"""Width, right end of the axis and height of a row in pictures with rows, in points."""
LETTER = 6.8
"""The mean width of a letter in points."""
SIZE = 12
SHARES = [number / 5 for number in range(6)]
"""The ticks of an axis from 0 to 1."""
SVG = "{http://www.w3.org/2000/svg}"
SHOWN = {f"{SVG}{tag}" for tag in ("g", "defs", "clipPath", "rect", "path", "use", "text")}


def inline(figure: Figure, name: str, said: str) -> str:
    """Return a picture as a part of a page; ``said`` is its text for screen readers, ``name`` begins its ids.

    A page forbids styles in elements, so that styles become attributes. The same drawing gives the same text.
    """
    import matplotlib as mpl

    drawn = io.BytesIO()
    # Words stay text, and the salt and the missing date make the same drawing the same bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(drawn.getvalue())
    # matplotlib gives every element an id: only those that others refer to are kept.
    values = [value for element in root.iter() for value in element.attrib.values()]
    named = {name for value in values for name in re.findall(r"(?:^|url\()#([^)]+)", value)}
    body = "".join(_element(child, named) for child in root)
    return (
        f'<svg class="picture" viewBox="{root.get("viewBox")}" role="img" aria-labelledby="{name}-title">'
        f'<title id="{name}-title">{escape(said)}</title>{body}</svg>'
    )


def alone(figure: Figure, said: str) -> str:
    """Return a picture as the text of a file, light or dark as the reader's browser prefers."""
    width, height = figure.get_size_inches() * 72
    light = "".join(f"--{variable}:{colour};" for colour, variable in VARIABLES.items())
    dark = "".join(f"--{variable}:{colour};" for variable, colour in DARK.items())
    style = (
        f"<style>svg{{{light}background:var(--surface);font:{SIZE}px system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    )
    size = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
    return inline(figure, "picture", said).replace("<svg", size, 1).replace("</title>", f"</title>{style}", 1) + "\n"


def _element(element: ElementTree.Element, named: set[str]) -> str:
    """Return an element as HTML: its style as attributes, its colours as variables, without ids that are not used."""
    if element.tag not in SHOWN:
        return ""
    attributes: dict[str, str] = {}
    for key, value in element.attrib.items():
        if key == "style":
            attributes |= dict(pair.split(": ", 1) for pair in value.split("; "))
        elif key != "id" or value in named:
            attributes[key.rpartition("}")[2]] = value
    if element.tag == f"{SVG}text":
        bold = "700" in (attributes.get("font-weight", ""), attributes.get("font", "").partition(" ")[0])
        # Without fonts, which are those of the page, and without rotations by zero.
        attributes = {
            key: value for key, value in attributes.items() if "font" not in key and not value.startswith("rotate(-0")
        }
        attributes = {"fill": INK} | attributes | ({"font-weight": "700"} if bold else {})
    written = "".join(f' {key}="{escape(_short(value))}"' for key, value in attributes.items())
    inside = escape(element.text or "") if element.tag == f"{SVG}text" else ""
    inside += "".join(_element(child, named) for child in element)
    tag = element.tag.removeprefix(SVG)
    return inside if tag == "g" and not written else f"<{tag}{written}>{inside}</{tag}>"


def _short(value: str) -> str:
    """Return the value of an attribute with variables for colours and with numbers to a tenth of a point."""
    value = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), " ".join(value.split()))
    return f"var(--{VARIABLES[value]})" if value in VARIABLES else value


def _figure(width: float, height: float) -> Figure:
    """Return an empty picture of this size in points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    return figure


def _axes(figure: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Return axes with nothing but a grid, placed in points from the upper left corner."""
    width, height = figure.get_size_inches() * 72
    axes = figure.add_axes((left / width, 1 - bottom / height, (right - left) / width, (bottom - top) / height))
    axes.spines[:].set_visible(False)
    axes.patch.set_visible(False)
    axes.tick_params(length=0, labelsize=SIZE, labelcolor=MUTED)
    axes.grid(color=LINE)
    axes.set_axisbelow(True)
    return axes


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    """Give axes a scale from 0 to 1 and a row per label, the first on top."""
    axes.set(xlim=(0, 1), ylim=(max(1, len(labels)) - 0.5, -0.5), xticks=SHARES)
    axes.set_yticks(range(len(labels)), map(literal, labels), color=INK)
    axes.grid(visible=False, axis="y")


def _write(axes: Axes, words: str, at: tuple[float, float], beside: tuple[float, float], **style: Any) -> None:
    """Write words at a place, shifted by ``beside`` in points."""
    style = {"va": "center", "fontsize": SIZE, "color": INK, "textcoords": "offset points", **style}
    axes.annotate(literal(words), at, beside, **style)


def _title(axes: Axes, title: str, left: float) -> None:
    """Write the title of a panel above the labels of its rows."""
    _write(axes, title, (0, 1), (-left, 8), xycoords="axes fraction", va="bottom", fontweight="bold")


def _mark(axes: Axes, x: float, y: float, number: int, wide: float = 0.0, *, hollow: bool = False) -> None:
    """Draw the mark of entry ``number`` at a mean, with a line of its deviation, ``wide``, to both sides."""
    colour = SERIES[number % len(SERIES)]
    if wide:
        axes.plot([max(0.0, x - wide), min(1.0, x + wide)], [y, y], color=colour, linewidth=1.4)
    axes.plot([x], [y], **_marker(number, hollow=hollow), clip_on=False)


def _marker(number: int, *, hollow: bool = False) -> dict[str, Any]:
    colour, shape = SERIES[number % len(SERIES)], MARKERS[number % MOST]
    colours = {"color": colour, "markerfacecolor": SURFACE if hollow else colour}
    return {"marker": shape, "markersize": 8, "linestyle": "none", **colours}


UPRIGHT: Mapping[str, Any] = {"marker": "|", "markersize": 14, "markeredgewidth": 2.5, "linestyle": "none"}
"""The mark of baselines and chance, which learn nothing."""


def _legend(figure: Figure, named: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Draw a legend of marks below."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=literal(label), **mark) for label, mark in named]
    room = figure.get_size_inches()[0] * 72 - 12
    widths = [34 + LETTER * len(label) for label, _ in named]
    # All in a row if they fit, else in as many columns as the widest name allows.
    columns = len(named) if sum(widths) < room else max(1, int(room // max(widths)))
    words: dict[str, Any] = {"fontsize": SIZE, "labelcolor": INK, "handletextpad": 0.2, "columnspacing": 1.2}
    figure.legend(handles=handles, loc="lower left", ncols=columns, frameon=False, **words)


@dataclass(frozen=True)
class Best:
    """The best heuristic baseline and the best trained model on a dataset, None if there is none."""

    dataset: str
    baseline: float | None
    model: str
    figure: float | None


def draw_best(rows: Sequence[Best]) -> Figure:
    """Draw the best model against the best heuristic baseline, a row per dataset."""
    bottom = 8 + ROW * len(rows)
    figure = _figure(480, bottom + 68)
    axes = _axes(figure, 126, 8, 336, bottom)
    _rows(axes, [row.dataset for row in rows])
    axes.set_xlabel("MRR, both directions", fontsize=SIZE, color=MUTED)
    for number, row in enumerate(rows):
        if row.baseline is not None and row.figure is not None:
            axes.plot([row.baseline, row.figure], [number, number], color=MUTED, linewidth=1)
        if row.baseline is not None:
            axes.plot([row.baseline], [number], color=SERIES[1], **UPRIGHT)
        if row.figure is not None:
            _mark(axes, row.figure, number, 0)
        _write(axes, row.model or "not run", (1, number), (16, 0), color=INK if row.model else MUTED)
    baseline = ("best heuristic baseline", {"color": SERIES[1], **UPRIGHT})
    _legend(figure, [baseline, ("best trained model, named beside", _marker(0))])
    return figure


@dataclass(frozen=True)
class Point:
    """A labelled point, ``hollow`` for an entry that does not cover all datasets."""

    label: str
    x: float
    y: float
    hollow: bool = False


def draw_points(points: Sequence[Point], ticks: Mapping[int, str], names: Sequence[str]) -> Figure:
    """Draw points over seconds on a log scale, with the ``ticks`` there; ``names`` label full and hollow ones.

    Labels stand at their points and clear of each other: the best first, and none where there is no room.
    """
    figure = _figure(WIDTH, 340)
    axes = _axes(figure, 48, 14, RIGHT, 262)
    values = [*ticks, *(point.x for point in points)]
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xlim(min(values) / 1.2, max(values) * 1.2)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xlabel("Training and scoring, mean time of a run", fontsize=SIZE, color=MUTED)
    heights = [0.0, *(point.y for point in points)]
    room = 0.06 * (max(heights) - min(heights) or 1)
    axes.set_ylim(min(heights) - room, max(heights) + room)
    axes.locator_params(axis="y", nbins=6)
    axes.yaxis.set_major_formatter(lambda level, place: f"{level:+.1f}" if abs(level) > 1e-9 else "0")
    places = [(*axes.transData.transform((point.x, point.y)), point) for point in points]
    taken = [(across - 6.0, across + 6.0, up) for across, up, _ in places]
    for across, up, point in sorted(places, key=lambda placed: -placed[2].y):
        _mark(axes, point.x, point.y, 0, hollow=point.hollow)
        if beside := _beside(across, up, LETTER * len(point.label), taken):
            _write(axes, point.label, (point.x, point.y), beside[:2], ha=beside[2])
    _legend(figure, [(name, _marker(0, hollow=hollow)) for name, hollow in zip(names, (False, True), strict=True)])
    return figure


def _beside(
    x: float, y: float, wide: float, taken: list[tuple[float, float, float]]
) -> tuple[float, float, str] | None:
    """Return how far from its point a label stands and with which end, None where all around it is ``taken``."""
    for away, above, side, start in (
        (9, 0, "left", x + 9),
        (-9, 0, "right", x - 9 - wide),
        *((0, above, "center", x - wide / 2) for above in (13, -13)),
        *((-6, above, "left", x - 6) for above in (13, -13)),
    ):
        inside = start >= 48 and start + wide <= WIDTH
        if inside and not any(
            start < end and start + wide > begin and abs(y + above - at) < 13 for begin, end, at in taken
        ):
            taken.append((start, start + wide, y + above))
            return away, above, side
    return None


@dataclass(frozen=True)
class Row:
    """A labelled row: a mean or None per series, a mark for chance, and a remark if nothing is drawn."""

    label: str
    means: Sequence[Mean | None]
    chance: float | None = None
    remark: str = ""


def draw_panels(
    panels: Mapping[str, Sequence[Row]],
    series: Sequence[str],
    *,
    left: int = 150,
    height: int = ROW,
    hollow: int | None = None,
) -> Figure:
    """Draw the means of some series with their deviations as error bars, a panel of rows under each title.

    The axis begins ``left`` points from the edge, a row has a ``height`` in points, and the marks of series number
    ``hollow`` are hollow.
    """
    figure = _figure(WIDTH, sum(48 + height * len(rows) for rows in panels.values()) + 30)
    top = 24.0
    for title, rows in panels.items():
        axes = _axes(figure, left, top, RIGHT, top + height * len(rows))
        _rows(axes, [row.label for row in rows])
        _title(axes, title, left - 12)
        for number, row in enumerate(rows):
            _write(axes, row.remark, (0, number), (8, 0), color=MUTED)
            if row.chance is not None:
                axes.plot([row.chance], [number], color=MUTED, **UPRIGHT)
            for place, mean in enumerate(row.means):
                if mean is not None:
                    # The marks of a row are 6 points apart, around its middle.
                    at = number + (place - (len(series) - 1) / 2) * 6 / height
                    _mark(axes, mean.mean, at, place, mean.deviation or 0.0, hollow=place == hollow)
        top += 48 + height * len(rows)
    named = [(name, _marker(place, hollow=place == hollow)) for place, name in enumerate(series)]
    by_chance = any(row.chance is not None for rows in panels.values() for row in rows)
    _legend(figure, [*named, *([("chance", {"color": MUTED, **UPRIGHT})] if by_chance else [])])
    return figure


def draw_curves(history: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Draw training loss and validation MRR by epoch, a line per seed, with a mark at the epoch of the weights kept."""
    figure = _figure(WIDTH, 240)
    for key, title, left in (("loss", "Training loss", 48), ("valid_mrr", "Validation MRR", 348)):
        points = {
            stage: [(record["epoch"], record[key]) for record in records if key in record]
            for stage, records in history.items()
        }
        if not any(math.isfinite(value) for curve in points.values() for _, value in curve):
            continue
        axes = _axes(figure, left, 24, left + 240, 165)
        _title(axes, title, 0)
        epochs = [epoch for curve in points.values() for epoch, _ in curve]
        axes.set_xticks(sorted({min(epochs), max(epochs)}))
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("Epoch", fontsize=SIZE, color=MUTED)
        for number, curve in enumerate(points.values()):
            colour = SERIES[number % len(SERIES)]
            axes.plot([epoch for epoch, _ in curve], [value for _, value in curve], color=colour, linewidth=1.4)
            if key == "valid_mrr" and curve:
                _mark(axes, *max(curve, key=lambda point: point[1]), number)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.locator_params(axis="y", nbins=5)
    _legend(figure, [(stage, _marker(number)) for number, stage in enumerate(history)])
    return figure
