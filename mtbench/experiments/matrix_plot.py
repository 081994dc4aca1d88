"""The picture of a transfer matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mtbench.experiments.matrix import Matrix
from mtbench.files import pictures


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
