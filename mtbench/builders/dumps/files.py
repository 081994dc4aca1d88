"""Files of named triples, whatever form they come in: as blocks of whole lines, or as tables of three columns."""

from __future__ import annotations

import csv
import re
import tarfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from mtbench.errors import DatasetError
from mtbench.names import COLUMNS

BLOCK_BYTES = 1 << 19
"""Large enough to make the cost of a call vanish, small enough that its temporaries stay in the processor's cache."""

LONGEST_LINE = 1 << 20
"""Bytes: three names of a triple are far shorter, and a longer line would be copied again and again."""

ROWS_PER_BATCH = 1 << 15
NAMES = re.compile(rb"[^\t]+\t[^\t]+\t[^\t]+")
FORMS = (
    "a text file of head TAB relation TAB tail, plain or .gz, a .tar.gz of train/valid/test files, or a .parquet file"
)


class Readable(Protocol):
    """Anything bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True)
class Block:
    """Whole lines ``head TAB relation TAB tail LF`` of one file, and where in it they begin."""

    data: bytes
    file: str
    first_line: int


def read_blocks(paths: Sequence[Path], block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the lines of raw files, file after file, in blocks of about ``block_bytes``.

    A thread reads and unpacks the next block while the caller works on the last one: unpacking takes
    as long as parsing does. What a file is, is told by its name: ``.tar.gz`` or ``.tgz`` (the members
    whose names end in train, valid or test), ``.gz``, ``.parquet`` (three columns of text), anything
    else is plain text. Lines may end in LF or CR LF; the last one may lack its end.

    Raises `DatasetError` for a file that is missing, damaged or of another form.
    """
    with closing(_blocks(paths, block_bytes)) as source, ThreadPoolExecutor(max_workers=1) as reader:
        ahead = reader.submit(next, source, None)
        while (block := ahead.result()) is not None:
            ahead = reader.submit(next, source, None)
            yield block


def _blocks(paths: Sequence[Path], block_bytes: int) -> Generator[Block, None, None]:
    for path in paths:
        try:
            name = path.name.lower()
            if name.endswith(".parquet"):
                yield from _parquet(path)
            elif name.endswith((".tar.gz", ".tgz", ".tar")):
                yield from _members(path, block_bytes)
            elif name.endswith(".gz"):
                # Python's own gzip unpacks a few kilobytes a call, and so waits at every one for the caller's thread.
                with pa.OSFile(str(path)) as packed, pa.CompressedInputStream(packed, "gzip") as stream:
                    yield from _lines(stream, str(path), block_bytes)
            else:
                with path.open("rb") as stream:
                    yield from _lines(stream, str(path), block_bytes)
        except FileNotFoundError as error:
            raise DatasetError(f"{path} is missing: name {FORMS}") from error
        except (OSError, EOFError, zlib.error, tarfile.TarError, pa.ArrowInvalid) as error:
            raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}") from error


def _lines(stream: Readable, file: str, block_bytes: int) -> Iterator[Block]:
    line, rest = 1, b""
    while chunk := stream.read(block_bytes):
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            rest += chunk
            if len(rest) > LONGEST_LINE:
                raise DatasetError(
                    f"{file}, line {line}: more than {LONGEST_LINE:,} bytes without an end: name {FORMS}"
                )
            continue
        block = _block(rest + chunk[:end], file, line)
        rest = chunk[end:]
        line += block.data.count(b"\n")
        yield block
    if rest:
        yield _block(rest + b"\n", file, line)


def _block(data: bytes, file: str, line: int) -> Block:
    return Block(data.replace(b"\r\n", b"\n") if b"\r" in data else data, file, line)


def _members(path: Path, block_bytes: int) -> Iterator[Block]:
    found = False
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            stem = PurePosixPath(member.name).name.split(".")[0]
            stream = archive.extractfile(member) if stem.endswith(("train", "valid", "test")) else None
            if stream is not None:
                found = True
                yield from _lines(stream, f"{path}:{member.name}", block_bytes)
    if not found:
        raise DatasetError(f"{path} holds no train, valid or test file: name {FORMS}")


