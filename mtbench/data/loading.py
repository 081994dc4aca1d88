"""Loading: from a name of the catalogue, whose recipe is called on first use, or from a directory."""

from __future__ import annotations

import importlib
import os
import shlex
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

from mtbench.data import catalog, store
from mtbench.data.catalog import Parameter, Record
from mtbench.data.splits import Dataset, differences
from mtbench.errors import CorruptedFileError, DatasetError, DownloadError, UnknownNameError, UsageError, typed
from mtbench.files import atomic
from mtbench.files.hashing import file_hash
from mtbench.files.reading import expanded

Parameters: TypeAlias = Mapping[str, Parameter]
Recipe: TypeAlias = Callable[[Record, Parameters], Dataset]
"""What a record's ``recipe`` names: from the record and all of its parameters to the dataset."""

RELEASE = "release"
"""The builder of records whose dataset is its published files: it needs their sources, not parameters."""

FILES = "mtbench.builders.folders:read"
"""What reads a folder of files of triples."""

LONGEST = 100
"""Characters of a name that an error shows."""


class UntrainedError(DownloadError):
    """The training graph of a dataset cannot be had; ``dataset`` is the rest of it, with nothing in that graph."""

    def __init__(self, message: str, dataset: Dataset) -> None:
        super().__init__(message)
        self.dataset = dataset


_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def load(source: str | Path) -> Dataset:
    """Return a dataset by its name in the catalogue, an alias of it, or the directory it was built into.

    A directory of one's own may hold files of triples instead: train.txt, msg.txt (the test graph), test.txt and
    maybe valid.txt (`mtbench.builders.folders.read`).

    The first use of a name builds the dataset on this machine, without network, into the cache; later
    ones read it from there and compare every file with its hash. An unknown name raises
    `UnknownNameError` with the nearest ones, a damaged file `CorruptedFileError` with the command that
    mends it. Where a graph of the field has everything but its training graph at hand, a warning says so, and the
    dataset is that without it, made of its files each time and not stored.
    """
    place = locate(source)
    if isinstance(place, Record):
        directory = store.cached(place)
        if not atomic.is_free(directory):
            try:
                return store.read(directory, place)
            except CorruptedFileError:
                # It may have been replaced while it was read: the second look is under the lock.
                pass
        try:
            return keep(place, place.parameters)
        except UntrainedError as error:
            where = typed("fetch", place.id)
            warnings.warn(
                f"{place.id} is read without its training graph, which cannot be had now: {where} says from where",
                stacklevel=2,
            )
            return error.dataset
    if store.is_stored(place):
        dataset = store.read(place)
        # Whoever edits the hashes of a manifest together makes a dataset that holds, but not one that was published.
        if catalog.by_id(dataset.name) is not None and not dataset.is_release:
            warnings.warn(f"{place} is called {dataset.name} {dataset.version}, but is nobody's release", stacklevel=2)
        return dataset
    return cast(Callable[[Path], Dataset], _function(FILES))(place)


def locate(source: object) -> Record | Path:
    """Tell a name from a directory: return the record of the catalogue, or the path.

    Raises `UnknownNameError` for what is neither, and `UsageError` for what cannot be a name.
    """
    if not isinstance(source, str | Path) or source == "":
        shown = repr(source) if source == "" else type(source).__name__
        raise UsageError(f"{shown} names no dataset: give a name of the catalogue (mtbench list) or a directory")
    if isinstance(source, str) and (record := catalog.find(source)) is not None:
        return record
    try:
        directory = Path(source).expanduser()
        if directory.is_dir():
            if os.access(directory, os.R_OK | os.X_OK):
                return directory
            raise UsageError(f"{directory} may not be read: chmod u+rx {shlex.quote(str(directory))}")
    except (OSError, RuntimeError, ValueError) as error:
        # A name too long for a path, with a null byte, or of an unknown user's folder.
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{str(source)[:LONGEST]!r} names no dataset and can be no directory: {why}") from error
    raise UnknownNameError("dataset or directory", str(source)[:LONGEST], catalog.choices(str(source)[:LONGEST]))


def stored(source: str | Path) -> tuple[Path, Record | None]:
    """Return the directory of a dataset that is stored already, and the record of the catalogue that it is to be.

    A dataset of the catalogue that was not built yet, and files without a manifest, raise `DatasetError`.
    """
    place = locate(source)
    if isinstance(place, Record):
        directory = store.cached(place)
        if atomic.is_free(directory):
            raise DatasetError(f"{place.id} is not stored yet: mtbench build {place.id}")
        return directory, place
    if not store.is_stored(place):
        raise DatasetError(
            f"{place} holds no manifest.json, so there is no hash to compare its files with: {typed('info', place)} "
            "shows the hashes of its triples"
        )
    return place, None


