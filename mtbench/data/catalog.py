"""The catalogue: one declared record per dataset, read from TOML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import TypeAlias

from mtbench.errors import DatasetError, UnknownNameError, nearest
from mtbench.files.schema import read_toml

Parameter: TypeAlias = int | float | str | bool


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
    ``valid/targets``, ``test/graph`` and ``test/targets``; ``tasks``, where relations have ground-truth tasks, maps
    the keys of ``graphs`` to the hash of these labels (`mtbench.data.splits.Split.tasks_sha256`); ``candidates`` maps
    ``split/protocol/vocabulary/seed`` to the hash of the frozen candidates, and ``baselines`` some of these names
    to the metrics of every heuristic baseline, in the order of `mtbench.names.METRICS`; ``parameters`` are the
    builder's, with the values that give the release. ``recipe`` is the place of the function that makes the
    dataset (`mtbench.data.building.Recipe`), ``raw`` that of the way to make it anew of raw files, if there is
    one. ``generated`` says that the package makes its entities and triples up, so that they may be published;
    ``clusters`` which targets are not independent of each other (`mtbench.analysis.clusters`).
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
    baselines: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    recipe: str = "mtbench.builders.release:build"
    raw: str = ""
    generated: bool = False
    clusters: str = "pair"


def names() -> list[str]:
    """Return the ids of all datasets, sorted."""
    return sorted(_records())


def record(name: str) -> Record:
    """Return the record of a dataset by id or alias; an unknown name raises `UnknownNameError`."""
    if (found := find(name)) is None:
        raise UnknownNameError("dataset", name, choices(name))
    return found


def find(name: str) -> Record | None:
    """Return the record of a dataset by id or alias, None where there is none."""
    return _records().get(name) or _aliases().get(name.casefold())


def generated() -> list[str]:
    """Return the ids of the datasets that the package makes up, whose relations have ground-truth tasks, sorted."""
    return [name for name in names() if record(name).generated]


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
    found = read_toml(text, Record, where)
    return replace(found, parameters=MappingProxyType(found.parameters), candidates=MappingProxyType(found.candidates))
