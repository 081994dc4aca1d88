"""The picture of an audit: degrees and relation frequencies of the train and the test graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtbench.analysis.auditing.report import Audit
from mtbench.files import pictures
from mtbench.names import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = dict(zip(("train", "test"), pictures.COLOURS, strict=False))
MARKERS = {"train": "o", "test": "^"}


def draw(audit: Audit, path: Path) -> None:
    """Draw the degree distribution and the relation frequencies of both graphs into a PNG or SVG file.

    Degrees are cumulated, on two logarithmic axes; frequencies have one, as a graph has few relation types.
    Raises `UsageError` for another suffix, `MissingExtraError` without matplotlib and `MtbenchError` for a
    place that cannot be written.
    """
    with pictures.page(path, 10, 4.4) as figure:
        left, right = figure.subplots(1, 2)
        _draw_degrees(left, audit)
        _draw_relations(right, audit)
        figure.suptitle(f"{audit.dataset} {audit.version}", fontweight="bold")


def _draw_degrees(axes: Axes, audit: Audit) -> None:
    for name, graph in audit.graphs.items():
        degrees, entities = np.array([row for row in graph.degrees if row[0]], dtype=np.int64).reshape(-1, 2).T
        # Cumulated from above: a curve instead of a cloud, and graphs of different size on one scale.
        share = entities[::-1].cumsum()[::-1] / max(graph.entities, 1)
        _line(axes, name, degrees, share, f"{name}: {graph.entities:,} entities, {graph.triples:,} triples")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _finish(axes, "Degrees in the graph", "Degree k", "Entities with degree k or more")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %" if value <= 1 else "")


def _draw_relations(axes: Axes, audit: Audit) -> None:
    from matplotlib.ticker import MaxNLocator

    for name, graph in audit.graphs.items():
        counts = np.array(list(graph.relations.values()), dtype=np.int64)
        label = f"{name}: {len(counts)} types, as diverse as {graph.effective_relations:.1f} equal ones"
        _line(axes, name, np.arange(1, len(counts) + 1), counts, label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(
        axes,
        "Relation types, most frequent first",
        "Rank of the relation type",
        "Triples of the type, missing ones included",
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else "")


def _line(axes: Axes, name: str, x: IntArray, y: IntArray | FloatArray, label: str) -> None:
    axes.plot(
        x, y, color=COLOURS[name], marker=MARKERS[name], markersize=4, linewidth=1.2, markeredgewidth=0, label=label
    )


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_yscale("log")
    pictures.plain(axes, title, x, y)
    bottom, top = axes.get_ylim()
    # Room for the legend above the points.
    axes.set_ylim(bottom, top * (top / bottom) ** 0.2)
    axes.legend(frameon=False, loc="upper right", fontsize=9)
