"""Pictures of results: the ranks, strata and models of runs, the intervals of a comparison, the graphs of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtbench.analysis import seeds
from mtbench.analysis.auditing import Audit
from mtbench.analysis.comparison import Comparison
from mtbench.analysis.matrix import Matrix
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import pictures, tables
from mtbench.files.pictures import COLOURS, GREY
from mtbench.names import METRICS, QUESTIONS, FloatArray, IntArray
from mtbench.runs.origin import with_names
from mtbench.runs.strata import Strata

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mtbench.runs.result import Result

MOST_CURVES = len(COLOURS)
MOST_BARS = 40
NAMED = 5
LINEAR = 100
"""Ranks up to this are drawn on a linear axis; full rankings go into the thousands."""

STYLES: tuple[str | tuple[int, tuple[int, ...]], ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))


def draw_ranks(results: Sequence[Result], path: Path) -> None:
    """Draw the share of targets of each rank or better into a PNG or SVG file, a curve per run.

    The curve is the realistic rank, its band reaches from the pessimistic to the
    optimistic order, and the grey curve is chance. A single run has a curve for each direction too. All runs
    must have been ranked among the same candidates. Raises `UsageError` for runs of different tasks, more than
    six, a run without ranks, or a protocol whose rank is not one plus the candidates above, and the errors of
    `mtbench.files.pictures.page`.
    """
    pictures.check(path)
    _expect_same_task(results)
    if len(results) > MOST_CURVES:
        raise UsageError(f"{len(results)} runs make too many curves to tell apart: draw at most {MOST_CURVES}")
    for result in results:
        # Where a metric is not a function of the rank that is drawn, the curve would contradict the figures beside it.
        if not np.allclose(result.per_target()["mr"], result.ranks.mean):
            raise UsageError(
                f"protocol {result.protocol} has no list whose ranks could be drawn: draw strata or models"
            )
    last = int(results[0].ranks.count.max()) + 1
    x = np.arange(last + 1)
    with pictures.page(path, 7, 4.4) as figure:
        axes = figure.subplots()
        names = _labels(results)
        for result, name, colour, style in zip(results, names, COLOURS, STYLES, strict=False):
            greater, equal = result.ranks.greater, result.ranks.equal
            none = np.zeros_like(equal)
            best, worst = _cumulated(greater, none, last), _cumulated(greater + equal, none, last)
            axes.fill_between(x[1:], worst[1:], best[1:], color=colour, alpha=0.15, linewidth=0)
            label = f"{name}: MRR {result.metrics['mrr']:.3f}"
            if (ties := tables.bounds(result.optimistic, result.pessimistic, 3)) != tables.NO_RANGE:
                label += f" ({ties} by ties)"
            curve = _cumulated(greater, equal, last)
            axes.plot(x[1:], curve[1:], color=colour, linestyle=style, linewidth=1.8, label=label)
        directions = results[0].by_direction() if len(results) == 1 else {}
        for (way, metrics), colour, style in zip(directions.items(), COLOURS[1:], STYLES[1:], strict=False):
            part = results[0].ranks.lists[way]
            label = f"{way}s, {QUESTIONS[way]}: MRR {metrics['mrr']:.3f}"
            curve = _cumulated(part.greater, part.equal, last)
            axes.plot(x[1:], curve[1:], color=colour, linestyle=style, linewidth=1.2, label=label)
        counts = results[0].ranks.count
        chance = _cumulated(np.zeros_like(counts), counts, last)
        label = f"chance: MRR {results[0].chance['mrr']:.3f}"
        axes.plot(x[1:], chance[1:], color=GREY, linestyle=":", linewidth=1.4, label=label)
        title = f"{_title(results[0])}\nband: from pessimistic to optimistic"
        pictures.plain(axes, title, f"Rank k (1 is best, {last:,} is last)", "Ranks of k or better")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        if last > LINEAR:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        else:
            axes.set_xticks([1, *(tick for tick in axes.get_xticks() if 1 < tick < last - 2), last])
        axes.set_xlim(1, last)
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, -0.16))


def draw_strata(strata: Strata, path: Path, metric: str = "mrr") -> None:
    """Draw a bar per stratum into a PNG or SVG file, with the number of targets and what chance gives.

    The black line in a bar reaches from the pessimistic to the optimistic value, the grey mark is
    chance in the stratum, and the dashed line is the whole run. Of more than 40 strata those with most
    targets are drawn. Raises `UnknownNameError` for another metric and the errors of `mtbench.files.pictures.page`.
    """
    pictures.check(path)
    _expect_metric(metric)
    rows = strata.rows
    if len(rows) > MOST_BARS:
        largest = sorted(rows, key=lambda row: -row.targets)[:MOST_BARS]
        rows = tuple(row for row in rows if row in largest)  # in the order of the strata, not of their size
    y = np.arange(len(rows))
    values, best, worst, chance = (
        np.array([getattr(row, kind)[metric] for row in rows])
        for kind in ("metrics", "optimistic", "pessimistic", "chance")
    )
    title = pictures.literal(f"{strata.model} on {strata.task}")
    if len(rows) < len(strata.rows):
        title += f"\nthe {len(rows)} of {len(strata.rows)} strata with most test triples"
    labels = [pictures.literal(label) for label in pictures.shorten([row.label for row in rows], 40)]
    width = 6.2 + 0.07 * max(16, *map(len, labels))
    with pictures.page(path, width, 1.7 + 0.3 * len(rows)) as figure:
        axes = figure.subplots()
        low, high = np.minimum(worst, best), np.maximum(worst, best)  # the best mean rank is the lowest
        whole = strata.whole.metrics[metric]
        shown = [
            axes.barh(y, values, height=0.66, color=COLOURS[0], label="realistic"),
            axes.hlines(y, low, high, color="black", linewidth=1.2, label="range by ties"),
            axes.vlines(chance, y - 0.4, y + 0.4, color=COLOURS[4], linewidth=2.2, label="chance"),
            axes.axvline(whole, color=GREY, linestyle="--", linewidth=1.2, label=f"whole: {whole:.3f}"),
        ]
        axes.set_yticks(y, [f"{label}  ({row.targets:,})" for label, row in zip(labels, rows, strict=True)])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, None if metric == "mr" else 1)
        better = ", lower is better" if metric == "mr" else ""
        pictures.plain(axes, title, f"{tables.heading(metric)}{better}", f"{strata.name} (triples)")
        axes.yaxis.labelpad = 10
        axes.grid(visible=False, axis="y")
        axes.legend(handles=shown, frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))


def draw_models(first: Result, second: Result, path: Path, metric: str = "mrr") -> None:
    """Draw two models against each other into a PNG or SVG file: per target, and per relation type.

    On the left the targets by their mean rank over ties under both models, on the right the relation types
    by the mean of ``metric``; the area of a dot is the number of its targets, the relation types that move
    the whole most are named, and on the diagonal both models are equal. Raises `UnknownNameError` for
    another metric, `UsageError` unless both were ranked among the same candidates, and the errors of
    `mtbench.files.pictures.page`.
    """
    pictures.check(path)
    _expect_metric(metric)
    _expect_same_task([first, second])
    first, second = with_names(first), with_names(second)
    values, names = [_in_order(result) for result in (first, second)], _labels([first, second])
    ranks = [part["mr"] for part in values]  # whatever the metric: ranks spread over the axes, Hits@k takes two values
    groups, group, counts = np.unique(np.sort(first.ranks.relations), return_inverse=True, return_counts=True)
    means = [np.bincount(group, part[metric]) / counts for part in values]
    moved = np.abs(means[0] - means[1]) * counts
    named = [index for index in np.argsort(-moved, kind="stable")[:NAMED].tolist() if moved[index] > 0]
    short = pictures.shorten(groups[named].tolist(), 32)
    key = [f"{pictures.literal(name)} ({counts[index]:,})" for index, name in zip(named, short, strict=True)]
    with pictures.page(path, 11 + 0.075 * max(map(len, key), default=0), 5.2) as figure:
        left, right = figure.subplots(1, 2)

        last = max(2, *(float(part.max()) for part in ranks))
        # Ranks that are close share a dot, on a grid of whole ranks or of a twentieth of a power of ten.
        grid = np.stack([np.round(20 * np.log10(part)) if last > LINEAR else np.round(part) for part in ranks])
        (x, y), dots = np.unique(grid, axis=1, return_counts=True)
        if last > LINEAR:
            x, y = 10 ** (x / 20), 10 ** (y / 20)
            left.set(xscale="log", yscale="log")
        _against_each_other(left, x, y, dots, 1, last)
        pictures.plain(left, f"Rank of {len(ranks[0]):,} triples", *(f"Rank, {name}" for name in names))
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
        for i, (x_text, y_text, side, edge) in enumerate(
            ((0.03, 0.97, "left", "top"), (0.97, 0.04, "right", "bottom"))
        ):
            better = f"{np.mean(ranks[i] < ranks[1 - i]):.0%} of triples better under {names[i]}"
            place = {"transform": left.transAxes, "ha": side, "va": edge}
            left.text(x_text, y_text, better, fontsize=9, bbox=behind, **place)

        _against_each_other(right, means[0], means[1], counts, 0, max(float(part.max()) for part in means) or 1)
        # Dots often lie on a line, where names would hide each other: numbers do not.
        for number, index in enumerate(named, start=1):
            at = means[0][index], means[1][index]
            right.text(*at, f"{number}", fontsize=9, fontweight="bold", ha="center", va="center")
        lines = [f"{number}  {label}" for number, label in enumerate(key, start=1)]
        if key:
            lines.insert(0, "Types that move the whole most")
        right.text(1.04, 1, "\n".join(lines), transform=right.transAxes, fontsize=9, va="top", linespacing=1.5)
        heading = tables.heading(metric)
        pictures.plain(right, f"{heading} of {len(groups)} relation types", *(f"{heading}, {name}" for name in names))
        figure.suptitle(f"{_title(first)}\nthe area of a dot is the number of triples", fontsize=11)


def _against_each_other(axes: Axes, x: FloatArray, y: FloatArray, counts: IntArray, low: float, high: float) -> None:
    """Draw dots whose area is a count, and the diagonal, on which both models are equal."""
    axes.plot([low, high], [low, high], color=GREY, linestyle="--", linewidth=1, zorder=1)
    # Areas are proportional to counts, but the smallest dot stays visible, and dots of single targets do not fill all.
    area = np.maximum(400 * counts / max(int(counts.max()), 20), 7)
    axes.scatter(x, y, s=area, color=COLOURS[0], alpha=0.5, edgecolor="white", linewidth=0.4, zorder=2)
    logarithmic = axes.get_xscale() == "log"
    ends = (low / 1.5, high * 1.5) if logarithmic else (low - 0.04 * (high - low), high + 0.04 * (high - low))
    axes.set(xlim=ends, ylim=ends, aspect="equal")


def draw_comparison(comparison: Comparison, path: Path) -> None:
    """Draw a forest plot into a PNG or SVG file: mean and interval per model, a dot per seed, groups to the right.

    Chance is a dashed line. Raises `UsageError` for another suffix, `MissingExtraError` without matplotlib
    and `MtbenchError` for a place that cannot be written.
    """
    with pictures.page(path, 8, 1.6 + 0.42 * len(comparison.rows)) as figure:
        axes = figure.subplots()
        for place, row in enumerate(comparison.rows):
            axes.plot((row.low, row.high), (place, place), color=COLOURS[0], linewidth=2, solid_capstyle="butt")
            axes.plot(row.per_seed, [place] * len(row.per_seed), "o", color="none", markeredgecolor=GREY, markersize=5)
            axes.plot(row.mean, place, "D", color=COLOURS[0], markersize=6)
        axes.axvline(comparison.chance, color="#888888", linestyle="--", linewidth=1)
        axes.annotate(
            "chance",
            (comparison.chance, 0),
            xycoords=("data", "axes fraction"),
            xytext=(4, 3),
            textcoords="offset points",
            color=GREY,
            fontsize=8,
        )
        names = [f"{row.model} ({len(row.seeds)})" for row in comparison.rows]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        # A second axis rather than text, so that the layout leaves room for it.
        groups = axes.secondary_yaxis("right")
        groups.set_yticks(range(len(names)), [row.group for row in comparison.rows])
        groups.set_ylabel("Groups that are tied", fontsize=9)
        for side in (axes, groups):
            side.tick_params(axis="y", length=0)
        groups.spines["right"].set_visible(False)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.set_xlabel(f"{tables.heading(comparison.metric)}, {100 * comparison.level:g} % interval; circles: seeds")
        figure.suptitle(comparison.task, fontweight="bold", fontsize=11)


def draw_audit(audit: Audit, path: Path) -> None:
    """Draw the degree distribution and the relation frequencies of both graphs into a PNG or SVG file.

    Degrees are cumulated, on two logarithmic axes; frequencies have one, as a graph has few relation types.
    Raises `UsageError` for another suffix, `MissingExtraError` without matplotlib and `MtbenchError` for a
    place that cannot be written.
    """
    with pictures.page(path, 10, 4.4) as figure:
        left, right = figure.subplots(1, 2)
        for (name, graph), colour, marker in zip(audit.graphs.items(), COLOURS, "o^", strict=False):
            style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2, "markeredgewidth": 0}
            degrees, entities = np.array([row for row in graph.degrees if row[0]], dtype=np.int64).reshape(-1, 2).T
            # Cumulated from above: a curve instead of a cloud, and graphs of different size on one scale.
            share = entities[::-1].cumsum()[::-1] / max(graph.entities, 1)
            left.plot(degrees, share, label=f"{name}: {graph.entities:,} entities, {graph.triples:,} triples", **style)
            counts = list(graph.relations.values())
            label = f"{name}: {len(counts)} types, as diverse as {graph.effective_relations:.1f} equal ones"
            right.plot(range(1, len(counts) + 1), counts, label=label, **style)
        pictures.plain(left, "Degrees in the graph", "Degree k", "Entities with degree k or more")
        words = "Relation types, most frequent first", "Rank of the relation type"
        pictures.plain(right, *words, "Triples of the type, missing ones included")
        left.set_xscale("log")
        left.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        right.xaxis.get_major_locator().set_params(integer=True)
        for axes in (left, right):
            axes.set_yscale("log")
            bottom, top = axes.get_ylim()
            # Room for the legend above the points.
            axes.set_ylim(bottom, top * (top / bottom) ** 0.2)
            axes.legend(frameon=False, loc="upper right", fontsize=9)
        left.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %" if value <= 1 else "")
        right.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else "")
        figure.suptitle(f"{audit.dataset} {audit.version}", fontweight="bold")


def _cumulated(greater: IntArray, equal: IntArray, last: int) -> FloatArray:
    """Return the expected share of targets of rank k or better, for k from 0 to ``last``.

    A target adds 1 / m for each of the m = e + 1 ranks from g + 1 on, so that the curve is a double sum.
    """
    # A target's share of each rank starts at g + 1 and stops after g + e + 1. Only these two steps are noted: the first
    # sum gives the share of each rank, the second that of each rank or better, without a matrix of targets and ranks.
    slope = np.zeros(last + 2)
    np.add.at(slope, greater + 1, 1 / (equal + 1))
    np.add.at(slope, greater + equal + 2, -1 / (equal + 1))
    return np.clip(np.cumsum(np.cumsum(slope))[: last + 1] / len(greater), 0, 1)


def _in_order(result: Result) -> Mapping[str, FloatArray]:
    """Return the metrics of the targets sorted by relation and then the rest of the name."""
    ranks = result.ranks
    order = np.lexsort((ranks.tails, ranks.heads, ranks.relations))
    return {name: values[order] for name, values in result.per_target().items()}


def _expect_same_task(results: Sequence[Result]) -> None:
    for result in results:
        if not len(result.ranks):
            raise UsageError(f"{result.run.model} on {result.dataset}: the run is {result.run.status} and has no ranks")
    seeds.same_task(seeds.read(results))


def _expect_metric(metric: str) -> None:
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)


def _labels(results: Sequence[Result]) -> list[str]:
    """Return the models by name, with the seed where the same name comes twice."""
    names = [pictures.literal(result.run.model) for result in results]
    return [
        name if names.count(name) == 1 else f"{name} (seed {result.run.seed})"
        for name, result in zip(names, results, strict=True)
    ]


def _title(result: Result) -> str:
    where = pictures.literal(f"{result.dataset} {result.split}")
    return f"{where}, protocol {result.protocol}, {result.vocabulary} relations"


def draw_matrix(matrix: Matrix, path: Path) -> None:
    """Draw the matrix into a PNG or SVG file: a row per training topic, a column per test topic, darker is better.

    Raises `UsageError` for another suffix, `MissingExtraError` without matplotlib and `MtbenchError` for a
    place that cannot be written.
    """
    with pictures.page(path, 3.3 + 0.55 * len(matrix.columns), 2.4 + 0.55 * len(matrix.topics)) as figure:
        axes = figure.subplots()
        drawn = axes.imshow(np.ma.masked_invalid(matrix.values), cmap="viridis_r", vmin=0, vmax=1)
        for row, column in np.ndindex(matrix.values.shape):
            value = matrix.values[row, column]
            missing = matrix.statuses.get((matrix.topics[row], matrix.columns[column]), "")
            text = missing if np.isnan(value) else f"{value:.2f}".removeprefix("0")
            colour = "white" if value > 0.55 else "black"  # from there on the cell is too dark for black
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
        rows, columns = (
            [pictures.literal(name) for name in pictures.shorten(topics, 20)]
            for topics in (matrix.topics, matrix.columns)
        )
        axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(rows)), rows)
        axes.set(xlabel="Test topic", ylabel="Training topic")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02, label="MRR")
        axes.set_title(pictures.literal(f"{matrix.model}\n{matrix.name}"), fontsize=11, fontweight="bold")
