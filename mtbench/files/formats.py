"""Tables in the file formats other languages read and write: Parquet, Arrow, CSV and TSV, chosen by the suffix."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa
from pyarrow import csv, ipc
from pyarrow import parquet as pq

from mtbench.errors import ScoreError, UnknownNameError, UsageError, nearest
from mtbench.files.atomic import replace_file

Format: TypeAlias = Literal["Parquet", "Arrow", "CSV", "TSV"]
FORMATS: Mapping[str, Format] = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Arrow",
    ".arrow": "Arrow",
    ".csv": "CSV",
    ".tsv": "TSV",
}
"""What a suffix stands for; each may be followed by ``.gz``."""

COMPRESSED = ".gz"
DELIMITERS: Mapping[Format, str] = {"CSV": ",", "TSV": "\t"}


@dataclass(frozen=True, eq=False)
class Stored:
    """What a file holds: a table, its key-value metadata, and whether its cells were text without types."""

    table: pa.Table
    metadata: Mapping[str, str]
    text: bool


def format_of(path: Path) -> tuple[Format, bool]:
    """Return the format a file name stands for, and whether the file is compressed.

    Raises `UnknownNameError` for a suffix that stands for none.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [COMPRESSED]
    suffix = ([] if not suffixes else suffixes[:-1] if compressed else suffixes)[-1:]
    if not suffix or suffix[0] not in FORMATS:
        raise UnknownNameError("file suffix", "".join(path.suffixes[-2:]) or path.name, FORMATS)
    return FORMATS[suffix[0]], compressed


def read(path: Path, texts: Sequence[str], number: str, maybe: str) -> Stored:
    """Read the columns ``texts`` and ``number`` of a file, and ``maybe`` where it is there.

    In CSV and TSV the cells of ``texts`` and ``maybe`` stay text.

    Raises `UsageError` for a file that is not there or has an unknown suffix, and `ScoreError` for one
    that is truncated, of another format than its suffix says, or lacks a column.
    """
    if not path.is_file():
        raise UsageError(f"{path} is {'a directory, not a file' if path.is_dir() else 'no file: check the path'}")
    kind, compressed = format_of(path)
    try:
        with pa.input_stream(str(path), compression="gzip" if compressed else None) as stream:
            data = pa.py_buffer(stream.read())
        table = _decode(data, kind, {**dict.fromkeys((*texts, maybe), pa.string()), number: pa.float64()})
        wanted = [*texts, number, *([maybe] if maybe in table.column_names else [])]
        expect_columns(table.column_names, wanted)
        metadata, table = table.schema.metadata, table.select(wanted)
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).strip().rstrip(".") or type(error).__name__
        packed = "gzipped " if compressed else ""
        raise ScoreError(
            f"cannot be read as {packed}{kind} ({reason}): it is truncated, damaged or of another format than its "
            f"suffix says; write it again"
        ) from error
    about = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in (metadata or {}).items()}
    return Stored(table, about, text=kind in DELIMITERS)


def write(path: Path, table: pa.Table, *, force: bool) -> None:
    """Write a table in the format of the file's suffix, the same bytes for the same table, whole or not at all.

    Parquet and Arrow keep the metadata of the table. Raises `UsageError` for a file that exists unless
    ``force`` is set, and for a name with a tab, a quote or a line break that should go into a TSV file.
    """
    kind, compressed = format_of(path)
    expect_free(path, force=force)
    data = _encode(table, kind)
    replace_file(path, gzip.compress(data, mtime=0) if compressed else data)


def expect_free(path: Path, *, force: bool) -> None:
    """Raise `UsageError` where writing would replace a file and ``force`` is not set, or a directory."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name a file")
    if path.exists() and not force:
        raise UsageError(f"{path} already exists: choose another name, or replace it with --force (force=True)")


def expect_columns(found: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `ScoreError` naming the columns that are missing, with the nearest there is, or that are there twice."""
    if not set(found) & set(wanted):
        raise ScoreError(
            f"the columns {', '.join(wanted)} are missing; found: {', '.join(map(repr, found)) or 'none'}; "
            f"text files begin with a row of column names"
        )
    if missing := [name for name in wanted if name not in found]:
        near = {name: [other for other in nearest(name, found) if other not in wanted] for name in missing}
        hints = [f"{name} (did you mean the column {near[name][0]!r}?)" if near[name] else name for name in missing]
        raise ScoreError(
            f"the column{'s' * (len(missing) > 1)} {', '.join(hints)} {'are' if len(missing) > 1 else 'is'} missing; "
            f"found: {', '.join(map(repr, found)) or 'none'}; expected: {', '.join(wanted)}"
        )
    if repeated := [name for name, number in Counter(found).items() if number > 1 and name in wanted]:
        raise ScoreError(f"the column {repeated[0]} is there {Counter(found)[repeated[0]]} times: keep one")


def encode_table(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file, the same bytes for the same table."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", version="2.6", data_page_version="1.0")
    return buffer.getvalue()


def _decode(data: pa.Buffer, kind: Format, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the table of a file; ``types`` are those of text columns, of which files without types tell nothing."""
    if kind == "Parquet":
        return pq.ParquetFile(pa.BufferReader(data)).read()
    if kind == "Arrow":
        try:
            reader = ipc.open_file(data)
        except pa.ArrowInvalid:
            reader = ipc.open_stream(data)
        return reader.read_all()
    quoted = kind == "CSV"
    layout = csv.ParseOptions(
        delimiter=DELIMITERS[kind], quote_char='"' if quoted else False, newlines_in_values=quoted
    )
    return csv.read_csv(
        pa.BufferReader(data), parse_options=layout, convert_options=csv.ConvertOptions(column_types=types)
    )


def _encode(table: pa.Table, kind: Format) -> bytes:
    if kind == "Parquet":
        return encode_table(table)
    page = io.BytesIO()
    if kind == "Arrow":
        with ipc.new_file(page, table.schema) as writer:
            writer.write_table(table)
        return page.getvalue()
    delimiter = DELIMITERS[kind]
    page.write(f"{delimiter.join(table.column_names)}\n".encode())
    style = csv.WriteOptions(
        include_header=False, delimiter=delimiter, quoting_style="needed" if kind == "CSV" else "none"
    )
    try:
        csv.write_csv(table, page, style)
    except pa.ArrowInvalid as error:
        raise UsageError(f"a name holds a tab, a quote or a line break, which {kind} cannot: write .parquet") from error
    return page.getvalue()
