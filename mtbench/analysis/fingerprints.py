"""Fingerprints of triples: what is compared when a graph is checked against a split, however its names are spelt.

The fingerprint of a name is the first 8 bytes, little-endian, of BLAKE2b with ``digest_size=8`` over the
UTF-8 of its canonical form; those of a pair (h, t) and a triple (h, r, t) chain the names' through
splitmix64: ``mix(mix(h) ^ t)`` and ``mix(mix(mix(h) ^ r) ^ t)``. They can be made in any language,
and shared instead of the graph. They hide names only from somebody who has no list of all names, and two
different things have the same fingerprint by chance once in 10 ** 19 comparisons.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mtbench.builders.dumps.files import FORMS, read_tables
from mtbench.data.ragged import splitmix64
from mtbench.data.splits import NamedTriple, Split, unique
from mtbench.errors import DatasetError
from mtbench.files.atomic import replacing
from mtbench.files.formats import expect_free
from mtbench.names import COLUMNS, HEAD, RELATION, TAIL, IntArray, UIntArray

VERSION = 1
"""Raised whenever the same names would have other fingerprints; part of every file of fingerprints."""

ROWS = 1 << 16
KINDS = ("triple", "pair", "entity", "relation")

FIELDS = ("kind", "fingerprint")
_VERSION_KEY, _LINES_KEY = b"mtbench_fingerprints", b"triples"
_EMPTY = np.empty(0, dtype=np.uint64)

_WIKIDATA = re.compile(
    r"(?:https?://(?:www\.|m\.)?wikidata\.org/(?:\w+/)*(?:Property:|Special:EntityData/)?|wdt?:|Property:)([QPL][1-9]\d*)"
)
_FREEBASE = re.compile(r"(?:https?://rdf\.freebase\.com/ns/|ns:|fb:|(?=[mg]\.\w+$))(\w+(?:[./]\w+)*)")


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """Fingerprints of a graph or a part of one, uint64: of triples and pairs, and of the entities and relations.

    ``lines`` is how many triples they come from, repeated ones included.
    """

    triple: UIntArray
    pair: UIntArray
    entity: UIntArray
    relation: UIntArray
    lines: int


def canonical(name: str) -> str:
    """Return the form of a name that is fingerprinted.

    Blanks around it are stripped and Unicode is in normal form C; angle brackets around an address are
    dropped. Wikidata's addresses and prefixed names become ids (``http://www.wikidata.org/entity/Q42``,
    ``wd:Q42`` and ``wdt:P31`` become Q42 and P31), Freebase's become paths
    (``http://rdf.freebase.com/ns/m.02mjmr``, ``ns:m.02mjmr`` and ``m.02mjmr`` become ``/m/02mjmr``).
    Anything else stays as it is: upper and lower case differ, and no two identifier schemes are aligned.
    """
    if name.isascii() and name.isalnum():  # most names of a dump: none of the rules below applies
        return name
    name = unicodedata.normalize("NFC", name).strip()
    if name.startswith("<") and name.endswith(">"):
        name = name[1:-1].strip()
    if match := _WIKIDATA.fullmatch(name):
        return match[1]
    if match := _FREEBASE.fullmatch(name):
        return "/" + match[1].replace(".", "/")
    return name


def of_names(names: Iterable[str]) -> UIntArray:
    """Return the fingerprints of names, uint64 in the same order."""
    digests = (hashlib.blake2b(canonical(name).encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def of_columns(heads: UIntArray, relations: UIntArray, tails: UIntArray) -> Fingerprints:
    """Return the fingerprints of a part of a graph, from those of the names in its three columns ``(n,)``."""
    # Mixed between names: a plain xor would give (h, t) and (t, h) the same fingerprint, and a self-loop 0.
    begun = splitmix64(heads)
    return Fingerprints(
        triple=splitmix64(splitmix64(begun ^ relations) ^ tails),
        pair=splitmix64(begun ^ tails),
        entity=unique(np.concatenate((heads, tails))),
        relation=unique(relations),
        lines=len(heads),
    )


def of_split(split: Split, *parts: IntArray) -> Iterator[Fingerprints]:
    """Yield the fingerprints of triples of a split's ids, such as its graph and its targets."""
    entities, relations = of_names(split.entities.tolist()), of_names(split.relations.tolist())
    for part in parts:
        yield of_columns(entities[part[:, HEAD]], relations[part[:, RELATION]], entities[part[:, TAIL]])


def of_named(triples: Iterable[NamedTriple]) -> Iterator[Fingerprints]:
    """Yield the fingerprints of named triples, a block at a time."""
    rows = iter(triples)
    while block := list(islice(rows, ROWS)):
        heads, relations, tails = map(of_names, zip(*block, strict=True))
        yield of_columns(heads, relations, tails)


def collect(parts: Iterable[Fingerprints]) -> Fingerprints:
    """Return all fingerprints of a graph, sorted and distinct; memory grows with the graph, 16 bytes a triple."""
    collected: dict[str, list[UIntArray]] = {kind: [] for kind in KINDS}
    lines = 0
    for part in parts:
        lines += part.lines
        for kind, arrays in collected.items():
            arrays.append(unique(getattr(part, kind)))
    # Taken out of the dictionary, so that the blocks of a kind are freed before the next is merged.
    merged = {kind: unique(np.concatenate([_EMPTY, *collected.pop(kind)])) for kind in KINDS}
    return Fingerprints(**merged, lines=lines)


def read(path: Path) -> Iterator[Fingerprints]:
    """Yield the fingerprints of a file, a block at a time, so that memory does not grow with the file.

    A file of triples is what `mtbench.builders.dumps.files.read_tables` reads. A Parquet file may hold fingerprints
    instead, written by `write`. Raises `DatasetError` for a file that is missing, damaged, or holds neither.
    """
    if not path.name.lower().endswith(".parquet") or not _holds_fingerprints(path):
        for table in read_tables(path):
            yield of_columns(*(_of_column(table.column(name)) for name in COLUMNS))
        return
    with pq.ParquetFile(path) as file:
        lines = int(file.schema_arrow.metadata[_LINES_KEY])
        for batch in file.iter_batches(ROWS):
            kinds = batch.column(FIELDS[0]).cast(pa.string()).to_numpy(zero_copy_only=False)
            values = batch.column(FIELDS[1]).to_numpy()
            yield Fingerprints(**{kind: values[kinds == kind] for kind in KINDS}, lines=lines)
            lines = 0  # are those of the whole file, and are counted once


def write(fingerprints: Fingerprints, path: Path, *, force: bool = False) -> None:
    """Write the fingerprints of a graph as Parquet with the columns kind and fingerprint, sorted by both.

    Raises `UsageError` as `expect_free` does, `MtbenchError` for a place that cannot be written; the file is
    written whole or not at all.
    """
    expect_free(path, force=force)
    metadata = {_VERSION_KEY: str(VERSION), _LINES_KEY: str(fingerprints.lines)}
    kinds = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([(FIELDS[0], kinds), (FIELDS[1], pa.uint64())], metadata)
    # Uncompressed, since hashes do not compress: only the kinds, long runs of a value, are worth a dictionary.
    with replacing(path) as new, pq.ParquetWriter(new, schema, compression="none", use_dictionary=[FIELDS[0]]) as file:
        for number, kind in enumerate(KINDS):
            values = getattr(fingerprints, kind)
            codes = pa.array(np.full(len(values), number, dtype=np.int8))
            column = pa.DictionaryArray.from_arrays(codes, pa.array(KINDS))
            file.write_table(pa.table([column, pa.array(values)], schema=schema))


def _holds_fingerprints(path: Path) -> bool:
    """Return whether a Parquet file holds fingerprints; raises `DatasetError` for those of another version."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}, or a file of fingerprints") from error
    version = (schema.metadata or {}).get(_VERSION_KEY)
    if version not in (None, str(VERSION).encode()):
        raise DatasetError(f"{path} holds fingerprints of version {version!r}, this is {VERSION}: write them again")
    return version is not None and tuple(schema.names) == FIELDS


def _of_column(column: pa.ChunkedArray) -> UIntArray:
    if not len(column):
        return _EMPTY
    encoded = column.combine_chunks().dictionary_encode()
    # Each name of a block is hashed once: that is most of the work.
    hashed: UIntArray = of_names(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return hashed
