"""Reading files somebody else sent: JSON that says one thing only, and Parquet no larger than it looks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboard.entries.cards import SubmissionError, expect_plain
from mtbench.errors import ResultError
from mtbench.names import COLUMNS, SIDES
from mtbench.ranking.ranks import COUNTS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet


UNPACKED, PACKED = 2, 3
"""Fields of a page header."""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_VARINTS = (4, 5, 6)
MOST_DEPTH = 8


def unpacked_bytes(path: Path, about: parquet.FileMetaData) -> int:
    """Return how many bytes the pages of a file have once unpacked, headers included, as the footer counts them.

    Only headers are read. Raises `ResultError`, without the path, where there is none at the place the footer names.
    """
    data, total = path.read_bytes(), 0
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            start = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                start = min(start, column.dictionary_page_offset)
            end = start + column.total_compressed_size
            if not 0 <= start <= end <= len(data):
                raise ResultError("the footer names pages outside of the file")
            total += _pages(data[start:end])
    return total


def _pages(data: bytes) -> int:
    total, reader = 0, _Reader(data)
    while reader.at < len(data):
        start = reader.at
        sizes = reader.struct()
        unpacked, packed = sizes.get(UNPACKED, -1), sizes.get(PACKED, -1)
        if unpacked < 0 or packed < 0:
            raise ResultError("a page without its size")
        total += unpacked + reader.at - start
        reader.at += packed
    return total


@dataclass
class _Reader:
    """The part of Thrift's compact protocol that page headers are written in."""

    data: bytes
    at: int = 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Return the whole numbers of a struct by field, and step over everything else."""
        if depth > MOST_DEPTH:
            raise ResultError("a page header that is nested too deeply")
        found, field = {}, 0
        while kind := self.byte():
            delta, kind = kind >> 4, kind & 15
            field = field + delta if delta else self.number()
            if kind in _VARINTS:
                found[field] = self.number()
            elif kind not in (_TRUE, _FALSE):
                self.skip(kind, depth)
        return found

    def skip(self, kind: int, depth: int) -> None:
        if kind in (_BYTE, _TRUE, _FALSE):  # truth is a byte of its own in a list
            self.at += 1
        elif kind in _VARINTS:
            self.number()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, _SET):
            head = self.byte()
            for _ in range(self.varint() if head >> 4 == 15 else head >> 4):
                self.skip(head & 15, depth + 1)
        elif kind == _STRUCT:
            self.struct(depth + 1)
        else:
            raise ResultError("a page header that is none")

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise ResultError("a page header that is cut short")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            part = self.byte()
            value |= (part & 127) << shift
            if part < 128:
                return value
        raise ResultError("a page header with a number beyond 64 bits")

    def number(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)


DIGITS = 18
"""Of a whole number; more do not fit into 64 bits."""

MOST_UNPACKED = 16 * 1024 * 1024
LONGEST_NAME = 1_000
RANK_COLUMNS = (*COLUMNS, *(f"{side}_{name}" for side in SIDES for name in COUNTS))


def read_json(path: Path, most: int) -> object:
    """Read JSON strictly: no key twice, no NaN, no number beyond 64 bits, at most ``most`` bytes.

    Readers disagree about what is outside of that, so that one would check what another does not show. Raises
    `ResultError` saying what is wrong, without the path.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(most + 1)
        if len(data) > most:
            raise ResultError(f"more than {most:,} bytes")
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_real,
            parse_int=_whole,
        )
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})") from error
    except RecursionError as error:
        raise ResultError("not valid JSON (nested too deeply)") from error
    except ValueError as error:
        raise ResultError(f"not valid JSON ({error})") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:60]!r} is there twice")
        found[key] = value
    return found


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is beyond any number")
    return value


def _whole(text: str) -> int:
    if len(text.removeprefix("-")) > DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def texts(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Return every text in a value that was read as JSON, keys too, with the keys that lead there."""
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f"a key of {where}" if where else "a key", key
            yield from texts(inner, f"{where} {key}".strip()[:80])
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, where)


def unplain(value: object) -> str | None:
    """Return what is wrong with the first text in a value that no page should show, None where all are plain."""
    for where, text in texts(value):
        try:
            expect_plain(where, text)
        except SubmissionError as error:
            return str(error)
    return None


def expect_ranks(path: Path, targets: int, candidates: int) -> None:
    """Raise `ResultError`, without the path, for a file that cannot be read as ranks in little memory.

    The footer says how many rows there are, the headers of the pages how large they get; both are read before anything
    is unpacked: at most ``targets`` rows. Then names and counts have to be of a length and size that arrays can be made
    of: at most ``candidates``.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
        _expect_columns(schema)
        # A name that all rows share is one text, not as many as rows.
        with parquet.ParquetFile(path, read_dictionary=[name for name in COLUMNS if name in schema.names]) as file:
            about = file.metadata
            if about.num_rows > targets:
                raise ResultError(f"{about.num_rows:,} rows, at most {targets:,} can be targets")
            if about.num_row_groups > max(targets, 1):
                raise ResultError(f"{about.num_row_groups:,} groups of rows, more than there are targets")
            size = unpacked_bytes(path, about)
            if size > MOST_UNPACKED:
                raise ResultError(f"{size:,} bytes once unpacked, at most {MOST_UNPACKED:,} are read")
            _expect_values(file.read(use_threads=False), candidates)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ResultError(f"cannot be read as Parquet ({error})") from error


def _expect_columns(schema: pa.Schema) -> None:
    import pyarrow as pa

    if wrong := [name for name in schema.names if name not in RANK_COLUMNS]:
        raise ResultError(f"the column {wrong[0][:60]!r} does not belong there")
    if len(set(schema.names)) < len(schema.names):
        raise ResultError("a column is there twice")
    for column in schema:
        if not (pa.types.is_string if column.name in COLUMNS else pa.types.is_signed_integer)(column.type):
            raise ResultError(f"column {column.name} has the type {column.type}")


def _expect_values(table: pa.Table, candidates: int) -> None:
    from pyarrow import compute

    table.validate(full=True)
    for name in table.column_names:
        column = table.column(name)
        if column.null_count:
            raise ResultError(f"column {name} has {column.null_count} empty cells")
        if name not in COLUMNS:
            if (compute.max(column).as_py() or 0) > candidates:
                raise ResultError(f"column {name} counts more than {candidates:,} candidates")
            continue
        for chunk in column.chunks:
            if (compute.max(compute.binary_length(chunk.dictionary)).as_py() or 0) > LONGEST_NAME:
                raise ResultError(f"column {name} has a name of more than {LONGEST_NAME:,} bytes")
