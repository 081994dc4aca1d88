"""The pictures of the site: SVG as text, in the colours of the page, with a sentence for whoever does not see them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, TypeAlias

from leaderboard.board.board import Figure

WIDTH, LEFT, RIGHT, ROW, LINE = 600, 150, 585, 24, 16
"""Of a picture with rows: its width, its axis from left to right, and heights; letters are 12 high."""

SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-3.6-3.6h7.2v7.2h-7.2z", "M0-5L5 0L0 5L-5 0z", "M0-5L4.7 3.6H-4.7z")
MOST = len(SHAPES)
"""Entries drawn in one picture: more are not told apart."""

LETTER = 6.4
"""The mean width of a letter."""


@dataclass(frozen=True)
class Scale:
    """An axis: values from ``low`` to ``high`` lie from ``start`` to ``end``, by their logarithms if ``log``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (value - low) / ((high - low) or 1) * (self.end - self.start)


@dataclass
class Drawing:
    """A picture while it is drawn."""

    height: float
    width: float = WIDTH
    parts: list[str] = field(default_factory=list)

    def line(self, kind: str, *points: tuple[float, float]) -> None:
        """Draw a line through some points."""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="M{path}"/>')

    def mark(self, number: int, x: float, y: float, kind: str = "") -> None:
        """Draw the mark of the entry of a number."""
        shape = SHAPES[number % MOST]
        self.parts.append(f'<path class="s{number + 1} {kind}" transform="translate({x:.1f} {y:.1f})" d="{shape}"/>')

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Write some words beside, over or before a point."""
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def across(self, scale: Scale, top: float, bottom: float, ticks: Mapping[Any, str], label: str = "") -> None:
        """Draw an axis below, its lines up to the top."""
        for value, words in ticks.items():
            self.line("grid", (scale(value), top), (scale(value), bottom))
            self.text(scale(value), bottom + 12, words, "muted", "middle")
        self.text((scale.start + scale.end) / 2, bottom + 29, label, "muted", "middle")

    def upward(self, scale: Scale, left: float, right: float, ticks: Mapping[float, str]) -> None:
        """Draw an axis to the left, its lines across."""
        for value, words in ticks.items():
            self.line("grid", (left, scale(value)), (right, scale(value)))
            self.text(left - 7, scale(value), words, "muted", "end")

    def legend(self, names: Iterable[tuple[int, str, str]]) -> None:
        """Name marks, by number and kind, at the foot; a number of -1 is the upright mark."""
        x = 12.0
        for number, kind, label in names:
            if x > 12 and x + 18 + LETTER * len(label) > self.width:
                x, self.height = 12.0, self.height + LINE
            if number < 0:
                self.tick(x, self.height - 8, kind)
            else:
                self.mark(number, x, self.height - 8, kind)
            self.text(x + 10, self.height - 8, label)
            x += 34 + LETTER * len(label)

    def tick(self, x: float, y: float, kind: str = "") -> None:
        """Draw the upright mark of what learns nothing."""
        self.line(f"tick {kind}", (x, y - 7), (x, y + 7))

    def svg(self, name: str, said: str) -> str:
        """Return the picture as part of a page; ``name`` begins its id, ``said`` is read in its place."""
        return (
            f'<svg class="picture" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-labelledby="{name}-title"><title id="{name}-title">{escape(said)}</title>{"".join(self.parts)}</svg>'
        )


SHARES = {number / 5: f"{number / 5:.1f}" for number in range(6)}
"""The ticks of an axis from 0 to 1."""


@dataclass(frozen=True)
class Best:
    """The best of a dataset: of the heuristic baselines and of the trained models, None where there is none."""

    dataset: str
    baseline: float | None
    model: str
    figure: float | None


def draw_best(rows: Sequence[Best]) -> Drawing:
    """Draw the best model against the best heuristic baseline, a row per dataset."""
    bottom, left, names = 14 + ROW * len(rows), 126, 352
    drawing, scale = Drawing(bottom + 58, 460), Scale(0, 1, left, names - 16)
    drawing.across(scale, 8, bottom, SHARES, "MRR, both directions")
    for number, row in enumerate(rows):
        y = 14 + ROW * (number + 0.5)
        drawing.text(left - 10, y, row.dataset, anchor="end")
        if row.baseline is not None and row.figure is not None:
            drawing.line("rise", (scale(row.baseline), y), (scale(row.figure), y))
        if row.baseline is not None:
            drawing.tick(scale(row.baseline), y, "s2")
        if row.figure is not None:
            drawing.mark(0, scale(row.figure), y)
        drawing.text(names, y, row.model or "not run", "" if row.model else "muted")
    drawing.legend([(-1, "s2", "best heuristic baseline"), (0, "", "best trained model, named beside")])
    return drawing


@dataclass(frozen=True)
class Point:
    """A labelled point; a ``hollow`` one does not cover everything."""

    label: str
    x: float
    y: float
    hollow: bool = False


LEFT = 48
"""Where points are drawn from; the numbers of the axis are beside it."""


def draw_points(
    points: Sequence[Point],
    ticks: Mapping[int, str],
    x: str,
    names: Sequence[str],
    *,
    log: bool = False,
    best: bool = False,
) -> Drawing:
    """Draw labelled points over ``ticks``; ``names`` are of full and hollow ones, ``best`` adds the best so far."""
    drawing = Drawing(330, 480)
    values = [*ticks, *(point.x for point in points)]
    low, high = min(values), max(values)
    across = Scale(low, high, 62, 440, log) if low < high else Scale(low - 1, high + 1, 62, 440)
    levels = steps(min(0.0, *(point.y for point in points)), max(point.y for point in points))
    up = Scale(min(levels), max(levels), 262, 14)
    drawing.upward(up, LEFT, 468, {level: f"{level:+.1f}" if level else "0" for level in levels})
    drawing.across(across, 14, 262, ticks, x)
    if best and (stairs := _stairs(points, across, up, 468)):
        drawing.line("line s1", *stairs)
    taken = [(across(point.x) - 6, across(point.x) + 6, up(point.y)) for point in points]
    for point in sorted(points, key=lambda one: -one.y):
        drawing.mark(0, across(point.x), up(point.y), "hollow" if point.hollow else "")
        start, y = _place(across(point.x), up(point.y), LETTER * len(point.label), taken)
        if start < across(point.x):
            drawing.text(across(point.x) - 9, y, point.label, anchor="end")
        else:
            drawing.text(start, y, point.label)
    drawing.legend([(0, kind, name) for kind, name in zip(("", "hollow"), names, strict=False)])
    return drawing


def _place(x: float, y: float, wide: float, taken: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Return where the label of a point is written: beside it, and below what is there already."""
    for down in range(0, 200, 3):
        for start in (x + 9, x - 9 - wide):
            inside = start >= LEFT and start + wide <= 480
            if inside and not any(
                start < end and start + wide > begin and abs(y + down - at) < 14 for begin, end, at in taken
            ):
                taken.append((start, start + wide, y + down))
                return start, y + down
    return x + 9, y


