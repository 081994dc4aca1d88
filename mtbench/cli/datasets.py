"""``mtbench list``, ``info``, ``fetch`` and ``export``: the catalogue and its files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mtbench.analysis.auditing import audit
from mtbench.cli import options
from mtbench.cli.options import All, Names, chosen
from mtbench.cli.output import AsJson, Cell, fail, records, say, say_json, say_table
from mtbench.data import catalog, downloads, store
from mtbench.data.catalog import Record
from mtbench.data.loading import RELEASE, keep, load, locate
from mtbench.data.splits import Dataset
from mtbench.errors import MtbenchError, UsageError, typed
from mtbench.export.writers import write
from mtbench.files import atomic

# Programs read the keys of --json, which stay as they are; people read the paper's words.
LIST_KEYS = ("Name", "Group", "Version", "Train triples", "Valid targets", "Test triples", "Test targets", "Stored")
LIST_HEADINGS = (
    "Name",
    "Group",
    "Version",
    "Train graph",
    "Validation triples",
    "Inference graph",
    "Test triples",
    "Stored",
)


def list_datasets(
    group: options.Group = None,
    as_json: AsJson = False,
) -> None:
    """List the datasets of the catalogue.

    Example: mtbench list --json

    Example: mtbench list --group entities+relations
    """
    rows: list[tuple[Cell, ...]] = []
    for record in catalog.records(group or ""):
        parts = (("train", "graph"), ("valid", "targets"), ("test", "graph"), ("test", "targets"))
        stored = not atomic.is_free(store.cached(record))
        counts = (record.part(*part).triples for part in parts)
        rows.append((record.id, record.group, record.version, *counts, stored))
    if as_json:
        say_json(records(LIST_KEYS, rows))
    else:
        say_table(LIST_HEADINGS, rows)


COUNT_KEYS = ("Split", "Entities", "Relation types used", "Relation slots", "Triples", "Targets")
COUNTS = (*COUNT_KEYS[:3], "Relation ids incl. unused", "Graph triples", "Triples to predict")
HASHES = ("Part", "Triples", "Content SHA-256")
PARAMETERS = ("Parameter", "Value")


def info(
    names: options.NamesOrFolders = None,
    every: All = False,
    group: options.Group = None,
    cite: Annotated[bool, typer.Option("--cite", help="Print the BibTeX entries alone, each once.")] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Print the published files alone: address, bytes, hash, place in a mirror.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is known about datasets, their defects included.

    A dataset that is stored here is audited as well. Of a directory, its own counts and hashes are shown. For a machine
    without internet, copy each of the --files to its place in a directory there, and name that directory:
    MTBENCH_MIRROR=DIRECTORY.

    Example: mtbench info metafam

    Example: mtbench info --group entities+relations --cite > references.bib

    Example: mtbench info --all --files --json
    """
    if cite and files:
        raise UsageError("give either --cite or --files")
    if cite or files:
        (_cite if cite else _list_files)(chosen(names, every, group), as_json=as_json)
        return
    asked = options.asked(names, every, group)
    if as_json:
        described = [_described(name) for name in asked]
        say_json(described[0] if len(described) == 1 else described)
        return
    for number, name in enumerate(asked):
        if number:
            say("\n")
        _describe(name)


def _known(name: str) -> tuple[Record, Dataset | None, Path]:
    """Return the record of a dataset, the dataset if it is stored, and the directory where it is or would be."""
    place = locate(name)
    if isinstance(place, Path):
        data = load(place)
        return data.measured(), data, place
    directory = store.cached(place)
    return place, None if atomic.is_free(directory) else load(name), directory


def _described(name: str) -> dict[str, object]:
    record, data, directory = _known(name)
    return {
        "name": record.id,
        "title": record.title,
        "version": record.version,
        "summary": record.summary,
        "builder": record.builder,
        "group": record.group,
        "aliases": list(record.aliases),
        "licence": record.licence,
        "citation": record.citation,
        "stored": str(directory) if data else None,
        "release": data is None or data.is_release,
        "splits": records(COUNT_KEYS, _counts(record)),
        "parts": records(HASHES, _hashes(record)),
        "parameters": dict(record.parameters),
        "sources": [vars(source) for source in record.sources],
        "defects": list(record.defects),
        "audit": audit(data).to_dict() if data else None,
    }


