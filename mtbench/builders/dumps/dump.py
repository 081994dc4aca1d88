"""Raw dumps: files of named triples, of any size, as sorted integer keys in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mtbench.builders.dumps.files import BLOCK_BYTES, Block, ids_of, parse, plain_numbers, read_blocks
from mtbench.data.splits import unique
from mtbench.errors import DatasetError
from mtbench.names import IntArray, NameArray

Columns: TypeAlias = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""Heads, relations and tails, three arrays ``(n,)`` of int32."""

Lookup: TypeAlias = Callable[[npt.NDArray[np.int32]], npt.NDArray[np.integer]]
"""From the numbers of a reader to dense ids."""

WIKIDATA = re.compile("Q[1-9][0-9]{0,8}\tP[1-9][0-9]{0,5}\tQ[1-9][0-9]{0,8}")
_LARGEST_TABLE = 1 << 28
_TENS = 10 ** np.arange(10, dtype=np.int64)
_EMPTY = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Dump:
    """The distinct triples of a dump, packed into one sorted int64 each, and what was met while reading.

    Ids are dense and follow the order of the names (Wikidata: of their numbers), so nothing depends on
    the order of the lines. ``keys`` holds relation, head, tail from the highest bit down, ``bits`` for
    an entity. ``numbers`` are the Wikidata numbers of the entities, or ``names`` their names.
    ``lines`` counts all lines, ``others`` those of relations not asked for, ``duplicates`` the repeated
    ones among the rest, which are dropped, ``loops`` the self-loops, which stay: the releases have both
    properties.
    """

    keys: IntArray
    bits: int
    numbers: npt.NDArray[np.int32]
    names: tuple[str, ...]
    relations: tuple[str, ...]
    lines: int
    others: int
    duplicates: int
    loops: int

    @property
    def num_entities(self) -> int:
        """How many entities the triples name."""
        return len(self.names) or len(self.numbers)

    def entity_names(self, entities: npt.NDArray[np.integer]) -> NameArray:
        """Return the names of entity ids ``(n,)``."""
        if self.names:
            return np.array([self.names[entity] for entity in entities.tolist()], dtype=np.str_)
        return np.array([f"Q{number}" for number in self.numbers[entities].tolist()], dtype=np.str_)

    def name_order(self, entities: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """Return the places ``(n,)`` of increasing entity ids in the order of their names as text."""
        if self.names:
            return np.arange(len(entities))
        # Digits moved to the left compare as text does; of Q1 and Q10 the shorter one comes first.
        numbers = self.numbers[entities].astype(np.int64)
        digits = np.searchsorted(_TENS, numbers, side="right")
        return np.argsort(numbers * _TENS[len(_TENS) - digits] * 16 + digits)

    def select(self, relations: Collection[str]) -> Columns:
        """Return the triples of some relations as ids, sorted by relation, head and tail.

        Relations that the dump does not have give no triples: a topic's list may name unused ones.
        """
        wanted = sorted(index for index, name in enumerate(self.relations) if name in set(relations))
        edges = np.array([[index, index + 1] for index in wanted], dtype=np.int64).reshape(-1, 2) << (2 * self.bits)
        ranges = np.searchsorted(self.keys, edges)
        keys = np.concatenate([self.keys[start:end] for start, end in ranges.tolist()] or [self.keys[:0]])
        mask = (1 << self.bits) - 1
        head = ((keys >> self.bits) & mask).astype(np.int32)
        return head, (keys >> (2 * self.bits)).astype(np.int32), (keys & mask).astype(np.int32)


def read_dump(
    paths: Sequence[Path], relations: Collection[str] | None = None, *, block_bytes: int = BLOCK_BYTES
) -> Dump:
    """Read raw triple files in one pass, keeping the triples of ``relations`` (by default all).

    For the forms of files see `mtbench.builders.dumps.files.read_blocks`. Files whose first line reads like
    Wikidata (``Q42 TAB P31 TAB Q5``) take a path on integers: 20.6 million triples need under a
    gigabyte. What is returned does not depend on the form of the files, their order or ``block_bytes``.

    Raises `DatasetError` for a line that is not three names, giving file, line number and text, for a
    file that cannot be read, and for a dump without any triple of these relations.
    """
    reader: _NumberReader | _NameReader | None = None
    lines = 0
    for block in read_blocks(paths, block_bytes):
        if reader is None:
            is_wikidata = WIKIDATA.fullmatch("\t".join(next(block.named())[1])) is not None
            reader = _NumberReader(relations) if is_wikidata else _NameReader(relations)
        lines += reader.add(block)
    if reader is None or not reader.kept:
        where = ", ".join(map(str, paths)) or "no file"
        raise DatasetError(f"{where}: {lines} lines, none with a relation that is asked for")
    return _pack(reader, lines)


class _Reader:
    """The columns kept so far, one array per block."""

    def __init__(self, relations: Collection[str] | None) -> None:
        self.wanted = None if relations is None else frozenset(relations)
        self.blocks: list[Columns] = []

    @property
    def kept(self) -> int:
        return sum(len(head) for head, _, _ in self.blocks)

    def keep(self, columns: Columns, mask: npt.NDArray[np.bool_] | None) -> None:
        head, relation, tail = columns
        self.blocks.append(columns if mask is None else (head[mask], relation[mask], tail[mask]))


class _NumberReader(_Reader):
    """Wikidata: names are numbers behind a letter, so they are parsed as numbers and never stored as text."""

    def __init__(self, relations: Collection[str] | None) -> None:
        super().__init__(relations)
        numbers = [int(name[1:]) for name in self.wanted or () if re.fullmatch(r"P[1-9]\d{0,5}", name)]
        self.table = np.zeros(1_000_000, dtype=np.bool_)
        self.table[numbers] = True

    def add(self, block: Block) -> int:
        columns = _wikidata_columns(block.data()) or _wikidata_columns(block.data(checked=True))
        if columns is None:
            raise block.unlike(WIKIDATA, "is not Qnumber TAB Pnumber TAB Qnumber like the lines before")
        self.keep(columns, None if self.wanted is None else self.table[columns[1]])
        return len(columns[0])

    def entities(self) -> tuple[npt.NDArray[np.int32], tuple[str, ...], Lookup]:
        """Return the sorted numbers, no names, and the function from numbers to their ids."""
        largest = max(int(max(head.max(), tail.max())) for head, _, tail in self.blocks if len(head))
        if largest >= _LARGEST_TABLE:
            parts = [unique(np.concatenate((head, tail))) for head, _, tail in self.blocks]
            numbers = unique(np.concatenate(parts))
            return numbers, (), lambda column: np.searchsorted(numbers, column)
        place = np.zeros(largest + 1, dtype=np.uint8)
        for head, _, tail in self.blocks:
            place[head] = 1
            place[tail] = 1
        numbers = np.flatnonzero(place.view(np.bool_)).astype(np.int32)
        # A byte per number and a count per 256 numbers: a quarter of the memory of a plain table.
        before = np.searchsorted(numbers, np.arange(0, largest + 1, 256)).astype(np.int32)
        place[numbers] = np.arange(len(numbers), dtype=np.int32) - before[numbers >> 8]
        return numbers, (), lambda column: before[column >> 8] + place[column]

    def relations(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        seen = np.zeros(len(self.table), dtype=np.bool_)
        for _, relation, _ in self.blocks:
            seen[relation] = True
        numbers = np.flatnonzero(seen)
        table = np.zeros(len(seen), dtype=np.int32)
        table[numbers] = np.arange(len(numbers), dtype=np.int32)
        return tuple(f"P{number}" for number in numbers.tolist()), table


class _NameReader(_Reader):
    """Any other names: ids in order of appearance while reading, by name afterwards."""

    def __init__(self, relations: Collection[str] | None) -> None:
        super().__init__(relations)
        self.entity_ids: dict[str, int] = {}
        self.relation_ids: dict[str, int] = {}

    def add(self, block: Block) -> int:
        table = block.table
        lines = len(table)
        if self.wanted is not None:
            table = table.filter(pc.is_in(table["relation"], pa.array(sorted(self.wanted), pa.string())))
        head = ids_of(table["head"], self.entity_ids)
        self.keep((head, ids_of(table["relation"], self.relation_ids), ids_of(table["tail"], self.entity_ids)), None)
        return lines

    def entities(self) -> tuple[npt.NDArray[np.int32], tuple[str, ...], Lookup]:
        names, table = _by_name(self.entity_ids)
        return _EMPTY, names, lambda column: table[column]

    def relations(self) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
        return _by_name(self.relation_ids)


def _wikidata_columns(data: bytes) -> Columns | None:
    # None where any line is not Q, number, tab, P, number, tab, Q, number. Letters are checked here and
    # removed, digits are left to the parser. Names with leading zeros would lose them.
    lines = data.count(b"\n")
    if data.translate(None, b"0123456789") != b"Q\tP\tQ\n" * lines:
        return None
    text = np.frombuffer(data, dtype=np.uint8)
    is_letter, is_digit = text > ord("A"), text >= ord("0")
    if (is_letter[1:] & is_digit[:-1]).any() or (is_letter[:-1] & (text[1:] == ord("0"))).any():
        return None
    table = parse(data.translate(None, b"QP"), pa.int32())
    if table is None or len(table) != lines or any(column.null_count for column in table.columns):
        return None
    if pc.max(table[1]).as_py() >= 1_000_000:
        return None
    head, relation, tail = (plain_numbers(column.combine_chunks()) for column in table.columns)
    return head, relation, tail


def _by_name(ids: dict[str, int]) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    names = sorted(ids)
    table = np.empty(len(names), dtype=np.int32)
    table[[ids[name] for name in names]] = np.arange(len(names), dtype=np.int32)
    return tuple(names), table


def _pack(reader: _NumberReader | _NameReader, lines: int) -> Dump:
    numbers, names, lookup = reader.entities()
    relations, relation_table = reader.relations()
    bits = max(len(names) or len(numbers), 2).bit_length()
    if 2 * bits + len(relations).bit_length() > 63:
        raise DatasetError("the dump has too many entities and relations for keys of 63 bits: ask for fewer relations")
    kept = reader.kept
    keys = np.empty(kept, dtype=np.int64)
    loops, start = 0, 0
    while reader.blocks:
        head, relation, tail = reader.blocks.pop()
        loops += int(np.count_nonzero(head == tail))
        heads, tails = (lookup(column).astype(np.int64) for column in (head, tail))
        part = keys[start : start + len(head)]
        np.left_shift(relation_table[relation].astype(np.int64), 2 * bits, out=part)
        part |= heads << bits
        part |= tails
        start += len(head)
    keys.sort()
    fresh = np.ones(kept, dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    if not fresh.all():
        keys = keys[fresh]
    return Dump(keys, bits, numbers, names, relations, lines, lines - kept, kept - len(keys), loops)