def _stairs(points: Sequence[Point], across: Scale, up: Scale, end: float) -> list[tuple[float, float]]:
    """Return the line of the best so far, up to the right end."""
    found: list[tuple[float, float]] = []
    for point in sorted((one for one in points if not one.hollow), key=lambda one: (one.x, one.y)):
        y = min(up(point.y), found[-1][1] if found else math.inf)
        found += [*([(across(point.x), found[-1][1])] if found else []), (across(point.x), y)]
    return [*found, (end, found[-1][1])] if found else []


def steps(low: float, high: float) -> list[float]:
    """Return about five round numbers from one to another, both within them."""
    wide = (high - low) or 1.0
    power = 10 ** math.floor(math.log10(wide / 4))
    step = next(one * power for one in (1, 2, 5, 10) if one * power * 5 >= wide)
    return [round(number * step, 10) for number in range(math.floor(low / step), math.ceil(high / step) + 1)]


@dataclass(frozen=True)
class Pair:
    """A figure as it was reported and as it is re-evaluated in the same evaluation setting; None where it is not."""

    label: str
    reported: Figure | None
    ours: Figure | None
    remark: str = ""


def draw_pairs(panels: Mapping[str, Sequence[Pair]]) -> Drawing:
    """Draw reported figures beside ours, a panel per protocol and a row per entry, with a deviation as error bar."""
    drawing, scale, y = Drawing(0), Scale(0, 1, LEFT, RIGHT), 0.0
    for name, pairs in panels.items():
        top, bottom = y + 24, y + 24 + ROW * len(pairs)
        drawing.text(12, y + 14, name.capitalize(), "strong")
        drawing.across(scale, top, bottom, SHARES)
        for number, pair in enumerate(pairs):
            middle = top + ROW * (number + 0.5)
            drawing.text(LEFT - 12, middle, pair.label, anchor="end")
            drawing.text(LEFT + 8, middle, pair.remark, "muted")
            for figure, mark, at in ((pair.reported, 1, middle - 5), (pair.ours, 0, middle + 5)):
                if figure is not None:
                    _bar(drawing, scale, mark, at, figure, "" if mark == 0 else "hollow")
        y = bottom + 22
    drawing.height = y + 26
    drawing.legend([(1, "hollow", "reported, MRR"), (0, "", "re-evaluated, MRR")])
    return drawing


