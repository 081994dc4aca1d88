"""Where fingerprints come from and go to: files of triples of any size, and files of fingerprints."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from mtbench.builders.dumps.blocks import FORMS, read_blocks
from mtbench.builders.dumps.dump import NAMES, malformed, text_columns
from mtbench.errors import DatasetError, UsageError
from mtbench.files.atomic import replacing
from mtbench.leakage.fingerprints import KINDS, ROWS, VERSION, Fingerprints, of_columns, of_names
from mtbench.names import COLUMNS, UIntArray

FIELDS = ("kind", "fingerprint")
_VERSION_KEY, _LINES_KEY = b"mtbench_fingerprints", b"triples"
_EMPTY = np.empty(0, dtype=np.uint64)


def read(path: Path) -> Iterator[Fingerprints]:
    """Yield the fingerprints of a file, a block at a time, so that memory does not grow with the file.

    A file of triples is what `mtbench.builders.dumps.blocks.read_blocks` reads, or ``.csv`` and ``.csv.gz`` with the
    columns head, relation and tail (without a heading: three columns in that order). A Parquet file may
    hold fingerprints instead, written by `write`. Raises `DatasetError` for a file that is missing,
    damaged, or holds neither.
    """
    name = path.name.lower()
    if name.endswith((".csv", ".csv.gz")):
        yield from _tables(path)
    elif name.endswith(".parquet") and holds_fingerprints(path):
        yield from _stored(path)
    else:
        for block in read_blocks([path]):
            table = text_columns(block.data)
            if table is None:
                raise malformed(block, NAMES, "is not head TAB relation TAB tail")
            yield _of_table(table)


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


def _tables(path: Path) -> Iterator[Fingerprints]:
    try:
        with pa.input_stream(path, compression="gzip" if path.suffix.lower() == ".gz" else None) as stream:
            first = stream.read(1 << 16).partition(b"\n")[0].decode("utf-8-sig")
        row = next(csv.reader([first]), [])
        headed = set(COLUMNS) <= set(row)
        if not headed and len(row) != len(COLUMNS):
            raise DatasetError(f"{path}: the first line {first[:200]!r} is neither a heading nor three names")
        reader = arrow_csv.open_csv(
            path,
            arrow_csv.ReadOptions(column_names=None if headed else COLUMNS, use_threads=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.string()), include_columns=COLUMNS, strings_can_be_null=False
            ),
        )
        for batch in reader:
            yield _of_table(pa.table(batch.columns, names=list(COLUMNS)))
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}, or a .csv file of three names") from error


def _of_table(table: pa.Table) -> Fingerprints:
    return of_columns(*(_of_column(table.column(name)) for name in COLUMNS))


def _of_column(column: pa.ChunkedArray) -> UIntArray:
    if not len(column):
        return _EMPTY
    encoded = column.combine_chunks().dictionary_encode()
    # Each name of a block is hashed once: that is most of the work.
    found: UIntArray = of_names(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return found
