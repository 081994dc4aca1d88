"""Pictures of a training, of relations in tasks, of a transfer matrix, and of what parts of a model are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtbench.analysis.matrix import Matrix
from mtbench.data.splits import Split
from mtbench.files import pictures
from mtbench.files.pictures import COLOURS, GREY
from mtbench.training.models import Assignment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


PANELS = {"loss": "Training loss", "valid_mrr": "Validation MRR", "moves": "Relations moved to another task"}
NAMED = 120
"""The most relations whose names are written beside the picture; more would be too small to read."""


def draw_training(history: Mapping[str, Sequence[Mapping[str, float]]], title: str, path: Path) -> None:
    """Draw the loss, the validation MRR and the moved relations per epoch, a line per stage, as far as they are told.

    The epoch with the best validation MRR, whose weights are kept, is marked. Raises the errors of
    `mtbench.files.pictures.page`.
    """
    panels = [name for name in PANELS if any(name in record for records in history.values() for record in records)]
    with pictures.page(path, 0.6 + 3.6 * len(panels), 3.3) as figure:
        for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_curves(axes, history, name)
            pictures.plain(axes, PANELS[name], "Epoch", "")
        figure.suptitle(pictures.literal(title), fontsize=11, fontweight="bold")


def _draw_curves(axes: Axes, history: Mapping[str, Sequence[Mapping[str, float]]], name: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for (stage, records), colour in zip(history.items(), COLOURS, strict=False):
        told = [record for record in records if name in record]
        if not told:
            continue
        epochs, values = ([record[key] for record in told] for key in ("epoch", name))
        marker = "o" if len(told) <= 30 else None
        axes.plot(epochs, values, color=colour, linewidth=1.5, marker=marker, markersize=3.5, label=stage)
        if name == "valid_mrr":
            best = int(np.argmax(values))
            axes.axvline(epochs[best], color=GREY, linestyle="--", linewidth=1)
            axes.plot(epochs[best], values[best], "D", color=COLOURS[1], markersize=6)
            label = f"{values[best]:.3f} in epoch {epochs[best]:.0f}"
            late = best > len(values) / 2
            axes.annotate(
                label,
                (epochs[best], values[best]),
                xytext=(-7 if late else 7, 7),
                textcoords="offset points",
                ha="right" if late else "left",
                fontsize=9,
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.12)
    if name != "loss":
        # Room for what is written above the best epoch.
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
    if name == "moves":
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    if name != "valid_mrr" and len(history) > 1:
        axes.legend(frameon=False, fontsize=9)


def draw_assignments(
    assignments: Mapping[str, Assignment], splits: Mapping[str, Split], title: str, path: Path
) -> None:
    """Draw the shares of every relation in every task, a panel per graph, darker for more, a dot at the largest.

    Relations stand in the order of their ground-truth pattern where there is one, else of their task. Raises
    the errors of `mtbench.files.pictures.page`.
    """
    tasks = max(found.alpha.shape[1] for found in assignments.values())
    longest = max(len(found.relations) for found in assignments.values())
    height = 1.5 + (0.17 * longest if longest <= NAMED else 9)
    with pictures.page(path, len(assignments) * (3.6 + 0.4 * tasks), height) as figure:
        panels = figure.subplots(1, len(assignments), squeeze=False)[0]
        for axes, (name, found) in zip(panels, assignments.items(), strict=True):
            drawn = _draw_shares(axes, found, splits[name])
            axes.set_title(f"{name} graph", fontsize=11)
        figure.colorbar(drawn, ax=list(panels), shrink=min(1.0, 4 / height), pad=0.02, label="Share of the relation")
        figure.suptitle(pictures.literal(f"{title}: relations in tasks"), fontsize=11, fontweight="bold")


def _draw_shares(axes: Axes, found: Assignment, split: Split) -> AxesImage:
    alpha, names = np.asarray(found.alpha), list(found.relations)
    hard = alpha.argmax(axis=1)
    # Relations without ground truth come last.
    groups = [split.tasks.get(name, "~") if split.tasks else str(task) for name, task in zip(names, hard, strict=True)]
    # The same order for every graph of a dataset whose relations keep their names.
    order = sorted(range(len(names)), key=lambda row: (groups[row], names[row]))
    drawn = axes.imshow(alpha[order], cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for place, row in enumerate(order if len(order) <= NAMED else ()):
        axes.plot(hard[row], place, ".", color="white" if alpha[row, hard[row]] > 0.5 else "black", markersize=4)
    for place in range(1, len(order)):
        if groups[order[place]] != groups[order[place - 1]]:
            axes.axhline(place - 0.5, color=GREY, linewidth=0.6)
    if len(names) <= NAMED:
        labels = pictures.shorten([names[row] for row in order], 34)
        axes.set_yticks(range(len(order)), [pictures.literal(label) for label in labels], fontsize=7)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(names)} relation ids")
    axes.set_xticks(range(alpha.shape[1]), [str(task + 1) for task in range(alpha.shape[1])])
    axes.set_xlabel("Task")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return drawn


def draw(matrix: Matrix, path: Path) -> None:
    """Draw the matrix into a PNG or SVG file: a row per training topic, a column per test topic, darker is better.

    Raises `UsageError` for another suffix, `MissingExtraError` without matplotlib and `MtbenchError` for a
    place that cannot be written.
    """
    number = len(matrix.topics)
    side = 2.4 + 0.55 * number
    with pictures.page(path, side + 0.9, side) as figure:
        axes = figure.subplots()
        drawn = axes.imshow(np.ma.masked_invalid(matrix.values), cmap="viridis_r", vmin=0, vmax=1)
        for row, column in np.ndindex(matrix.values.shape):
            value = matrix.values[row, column]
            missing = matrix.statuses.get((matrix.topics[row], matrix.topics[column]), "")
            text = missing if np.isnan(value) else f"{value:.2f}".removeprefix("0")
            colour = "white" if value > 0.55 else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
        names = [pictures.literal(name) for name in pictures.shorten(matrix.topics, 20)]
        axes.set_xticks(range(number), names, rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(number), names)
        axes.set(xlabel="Test topic", ylabel="Training topic")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02, label="MRR")
        axes.set_title(pictures.literal(f"{matrix.model}\n{matrix.name}"), fontsize=11, fontweight="bold")


def draw_falls(falls: Sequence[tuple[str, float, float]], title: str, below: str, path: Path) -> None:
    """Draw names with the mean and the standard deviation of a fall, a bar each, the first on top.

    ``below`` says what falls, and by what. Raises the errors of `mtbench.files.pictures.page`.
    """
    names, *figures = zip(*reversed(falls), strict=True)
    means, deviations = np.array(figures)
    with pictures.page(path, 7, 1.5 + 0.32 * len(names)) as figure:
        axes = figure.subplots()
        line = {"ecolor": "black", "elinewidth": 1.2, "capsize": 3}
        axes.barh(names, means, xerr=deviations, height=0.66, color=COLOURS[0], error_kw=line)
        for place, (mean, end) in enumerate(zip(means, np.maximum(means, 0) + deviations, strict=True)):
            # The space keeps the figure apart from the end of its line.
            axes.text(end, place, f"  {mean:.3f}", fontsize=9, va="center")
        pictures.plain(axes, pictures.literal(title), below, "")
        low, high = min(0, *(means - deviations)), max(1e-3, *(means + deviations))
        axes.set_xlim(1.05 * low, high + 0.12 * (high - low))
        axes.axvline(0, color="black", linewidth=0.8)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