def _bar(drawing: Drawing, scale: Scale, number: int, y: float, figure: Figure, kind: str = "") -> None:
    """Draw a mean with its deviation."""
    wide = figure.deviation or 0.0
    if wide:
        drawing.line(
            f"line s{number + 1}", (scale(max(0, figure.mean - wide)), y), (scale(min(1, figure.mean + wide)), y)
        )
    drawing.mark(number, scale(figure.mean), y, kind)


Rows: TypeAlias = Sequence[tuple[str, int, float, Mapping[str, Figure]]]
"""Of each stratum its label, the number of targets, chance, and the MRR per entry, by slug."""


@dataclass(frozen=True)
class Panel:
    """The MRR of some entries by stratum."""

    name: str
    rows: Rows


def draw_panels(panels: Sequence[Panel], entries: Mapping[str, str]) -> Drawing:
    """Draw the MRR by stratum, a panel per way to divide the targets, a mark per entry and one for chance.

    ``entries`` are the names that are shown, by slug.
    """
    left = LEFT + 40
    drawing, scale, y = Drawing(0), Scale(0, 1, left, RIGHT), 0.0
    for panel in panels:
        top, bottom = y + 26, y + 26 + ROW * len(panel.rows)
        drawing.text(12, y + 14, panel.name, "strong")
        drawing.across(scale, top, bottom, SHARES if panel is panels[-1] else dict.fromkeys(SHARES, ""))
        for number, (label, targets, chance, found) in enumerate(panel.rows):
            middle = top + ROW * (number + 0.5)
            drawing.text(left - 12, middle, f"{label} ({targets:,})", anchor="end")
            drawing.tick(scale(chance), middle)
            for place, entry in enumerate(entries):
                if entry in found:
                    _bar(drawing, scale, place, middle + (place - (len(entries) - 1) / 2) * 5, found[entry])
        y = bottom + 6
    drawing.height = y + 42
    drawing.legend([*((place, "", name) for place, name in enumerate(entries.values())), (-1, "", "chance")])
    return drawing


def draw_curves(history: Mapping[str, Sequence[Mapping[str, float]]]) -> Drawing:
    """Draw the training loss and the validation MRR by epoch, a line per seed; a mark shows the weights kept."""
    drawing = Drawing(230)
    for key, title, left in (("loss", "Training loss", 48), ("valid_mrr", "Validation MRR", 348)):
        told = {
            stage: [(record["epoch"], record[key]) for record in records if key in record]
            for stage, records in history.items()
        }
        values = [value for some in told.values() for _, value in some if math.isfinite(value)]
        if not values:
            continue
        epochs = [epoch for some in told.values() for epoch, _ in some]
        drawing.text(left, 10, title, "strong")
        levels = steps(min([0.0, *values]), max(values))
        across = Scale(min(epochs), max(epochs), left, left + 240)
        up = Scale(min(levels), max(levels), 165, 24)
        drawing.upward(up, left, left + 240, {level: f"{level:g}" for level in levels})
        drawing.across(across, 165, 165, {epoch: f"{epoch:g}" for epoch in {min(epochs), max(epochs)}}, "Epoch")
        for number, some in enumerate(told.values()):
            kept = [(across(epoch), up(value)) for epoch, value in some if math.isfinite(value)]
            drawing.line(f"line s{number % 6 + 1}", *kept)
            if key == "valid_mrr" and some:
                epoch, value = max(some, key=lambda one: one[1])
                drawing.mark(number % 6, across(epoch), up(value))
    drawing.legend([(number % 6, "", stage) for number, stage in enumerate(history)])
    return drawing


LIGHT, DARK = (
    {"ink": "#1d1c1a", "muted": "#66625b", "line": "#e0dcd5", "surface": "#ffffff", "1": "#0b6aa8", "2": "#c2410c"},
    {"ink": "#e9e6e1", "muted": "#a5a19a", "line": "#35373c", "surface": "#1b1c1f", "1": "#6db7ea", "2": "#f2945c"},
)
"""The colours of the pages that stand in a file of its own."""


def alone(drawing: Drawing, said: str) -> str:
    """Return a picture as the text of a file, light or dark as whoever looks at it likes."""

    def rules(of: Mapping[str, str]) -> str:
        return (
            f"svg{{fill:{of['ink']};font:12px system-ui,sans-serif;background:{of['surface']}}}"
            f".grid{{stroke:{of['line']}}}.muted{{fill:{of['muted']}}}.rise{{stroke:{of['muted']}}}"
            f".s1{{fill:{of['1']};stroke:{of['1']}}}.s2{{fill:{of['2']};stroke:{of['2']}}}"
        )

    style = f"<style>{rules(LIGHT)}.tick{{stroke-width:2.5}}@media(prefers-color-scheme:dark){{{rules(DARK)}}}</style>"
    size = f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawing.width:g}" height="{drawing.height:g}"'
    return drawing.svg("picture", said).replace("<svg", size, 1).replace("</title>", f"</title>{style}", 1) + "\n"
