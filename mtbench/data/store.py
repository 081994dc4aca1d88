"""Datasets on disk: one directory each, complete or absent, every file checked by its hash when read."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import platformdirs
import pyarrow as pa

from mtbench.data import catalog, manifest, parquet
from mtbench.data.catalog import Part, Record
from mtbench.data.manifest import Manifest, StoredFile, StoredPart
from mtbench.data.splits import (
    PARTS,
    SPLIT_NAMES,
    Dataset,
    PartMatch,
    Split,
    all_parts,
    differences,
    match_parts,
    measure,
    together,
)
from mtbench.errors import CorruptedFileError, DatasetError, MtbenchError
from mtbench.files import atomic
from mtbench.names import NameArray
from mtbench.version import __version__

Decoded = TypeVar("Decoded")
MANIFEST = "manifest.json"
FILES = (
    "train/entities.parquet",
    "train/relations.parquet",
    "train/graph.parquet",
    "valid/targets.parquet",
    "test/entities.parquet",
    "test/relations.parquet",
    "test/graph.parquet",
    "test/targets.parquet",
)
"""The files beside the manifest; validation shares the graph and the vocabulary of training."""

GRAPHS = ("train", "test")
ALL_PARTS = tuple(f"{split}/{part}" for split in SPLIT_NAMES for part in PARTS)


def cache_root() -> Path:
    """Return the folder of everything kept between runs: ``MTBENCH_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("MTBENCH_CACHE", "")
    return Path(chosen).expanduser().absolute() if chosen else platformdirs.user_cache_path("mtbench")


def cached(record: Record) -> Path:
    """Return the directory of a catalogued dataset in the cache, whether it exists or not."""
    return cache_root() / "datasets" / record.id / record.version


def is_stored(directory: Path) -> bool:
    """Tell whether a directory holds anything of a dataset that was stored, however much of it is missing."""
    return any((directory / name).exists() for name in (MANIFEST, *FILES))


def mend(arguments: str, directory: Path | None = None) -> str:
    """Return the command that builds a dataset again, into the cache or into ``directory``."""
    place = "" if directory is None else f" --out {shlex.quote(str(directory))}"
    return f"mtbench build {arguments}{place} --force"


def obtain(
    directory: Path,
    make: Callable[[], Dataset],
    *,
    force: bool = False,
    remedy: str = "",
    release: Record | None = None,
) -> Dataset:
    """Return the dataset of a directory, made and stored first where it is absent or ``force`` says so.

    Processes that want the same directory take turns: the first makes it, the others wait and read
    it. With ``force`` the old dataset stays in place until the new one is complete; whatever fails,
    the directory is afterwards what it was before. A full or read-only disk raises `MtbenchError`,
    but what it holds already is read.
    """
    with ExitStack() as held:
        try:
            held.enter_context(atomic.locked(directory))
        except MtbenchError:
            # What cannot be written is not replaced while it is read, either.
            if force or atomic.is_free(directory):
                raise
        if not (force or atomic.is_free(directory)):
            return read(directory, remedy, release)
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
        files[f"{split.name}/entities.parquet"] = parquet.encode_names("entity", split.entities)
        files[f"{split.name}/relations.parquet"] = parquet.encode_names("relation", split.relations, split.tasks)
        files[f"{split.name}/graph.parquet"] = parquet.encode_triples(split.graph, split.entities, split.relations)
    for split in (dataset.valid, dataset.test):
        files[f"{split.name}/targets.parquet"] = parquet.encode_triples(split.targets, split.entities, split.relations)
    return {**files, MANIFEST: manifest.render(_describe(dataset, files))}


def read(directory: Path, remedy: str = "", release: Record | None = None) -> Dataset:
    """Return the dataset stored in a directory.

    Every file is compared with the manifest by size and SHA-256 before it is used: a missing,
    truncated or edited one raises `CorruptedFileError` that names it and ends in ``remedy``, the
    command that mends it (by default the one that made the directory). So does a dataset that is not the ``release``
    that it should be, or that its manifest says it is, whatever the hashes of its files.
    """
    found = read_manifest(directory, remedy)
    record = _record(found)
    remedy = remedy or _remedy(found, record, directory)

    def decoded(name: str, decode: Callable[..., Decoded], *vocabulary: str | NameArray) -> Decoded:
        data = _checked_bytes(directory / f"{name}.parquet", found.files[f"{name}.parquet"], remedy)
        try:
            return decode(data, *vocabulary)
        except ValueError as error:
            raise CorruptedFileError(f"{directory / name}.parquet {error}: {remedy}") from error

    splits: list[Split] = []
    for name, targets in (("train", "valid"), ("test", "test")):
        entities, _ = decoded(f"{name}/entities", parquet.decode_names, "entity")
        relations, tasks = decoded(f"{name}/relations", parquet.decode_names, "relation")
        splits.append(
            Split(
                dataset=found.dataset,
                name="test",
                graph=decoded(f"{name}/graph", parquet.decode_triples, entities, relations),
                targets=decoded(f"{targets}/targets", parquet.decode_triples, entities, relations),
                entities=entities,
                relations=relations,
                relation_slots=found.graphs[name].relation_slots,
                tasks=tasks,
            )
        )
    dataset = replace(together(record, found.dataset, splits[0], splits[1], found.parameters), version=found.version)
    if release is None and catalog.find(found.dataset) is record:
        # What another version of the package made, or other parameters, is not said to be today's release.
        claimed = found.version == record.version and dict(found.parameters) == dict(record.parameters)
        release = record if claimed else None
    if release is not None and (differing := differences(dataset, release)):
        raise CorruptedFileError(
            f"{directory} holds {dataset.name} {dataset.version}, which is not the catalogue's release of {release.id} "
            f"({', '.join(differing)} differ): {remedy}"
        )
    return dataset