def keep(
    record: Record,
    values: Parameters,
    *,
    out: str | Path | None = None,
    force: bool = False,
    made: Dataset | None = None,
) -> Dataset:
    """Store the dataset with these parameters in the cache or in ``out``, building it unless it is ``made``.

    Raises `DatasetError` naming everything in which a dataset with the release's parameters differs from it.
    """
    directory = store.cached(record) if out is None else expanded(out).absolute()
    if out is not None:
        store.expect_replaceable(directory)

    def make() -> Dataset:
        dataset = derive(record, values) if made is None else made
        if is_release(record, values) and (differing := differences(dataset, record)):
            raise DatasetError(
                f"{record.id}: {', '.join(differing)} differ from the release although the parameters are the "
                f"release's; please report this with the output of: mtbench build {record.id} --check"
            )
        return dataset

    dataset = store.obtain(directory, make, force=force, release=record if out is None else None)
    if dict(dataset.parameters) != dict(values) or dataset.info.id != record.id:
        raise UsageError(f"{directory} holds {dataset.name}: name another directory, or add --force to replace it")
    return dataset


def derive(record: Record, values: Parameters | None = None) -> Dataset:
    """Make a dataset in memory, without storing it and without comparing it with the release.

    A record with the builder ``release`` is made of its published files, which are downloaded unless
    they are at hand; any other is built from its parameters, without reading any file. ``values`` are all of them,
    by default those of the release.
    """
    recipe = cast(Recipe, _named(record, record.recipe))
    return recipe(record, record.parameters if values is None else values)


def is_release(record: Record, values: Parameters) -> bool:
    """Tell whether these parameters are those that give the release."""
    return dict(values) == dict(record.parameters)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """What was made of raw files: the datasets, and a line on what was met while reading them."""

    datasets: tuple[Dataset, ...]
    note: str = ""


@dataclass(frozen=True, eq=False)
class RawRecipe:
    """How datasets are made anew of raw files; a record's ``raw`` names the function that returns it.

    ``options`` are its parameters with their defaults. ``rebuild`` makes the datasets of some names in one pass
    over files; it raises `DatasetError` that says which files are expected, or what is wrong with those given.
    ``groups`` are names that stand for several datasets. ``gives_release`` tells whether options give the release
    bit by bit, not another sample like it, and raises `UsageError` for options that have no use. ``mixed`` are
    datasets whose training graph varies between samples too much to be compared.
    """

    options: Parameters
    rebuild: Callable[[Sequence[str], Sequence[Path], Parameters], Rebuilt]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gives_release: Callable[[Parameters], bool] = lambda options: False
    mixed: Collection[str] = ()


def raw_recipe(record: Record) -> RawRecipe | None:
    """Return how a dataset is made of raw files, None for one that never is."""
    return cast(Callable[[], RawRecipe], _named(record, record.raw))() if record.raw else None


def _named(record: Record, place: str) -> object:
    try:
        return _function(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise DatasetError(f"{record.id}: the record names {place!r}, which is no function ({error})") from error


def _function(place: str) -> object:
    module, _, function = place.partition(":")
    return cast(object, getattr(importlib.import_module(module), function))


def resolve(name: str, defaults: Parameters, given: Parameters) -> dict[str, Parameter]:
    """Return all parameters of what ``name`` stands for, the given ones in place of the defaults.

    A parameter ``KEY_sha256`` that is not given is the hash of the file that the parameter ``KEY`` names.

    Raises `UnknownNameError` for a parameter the builder does not have, `UsageError` for a value of
    another type than the default's.
    """
    for key, value in given.items():
        kind = _kind(name, defaults, key)
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise _wrong_kind(name, key, kind, value)
    values = {key: given.get(key, default) for key, default in defaults.items()}
    for key in values:
        # A file may change under its name: what was built from it is known by its bytes.
        named = str(values.get(key.removesuffix("_sha256"), ""))
        if key.endswith("_sha256") and not values[key] and named and expanded(named).is_file():
            values[key] = file_hash(expanded(named))
    return values


def parse_parameter(name: str, defaults: Parameters, text: str) -> tuple[str, Parameter]:
    """Read ``key=value`` as a parameter of what ``name`` stands for, its type that of the default."""
    key, equals, value = text.partition("=")
    if not equals:
        example = next((f"{key}={value}" for key, value in defaults.items() if value != ""), "seed=7")
        raise UsageError(f"{text!r} is not key=value: for example {example}")
    kind = _kind(name, defaults, key)
    if kind is bool:
        choices: Parameters = {"true": True, "false": False}
        if value.casefold() in choices:
            return key, choices[value.casefold()]
    else:
        try:
            return key, kind(value)
        except ValueError:
            pass
    raise _wrong_kind(name, key, kind, value)


def _kind(name: str, defaults: Parameters, key: str) -> type[Parameter]:
    if key not in defaults:
        raise UnknownNameError(f"{name} parameter", key, defaults)
    return type(defaults[key])


def _wrong_kind(name: str, key: str, kind: type[Parameter], value: Parameter) -> UsageError:
    return UsageError(f"{name}: {key} must be {_KINDS[kind]}, not {value!r}")
