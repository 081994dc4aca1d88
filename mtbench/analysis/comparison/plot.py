"""The picture of a comparison: the interval of every model, best first."""

from __future__ import annotations

from pathlib import Path

from mtbench.analysis.comparison.findings import Comparison
from mtbench.files import tables
from mtbench.files.pictures import COLOURS, GREY, page

ROW = 0.42
"""Inches per model."""


def draw(found: Comparison, path: Path) -> None:
    """Draw a forest plot into a PNG or SVG file: mean and interval per model, a dot per seed, groups to the right.

    Chance is a dashed line. Raises `UsageError` for another suffix, `MissingExtraError` without matplotlib
    and `MtbenchError` for a place that cannot be written.
    """
    with page(path, 8, 1.6 + ROW * len(found.rows)) as figure:
        axes = figure.subplots()
        for place, row in enumerate(found.rows):
            axes.plot((row.low, row.high), (place, place), color=COLOURS[0], linewidth=2, solid_capstyle="butt")
            axes.plot(row.per_seed, [place] * len(row.per_seed), "o", color="none", markeredgecolor=GREY, markersize=5)
            axes.plot(row.mean, place, "D", color=COLOURS[0], markersize=6)
        axes.axvline(found.chance, color="#888888", linestyle="--", linewidth=1)
        axes.annotate(
            "chance",
            (found.chance, 0),
            xycoords=("data", "axes fraction"),
            xytext=(4, 3),
            textcoords="offset points",
            color=GREY,
            fontsize=8,
        )
        names = [f"{row.model} ({len(row.seeds)})" for row in found.rows]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        groups = axes.secondary_yaxis("right")
        groups.set_yticks(range(len(names)), [row.group for row in found.rows])
        groups.set_ylabel("Groups that are tied", fontsize=9)
        for side in (axes, groups):
            side.tick_params(axis="y", length=0)
        groups.spines["right"].set_visible(False)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel(f"{tables.heading(found.metric)}, {100 * found.level:g} % interval; circles: seeds")
        figure.suptitle(found.task, fontweight="bold", fontsize=11)
