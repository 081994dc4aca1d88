"""Datasets on disk: one directory each, complete or absent, every file checked by its hash when read.

A directory holds a manifest, what the dataset is and the size and hash of each file, and triples and vocabularies as
Parquet: names in dictionary-encoded columns, deterministic bytes, no pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import platformdirs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mtbench.data import catalog
from mtbench.data.catalog import Graph, Parameter, Part, Record, Source
from mtbench.data.splits import Dataset, PartMatch, Split, differences, match_parts, together
from mtbench.errors import CorruptedFileError, DatasetError, MtbenchError
from mtbench.files import atomic
from mtbench.files.formats import encode_table
from mtbench.files.hashing import CONTENT_HASH_OF_NOTHING
from mtbench.files.reading import expanded, opened, read_bytes
from mtbench.files.schema import convert
from mtbench.names import COLUMNS, HEAD, RELATION, TAIL, IntArray, NameArray
from mtbench.version import __version__

Decoded = TypeVar("Decoded")
MANIFEST = "manifest.json"
HOLDERS = {
    "train/graph": "train/graph.parquet",
    "train/targets": "",
    "valid/graph": "train/graph.parquet",
    "valid/targets": "valid/targets.parquet",
    "test/graph": "test/graph.parquet",
    "test/targets": "test/targets.parquet",
    "valid/known": "valid/known.parquet",
    "test/known": "test/known.parquet",
}
"""The file of each part of each split: training has no targets, validation shares its graph."""
OPTIONAL = ("valid/known", "test/known")
"""The parts that are stored only where there are any."""

FILES = (
    *(f"{graph}/{names}.parquet" for graph in ("train", "test") for names in ("entities", "relations")),
    *dict.fromkeys(filter(None, HOLDERS.values())),
)
"""The files beside the manifest; validation shares the vocabulary of training, too."""

SCHEMA = 2
"""Version of the manifest's layout; a reader refuses a newer one instead of guessing. 1 is that without `OPTIONAL`."""


@dataclass(frozen=True)
class StoredFile:
    """The size in bytes and the SHA-256 of one file of the directory."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class StoredPart:
    """One set of triples: how many, their content hash, and the file that holds them (`HOLDERS`)."""

    triples: int
    content_sha256: str
    file: str


@dataclass(frozen=True)
class Manifest:
    """Everything known about a stored dataset besides its triples.

    ``record`` is the catalogue's id of the dataset this one is, or is a variant of; ``graphs`` has the
    keys ``train`` and ``test``; ``parts`` those of `HOLDERS`; ``files`` maps paths in the directory to size and hash.
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

    @property
    def info(self) -> Record:
        """The record that the stored dataset is, or is a variant of; one's own dataset is the release of itself."""
        if self.builder not in (catalog.SCENARIO, catalog.FILES):
            return catalog.record(self.record)
        made = catalog.own(self.builder, self.record, self.parameters, self.licence, self.citation)
        return self.declared(replace(made, version=self.version))

    def declared(self, record: Record) -> Record:
        """Return a record with the counts and the hashes that the manifest gives."""
        shared = ("train/targets", "valid/graph")
        parts = {key: Part(one.triples, one.content_sha256) for key, one in self.parts.items() if key not in shared}
        return replace(record, graphs=self.graphs, parts=parts)


def render(manifest: Manifest) -> bytes:
    """Return the manifest as JSON that ends with a hash of itself, so that an edit is noticed."""
    body = {"schema": SCHEMA if manifest.parts.keys() & set(OPTIONAL) else 1, **asdict(manifest)}
    # A version that does not know the later keys of a source can read what does not need them.
    later = {field.name: field.default for field in fields(Source) if field.name in ("member", "columns", "git_blob")}
    body["sources"] = [
        {key: value for key, value in source.items() if key not in later or value != later[key]}
        for source in body["sources"]
    ]
    text = json.dumps(body | {"manifest_sha256": own_hash(body)}, ensure_ascii=False, indent=2)
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
    if table.pop("manifest_sha256", "") != own_hash(table):
        raise ValueError("was edited (its own hash differs)")
    del table["schema"]
    return convert(table, Manifest, "is not a manifest", ValueError)


