"""``mtbench info``: everything the catalogue declares about one dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, Cell, records, say, say_json, say_table

if TYPE_CHECKING:
    from mtbench.catalog import Record

COUNTS = ("Split", "Entities", "Relation types used", "Relation slots", "Triples", "Targets")
HASHES = ("Part", "Triples", "Content SHA-256")
PARAMETERS = ("Parameter", "Release")


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", autocompletion=completion.datasets, help="A dataset of the catalogue.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show what is known about a dataset, its defects included.

    A dataset that is stored here is audited as well.

    Example: mtbench info metafam
    """
    from mtbench import atomic, catalog, store
    from mtbench.audit import audit
    from mtbench.datasets import load

    record = catalog.record(name)
    directory = store.cached(record)
    stored = "" if atomic.is_free(directory) else str(directory)
    found = audit(load(record.id)) if stored else None
    counts = _counts(record)
    hashes = [(part, declared.triples, declared.content_sha256) for part, declared in record.parts.items()]
    if as_json:
        say_json(
            {
                "name": record.id,
                "title": record.title,
                "version": record.version,
                "summary": record.summary,
                "builder": record.builder,
                "aliases": list(record.aliases),
                "licence": record.licence,
                "citation": record.citation,
                "stored": stored or None,
                "splits": records(COUNTS, counts),
                "parts": records(HASHES, hashes),
                "parameters": dict(record.parameters),
                "sources": [vars(source) for source in record.sources],
                "defects": list(record.defects),
                "audit": found and found.to_dict(),
            }
        )
        return
    say(f"{record.title} ({record.id}, version {record.version})\n{record.summary}\n")
    say(f"Licence: {record.licence}")
    say(f"Aliases: {', '.join(record.aliases) or 'none'}")
    say(f"Stored:  {stored or f'not yet (mtbench {_verb(record)} {record.id})'}\n")
    say_table(COUNTS, counts)
    say("\nvalid shares the graph of train.\n")
    say_table(HASHES, hashes)
    if record.parameters:
        say(f"\nParameters of the builder {record.builder}, and the values that give the release\n")
        say_table(PARAMETERS, [(key, _literal(value)) for key, value in record.parameters.items()])
    if record.sources:
        say("\nPublished files")
        for source in record.sources:
            say(f"  {source.part}: {source.url}\n    {source.bytes} bytes, SHA-256 {source.sha256}")
            for mirror in source.mirrors:
                say(f"    also {mirror}")
    say("\nKnown defects" if record.defects else "\nKnown defects: none")
    for defect in record.defects:
        say(f"  - {defect}")
    if found is not None:
        say(f"\nWhat its triples show (mtbench audit {record.id} has the figures)")
        for sentence in found.findings:
            say(f"  - {sentence}")
    say(f"\nCite it with: mtbench cite {record.id}")


def _counts(record: Record) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for split, graph_of in (("train", "train"), ("valid", "train"), ("test", "test")):
        graph = record.graphs[graph_of]
        targets = record.parts.get(f"{split}/targets")
        triples = record.parts[f"{graph_of}/graph"].triples
        targets_count = 0 if targets is None else targets.triples
        rows.append((split, graph.entities, graph.relations, graph.relation_slots, triples, targets_count))
    return rows


def _verb(record: Record) -> str:
    from mtbench.build import RELEASE

    return "fetch" if record.builder == RELEASE else "build"


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else '""'
