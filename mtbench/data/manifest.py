"""The manifest of a stored dataset: what it is, its record if no catalogue has it, and the hash of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from mtbench.data.catalog import Graph, Parameter, Part, Record, Source
from mtbench.errors import DatasetError
from mtbench.files.schema import convert

SCHEMA = 1
"""Version of the manifest's layout; a reader refuses a newer one instead of guessing."""


@dataclass(frozen=True)
class StoredFile:
    """The size in bytes and the SHA-256 of one file of the directory."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class StoredPart:
    """One set of triples: how many, their content hash, and the file that holds them.

    ``file`` is empty for the training targets, of which there are none; the validation graph names
    the training graph's file, which is stored once.
    """

    triples: int
    content_sha256: str
    file: str


@dataclass(frozen=True)
class Manifest:
    """Everything known about a stored dataset besides its triples.

    ``record`` is the catalogue's id of the dataset this one is, or is a variant of; ``graphs`` has the
    keys ``train`` and ``test``; ``parts`` the graph and the targets of all three splits
    (``train/graph`` ... ``test/targets``); ``files`` maps paths in the directory to size and hash.
    """

    dataset: str
    version: str
    record: str
    builder: str
    builder_version: str
    parameters: Mapping[str, Parameter]
    graphs: Mapping[str, Graph]
    parts: Mapping[str, StoredPart]
    files: Mapping[str, StoredFile]
    sources: tuple[Source, ...]
    licence: str
    citation: str


def render(manifest: Manifest) -> bytes:
    """Return the manifest as JSON that ends with a hash of itself, so that an edit is noticed."""
    body = {"schema": SCHEMA, **asdict(manifest)}
    text = json.dumps(body | {"manifest_sha256": _own_hash(body)}, ensure_ascii=False, indent=2)
    return f"{text}\n".encode()


def parse(data: bytes, where: str) -> Manifest:
    """Read a manifest from JSON.

    Text that is not a manifest, or not the one that was written, raises `ValueError` with the reason;
    a newer layout raises `DatasetError` naming ``where``.
    """
    try:
        table = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("is not JSON, or nested too deeply") from error
    schema = table.get("schema") if isinstance(table, dict) else None
    if type(schema) is not int:
        raise ValueError("is not a manifest (it has no schema number)")
    if schema > SCHEMA:
        raise DatasetError(
            f"{where}: written by a newer mtbench (manifest schema {schema}, this one reads up to {SCHEMA}): "
            "python -m pip install --upgrade mtbench-kg"
        )
    if table.pop("manifest_sha256", "") != _own_hash(table):
        raise ValueError("was edited (its own hash differs)")
    del table["schema"]
    return convert(table, Manifest, "is not a manifest", ValueError)


def _own_hash(body: Mapping[str, object]) -> str:
    canonical = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


BUILDER = "scenario"
"""The builder that marks such a dataset: its record is not looked up but made by `record`."""


def record(
    name: str,
    version: str,
    licence: str,
    citation: str,
    parameters: Mapping[str, Parameter],
    graphs: Mapping[str, Graph],
    parts: Mapping[str, Part],
) -> Record:
    """Return the record of a scenario's dataset, whose only release is the dataset itself.

    All of it stands in the manifest, so that what is loaded has the record that was stored.
    ``parameters`` are the options of the sample, the topics and properties of ``train`` and ``test``,
    and the SHA-256 of the scenario file; ``graphs`` and ``parts`` have the keys of `Record`.
    """
    train, test = str(parameters.get("train", "")), str(parameters.get("test", ""))
    return _uncatalogued(
        name=name,
        title=f"{name}, a scenario of one's own",
        version=version,
        builder=BUILDER,
        summary=(
            f"Triples of a dump: train on {' and '.join(train.split('+'))}, predict in {test} "
            f"({parameters.get('entities')} entities each, share {parameters.get('share')} of the triples hidden, "
            f"seed {parameters.get('seed')})."
        ),
        licence=licence,
        citation=citation,
        defects=(),
        parameters=parameters,
        graphs=graphs,
        parts=parts,
    )


FILES = "files"
"""The builder that marks a dataset of somebody's own files: its record is made by `of_files`."""


def of_files(
    name: str,
    version: str,
    parameters: Mapping[str, Parameter],
    graphs: Mapping[str, Graph],
    parts: Mapping[str, Part],
) -> Record:
    """Return the record of a dataset read from files: ``parameters`` say in which layout, and what to know of it."""
    return _uncatalogued(
        name=name,
        title=name,
        version=version,
        builder=FILES,
        summary=f"Triples read from files ({parameters.get('layout')}).",
        licence="unknown",
        citation="",
        defects=tuple(note for note in str(parameters.get("notes", "")).split("; ") if note),
        parameters=parameters,
        graphs=graphs,
        parts=parts,
    )


def _uncatalogued(
    *,
    name: str,
    title: str,
    version: str,
    builder: str,
    summary: str,
    licence: str,
    citation: str,
    defects: tuple[str, ...],
    parameters: Mapping[str, Parameter],
    graphs: Mapping[str, Graph],
    parts: Mapping[str, Part],
) -> Record:
    """Return the record of a dataset that is in no catalogue, and whose only release is itself."""
    return Record(
        id=name,
        title=title,
        version=version,
        builder=builder,
        summary=summary,
        licence=licence,
        citation=citation,
        aliases=(),
        defects=defects,
        graphs=graphs,
        parts={key: part for key, part in parts.items() if key not in ("train/targets", "valid/graph")},
        sources=(),
        parameters=MappingProxyType(dict(parameters)),
        candidates=MappingProxyType({}),
    )


def build_arguments(parameters: Mapping[str, Parameter]) -> str:
    """Return the words after ``mtbench build`` that make such a dataset again, the two files left to fill in."""
    options = " ".join(f"--set {key}={parameters[key]}" for key in ("entities", "share") if key in parameters)
    return f"wikitopics --raw DUMP --scenario FILE.toml --seed {parameters.get('seed', 0)} {options}"
