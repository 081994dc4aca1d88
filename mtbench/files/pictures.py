"""What every picture has in common: the kinds of file, the colours, axes that are easy to read, writing."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mtbench.errors import MissingExtraError, UsageError
from mtbench.files import atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart by readers who see colours differently, and in grey (Okabe and Ito 2008)."""

GREY = "#666666"


def available() -> bool:
    """Tell whether pictures can be drawn: the extra ``plots`` is installed."""
    return find_spec("matplotlib") is not None


def check(path: Path) -> None:
    """Raise what would stop a drawing before any work: `UsageError` for a suffix, `MissingExtraError`."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} must end in {' or '.join(SUFFIXES)}")
    if not available():
        raise MissingExtraError("a picture", "plots")


@contextmanager
def page(path: Path, width: float, height: float) -> Iterator[Figure]:
    """Give a figure of a size in inches to draw on, and write it as PNG or SVG when the block ends well.

    The same drawing gives the same bytes: no date, and ids that do not depend on the process. No setting
    of matplotlib is changed and no window opened. Raises `UsageError` for another suffix,
    `MissingExtraError` without matplotlib and `MtbenchError` for a place that cannot be written.
    """
    check(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "mtbench"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        drawn = io.BytesIO()
        kind = path.suffix.lower()[1:]
        figure.savefig(drawn, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else {"Software": None})
    atomic.replace_file(path, drawn.getvalue())


def shorten(names: Sequence[str], longest: int) -> list[str]:
    """Return names that fit beside an axis: their ends, of which the second usually says more; no two become one."""
    while True:
        first, last = longest // 4, longest - longest // 4 - 3
        short = [name if len(name) <= longest else f"{name[:first]}...{name[-last:]}" for name in names]
        if len(set(short)) == len(set(names)):
            return short
        longest += 4


def literal(text: str) -> str:
    """Return a name as matplotlib shows it unchanged: two dollar signs would make a formula."""
    return text.replace("$", r"\$")


def plain(axes: Axes, title: str, x: str, y: str) -> None:
    """Name the axes with their units, and take away what says nothing."""
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=11)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