def read_manifest(directory: Path, remedy: str = "") -> Manifest:
    """Return the manifest of a dataset directory.

    A missing, garbled or edited manifest raises `CorruptedFileError` ending in ``remedy``, the command
    that mends it; one written by a newer version raises `DatasetError`.
    """
    remedy = remedy or mend("NAME", directory)
    path = directory / MANIFEST
    try:
        found = manifest.parse(path.read_bytes(), str(path))
    except FileNotFoundError as error:
        raise CorruptedFileError(f"{path} is missing: {remedy}") from error
    except OSError as error:
        raise CorruptedFileError(f"{path} cannot be read, {error.strerror or error}: {remedy}") from error
    except ValueError as error:
        raise CorruptedFileError(f"{path} {error}: {remedy}") from error
    if (set(found.files), set(found.graphs), set(found.parts)) != (set(FILES), {*GRAPHS}, {*ALL_PARTS}):
        raise CorruptedFileError(f"{path} lists other files, graphs or parts than a dataset has: {remedy}")
    return found


def verify(directory: Path, remedy: str = "", release: Record | None = None) -> list[PartMatch]:
    """Read a stored dataset, recompute its content hashes and return them beside the manifest's.

    Files that differ from the manifest raise `CorruptedFileError`, as in `read`.
    """
    return match_parts(read(directory, remedy, release), _parts(read_manifest(directory, remedy)))


def _describe(dataset: Dataset, files: Mapping[str, bytes]) -> Manifest:
    record = dataset.info
    is_release = dict(dataset.parameters) == dict(record.parameters)
    holders = {key: f"{key}.parquet" for key in ("train/graph", "valid/targets", "test/graph", "test/targets")}
    holders |= {"train/targets": "", "valid/graph": "train/graph.parquet"}
    graphs, parts = measure(dataset.valid, dataset.test)
    return Manifest(
        dataset=dataset.name,
        version=dataset.version,
        record=record.id,
        builder=record.builder,
        builder_version=__version__,
        parameters=dict(dataset.parameters),
        graphs=graphs,
        parts={
            key: StoredPart(part.triples, part.content_sha256, holders[key]) for key, part in all_parts(parts).items()
        },
        files={name: StoredFile(len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()},
        sources=record.sources if is_release else (),
        licence=record.licence,
        citation=record.citation,
    )


def _expect_consistent(dataset: Dataset) -> None:
    train, valid = dataset.train, dataset.valid
    if len(train.targets):
        raise DatasetError(f"{dataset.name}: train has {len(train.targets)} targets; training has none")
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
            parquet.check_vocabulary(names, f"{dataset.name} {split.name} {kind}")
        if unknown := sorted(split.tasks.keys() - set(split.relations.tolist())):
            raise DatasetError(f"{dataset.name} {split.name}: tasks of unknown relations {', '.join(unknown)}")


def _record(found: Manifest) -> Record:
    if found.builder == manifest.FILES:
        return manifest.of_files(found.record, found.version, found.parameters, found.graphs, _parts(found))
    if found.builder != manifest.BUILDER:
        return catalog.record(found.record)
    return manifest.record(
        found.record, found.version, found.licence, found.citation, found.parameters, found.graphs, _parts(found)
    )


def _parts(found: Manifest) -> dict[str, Part]:
    return {key: Part(part.triples, part.content_sha256) for key, part in found.parts.items()}


def _remedy(found: Manifest, record: Record, directory: Path) -> str:
    if found.builder == manifest.FILES:
        return f"mtbench build FOLDER --out {shlex.quote(str(directory))} --force"
    if found.builder == manifest.BUILDER:
        # The datasets of a scenario file lie in folders of their names, below the directory they were built into.
        depth = len(Path(record.id).parts)
        root = directory.absolute().parents[depth - 1] if len(directory.absolute().parents) >= depth else directory
        return mend(manifest.build_arguments(found.parameters), root)
    changed = {key: value for key, value in found.parameters.items() if record.parameters.get(key) != value}
    options = [f"--seed {value}" if key == "seed" else f"--set {key}={value}" for key, value in changed.items()]
    return mend(" ".join([record.id, *options]), directory)


def _checked_bytes(path: Path, expected: StoredFile, remedy: str) -> pa.Buffer:
    """Return the bytes of a file, mapped into memory, once its size and hash are those of the manifest."""
    try:
        size = path.stat().st_size
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
