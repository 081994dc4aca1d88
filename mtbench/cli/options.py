"""What several verbs take: the datasets they are about, and what a shell proposes after Tab."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mtbench.errors import UsageError

if TYPE_CHECKING:
    from mtbench.data.catalog import Record


def datasets(incomplete: str) -> list[str]:
    """Return the datasets of the catalogue whose names begin so."""
    from mtbench.data import catalog

    return _beginning(incomplete, catalog.names())


def models(incomplete: str) -> list[str]:
    """Return the installed models whose names begin so."""
    from importlib.metadata import entry_points

    from mtbench.experiments.models import GROUP

    return _beginning(incomplete, sorted(point.name for point in entry_points(group=GROUP)))


def protocols(incomplete: str) -> list[str]:
    """Return the protocols, and the names of several at once, that begin so."""
    from mtbench.experiments.run import GROUPS
    from mtbench.ranking.candidates import PROTOCOLS

    return _beginning(incomplete, [*PROTOCOLS, *GROUPS])


def vocabularies(incomplete: str) -> list[str]:
    """Return the relation vocabularies that begin so."""
    from mtbench.ranking.candidates import VOCABULARIES

    return _beginning(incomplete, [*VOCABULARIES, "all"])


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


Names: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME...", autocompletion=datasets, help="Datasets of the catalogue."),
]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="Every dataset of the catalogue.")]


def chosen(names: list[str] | None, every: bool) -> list[Record]:
    """Return the records of the named datasets, each once, or of all; neither or both is a `UsageError`."""
    from mtbench.data import catalog

    if bool(names) == every:
        raise UsageError("give either 'NAME...' or --all (mtbench list shows the names)")
    found = map(catalog.record, catalog.names() if every else names or [])
    return list({record.id: record for record in found}.values())
