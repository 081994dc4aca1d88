"""The Parquet files that the exports for dataset hubs share: one folder per table, one file per split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from mtbench.data.splits import Dataset, Split
from mtbench.files.formats import encode_table
from mtbench.names import COLUMNS, IntArray


@dataclass(frozen=True)
class Table:
    """One Parquet file: ``name`` of the table, ``split`` as hubs call it, columns, number of rows, bytes."""

    name: str
    split: str
    columns: tuple[str, ...]
    rows: int
    data: bytes

    @property
    def path(self) -> str:
        """Where the file is in the export."""
        return f"{self.name}/{self.split}.parquet"


def tables(dataset: Dataset) -> list[Table]:
    """Return the files of a dataset: its triples by name, and its vocabularies in id order.

    ``graph`` has the splits train and test, ``targets`` validation and test, ``entities`` and
    ``relations`` train (which validation shares) and test; ``relations`` has the column ``task``, empty
    where it is not known.
    """
    train, valid, test = dataset.train, dataset.valid, dataset.test
    found = [
        _triples("graph", "train", train, train.graph),
        _triples("graph", "test", test, test.graph),
        _triples("targets", "validation", valid, valid.targets),
        _triples("targets", "test", test, test.targets),
    ]
    found += [_table("entities", split.name, ("entity",), [split.entities.tolist()]) for split in (train, test)]
    for split in (train, test):
        names = split.relations.tolist()
        tasks = [split.tasks.get(name, "") for name in names]
        found.append(_table("relations", split.name, ("relation", "task"), [names, tasks]))
    return found


def _triples(name: str, split_name: str, split: Split, triples: IntArray) -> Table:
    rows = split.named(triples)
    return _table(name, split_name, COLUMNS, [[row[column] for row in rows] for column in range(len(COLUMNS))])


def _table(name: str, split: str, columns: tuple[str, ...], values: Sequence[Sequence[str]]) -> Table:
    # Plain text columns: not every reader knows Arrow's dictionary type, and Parquet encodes repeats anyway.
    found = pa.table(
        {column: pa.array(list(row), type=pa.string()) for column, row in zip(columns, values, strict=True)}
    )
    return Table(name, split, columns, len(values[0]), encode_table(found))
