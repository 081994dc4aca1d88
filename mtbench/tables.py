"""Tables of metrics as plain text, Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mtbench.errors import UnknownNameError
from mtbench.metrics import METRICS

FORMATS = {"text": "simple", "markdown": "github", "latex": "latex_booktabs"}
HEADINGS = {"mr": "MR", "mrr": "MRR"}
PLACES = {"mr": 2}


def render(rows: Sequence[tuple[str, Mapping[str, float]]], format: str = "text", decimals: int = 4) -> str:  # noqa: A002
    """Return labelled rows of metrics as a table in ``text``, ``markdown`` or ``latex``.

    Ranks are printed with two decimals and everything else with ``decimals``; a metric a row lacks
    stays empty. Raises `UnknownNameError` for another format.
    """
    from tabulate import tabulate

    if format not in FORMATS:
        raise UnknownNameError("table format", format, FORMATS)
    names = [name for name in METRICS if any(name in values for _, values in rows)]
    cells = [
        [label, *(f"{values[name]:.{PLACES.get(name, decimals)}f}" if name in values else "" for name in names)]
        for label, values in rows
    ]
    headings = ["", *(HEADINGS.get(name, name.capitalize()) for name in names)]
    align = ["left", *["right"] * len(names)]
    return tabulate(cells, headings, FORMATS[format], disable_numparse=True, colalign=align if cells else None)
