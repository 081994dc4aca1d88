"""The pictures of the site: the paper against what is measured here, and where the ranks of the best entries lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboard.board import Figure
from mtbench import pictures
from mtbench.pictures import COLOURS, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "D", "^")
MOST = len(MARKERS)
"""Entries drawn in one picture: more are not told apart."""


@dataclass(frozen=True)
class Pair:
    """A figure as it was reported and as it is re-evaluated under the same convention; None where it is not."""

    label: str
    reported: Figure | None
    ours: Figure | None
    remark: str = ""


@dataclass(frozen=True)
class Panel:
    """The MRR of some entries by stratum: rows of a label, the number of targets, chance, and a figure per entry."""

    name: str
    rows: Sequence[tuple[str, int, float, Mapping[str, Figure]]]


def draw_pairs(panels: Mapping[str, Sequence[Pair]], path: Path) -> None:
    """Draw reported figures beside ours, a panel per protocol and a row per entry, with a deviation as error bar."""
    most = max(len(pairs) for pairs in panels.values())
    with pictures.page(path, 2.2 + 2.6 * len(panels), 1.35 + 0.36 * most) as figure:
        shared = figure.subplots(1, len(panels), squeeze=False, sharex=True)[0]
        for axes, (name, pairs) in zip(shared, panels.items(), strict=True):
            _draw_pairs(axes, name, pairs)
        handles = [
            shared[0].plot([], [], "o", color=COLOURS[1], markerfacecolor="white", label="reported")[0],
            shared[0].plot([], [], "o", color=COLOURS[0], label="re-evaluated")[0],
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def _draw_pairs(axes: Axes, name: str, pairs: Sequence[Pair]) -> None:
    for row, pair in enumerate(pairs):
        for shift, found, colour, face in (
            (-0.16, pair.reported, COLOURS[1], "white"),
            (0.16, pair.ours, COLOURS[0], COLOURS[0]),
        ):
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


def draw_panels(panels: Sequence[Panel], entries: Sequence[str], path: Path) -> None:
    """Draw the MRR by stratum, a panel per way to divide the targets, a mark per entry and one for chance."""
    heights = [len(panel.rows) + 1.2 for panel in panels]
    with pictures.page(path, 7.2, 0.9 + 0.3 * sum(heights)) as figure:
        shared = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
        for axes, panel in zip(shared, panels, strict=True):
            _draw_panel(axes, panel, entries)
        shared[-1].set_xlabel("MRR")
        handles = [
            shared[0].plot([], [], marker, color=colour, label=pictures.literal(entry))[0]
            for entry, marker, colour in zip(entries, MARKERS, COLOURS, strict=False)
        ]
        handles.append(shared[0].plot([], [], "|", color=GREY, markersize=9, markeredgewidth=2, label="chance")[0])
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _draw_panel(axes: Axes, panel: Panel, entries: Sequence[str]) -> None:
    for row, (_, _, chance, found) in enumerate(panel.rows):
        axes.plot([chance], [row], "|", color=GREY, markersize=12, markeredgewidth=2)
        step = 0.6 / max(1, len(entries))
        for place, (entry, marker, colour) in enumerate(zip(entries, MARKERS, COLOURS, strict=False)):
            if entry in found:
                y = row + (place - (len(entries) - 1) / 2) * step
                value = found[entry]
                axes.errorbar(
                    value.mean, y, xerr=value.deviation or 0, fmt=marker, color=colour, markersize=5, linewidth=1.1
                )
    labels = [f"{pictures.literal(label)} ({targets:,})" for label, targets, _, _ in panel.rows]
    axes.set_yticks(range(len(panel.rows)), labels)
    axes.set_ylim(len(panel.rows) - 0.45, -0.55)
    axes.set_xlim(0, 1)
    pictures.plain(axes, panel.name, "", "")
    axes.title.set_horizontalalignment("left")
    axes.title.set_x(0)
    axes.tick_params(axis="y", length=0)


def draw_curves(history: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    """Draw the training loss and the validation MRR by epoch, a line per seed; a diamond marks the weights kept."""
    from matplotlib.ticker import MaxNLocator

    with pictures.page(path, 7.2, 2.9) as figure:
        left, right = figure.subplots(1, 2)
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
        figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