def _describe(name: str) -> None:
    record, data, directory = _known(name)
    verb = "fetch" if record.builder == RELEASE else "build"
    say(f"{record.title} ({record.id}, version {record.version})\n{record.summary}\n")
    say(f"Licence: {record.licence}")
    say(f"Aliases: {', '.join(record.aliases) or 'none'}")
    say(f"Stored:  {f'{directory}{data.caveat}' if data else f'not yet (mtbench {verb} {record.id})'}\n")
    say_table(COUNTS, _counts(record))
    say("\nvalid shares the graph of train.\n")
    say_table(HASHES, _hashes(record))
    if record.parameters:
        say(f"\nParameters of the builder {record.builder}, and the values that give this dataset\n")
        say_table(PARAMETERS, [(key, _literal(value)) for key, value in record.parameters.items()])
    if record.sources:
        say("\nPublished files")
        for source in record.sources:
            say(f"  {source.part}: {source.url}\n    {source.fingerprint}")
            for mirror in source.mirrors:
                say(f"    also {mirror}")
    whose = " of the release" if isinstance(locate(name), Path) and record.builder != "files" else ""
    say(f"\nKnown defects{whose}" if record.defects else "\nKnown defects: none")
    for defect in record.defects:
        say(f"  - {defect}")
    if data is not None:
        say(f"\nWhat its triples show ({typed('audit', name)} has the figures)")
        for sentence in audit(data).findings:
            say(f"  - {sentence}")
    if record.citation:
        say(f"\nCite it as\n\n{record.citation.strip()}")


def _counts(record: Record) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for split in ("train", "valid", "test"):
        triples = (record.part(split, kind).triples for kind in ("graph", "targets"))
        graph = record.graph(split)
        rows.append((split, graph.entities, graph.relations, graph.relation_slots, *triples))
    return rows


def _hashes(record: Record) -> list[tuple[Cell, ...]]:
    return [(part, declared.triples, declared.content_sha256) for part, declared in record.parts.items()]


def _literal(value: object) -> str:
    # As it is written after --set, where True would be a text and nothing at all is hard to see.
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else '""'


def _cite(cited: Sequence[Record], *, as_json: bool) -> None:
    """Print the BibTeX entries of datasets, each entry once."""
    if as_json:
        say_json([{"name": record.id, "licence": record.licence, "entries": _entries(record)} for record in cited])
        return
    # Datasets of the same paper share its entry, which BibTeX refuses to read twice.
    say("\n\n".join(dict.fromkeys(entry for record in cited for entry in _entries(record))))


def _entries(record: Record) -> list[str]:
    return [entry.strip() for entry in re.split(r"\n(?=@)", record.citation.strip())]


FETCH_HEADINGS = ("Name", "Version", "Directory", "Problem")


def fetch(names: Names = None, every: All = False, group: options.Group = None, as_json: AsJson = False) -> None:
    """Download or build datasets, and check them.

    What is stored already is only checked. If a dataset fails, the rest are fetched all the same.

    Example: mtbench fetch wikitopics-mt1/health fbnell

    Example: mtbench fetch --group "one graph"
    """
    rows: list[tuple[Cell, ...]] = []
    for record in chosen(names, every, group):
        directory = str(store.cached(record))
        # Loading does whatever it takes: it downloads or builds, stores, and checks what was stored.
        try:
            keep(record, record.parameters)
        except MtbenchError as error:
            fail(f"{record.id}: {error}")
            rows.append((record.id, record.version, None, str(error)))
        else:
            rows.append((record.id, record.version, directory, None))
            if not as_json:
                say(f"{record.id} {record.version} is stored in {directory}")
    if as_json:
        say_json(records(FETCH_HEADINGS, rows))
    if any(problem for *_, problem in rows):
        raise typer.Exit(1)


FILE_HEADINGS = ("Bytes", "SHA256", "URL", "Place")


def _list_files(published: Sequence[Record], *, as_json: bool) -> None:
    """Print the published files of datasets, each once, with their places in a mirror."""
    # Variants of a dataset share their archives: by hash, each is listed once.
    files = {source.hash: source for record in published for source in record.sources}
    rows: list[tuple[Cell, ...]] = [
        (source.bytes, source.sha256 or source.fingerprint, source.url, downloads.place(source.url))
        for source in files.values()
    ]
    if as_json:
        say_json(
            [
                {**row, "mirrors": list(source.mirrors)}
                for row, source in zip(records(FILE_HEADINGS, rows), files.values(), strict=True)
            ]
        )
        return
    say_table(FILE_HEADINGS, rows)
    total = sum(source.bytes for source in files.values())
    say(f"\n{len(rows)} files, {total:,} bytes; MTBENCH_MIRROR=DIRECTORY finds them at their places in DIRECTORY")


def export(
    name: options.Dataset,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The directory to write.")],
    format: Annotated[  # noqa: A002
        str,
        typer.Option(
            help="tsv: the published train.txt, valid.txt, msg.txt and test.txt. npz: ids and names for NumPy. pyg: "
            "tensors for PyTorch Geometric. huggingface: Parquet and a dataset card. croissant: Parquet and JSON-LD. "
            "record: the counts and hashes of a record of the catalogue."
        ),
    ] = "tsv",
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is there already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a dataset in another file format.

    Example: mtbench export metafam --format tsv --out metafam-tsv

    Example: mtbench export metafam --format huggingface --out metafam-hf
    """
    files = write(load(name), out, format, force=force)
    if as_json:
        say_json([{"file": str(file), "bytes": file.stat().st_size} for file in files])
    else:
        for file in files:
            say(str(file))
