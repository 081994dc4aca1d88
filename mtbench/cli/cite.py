"""``mtbench cite``: what to put into a bibliography."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mtbench.cli.chosen import All, Names, chosen
from mtbench.cli.output import AsJson, say, say_json

if TYPE_CHECKING:
    from mtbench.data.catalog import Record


def command(names: Names = None, every: All = False, as_json: AsJson = False) -> None:
    """Print the BibTeX entries of datasets, each entry once.

    Example: mtbench cite metafam > references.bib
    """
    found = chosen(names, every)
    if as_json:
        say_json([{"name": record.id, "licence": record.licence, "entries": _entries(record)} for record in found])
        return
    say("\n\n".join(dict.fromkeys(entry for record in found for entry in _entries(record))))


def _entries(record: Record) -> list[str]:
    return [entry.strip() for entry in re.split(r"\n(?=@)", record.citation.strip())]
