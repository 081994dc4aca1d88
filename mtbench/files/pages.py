"""The pages of a Parquet file, by their own headers: the footer, which every library reads, may say anything of them.

The headers are structures of Thrift's compact protocol; the first numbers are a page's kind and its two sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
UNPACKED, PACKED = 2, 3
"""The fields that hold the sizes."""


def unpacked_sizes(data: bytes, start: int, size: int) -> Iterator[int]:
    """Give the unpacked size of each page among ``size`` bytes from ``start`` on; `ValueError` for what is no page."""
    if min(start, size) < 0:
        raise ValueError("a column of negative size")
    place = start
    try:
        while place < start + size:
            header = _Header(data, place)
            sizes = dict(header.numbers())
            yield sizes[UNPACKED]
            if min(sizes[UNPACKED], sizes[PACKED]) < 0:
                raise ValueError("a page of negative size")
            place = header.place + sizes[PACKED]
    except (IndexError, KeyError, RecursionError) as error:
        raise ValueError("a page has no header") from error


class _Header:
    """A reader of one structure that begins at ``place``, which moves behind it."""

    def __init__(self, data: bytes, place: int) -> None:
        self.data, self.place = data, place

    def numbers(self) -> Iterator[tuple[int, int]]:
        """Give the whole numbers of the structure by their field, and pass over all else."""
        field = 0
        while (head := self._byte()) != STOP:
            field = field + (head >> 4) if head >> 4 else self._number()
            if BYTE < (kind := head & 15) < DOUBLE:
                yield field, self._number()
            else:
                self._skip(kind)

    def _skip(self, kind: int, inside: bool = False) -> None:
        if kind in (TRUE, FALSE, BYTE):  # outside of a list, truth is told by the kind alone
            self.place += inside or kind == BYTE
        elif kind < DOUBLE:
            self._number()
        elif kind == DOUBLE:
            self.place += 8
        elif kind == BINARY:
            length = self._varint()
            self.place += length
        elif kind in (LIST, SET):
            head = self._byte()
            for _ in range(self._varint() if head >> 4 == 15 else head >> 4):
                self._skip(head & 15, inside=True)
        elif kind == STRUCT:
            for _ in self.numbers():
                pass
        else:
            raise ValueError("a page has a header of another kind")

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _varint(self) -> int:
        value, shift = 0, 0
        while shift < 64:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("a page has a number of more than 64 bits")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
