"""Where fingerprints come from and go to: files of triples of any size, and files of fingerprints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mtbench.analysis.leakage.fingerprints import KINDS, ROWS, VERSION, Fingerprints, of_columns, of_names
from mtbench.builders.dumps.blocks import FORMS
from mtbench.builders.dumps.tables import read_tables
from mtbench.errors import DatasetError, UsageError
from mtbench.files.atomic import replacing
from mtbench.names import COLUMNS, UIntArray

FIELDS = ("kind", "fingerprint")
_VERSION_KEY, _LINES_KEY = b"mtbench_fingerprints", b"triples"
_EMPTY = np.empty(0, dtype=np.uint64)


def read(path: Path) -> Iterator[Fingerprints]:
    """Yield the fingerprints of a file, a block at a time, so that memory does not grow with the file.

    A file of triples is what `mtbench.builders.dumps.tables.read_tables` reads. A Parquet file may hold fingerprints
    instead, written by `write`. Raises `DatasetError` for a file that is missing, damaged, or holds neither.
    """
    if path.name.lower().endswith(".parquet") and holds_fingerprints(path):
        yield from _stored(path)
    else:
        yield from map(_of_table, read_tables(path))


def write(found: Fingerprints, path: Path, *, force: bool = False) -> None:
    """Write the fingerprints of a graph as Parquet with the columns kind and fingerprint, sorted by both.

    Raises `UsageError` as `expect_free` does, `MtbenchError` for a place that cannot be written; the file is
    there whole or not at all.
    """
    expect_free(path, force=force)
    metadata = {_VERSION_KEY: str(VERSION), _LINES_KEY: str(found.lines)}
    kinds = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([(FIELDS[0], kinds), (FIELDS[1], pa.uint64())], metadata)
    with (
        replacing(path) as new,
        pq.ParquetWriter(new, schema, compression="none", use_dictionary=[FIELDS[0]]) as file,
    ):
        for number, kind in enumerate(KINDS):
            values = getattr(found, kind)
            codes = pa.array(np.full(len(values), number, dtype=np.int8))
            column = pa.DictionaryArray.from_arrays(codes, pa.array(KINDS))
            file.write_table(pa.table([column, pa.array(values)], schema=schema))


def expect_free(path: Path, *, force: bool) -> None:
    """Raise `UsageError` where writing would replace a file and ``force`` is not set, or a directory."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name a file")
    if path.exists() and not force:
        raise UsageError(f"{path} already exists: name another file, or replace it with --force")


def holds_fingerprints(path: Path) -> bool:
    """Tell whether a Parquet file holds fingerprints; another version's raise `DatasetError`."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}, or a file of fingerprints") from error
    version = (schema.metadata or {}).get(_VERSION_KEY)
    if version not in (None, str(VERSION).encode()):
        raise DatasetError(f"{path} holds fingerprints of version {version!r}, this is {VERSION}: write them again")
    return version is not None and tuple(schema.names) == FIELDS


def _stored(path: Path) -> Iterator[Fingerprints]:
    with pq.ParquetFile(path) as file:
        lines = int(file.schema_arrow.metadata[_LINES_KEY])
        for batch in file.iter_batches(ROWS):
            kinds = batch.column(FIELDS[0]).cast(pa.string()).to_numpy(zero_copy_only=False)
            values = batch.column(FIELDS[1]).to_numpy()
            yield Fingerprints(**{kind: values[kinds == kind] for kind in KINDS}, lines=lines)
            lines = 0


def _of_table(table: pa.Table) -> Fingerprints:
    return of_columns(*(_of_column(table.column(name)) for name in COLUMNS))


def _of_column(column: pa.ChunkedArray) -> UIntArray:
    if not len(column):
        return _EMPTY
    encoded = column.combine_chunks().dictionary_encode()
    # Each name of a block is hashed once: that is most of the work.
    found: UIntArray = of_names(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return found
