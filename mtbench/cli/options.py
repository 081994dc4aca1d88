"""Options that several verbs share, their checks, and what a shell proposes after Tab."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from mtbench.data import catalog
from mtbench.data.catalog import Record
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import pictures, tables
from mtbench.settings.table import ALL, HEADLINE, MAIN, PROTOCOLS, VOCABULARIES
from mtbench.training import models as models_installed


def datasets(incomplete: str) -> list[str]:
    """Return the datasets of the catalogue whose names begin so."""
    return _beginning(incomplete, catalog.names())


def groups(incomplete: str) -> list[str]:
    """Return the groups of datasets whose names begin so."""
    return _beginning(incomplete, catalog.GROUPS)


def models(incomplete: str) -> list[str]:
    """Return the installed models whose names begin so."""
    return _beginning(incomplete, models_installed.names())


def protocols(incomplete: str) -> list[str]:
    """Return the protocols, and the names of several at once, that begin so."""
    return _beginning(incomplete, [*PROTOCOLS, ALL])


def vocabularies(incomplete: str) -> list[str]:
    """Return the relation vocabularies that begin so."""
    return _beginning(incomplete, [*VOCABULARIES, ALL])


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


Names: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", autocompletion=datasets, help="Datasets of the catalogue.")
]


def _canonical_group(name: str | None) -> str | None:
    """Return the group that is meant; asked before words too many are refused, as a blank without quotes makes them."""
    try:
        return None if name is None else catalog.canonical_group(name)
    except UnknownNameError as error:
        cut = [group for group in catalog.GROUPS if name and group.startswith(f"{name.casefold()} ")]
        if not cut:
            raise
        raise UsageError(f"{error} A name with a blank stands in quotes: --group {shlex.quote(cut[0])}") from None


Group: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=groups,
        callback=_canonical_group,
        help=f"The datasets of a group: {', '.join(catalog.GROUPS)}.",
    ),
]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="Every dataset of the catalogue.")]

WHICH = "give 'NAME...', --all or --group NAME, one of them (mtbench list shows the names)"
FOLDERS = "a directory made by build, or a folder of train.txt, msg.txt and test.txt"
_DATASET = typer.Argument(metavar="NAME", autocompletion=datasets, help=f"A dataset, {FOLDERS}.")
Dataset: TypeAlias = Annotated[str, _DATASET]
DatasetIfAny: TypeAlias = Annotated[str | None, _DATASET]

NamesOrFolders: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", autocompletion=datasets, help=f"Each is a dataset, {FOLDERS}.")
]
Protocols: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        autocompletion=protocols,
        help=f"{', '.join(PROTOCOLS)}, or all for {', '.join(MAIN)}; may be repeated.  [default: {HEADLINE.protocol}]",
    ),
]
Vocabularies: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        autocompletion=vocabularies,
        help="present: relation types of the graph; slots: relation ids incl. unused, as in the paper; all: both. "
        f"May be repeated.  [default: {HEADLINE.vocabulary}]",
    ),
]
Paper: TypeAlias = Annotated[
    bool,
    typer.Option("--paper", help="Also write conventions.json: the model in each evaluation setting of the paper."),
]
WithoutNames: TypeAlias = Annotated[
    bool, typer.Option("--without-names", help="Leave names out of the ranks: for data not to be passed on.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of the model's own randomness.")]
CandidateSeed: TypeAlias = Annotated[int, typer.Option(min=0, help="Which frozen candidates to rank against.")]
Device: TypeAlias = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Settings: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter; may be repeated.")
]
TableFormat: TypeAlias = Annotated[str, typer.Option(help="text, markdown, latex, csv or html.")]


def check_output(format: str = "text", *, alone: bool = False, plot: Path | None = None) -> None:  # noqa: A002
    """Refuse, before any work is done, a choice of output that could not be shown in the end.

    That is a table format that does not exist, a format beside ``--json`` (``alone``), or a picture that cannot be
    drawn.
    """
    if format not in tables.FORMATS:
        raise UnknownNameError("table format", format, tables.FORMATS)
    if alone and format != "text":
        raise UsageError("give either --format or --json")
    if plot is not None:
        pictures.check(plot)


def separated(texts: Sequence[str] | None) -> list[str]:
    """Return the values of an option that may be repeated, or hold several values with commas between them."""
    return list(dict.fromkeys(part.strip() for text in texts or () for part in text.split(",") if part.strip()))


def look_here_for_modules() -> None:
    """Let imports find modules in the working directory, as ``python -m mtbench`` does and ``mtbench`` does not."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)


def asked(names: list[str] | None, every: bool, group: str | None) -> list[str]:
    """Return the datasets asked for, each once: those named, all or a group; `UsageError` unless it is one of these."""
    if bool(names) + every + bool(group) != 1:
        raise UsageError(WHICH)
    return list(dict.fromkeys(names or catalog.names(group or "")))


def chosen(names: list[str] | None, every: bool, group: str | None) -> list[Record]:
    """Return the records of the datasets that `asked` returns, which all have to be of the catalogue."""
    named = map(catalog.record, asked(names, every, group))
    return list({record.id: record for record in named}.values())  # by id, as a dataset may be named by an alias too
