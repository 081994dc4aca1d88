"""Datasets and graphs of one's own: files of triples by name, read as they are, without a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtbench.builders.dumps.tables import read_tables
from mtbench.data.catalog import Record
from mtbench.data.graphs import keys
from mtbench.data.splits import Dataset, Split, SplitName, among, measure, together
from mtbench.errors import DatasetError, shown
from mtbench.names import COLUMNS, IntArray, NameArray

STEMS = {
    "train/graph": ("train", "train_graph"),
    "valid/targets": ("valid", "valid_targets"),
    "test/graph": ("msg", "test_graph"),
    "test/targets": ("test", "test_targets"),
}
"""What a file of a part may be called: as `mtbench.export.arrays` and the releases do, or plainly."""

SUFFIXES = (".txt", ".tsv", ".csv", ".parquet", ".txt.gz", ".tsv.gz", ".csv.gz")
NEEDED = (
    "train.txt (the training graph), msg.txt (the test graph), test.txt (what to predict in the test graph) and, if "
    "there is one, valid.txt (what to predict in the training graph)"
)
VERSION = "1.0.0"
_ELSEWHERE = (
    "valid is about the test graph, as InGram's own files are; it was left out: there are no validation targets"
)


def read(directory: Path) -> Dataset:
    """Read the dataset of a folder of files of triples: a training graph, a test graph, and targets for both.

    The files are ``train``, ``msg`` (the test graph), ``test`` and maybe ``valid``, or ``train_graph``,
    ``test_graph``, ``test_targets`` and ``valid_targets``, each with a suffix of `SUFFIXES`, of the form that
    `read_tables` reads. Rows that repeat another are dropped. Targets may name entities and relations without an
    observable triple. Without ``valid``, or where it is about the test graph, there are no validation targets.

    Raises `DatasetError` for a part that is missing or there twice, an empty one, and targets that are observable, or
    about another graph.
    """
    files = {part: found for part, stems in STEMS.items() if (found := _find(directory, stems)) is not None}
    if missing := [stems[0] for part, stems in STEMS.items() if part not in files and part != "valid/targets"]:
        there = sorted(path.name for path in directory.iterdir())
        raise DatasetError(
            f"{directory} has no {' and no '.join(missing)} file, and no manifest.json, which mtbench build writes; it "
            f"holds {shown(there) or 'nothing'}: name a folder of {NEEDED}"
        )
    tables = {part: _distinct(path) for part, path in files.items()}
    for part in ("train/graph", "test/graph", "test/targets"):
        if not len(tables[part]):
            raise DatasetError(f"{files[part]} holds no triple")
    nothing, name = tables["test/graph"].slice(0, 0), directory.resolve().name
    targets, defects = tables.get("valid/targets", nothing), list[str]()
    if _about(targets, tables["test/graph"]) > _about(targets, tables["train/graph"]):
        targets, defects = nothing, [_ELSEWHERE]
    for part, graph, found in (
        ("valid/targets", "train/graph", targets),
        ("test/targets", "test/graph", tables["test/targets"]),
    ):
        if len(found) and not _about(found, tables[graph]):
            raise DatasetError(
                f"{files[part]}: none of its entities is in {files[graph].name}, the graph it belongs to"
            )
    valid = split(name, "valid", tables["train/graph"], targets)
    test = split(name, "test", tables["test/graph"], tables["test/targets"])
    for of, path in ((valid, files.get("valid/targets")), (test, files["test/targets"])):
        _expect_hidden(of, path)
    graphs, parts = measure(valid, test)
    info = Record(
        id=name,
        title=name,
        version=VERSION,
        builder="files",
        summary="Triples read from files.",
        licence="unknown",
        citation="",
        aliases=(),
        defects=tuple(defects),
        graphs=graphs,
        parts=parts,
        sources=(),
        parameters={},
        candidates={},
    )
    return together(info, name, valid, test, {})


def is_dataset(directory: Path) -> bool:
    """Tell whether a folder holds files of triples for training: whether it is meant as a dataset."""
    return any(place.is_file() for place in _places(directory, STEMS["train/graph"]))


def read_graph(path: Path) -> Split:
    """Read a file of triples as a graph without targets; raises `DatasetError` for one without a triple."""
    table = _distinct(path)
    if not len(table):
        raise DatasetError(f"{path} holds no triple")
    return split(path.name, "test", table, table.slice(0, 0))


def split(dataset: str, name: SplitName, graph: pa.Table, targets: pa.Table) -> Split:
    """Return two tables of named triples as a split, whose names are those of both, sorted."""
    entities = _names(graph["head"], graph["tail"], targets["head"], targets["tail"])
    relations = _names(graph["relation"], targets["relation"])
    vocabularies = dict(zip(COLUMNS, (entities, relations, entities), strict=True))

    def ids(table: pa.Table) -> IntArray:
        columns = [pc.index_in(table[key].combine_chunks(), names) for key, names in vocabularies.items()]
        return np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1).astype(np.int64)

    return Split(dataset, name, ids(graph), ids(targets), _array(entities), _array(relations), len(relations))


def _places(directory: Path, stems: Sequence[str]) -> list[Path]:
    return [directory / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES]


def _find(directory: Path, stems: Sequence[str]) -> Path | None:
    found = [place for place in _places(directory, stems) if place.is_file()]
    if len(found) > 1:
        raise DatasetError(f"{directory} holds {' and '.join(place.name for place in found)}: keep one of them")
    return found[0] if found else None


def _distinct(path: Path) -> pa.Table:
    tables = [table.select(COLUMNS) for table in read_tables(path)]
    if not tables:
        return pa.table({name: pa.array([], pa.string()) for name in COLUMNS})
    table = pa.concat_tables(tables).append_column("row", pa.array(np.arange(sum(map(len, tables)))))
    first = table.group_by(COLUMNS, use_threads=False).aggregate([("row", "min")])["row_min"]
    return table.select(COLUMNS).take(pa.array(np.sort(first.to_numpy())))


def _names(*columns: pa.ChunkedArray) -> pa.Array:
    # Python's order of names is that of every other split.
    every = {name for column in columns for name in pc.unique(column).to_pylist()}
    return pa.array(sorted(every), pa.string())


def _array(names: pa.Array) -> NameArray:
    return np.array(names.to_pylist(), dtype=np.str_)


def _about(targets: pa.Table, graph: pa.Table) -> int:
    """Return how many ends of triples are entities of a graph."""
    known = _names(graph["head"], graph["tail"])
    return sum(pc.sum(pc.is_in(targets[end], known)).as_py() or 0 for end in ("head", "tail"))


def _expect_hidden(of: Split, path: Path | None) -> None:
    observable = of.targets[among(keys(of, of.targets), keys(of, of.graph))]
    if len(observable):
        raise DatasetError(
            f"{path}: {len(observable)} of {len(of.targets)} triples are in the {of.name} graph as well, first "
            f"{of.named(observable[:1])[0]}: what is to be predicted must not be observable"
        )
