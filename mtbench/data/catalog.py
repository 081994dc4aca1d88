"""The catalogue: one declared record per dataset, read from TOML and checked field by field."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, get_type_hints

from mtbench.errors import DatasetError, UnknownNameError, nearest

Parameter: TypeAlias = int | float | str | bool
Row = TypeVar("Row", "Source", "Graph", "Part")
_TEXTS = ("id", "title", "version", "builder", "summary", "licence", "citation")


@dataclass(frozen=True)
class Source:
    """A published file: where it is, its size and the SHA-256 of its bytes.

    ``mirrors`` are other addresses of the very same bytes, asked when ``url`` fails.
    """

    part: str
    url: str
    bytes: int
    sha256: str
    mirrors: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """Every published address of the file, the preferred one first."""
        return (self.url, *self.mirrors)


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
        raise UnknownNameError("dataset", name, choices(name))
    return found


def choices(name: str) -> list[str]:
    """Return the names to propose to somebody who typed ``name``: ids, or aliases where only those look like it."""
    ids, aliases = names(), list(_aliases())
    return ids if nearest(name, ids) or not nearest(name, aliases) else aliases


class _Files(Mapping[str, Record]):
    """The records by id, each read from ``ID.toml`` when it is first asked for: a load needs one, not all."""

    def __init__(self, folder: Traversable) -> None:
        self._files = dict(sorted(_files(folder)))
        self._read: dict[str, Record] = {}

    def __getitem__(self, name: str) -> Record:
        if name not in self._read:
            found = parse(self._files[name].read_text(encoding="utf-8"), f"{name}.toml")
            if found.id != name:
                raise DatasetError(f"{name}.toml: a record stands in the file of its id, but this id is {found.id!r}")
            self._read[name] = found
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for file in folder.iterdir():
        if file.name.endswith(".toml"):
            yield prefix + file.name.removesuffix(".toml"), file
        elif file.is_dir():
            yield from _files(file, f"{prefix}{file.name}/")


@cache
def _records() -> Mapping[str, Record]:
    return _Files(resources.files("mtbench.data") / "records")


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
        sources=tuple(source(value, f"{where}: sources") for value in table["sources"]),
        parameters=MappingProxyType(table["parameters"]),
        candidates=MappingProxyType(table["candidates"]),
    )


def source(table: dict[str, Any], where: str) -> Source:
    """Read a source from a TOML or JSON table; an unknown, missing or mistyped key raises `DatasetError`."""
    mirrors = table.get("mirrors", ())
    if not isinstance(mirrors, list | tuple) or not all(type(mirror) is str for mirror in mirrors):
        raise DatasetError(f"{where}: mirrors must be addresses, not {mirrors!r}")
    found = _row(Source, {key: value for key, value in table.items() if key != "mirrors"}, where)
    return replace(found, mirrors=tuple(mirrors))


def _row(kind: type[Row], table: dict[str, Any], where: str) -> Row:
    _expect_keys(table, kind, where)
    _expect_types(table, {key: hint for key, hint in get_type_hints(kind).items() if key in table}, where)
    return kind(**table)


def _expect_keys(table: Mapping[str, object], kind: type, where: str) -> None:
    expected = {declared.name: declared.default is MISSING for declared in fields(kind)}
    for key in table.keys() - expected:
        raise DatasetError(f"{where}: {UnknownNameError('key', key, expected)}")
    if missing := sorted(key for key, needed in expected.items() if needed and key not in table):
        raise DatasetError(f"{where}: missing {', '.join(missing)}")


def _expect_types(table: Mapping[str, object], types: Mapping[str, type], where: str) -> None:
    for key, kind in types.items():
        if type(table[key]) is not kind:
            raise DatasetError(f"{where}: {key} must be {kind.__name__}, not {table[key]!r}")
