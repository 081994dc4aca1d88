"""Triples and vocabularies as Parquet: names in dictionary-encoded columns, deterministic bytes, no pickle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mtbench.errors import DatasetError
from mtbench.files.formats import encode_table
from mtbench.names import COLUMNS, HEAD, RELATION, TAIL, IntArray, NameArray


def encode_triples(triples: IntArray, entities: NameArray, relations: NameArray) -> bytes:
    """Return triples of ids ``(n, 3)`` as a Parquet file with the columns head, relation, tail.

    Each column is a dictionary-encoded string whose dictionary is the whole vocabulary, so that any
    reader sees names and no reader needs a second file. Rows keep their order.
    """
    vocabularies = {HEAD: entities, RELATION: relations, TAIL: entities}
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(triples[:, column], type=pa.int32()), _strings(names))
        for column, names in vocabularies.items()
    ]
    return encode_table(pa.table(columns, names=list(COLUMNS)))


def decode_triples(data: pa.Buffer, entities: NameArray, relations: NameArray) -> IntArray:
    """Return the triples of a Parquet file as ids ``(n, 3)`` of the given vocabularies.

    Names are looked up, never dictionary codes: a writer may have reordered, split or dropped the
    dictionaries. A missing column, an empty cell or a name outside the vocabulary raises `ValueError`.
    """
    table = _decode(data, COLUMNS)
    known_entities, known_relations = _strings(entities), _strings(relations)
    vocabularies = {HEAD: known_entities, RELATION: known_relations, TAIL: known_entities}
    triples = np.empty((table.num_rows, 3), dtype=np.int64)
    for column, known in vocabularies.items():
        triples[:, column] = _column_ids(table.column(COLUMNS[column]), known, COLUMNS[column])
    return triples


def encode_names(kind: str, names: NameArray, tasks: Mapping[str, str] | None = None) -> bytes:
    """Return a vocabulary as a Parquet file: column ``kind`` in id order, and ``task`` where it is known."""
    columns = {kind: _strings(names)}
    if tasks:
        columns["task"] = pa.array([tasks.get(name) for name in names.tolist()], type=pa.string())
    return encode_table(pa.table(columns))


def decode_names(data: pa.Buffer, kind: str) -> tuple[NameArray, dict[str, str]]:
    """Return a vocabulary and its known tasks; a missing column, an empty name or another order raises `ValueError`."""
    table = _decode(data, (kind,))
    names: list[str | None] = table.column(kind).to_pylist()
    if None in names:
        raise ValueError(f"column {kind} has an empty cell")
    labels: list[str | None] = table.column("task").to_pylist() if "task" in table.column_names else [None] * len(names)
    tasks = {str(name): label for name, label in zip(names, labels, strict=True) if label is not None}
    found = np.array(names, dtype=np.str_)
    if (found[:-1] >= found[1:]).any():
        raise ValueError(f"column {kind} is not sorted, or has a name twice")
    return found, tasks


def check_vocabulary(names: NameArray, where: str) -> None:
    """Raise `DatasetError` naming ``where`` unless the names are distinct and sorted, as ids rely on it."""
    unsorted = np.flatnonzero(names[:-1] >= names[1:])
    if len(unsorted):
        first, second = names[unsorted[0]], names[unsorted[0] + 1]
        raise DatasetError(f"{where}: names must be sorted and distinct, but {first!s} precedes {second!s}")


def _decode(data: pa.Buffer, columns: tuple[str, ...]) -> pa.Table:
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"is not a Parquet file ({error})") from error
    if missing := [column for column in columns if column not in table.column_names]:
        raise ValueError(f"has no column {', '.join(missing)}")
    return table


def _strings(names: NameArray) -> pa.StringArray:
    return pa.array(names.tolist(), type=pa.string())


def _column_ids(column: pa.ChunkedArray, known: pa.StringArray, name: str) -> IntArray:
    if column.null_count:
        raise ValueError(f"column {name} has {column.null_count} empty cells")
    found = [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks:
        coded = chunk if isinstance(chunk, pa.DictionaryArray) else chunk.dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        if coded.dictionary.equals(known):
            found.append(codes.astype(np.int64))
            continue
        # Words of the dictionary that no row uses need not be known.
        numbers = pc.fill_null(pc.index_in(coded.dictionary, value_set=known), -1).to_numpy(zero_copy_only=False)
        ids = numbers[codes].astype(np.int64)
        if len(unknown := np.unique(codes[ids < 0])):
            first = coded.dictionary[int(unknown[0])].as_py()
            raise ValueError(f"column {name} has {len(unknown)} names outside the vocabulary, first {first!r}")
        found.append(ids)
    return np.concatenate(found)
