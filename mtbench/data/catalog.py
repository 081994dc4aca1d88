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
from mtbench.files.hashing import CONTENT_HASH_OF_NOTHING, split_hash
from mtbench.files.schema import read_toml

Parameter: TypeAlias = int | float | str | bool

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "entities+relations": "the graphs of the field whose entities and relation types are new in the test graph",
        "entities": "the graphs of the field whose entities alone are new in the test graph",
        "one graph": "the graphs of the field whose test graph is the training graph",
        "others": "variants of ours and pairs that no mean of the field is over",
    }
)
"""What a dataset is for: the first three are compared by the mean over their graphs."""


@dataclass(frozen=True)
class Source:
    """A published file: where it is, its size and the SHA-256 of its bytes.

    ``mirrors`` are other addresses of the very same bytes, asked when ``url`` fails. ``member`` is the file of an
    archive that is meant, and ``columns`` what stands in the columns of each line. Where nobody has seen the file,
    ``bytes`` is 0 and ``sha256`` empty, and ``git_blob`` is the hash that git has of it.
    """

    part: str
    url: str
    bytes: int
    sha256: str
    mirrors: tuple[str, ...] = ()
    member: str = ""
    columns: tuple[str, ...] = ("head", "relation", "tail")
    git_blob: str = ""

    @property
    def hash(self) -> str:
        """The hash that the file is known and kept by: its SHA-256, or git's."""
        return self.sha256 or self.git_blob

    @property
    def fingerprint(self) -> str:
        """What is known of its bytes, in words."""
        return f"{self.bytes} bytes, SHA-256 {self.sha256}" if self.sha256 else f"git blob {self.git_blob}"

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
    """One set of triples of the release: how many, and their content hash, empty where nobody has seen the file."""

    triples: int
    content_sha256: str


