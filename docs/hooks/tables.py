"""Tables made of data when the site is built: a page has a comment ``<!-- table: NAME -->`` where one stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby

from hooks.commands import commands
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from leaderboard.board.reported import Cell, cells
from mtbench.data import catalog

MARK = re.compile(r"<!-- table: (\w+) -->")
MEANING = {
    "seed": "start of the one stream of random numbers",
    "train_trees": "family trees of the training graph",
    "test_trees": "family trees of the test graph",
    "size": "persons at which a tree stops growing; it may get one more",
    "depth": "largest difference between two generations of a tree",
    "branching": "most children of a couple",
    "ontology": "a file of rules; empty for the family ontology",
    "ontology_sha256": "the hash that file must have; recorded in any case",
}


def setup(app: Sphinx) -> None:
    """Read every page with its tables."""
    app.connect("source-read", fill)


def fill(app: Sphinx, page: str, content: list[str]) -> None:
    """Put the tables in the place of their comments; an unknown one ends the build."""

    def table(found: re.Match[str]) -> str:
        if found[1] not in TABLES:
            raise ExtensionError(f"{page}: no table {found[1]!r}, only {', '.join(sorted(TABLES))}")
        return TABLES[found[1]]()

    content[0] = MARK.sub(table, content[0])


def datasets() -> str:
    """Return the catalogue: sizes, and how many relation types there are to rank against."""
    headings = [
        "Dataset",
        "Train graph",
        "Validation triples",
        "Inference graph",
        "Test triples",
        "Test relation types",
        "Defects",
        "Group",
    ]
    rows = []
    for record in map(catalog.record, catalog.names()):
        parts = (("train", "graph"), ("valid", "targets"), ("test", "graph"), ("test", "targets"))
        numbers = [*(record.part(*part).triples for part in parts), record.graphs["test"].relations]
        cells = [f"`{record.id}`", *(f"{number:,}" for number in numbers), f"[{len(record.defects)}](published.md)"]
        rows.append([*cells, record.group])
    return _table(headings, rows, right=6)


def defects() -> str:
    """Return what the records of the catalogue say is wrong with their datasets."""
    lines = []
    for suite, names in groupby(catalog.names(), key=lambda name: name.rpartition("/")[0]):
        lines.append(f"\n### {suite}\n" if suite else "")
        for name in filter(lambda name: catalog.record(name).defects, names):
            lines.append(f"\n{'####' if suite else '###'} {name}\n")
            lines.extend(f"* {defect}" for defect in catalog.record(name).defects)
    return "\n".join(lines)


def errata() -> str:
    """Return the cells of the paper's tables that are known to be wrong, a row for each reason."""
    found = [cell for cell in cells() if cell.erratum]
    rows = [
        [f"{where}, `{table}`", f"`{dataset}`", ", ".join(_figures(group)), erratum]
        for (where, table, dataset, erratum), group in groupby(
            found, key=lambda cell: (cell.where, cell.table, cell.dataset, cell.erratum)
        )
    ]
    return _table(["Table", "Dataset", "Printed", "What is wrong"], rows)


def _figures(group: Iterable[Cell]) -> list[str]:
    return [f"{cell.model} {cell.protocol} {cell.metric} {cell}" for cell in group]


def parameters() -> str:
    """Return the parameters of MetaFam's builder with the values that give the release."""
    released = catalog.record("metafam").parameters
    rows = [[f"`{name}`", f"`{value}`" if value != "" else "", MEANING[name]] for name, value in released.items()]
    return _table(["Parameter", "Release", "What it is"], rows, right=1)


def _table(headings: list[str], rows: list[list[str]], right: int = 0) -> str:
    lines = [
        " | ".join(headings),
        " | ".join("---:" if 0 < index <= right else "---" for index in range(len(headings))),
    ]
    return "\n".join(f"| {line} |" for line in [*lines, *(" | ".join(row) for row in rows)])


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "datasets": datasets,
    "defects": defects,
    "errata": errata,
    "parameters": parameters,
}