def own_hash(body: Mapping[str, object]) -> str:
    """Return the SHA-256 that a manifest of this content holds of itself."""
    canonical = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def cache_root() -> Path:
    """Return the folder of everything kept between runs: ``MTBENCH_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("MTBENCH_CACHE", "")
    return expanded(chosen).absolute() if chosen else platformdirs.user_cache_path("mtbench")


def cached(record: Record) -> Path:
    """Return the directory of a catalogued dataset in the cache, whether it exists or not."""
    return cache_root() / "datasets" / record.id / record.version


def is_stored(directory: Path) -> bool:
    """Tell whether a directory holds anything of a dataset that was stored, however much of it is missing."""
    return any((directory / name).exists() for name in (MANIFEST, *FILES))


def expect_replaceable(directory: Path) -> None:
    """Raise `UsageError` if a directory holds other files than those of a stored dataset."""
    atomic.expect_replaceable(directory, (MANIFEST, *FILES))


def mend(arguments: str, directory: Path | None = None) -> str:
    """Return the command that builds a dataset again, into the cache or into ``directory``."""
    place = "" if directory is None else f" --out {shlex.quote(str(directory))}"
    return f"mtbench build {arguments}{place} --force"


def obtain(
    directory: Path, make: Callable[[], Dataset], *, force: bool = False, release: Record | None = None
) -> Dataset:
    """Return the dataset of a directory, made and stored first where it is absent or ``force`` says so.

    Processes that want the same directory take turns: the first makes it, the others wait and read
    it. With ``force`` the old dataset stays in place until the new one is complete; whatever fails,
    the directory is afterwards what it was before. A full or read-only disk raises `MtbenchError`,
    but what it holds already is read. For ``release`` and what else is raised see `read`.
    """
    with ExitStack() as held:
        try:
            held.enter_context(atomic.locked(directory))
        except MtbenchError:
            # What cannot be written is not replaced while it is read, either.
            if force or atomic.is_free(directory):
                raise
        if not (force or atomic.is_free(directory)):
            return read(directory, release)
        dataset = make()
        atomic.replace_directory(directory, encode(dataset))
        return dataset


def encode(dataset: Dataset) -> dict[str, bytes]:
    """Return the files of a dataset directory, path to bytes: the same bytes for the same dataset.

    Raises `DatasetError` where the three splits do not fit together.
    """
    _expect_consistent(dataset)
    files: dict[str, bytes] = {}
    for split in (dataset.train, dataset.test):
        files[f"{split.name}/entities.parquet"] = encode_names("entity", split.entities)
        files[f"{split.name}/relations.parquet"] = encode_names("relation", split.relations, split.tasks)
        files[f"{split.name}/graph.parquet"] = encode_triples(split.graph, split.entities, split.relations)
    for split in (dataset.valid, dataset.test):
        files[f"{split.name}/targets.parquet"] = encode_triples(split.targets, split.entities, split.relations)
        if len(split.known):
            files[f"{split.name}/known.parquet"] = encode_triples(split.known, split.entities, split.relations)
    record, made = dataset.info, dataset.measured()
    stored = [key for key in HOLDERS if key not in OPTIONAL or key in made.parts]
    every = {key: made.part(*key.split("/")) for key in stored}
    manifest = Manifest(
        dataset=dataset.name,
        version=dataset.version,
        record=record.id,
        builder=record.builder,
        builder_version=__version__,
        parameters=made.parameters,
        graphs=made.graphs,
        parts={key: StoredPart(part.triples, part.content_sha256, HOLDERS[key]) for key, part in every.items()},
        files={name: StoredFile(len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()},
        sources=record.sources if made.parameters == dict(record.parameters) else (),
        licence=record.licence,
        citation=record.citation,
    )
    return {**files, MANIFEST: render(manifest)}


def _expect_consistent(dataset: Dataset) -> None:
    train, valid = dataset.train, dataset.valid
    if len(train.targets) + len(train.known):
        raise DatasetError(
            f"{dataset.name}: train has {len(train.targets)} targets and {len(train.known)} triples known besides; "
            "training has none"
        )
    same = (
        np.array_equal(train.graph, valid.graph)
        and np.array_equal(train.entities, valid.entities)
        and np.array_equal(train.relations, valid.relations)
        and train.relation_slots == valid.relation_slots
        and dict(train.tasks) == dict(valid.tasks)
    )
    if not same:
        raise DatasetError(f"{dataset.name}: valid must have the graph and the vocabulary of train")
    for split in (train, dataset.test):
        for names, kind in ((split.entities, "entities"), (split.relations, "relations")):
            check_vocabulary(names, f"{dataset.name} {split.name} {kind}")
        if unknown := sorted(split.tasks.keys() - set(split.relations.tolist())):
            raise DatasetError(f"{dataset.name} {split.name}: tasks of unknown relations {', '.join(unknown)}")


def read(directory: Path, release: Record | None = None) -> Dataset:
    """Return the dataset stored in a directory.

    Every file is compared with the manifest by size and SHA-256 before it is used: a missing,
    truncated or edited one raises `CorruptedFileError` that names it and ends in the command that mends it. So does a
    dataset that is not the ``release`` that it should be, or that its manifest says it is, whatever the hashes of its
    files.
    """
    manifest = read_manifest(directory, release)
    info = manifest.info
    remedy = mending(directory, release)

    def decoded(name: str, decode: Callable[..., Decoded], *vocabulary: str | NameArray) -> Decoded:
        data = _checked_bytes(directory / f"{name}.parquet", manifest.files[f"{name}.parquet"], remedy)
        try:
            return decode(data, *vocabulary)
        except ValueError as error:
            raise CorruptedFileError(f"{directory / name}.parquet {error}: {remedy}") from error

    splits: list[Split] = []
    for name, targets in (("train", "valid"), ("test", "test")):
        entities, _ = decoded(f"{name}/entities", decode_names, "entity")
        relations, tasks = decoded(f"{name}/relations", decode_names, "relation")
        counted = manifest.graphs[name]
        if (len(entities), len(relations)) != (counted.entities, counted.relations):
            raise CorruptedFileError(f"{directory / MANIFEST} counts other entities or relations of {name}: {remedy}")
        besides = f"{targets}/known" in manifest.parts
        known = {"known": decoded(f"{targets}/known", decode_triples, entities, relations)} if besides else {}
        splits.append(
            Split(
                dataset=manifest.dataset,
                name="test",
                graph=decoded(f"{name}/graph", decode_triples, entities, relations),
                targets=decoded(f"{targets}/targets", decode_triples, entities, relations),
                entities=entities,
                relations=relations,
                relation_slots=counted.relation_slots,
                tasks=tasks,
                **known,
            )
        )
    dataset = replace(
        together(info, manifest.dataset, splits[0], splits[1], manifest.parameters), version=manifest.version
    )
    # What another version of the package made, or other parameters, is not said to be today's release.
    claimed = (manifest.version, dict(manifest.parameters)) == (info.version, dict(info.parameters))
    if release is None and claimed and catalog.by_id(manifest.dataset) is info:
        release = info
    if release is not None and (differing := differences(dataset, release)):
        raise CorruptedFileError(
            f"{directory} holds {dataset.name} {dataset.version}, which is not the catalogue's release of {release.id} "
            f"({', '.join(differing)} differ): {remedy}"
        )
    return dataset


def verify(directory: Path, release: Record | None = None) -> list[PartMatch]:
    """Read a stored dataset, recompute its content hashes and return them beside the manifest's.

    Files that differ from the manifest raise `CorruptedFileError`, as in `read`.
    """
    data, manifest = read(directory, release), read_manifest(directory, release)
    return match_parts(data, manifest.declared(data.info))


def read_manifest(directory: Path, release: Record | None = None) -> Manifest:
    """Return the manifest of a dataset directory.

    A missing, garbled or edited manifest raises `CorruptedFileError` that ends in the command that mends it; one
    written by a newer version raises `DatasetError`.
    """
    remedy = mend("NAME", directory) if release is None else mend(release.id)
    path = directory / MANIFEST
    try:
        manifest = parse(read_bytes(path), str(path))
    except FileNotFoundError as error:
        raise CorruptedFileError(f"{path} is missing: {remedy}") from error
    except OSError as error:
        raise CorruptedFileError(f"{path} cannot be read, {error.strerror or error}: {remedy}") from error
    except ValueError as error:
        raise CorruptedFileError(f"{path} {error}: {remedy}") from error
    parts = manifest.parts
    absent = {key for key in OPTIONAL if key not in parts}
    files, keys = set(FILES) - {HOLDERS[key] for key in absent}, HOLDERS.keys() - absent
    if (set(manifest.files), set(manifest.graphs), set(parts)) != (files, {"train", "test"}, keys) or (
        replace(parts["valid/graph"], file="") != replace(parts["train/graph"], file="")
        or (parts["train/targets"].triples, parts["train/targets"].content_sha256) != (0, CONTENT_HASH_OF_NOTHING)
    ):
        raise CorruptedFileError(f"{path} lists other files, graphs or parts than a dataset has: {remedy}")
    return manifest


def mending(directory: Path, release: Record | None = None) -> str:
    """Return the command that makes a dataset again, the files it was made of left to fill in; see `read_manifest`."""
    if release is not None:
        return mend(release.id)
    manifest = read_manifest(directory)
    record, values = manifest.info, manifest.parameters
    if manifest.builder == catalog.FILES:
        return f"mtbench import FOLDER --out {shlex.quote(str(directory))} --force"
    if manifest.builder == catalog.SCENARIO:
        size = " ".join(f"--set {key}={values[key]}" for key in ("entities", "share") if key in values)
        arguments = f"wikitopics --raw DUMP --scenario FILE.toml --seed {values.get('seed', 0)} {size}"
        # The datasets of a scenario file lie in folders of their names, below the directory they were built into.
        depth, above = len(Path(record.id).parts), directory.absolute().parents
        return mend(arguments, above[depth - 1] if len(above) >= depth else directory)
    changed = {key: value for key, value in values.items() if record.parameters.get(key) != value}
    options = [f"--seed {value}" if key == "seed" else f"--set {key}={value}" for key, value in changed.items()]
    return mend(" ".join([record.id, *options]), directory)


def _checked_bytes(path: Path, expected: StoredFile, remedy: str) -> pa.Buffer:
    """Return the bytes of a file, mapped into memory, once its size and hash are those of the manifest."""
    try:
        with opened(path) as there:
            size = os.fstat(there.fileno()).st_size
        if size == expected.bytes:
            with pa.memory_map(str(path)) as stream:
                data = stream.read_buffer()
    except FileNotFoundError as error:
        raise CorruptedFileError(f"{path} is missing: {remedy}") from error
    except OSError as error:
        raise CorruptedFileError(f"{path} cannot be read, {error.strerror or error}: {remedy}") from error
    if size != expected.bytes:
        reason = "is truncated" if size < expected.bytes else "has grown"
        raise CorruptedFileError(f"{path} {reason} ({size} of {expected.bytes} bytes): {remedy}")
    if hashlib.sha256(data).hexdigest() != expected.sha256:
        raise CorruptedFileError(f"{path} was edited (its SHA-256 differs from the manifest): {remedy}")
    return data


def encode_triples(triples: IntArray, entities: NameArray, relations: NameArray) -> bytes:
    """Return triples of ids ``(n, 3)`` as a Parquet file with the columns head, relation, tail.

    Each column is a dictionary-encoded string whose dictionary is the whole vocabulary, so that any
    reader sees names and no reader needs a second file. Rows keep their order.
    """
    vocabularies = {HEAD: entities, RELATION: relations, TAIL: entities}
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(triples[:, column], type=pa.int32()), _strings(names))
        for column, names in vocabularies.items()
    ]
    return encode_table(pa.table(columns, names=list(COLUMNS)))


def decode_triples(data: pa.Buffer, entities: NameArray, relations: NameArray) -> IntArray:
    """Return the triples of a Parquet file as ids ``(n, 3)`` of the given vocabularies.

    Names are looked up, never dictionary codes: a writer may have reordered, split or dropped the
    dictionaries. A missing column, an empty cell or a name outside the vocabulary raises `ValueError`.
    """
    table = _table(data, COLUMNS)
    known_entities, known_relations = _strings(entities), _strings(relations)
    vocabularies = {HEAD: known_entities, RELATION: known_relations, TAIL: known_entities}
    triples = np.empty((table.num_rows, 3), dtype=np.int64)
    for column, known in vocabularies.items():
        triples[:, column] = _column_ids(table.column(COLUMNS[column]), known, COLUMNS[column])
    return triples


def encode_names(kind: str, names: NameArray, tasks: Mapping[str, str] | None = None) -> bytes:
    """Return a vocabulary as a Parquet file: column ``kind`` in id order, and ``task`` where it is known."""
    columns = {kind: _strings(names)}
    if tasks:
        columns["task"] = pa.array([tasks.get(name) for name in names.tolist()], type=pa.string())
    return encode_table(pa.table(columns))


def decode_names(data: pa.Buffer, kind: str) -> tuple[NameArray, dict[str, str]]:
    """Return a vocabulary and its known tasks; a missing column, an empty name or another order raises `ValueError`."""
    table = _table(data, (kind,))
    names: list[str | None] = table.column(kind).to_pylist()
    if None in names:
        raise ValueError(f"column {kind} has an empty cell")
    labels: list[str | None] = table.column("task").to_pylist() if "task" in table.column_names else [None] * len(names)
    tasks = {str(name): label for name, label in zip(names, labels, strict=True) if label is not None}
    found = np.array(names, dtype=np.str_)
    if (found[:-1] >= found[1:]).any():
        raise ValueError(f"column {kind} is not sorted, or has a name twice")
    return found, tasks


def check_vocabulary(names: NameArray, where: str) -> None:
    """Raise `DatasetError` naming ``where`` unless the names are distinct and sorted, as ids rely on it."""
    unsorted = np.flatnonzero(names[:-1] >= names[1:])
    if len(unsorted):
        first, second = names[unsorted[0]], names[unsorted[0] + 1]
        raise DatasetError(f"{where}: names must be sorted and distinct, but {first!s} precedes {second!s}")


def _table(data: pa.Buffer, columns: tuple[str, ...]) -> pa.Table:
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"is not a Parquet file ({error})") from error
    if missing := [column for column in columns if column not in table.column_names]:
        raise ValueError(f"has no column {', '.join(missing)}")
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError("has a column twice")
    return table


def _strings(names: NameArray) -> pa.StringArray:
    return pa.array(names.tolist(), type=pa.string())


def _column_ids(column: pa.ChunkedArray, known: pa.StringArray, name: str) -> IntArray:
    if column.null_count:
        raise ValueError(f"column {name} has {column.null_count} empty cells")
    found = [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks:
        coded = chunk if isinstance(chunk, pa.DictionaryArray) else chunk.dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        if coded.dictionary.equals(known):
            found.append(codes.astype(np.int64))
            continue
        # Words of the dictionary that no row uses need not be known.
        numbers = pc.fill_null(pc.index_in(coded.dictionary, value_set=known), -1).to_numpy(zero_copy_only=False)
        ids = numbers[codes].astype(np.int64)
        if len(unknown := np.unique(codes[ids < 0])):
            first = coded.dictionary[int(unknown[0])].as_py()
            raise ValueError(f"column {name} has {len(unknown)} names outside the vocabulary, first {first!r}")
        found.append(ids)
    return np.concatenate(found)