@dataclass(frozen=True)
class Record:
    """Everything declared about one dataset.

    ``group`` is the question it answers, one of `GROUPS`. ``graphs`` has the keys ``train`` and ``test``; ``parts``
    the keys ``train/graph``, ``test/graph`` and ``test/targets``, and ``valid/targets``, ``valid/known`` and
    ``test/known`` where there are any (`mtbench.data.splits.Split.known`); ``tasks``, where relations have ground-truth
    tasks, maps the keys of ``graphs`` to the hash of these labels (`mtbench.data.splits.Split.tasks_sha256`);
    ``candidates`` maps ``split/protocol/vocabulary/seed`` to the hash of the frozen candidates, and ``baselines`` some
    of these names to the metrics of every heuristic baseline, in the order of `mtbench.names.METRICS`; ``parameters``
    are the builder's, with the values that give the release. ``recipe`` is the place of the function that makes the
    dataset (`mtbench.data.loading.Recipe`), ``raw`` that of the way to make it anew of raw files, if there is one.
    ``generated`` says that the package makes its entities and triples up, so that they may be published; ``clusters``
    which targets are not independent of each other (`mtbench.analysis.clusters`).
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
    group: str = ""

    def graph(self, split: str) -> Graph:
        """Return the counts of the graph of a split; validation shares that of training."""
        return self.graphs["test" if split == "test" else "train"]

    def part(self, split: str, kind: str) -> Part:
        """Return what is declared of the ``graph``, the ``targets`` or the ``known`` triples of a split, maybe none."""
        key = "train/graph" if (split, kind) == ("valid", "graph") else f"{split}/{kind}"
        return self.parts.get(key, Part(0, CONTENT_HASH_OF_NOTHING))

    def content_sha256(self, split: str) -> str:
        """Return the hash that the split of the release has (`mtbench.data.splits.Split.content_sha256`)."""
        graph, targets, known = (self.part(split, kind).content_sha256 for kind in ("graph", "targets", "known"))
        return split_hash(graph, targets, self.graph(split).relation_slots, known)

    def baselines_of(self, key: str) -> dict[str, dict[str, float]]:
        """Return the metrics by name of each heuristic baseline published under a key, see `candidates`."""
        from mtbench.names import METRICS  # which brings NumPy, and the catalogue is read for every --help

        rows = self.baselines.get(key, {})
        return {baseline: dict(zip(METRICS, values, strict=True)) for baseline, values in rows.items()}


def canonical_group(name: str) -> str:
    """Return the name in `GROUPS` that is meant, in whatever case, with a dash or an underscore for a blank or not.

    An unknown group raises `UnknownNameError`.
    """
    meant = name.casefold().replace("-", " ").replace("_", " ")
    if meant not in GROUPS:
        raise UnknownNameError("group", name, GROUPS)
    return meant


def names(group: str = "") -> list[str]:
    """Return the ids of all datasets, or of those of a group, sorted; see `canonical_group`."""
    if not group:
        return sorted(_records())
    wanted = canonical_group(group)
    return sorted(name for name, record in _records().items() if record.group == wanted)


def records(group: str = "") -> list[Record]:
    """Return the records of all datasets, or of those of a group, sorted by id; see `names`."""
    return [_records()[name] for name in names(group)]


def record(name: str) -> Record:
    """Return the record of a dataset by id or alias; an unknown name raises `UnknownNameError`."""
    if (found := find(name)) is None:
        raise UnknownNameError("dataset", name, choices(name))
    return found


def find(name: str) -> Record | None:
    """Return the record of a dataset by id or alias, None where there is none."""
    if (exact := by_id(name)) is not None:
        return exact
    files = _records()
    if isinstance(files, _Files) and not files.mention(name):
        return None  # to parse all of them takes .3 s, which every command given a file would pay
    return _aliases().get(name.casefold())


def by_id(name: str) -> Record | None:
    """Return the record of exactly this id, as files name it: no alias, and None where there is none."""
    return _records().get(name)


def generated() -> list[str]:
    """Return the ids of the datasets that the package makes up, whose relations have ground-truth tasks, sorted."""
    return [record.id for record in records() if record.generated]


def same_training(record: Record) -> list[str]:
    """Return the ids of the other datasets with the training graph of a record, by its content or that of its file."""
    wanted = _training(record)
    return [other.id for other in records() if other.id != record.id and _training(other) & wanted]


def _training(record: Record) -> set[str]:
    files = {source.hash for source in record.sources if source.part == "train/graph"}
    return (files | {record.part("train", "graph").content_sha256}) - {"", CONTENT_HASH_OF_NOTHING}


def choices(name: str) -> list[str]:
    """Return the names to propose to somebody who typed ``name``: ids, or aliases where only those look like it."""
    ids, aliases = names(), list(_aliases())
    return ids if nearest(name, ids) or not nearest(name, aliases) else aliases


SCENARIO, FILES = "scenario", "files"
"""The builders of datasets that no catalogue has: drawn from a dump by a scenario file, or read from files."""


def own(builder: str, name: str, parameters: Mapping[str, Parameter], licence: str, citation: str) -> Record:
    """Return what is known beforehand of a dataset of somebody's own, whose only release is the dataset itself.

    ``builder`` is `SCENARIO` or `FILES`. All the rest follows from the ``parameters``, which are stored with the
    dataset, so that it has the same record when it is loaded; its counts and hashes are those of its triples.
    """
    if builder == FILES:
        title, summary = name, f"Triples read from files ({parameters.get('layout')})."
    else:
        title = f"{name}, a scenario of one's own"
        summary = (
            f"Triples of a dump: train on {' and '.join(str(parameters.get('train', '')).split('+'))}, predict in "
            f"{parameters.get('test', '')} ({parameters.get('entities')} entities each, share "
            f"{parameters.get('share')} of the triples hidden, seed {parameters.get('seed')})."
        )
    return Record(
        id=name,
        title=title,
        version="1.0.0",
        builder=builder,
        summary=summary,
        licence=licence,
        citation=citation,
        aliases=(),
        defects=tuple(filter(None, str(parameters.get("notes", "")).split("; "))),
        graphs={},
        parts={},
        sources=(),
        parameters=MappingProxyType(dict(parameters)),
        candidates=MappingProxyType({}),
    )


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

    def mention(self, name: str) -> bool:
        """Tell whether any record has this text in quotes, as it has each of its aliases, in whatever case."""
        quoted = f'"{name}"'.casefold()
        return any(quoted in file.read_text(encoding="utf-8").casefold() for file in self._files.values())

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
