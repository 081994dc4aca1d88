"""Loading: from a name of the catalogue, built on first use, or from a directory."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from mtbench.data import catalog, store
from mtbench.data.building import keep, of_files
from mtbench.data.catalog import Record
from mtbench.data.splits import Dataset
from mtbench.errors import CorruptedFileError, DatasetError, UnknownNameError, UsageError
from mtbench.files import atomic

LONGEST = 100
"""Characters of a name that an error shows."""


def load(source: str | Path) -> Dataset:
    """Return a dataset by its name in the catalogue, an alias of it, or the directory it was built into.

    A directory of one's own may hold files of triples instead: train.txt, msg.txt (the test graph), test.txt and
    maybe valid.txt (`mtbench.builders.folders.read`).

    The first use of a name builds the dataset on this machine, without network, into the cache; later
    ones read it from there and compare every file with its hash. An unknown name raises
    `UnknownNameError` with the nearest ones, a damaged file `CorruptedFileError` with the command that
    mends it.
    """
    if (directory := directory_given(source)) is not None:
        return store.read(directory) if store.is_stored(directory) else of_files(directory)
    record = catalog.record(str(source))
    directory = store.cached(record)
    if not atomic.is_free(directory):
        try:
            return store.read(directory, store.mend(record.id), record)
        except CorruptedFileError:
            # It may have been replaced while it was read: the second look is under the lock.
            pass
    return keep(record, record.parameters)


def locate(source: str | Path) -> tuple[Path, str, Record | None]:
    """Return the directory of a dataset that is stored already, the command that mends it, and the record it is to be.

    A dataset of the catalogue that was not built yet raises `DatasetError`.
    """
    if (directory := directory_given(source)) is not None:
        if not store.is_stored(directory):
            raise DatasetError(
                f"{directory} holds no manifest.json, so there is no hash to compare its files with: mtbench info "
                f"{directory} shows the hashes of its triples"
            )
        return directory, "", None
    record = catalog.record(str(source))
    directory = store.cached(record)
    if atomic.is_free(directory):
        raise DatasetError(f"{record.id} is not stored yet: mtbench build {record.id}")
    return directory, store.mend(record.id), record


def directory_given(source: object) -> Path | None:
    """Tell a directory from a name: return the directory, or None for a name of the catalogue.

    Raises `UnknownNameError` for what is neither, and `UsageError` for what cannot be a name.
    """
    if not isinstance(source, str | Path) or source == "":
        shown = repr(source) if source == "" else type(source).__name__
        raise UsageError(f"{shown} names no dataset: give a name of the catalogue (mtbench list) or a directory")
    if isinstance(source, str) and catalog.find(source) is not None:
        return None
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
