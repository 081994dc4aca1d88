"""The catalogue: one declared record per dataset, read from TOML and checked field by field."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, get_type_hints

from mtbench.errors import DatasetError, UnknownNameError

Parameter: TypeAlias = int | float | str | bool
Row = TypeVar("Row", "Source", "Graph", "Part")
_TEXTS = ("id", "title", "version", "builder", "summary", "licence", "citation")


@dataclass(frozen=True)
class Source:
    """A published file: where it is, its size and the SHA-256 of its bytes."""

    part: str
    url: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Graph:
    """The counts of one graph; ``relation_slots`` is the size of its published dictionary."""

    entities: int
    relations: int
    relation_slots: int


@dataclass(frozen=True)
class Part:
    """One set of triples of the release: how many, and their content hash."""

    triples: int
    content_sha256: str


@dataclass(frozen=True)
class Record:
    """Everything declared about one dataset.

    ``graphs`` has the keys ``train`` and ``test``; ``parts`` the keys ``train/graph``,
    ``valid/targets``, ``test/graph`` and ``test/targets``; ``candidates`` maps
    ``split/protocol/vocabulary/seed`` to the hash of the frozen candidates; ``parameters`` are the
    builder's, with the values that give the release.
    """

    id: str
    title: str
    version: str
    builder: str
    summary: str
    licence: str
    citation: str
    aliases: tuple[str, ...]
    defects: tuple[str, ...]
    graphs: Mapping[str, Graph]
    parts: Mapping[str, Part]
    sources: tuple[Source, ...]
    parameters: Mapping[str, Parameter]
    candidates: Mapping[str, str]


def names() -> list[str]:
    """Return the ids of all datasets, sorted."""
    return sorted(_records())


def record(name: str) -> Record:
    """Return the record of a dataset by id or alias; an unknown name raises `UnknownNameError`."""
    records = _records()
    found = records.get(name) or _aliases().get(name.casefold())
    if found is None:
        raise UnknownNameError("dataset", name, [*records, *_aliases()])
    return found


@cache
def _records() -> Mapping[str, Record]:
    folder = resources.files("mtbench") / "catalog"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    records = [parse(file.read_text(encoding="utf-8"), file.name) for file in files]
    return MappingProxyType({found.id: found for found in records})


@cache
def _aliases() -> Mapping[str, Record]:
    return MappingProxyType(
        {alias.casefold(): found for found in _records().values() for alias in (found.id, *found.aliases)}
    )


def parse(text: str, where: str) -> Record:
    """Read a record from TOML; an unknown, missing or mistyped key raises `DatasetError` naming ``where``."""
    table = tomllib.loads(text)
    _expect_keys(table, Record, where)
    _expect_types(
        table,
        dict.fromkeys(_TEXTS, str)
        | dict.fromkeys(("aliases", "defects", "sources"), list)
        | dict.fromkeys(("graphs", "parts", "parameters", "candidates"), dict),
        where,
    )
    return Record(
        **{key: table[key] for key in _TEXTS},
        aliases=tuple(table["aliases"]),
        defects=tuple(table["defects"]),
        graphs={key: _row(Graph, value, f"{where}: graphs.{key}") for key, value in table["graphs"].items()},
        parts={key: _row(Part, value, f"{where}: parts.{key}") for key, value in table["parts"].items()},
        sources=tuple(_row(Source, value, f"{where}: sources") for value in table["sources"]),
        parameters=MappingProxyType(table["parameters"]),
        candidates=MappingProxyType(table["candidates"]),
    )


def _row(kind: type[Row], table: dict[str, Any], where: str) -> Row:
    _expect_keys(table, kind, where)
    _expect_types(table, get_type_hints(kind), where)
    return kind(**table)


def _expect_keys(table: Mapping[str, object], kind: type, where: str) -> None:
    expected = {declared.name for declared in fields(kind)}
    for key in table.keys() - expected:
        raise DatasetError(f"{where}: {UnknownNameError('key', key, expected)}")
    if missing := sorted(expected - table.keys()):
        raise DatasetError(f"{where}: missing {', '.join(missing)}")


def _expect_types(table: Mapping[str, object], types: Mapping[str, type], where: str) -> None:
    for key, kind in types.items():
        if type(table[key]) is not kind:
            raise DatasetError(f"{where}: {key} must be {kind.__name__}, not {table[key]!r}")
