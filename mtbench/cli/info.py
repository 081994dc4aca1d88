"""``mtbench info``: everything the catalogue declares about one dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, Cell, records, say, say_json, say_table

if TYPE_CHECKING:
    from mtbench.data.catalog import Record
    from mtbench.data.splits import Dataset

COUNTS = ("Split", "Entities", "Relation types used", "Relation slots", "Triples", "Targets")
HASHES = ("Part", "Triples", "Content SHA-256")
PARAMETERS = ("Parameter", "Value")


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", autocompletion=completion.datasets, help="A dataset, or a directory made by build."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show what is known about a dataset, its defects included.

    A dataset that is stored here is audited as well. Of a directory, its own counts and hashes are shown.

    Example: mtbench info metafam
    """
    from mtbench.auditing.audit import audit
    from mtbench.data import catalog, store
    from mtbench.data.load import directory_given, load
    from mtbench.files import atomic

    given = directory_given(name)
    directory = given or store.cached(catalog.record(name))
    data = None if atomic.is_free(directory) else load(given or name)
    record = _measured(data) if data and given else catalog.record(name)
    stored, found = str(directory) if data else "", audit(data) if data else None
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
        say(f"\nParameters of the builder {record.builder}, and the values that give this dataset\n")
        say_table(PARAMETERS, [(key, _literal(value)) for key, value in record.parameters.items()])
    if record.sources:
        say("\nPublished files")
        for source in record.sources:
            say(f"  {source.part}: {source.url}\n    {source.bytes} bytes, SHA-256 {source.sha256}")
            for mirror in source.mirrors:
                say(f"    also {mirror}")
    whose = " of the release" if given else ""
    say(f"\nKnown defects{whose}" if record.defects else "\nKnown defects: none")
    for defect in record.defects:
        say(f"  - {defect}")
    if found is not None:
        say(f"\nWhat its triples show (mtbench audit {name} has the figures)")
        for sentence in found.findings:
            say(f"  - {sentence}")
    say(f"\nCite it with: mtbench cite {record.id}")


def _measured(data: Dataset) -> Record:
    """Return the record of a dataset in a directory: that it was built by, with counts and hashes of its own."""
    from mtbench.data.catalog import Graph, Part
    from mtbench.files.hashing import content_hash

    splits = {"train": data.train, "test": data.test}
    parts = {
        "train/graph": (data.train, data.train.graph),
        "valid/targets": (data.valid, data.valid.targets),
        "test/graph": (data.test, data.test.graph),
        "test/targets": (data.test, data.test.targets),
    }
    return replace(
        data.info,
        id=data.name,
        version=data.version,
        aliases=(),
        graphs={key: Graph(one.num_entities, one.num_relations, one.relation_slots) for key, one in splits.items()},
        parts={key: Part(len(rows), content_hash(one.named(rows))) for key, (one, rows) in parts.items()},
        parameters=data.parameters,
        sources=(),
        candidates={},
    )


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
    from mtbench.data.building import RELEASE

    return "fetch" if record.builder == RELEASE else "build"


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else '""'
