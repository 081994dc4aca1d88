"""The picture of an audit: degrees and relation frequencies of the train and the test graph."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtbench import atomic
from mtbench.audit import Audit
from mtbench.errors import MissingExtraError, UsageError
from mtbench.names import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
COLOURS = {"train": "#0072b2", "test": "#d55e00"}
MARKERS = {"train": "o", "test": "^"}


def check(path: Path) -> None:
    """Raise what would stop `draw` before any work: `UsageError` for a suffix, `MissingExtraError`."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} must end in {' or '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a picture", "plots")


def draw(audit: Audit, path: Path) -> None:
    """Draw the degree distribution and the relation frequencies of both graphs into a PNG or SVG file.

    Degrees are cumulated, on two logarithmic axes; frequencies have one, as a graph has few relation types.
    Raises `UsageError` for another suffix, `MissingExtraError` without matplotlib and `MtbenchError` for a
    place that cannot be written.
    """
    check(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same audit gives the same bytes: no date, and ids that do not depend on the process.
    with mpl.rc_context({"svg.hashsalt": "mtbench"}):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_degrees(left, audit)
        _draw_relations(right, audit)
        figure.suptitle(f"{audit.dataset} {audit.version}", fontweight="bold")
        page = io.BytesIO()
        kind = path.suffix.lower()[1:]
        figure.savefig(page, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else {"Software": None})
    with atomic.storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(page.getvalue())


def _draw_degrees(axes: Axes, audit: Audit) -> None:
    for name, graph in audit.graphs.items():
        degrees, entities = np.array([row for row in graph.degrees if row[0]], dtype=np.int64).reshape(-1, 2).T
        # Cumulated from above: a curve instead of a cloud, and graphs of different size on one scale.
        share = entities[::-1].cumsum()[::-1] / max(graph.entities, 1)
        _line(axes, name, degrees, share, f"{name}: {graph.entities:,} entities, {graph.triples:,} triples")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _finish(axes, "Degrees in the observable graph", "Degree k", "Entities with degree k or more")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %" if value <= 1 else "")


def _draw_relations(axes: Axes, audit: Audit) -> None:
    from matplotlib.ticker import MaxNLocator

    for name, graph in audit.graphs.items():
        counts = np.array(list(graph.relations.values()), dtype=np.int64)
        label = f"{name}: {len(counts)} types, as diverse as {graph.effective_relations:.1f} equal ones"
        _line(axes, name, np.arange(1, len(counts) + 1), counts, label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(axes, "Relation types, most frequent first", "Rank of the relation type", "Triples and targets of the type")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else "")


def _line(axes: Axes, name: str, x: IntArray, y: IntArray | FloatArray, label: str) -> None:
    axes.plot(
        x, y, color=COLOURS[name], marker=MARKERS[name], markersize=4, linewidth=1.2, markeredgewidth=0, label=label
    )


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set(yscale="log", xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=11)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    bottom, top = axes.get_ylim()
    # Room for the legend above the points.
    axes.set_ylim(bottom, top * (top / bottom) ** 0.2)
    axes.legend(frameon=False, loc="upper right", fontsize=9)
