"""How large a Parquet file gets, page by page: the footer says so too, but whoever wrote it may not have counted.

Each page begins with a header in Thrift's compact protocol, whose first three fields are its kind and its sizes
unpacked and packed. Source: the Parquet format, ``PageHeader``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtbench.errors import ResultError

if TYPE_CHECKING:
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
