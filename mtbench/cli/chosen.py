"""The datasets a verb is about: those named, or all of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mtbench.cli import completion
from mtbench.errors import UsageError

if TYPE_CHECKING:
    from mtbench.data.catalog import Record

Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME...", autocompletion=completion.datasets, help="Datasets of the catalogue."),
]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="Every dataset of the catalogue.")]


def chosen(names: list[str] | None, every: bool) -> list[Record]:
    """Return the records of the named datasets, each once, or of all; neither or both is a `UsageError`."""
    from mtbench.data import catalog

    if bool(names) == every:
        raise UsageError("give either 'NAME...' or --all (mtbench list shows the names)")
    found = map(catalog.record, catalog.names() if every else names or [])
    return list({record.id: record for record in found}.values())