def _parquet(path: Path) -> Iterator[Block]:
    line = 1
    with pq.ParquetFile(path) as file:
        if missing := [name for name in COLUMNS if name not in file.schema_arrow.names]:
            raise DatasetError(f"{path} has no column {', '.join(missing)}: a triple file has {', '.join(COLUMNS)}")
        for batch in file.iter_batches(ROWS_PER_BATCH, columns=list(COLUMNS)):
            columns = [batch.column(name).cast(pa.string()) for name in COLUMNS]
            if any(column.null_count for column in columns):
                raise DatasetError(f"{path}: an empty cell among rows {line} to {line + len(batch) - 1}")
            ended = pc.binary_join_element_wise(columns[2], "\n", "")
            rows = pc.binary_join_element_wise(columns[0], columns[1], ended, "\t")
            data = b"" if rows.buffers()[2] is None else rows.buffers()[2].to_pybytes()
            if data.count(b"\n") != len(batch):
                raise DatasetError(f"{path}: a name with a line break among rows {line} to {line + len(batch) - 1}")
            yield Block(data, str(path), line)
            line += len(batch)


def read_tables(path: Path) -> Iterator[pa.Table]:
    """Yield the triples of a file as tables of the columns head, relation and tail, so that memory need not hold it.

    It is what `read_blocks` reads, or ``.csv`` and ``.csv.gz`` with the columns head,
    relation and tail (without a heading: three columns in that order). Text may begin with the heading
    ``head TAB relation TAB tail``. Raises `DatasetError` for a file that is missing, damaged, or of another form; an
    empty text file has no tables.
    """
    if path.name.lower().endswith((".csv", ".csv.gz")):
        yield from _comma_separated(path)
        return
    for block in read_blocks([path]):
        table = text_columns(block.data)
        if table is None:
            raise malformed(block, NAMES, "is not head TAB relation TAB tail")
        headed = block.first_line == 1 and [name.as_py() for (name,) in table.slice(0, 1).columns] == list(COLUMNS)
        yield table.slice(int(headed))


def _comma_separated(path: Path) -> Iterator[pa.Table]:
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
        read = 0
        for batch in reader:
            wrong = [pc.index(pc.match_substring_regex(column, r"^$|[\t\n]"), True).as_py() for column in batch.columns]
            if rows := [row for row in wrong if row >= 0]:
                raise DatasetError(
                    f"{path}, triple {read + min(rows) + 1}: an empty cell, or a name with a tab or a line break"
                )
            read += len(batch)
            yield pa.table(batch.columns, names=list(COLUMNS))
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}, or a .csv file of three names") from error


def text_columns(data: bytes) -> pa.Table | None:
    """Return lines ``head TAB relation TAB tail LF`` as three columns of text, None where any line is another."""
    table = parse(data, pa.string())
    if table is None or len(table) != data.count(b"\n"):
        return None
    if any(pc.min(pc.binary_length(column)).as_py() == 0 for column in table.columns):
        return None
    return table


def parse(data: bytes, kind: pa.DataType) -> pa.Table | None:
    """Return lines of three fields as columns of a type, None where any line is another."""
    try:
        return arrow_csv.read_csv(
            pa.py_buffer(data),
            arrow_csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=len(data) + 1),
            arrow_csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, kind), strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        return None


def malformed(block: Block, pattern: re.Pattern[bytes], reason: str) -> DatasetError:
    """Return the error for the first line of a block that does not match, with its number and text."""
    for number, line in enumerate(block.data.split(b"\n")[:-1], start=block.first_line):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return DatasetError(f"{block.file}, line {number}: {line[:200]!r} is not UTF-8 text")
        if pattern.fullmatch(line) is None:
            return DatasetError(f"{block.file}, line {number}: {text[:200]!r} {reason}")
    return DatasetError(f"{block.file}, from line {block.first_line}: a line {reason}")
