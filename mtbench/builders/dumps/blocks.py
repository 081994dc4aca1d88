"""Raw triple files as blocks of whole lines, whatever form they come in, read one block ahead."""

from __future__ import annotations

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

from mtbench.errors import DatasetError

BLOCK_BYTES = 1 << 19
"""Large enough to make the cost of a call vanish, small enough that its temporaries stay in the processor's cache."""

LONGEST_LINE = 1 << 20
"""Bytes: three names of a triple are far shorter, and a longer line would be copied again and again."""

ROWS_PER_BATCH = 1 << 15
COLUMNS = ("head", "relation", "tail")
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
            yield from _blocks_of_file(path, block_bytes)
        except FileNotFoundError as error:
            raise DatasetError(f"{path} is missing: name {FORMS}") from error
        except (OSError, EOFError, zlib.error, tarfile.TarError, pa.ArrowInvalid) as error:
            raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}") from error


def _blocks_of_file(path: Path, block_bytes: int) -> Iterator[Block]:
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
