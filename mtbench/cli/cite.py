"""``mtbench cite``: what to put into a bibliography."""

from __future__ import annotations

from typing import Annotated

import typer

from mtbench.cli.output import say


def command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets of the catalogue.")],
) -> None:
    """Print the BibTeX entries of datasets, each entry once.

    Example: mtbench cite metafam > references.bib
    """
    from mtbench import catalog

    say("\n\n".join(dict.fromkeys(catalog.record(name).citation.strip() for name in names)))
