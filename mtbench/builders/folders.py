"""Datasets and graphs of one's own: files of triples by name, read as they are, without a manifest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtbench.builders.dumps.files import read_tables
from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.data.graphs import keys
from mtbench.data.splits import Dataset, Split, SplitName, among, own_release, together
from mtbench.errors import DatasetError, UsageError, shown
from mtbench.names import COLUMNS, HEAD, RELATION, TAIL, IntArray, NameArray

STEMS = {
    "train/graph": ("train", "train_graph"),
    "valid/targets": ("valid", "valid_targets"),
    "test/graph": ("msg", "test_graph"),
    "test/targets": ("test", "test_targets"),
}
"""What a file of a part may be called: as `mtbench.export.writers` and the releases do, or plainly."""


def _layout(train: str, valid: str, inference: str, test: str) -> Mapping[str, Sequence[str]]:
    return dict(zip(STEMS, ((train,), (valid,), (inference,), (test,)), strict=True))


ONE_GRAPH = "one graph: train, valid, test"
LAYOUTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "train, valid, msg, test, as InGram and mtbench have them": STEMS,
    "GraIL: NAME and NAME_ind": _layout("train", "valid", "../{name}_ind/train", "../{name}_ind/test"),
    "GraIL in one folder, as ULTRA keeps it": _layout("train", "valid", "train_ind", "test_ind"),
    "ULTRA: transductive_train and inference_graph": _layout(
        "transductive_train", "inf_valid", "inference_graph", "inf_test"
    ),
    "PyKEEN and ILPC: train and inference": _layout("train", "inference_validation", "inference", "inference_test"),
    "INDIGO: folders train and test": _layout("train/train", "train/valid", "test/test-graph", "test/test-fact"),
    ONE_GRAPH: {part: stems for part, stems in STEMS.items() if part != "test/graph"},
}
"""The files of every part by layout; ``{name}`` is the folder's own name. The first that a folder has is taken."""

SUFFIXES = (".txt", ".tsv", ".csv", ".parquet", ".txt.gz", ".tsv.gz", ".csv.gz")
NEEDED = (
    "train.txt (the training graph), msg.txt (the test graph), test.txt (what to predict in the test graph) and, if "
    "there is one, valid.txt (what to predict in the training graph)"
)
_ONE_GRAPH = "the test graph is the training graph: no entity or relation is new in it"
_ELSEWHERE = (
    "valid is about the test graph, as InGram's own files are: it was left out, and there are no validation targets"
)


def read(directory: Path) -> Dataset:
    """Read the dataset of a folder of files of triples: a training graph, a test graph, and targets for both.

    The files are those of one of the `LAYOUTS`, each with a suffix of `SUFFIXES`, of the form that `read_tables` reads.
    Rows that repeat another are dropped. Targets may name entities and relations without an observable triple. Without
    a file for them, or where it is about the test graph, there are no validation targets. Where there is no test graph
    and what to predict is about the entities of the training graph, that is the test graph, too.

    Raises `DatasetError` for a part that is missing or there twice, an empty one, and targets that are observable, or
    about another graph.
    """
    return from_files(directory, share=None)


def from_files(
    directory: Path | str | None = None,
    *,
    train: Path | str | None = None,
    valid: Path | str | None = None,
    inference: Path | str | None = None,
    test: Path | str | None = None,
    name: str | None = None,
    share: float | None = 0.2,
    seed: int = 0,
) -> Dataset:
    """Return a dataset of files of triples by name: those of a folder in a known layout, or four that are named.

    ``directory`` is read as `read` does. ``train`` is the training graph, ``valid`` what to predict in it,
    ``inference`` the observable triples of the test graph and ``test`` what to predict there. Where nothing is
    observable of a test graph whose entities are new, a ``share`` of ``test``, drawn with ``seed``, is to be predicted
    and the rest observable; None refuses that. Raises the errors of `read`, and `UsageError` for neither a folder nor
    ``train`` and ``test``, or both.
    """
    named = {"train/graph": train, "valid/targets": valid, "test/graph": inference, "test/targets": test}
    given = {part: Path(path).expanduser() for part, path in named.items() if path is not None}
    if directory is None and {"train/graph", "test/targets"} <= given.keys():
        called = name or given["train/graph"].resolve().parent.name
        return _of(given, called, "files named one by one", share, seed)
    if directory is None or given:
        raise UsageError(
            "give a folder of files, or a file for train and one for test (valid and inference may follow)"
        )
    folder = Path(directory).expanduser()
    layout, files = _recognise(folder)
    return _of(files, name or folder.resolve().name, layout, share, seed)


def _recognise(directory: Path) -> tuple[str, dict[str, Path]]:
    """Return the layout of a folder, and its files by part."""
    here, partial = directory.resolve(), dict[str, Path]()
    for layout, places in LAYOUTS.items():
        files = {
            part: found
            for part, stems in places.items()
            if (found := _find(here, [stem.format(name=here.name) for stem in stems])) is not None
        }
        if {"train/graph", "test/targets"} <= files.keys() and ("test/graph" in files or layout == ONE_GRAPH):
            return layout, files
        partial = partial or files
    missing = [stems[0] for part, stems in STEMS.items() if part not in partial and part != "valid/targets"]
    there = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    raise DatasetError(
        f"{directory} has no {' and no '.join(missing)} file, and no manifest.json, which mtbench build writes; it "
        f"holds {shown(there) or 'nothing'}: name a folder of {NEEDED}"
    )


def _of(files: Mapping[str, Path], name: str, layout: str, share: float | None, seed: int) -> Dataset:
    """Return the dataset of files by part."""
    tables = {part: _distinct(path) for part, path in files.items()}
    for part, table in tables.items():
        if not len(table) and part != "valid/targets":
            raise DatasetError(f"{files[part]} holds no triple")
    nothing, drawn, defects = tables["train/graph"].slice(0, 0), dict[str, Parameter](), list[str]()
    if "test/graph" not in tables:
        if 2 * _about(tables["test/targets"], tables["train/graph"]) >= len(tables["test/targets"]):
            tables["test/graph"] = tables["train/graph"]
            defects.append(_ONE_GRAPH)
        elif share is None:
            raise DatasetError(
                f"{files['test/targets']} is about entities that {files['train/graph'].name} has not, and no file "
                f"(msg) tells of them: mtbench import {shlex.quote(str(files['train/graph'].parent))} --out DIR hides "
                f"a fifth of it"
            )
        else:
            tables["test/graph"], tables["test/targets"] = _held_out(tables["test/targets"], share, seed)
            drawn = {"share": share, "seed": seed}
    targets = tables.get("valid/targets", nothing)
    if _about(targets, tables["test/graph"]) > _about(targets, tables["train/graph"]):
        targets = nothing
        defects.append(_ELSEWHERE)
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
        observable = of.targets[among(keys(of, of.targets), keys(of, of.graph))]
        if len(observable):
            raise DatasetError(
                f"{path}: {len(observable)} of {len(of.targets)} triples are in the {of.name} graph as well, first "
                f"{of.named(observable[:1])[0]}: what is to be predicted must not be observable"
            )
    parameters = {"layout": layout, "notes": "; ".join(defects), **drawn}
    info = catalog.own(catalog.FILES, name, parameters, licence="unknown", citation="")
    return own_release(together(info, name, valid, test, parameters))


def _held_out(table: pa.Table, share: float, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return a graph and what is to be predicted in it: each entity and each relation keeps an observable triple."""
    if not 0 < share < 1:
        raise UsageError(f"share must be between 0 and 1, not {share}")
    whole = split("", "test", table, table.slice(0, 0))
    left = [np.bincount(whole.graph[:, columns].ravel()).tolist() for columns in ([HEAD, TAIL], [RELATION])]
    hidden = np.zeros(len(table), dtype=bool)
    wanted = round(share * len(table))
    for row in np.random.default_rng(seed).permutation(len(table)).tolist():
        head, relation, tail = whole.graph[row].tolist()
        if wanted == 0:
            break
        if min(left[0][head], left[0][tail], left[1][relation]) > (2 if head == tail else 1):
            hidden[row] = True
            wanted -= 1
            for counts, place in ((left[0], head), (left[0], tail), (left[1], relation)):
                counts[place] -= 1
    if not hidden.any():
        raise DatasetError("no triple can be held out: each is the last one of an entity or a relation")
    return table.filter(pa.array(~hidden)), table.filter(pa.array(hidden))


def is_dataset(directory: Path) -> bool:
    """Tell whether a folder holds files of triples for training: whether it is meant as a dataset."""
    stems = dict.fromkeys(stem for places in LAYOUTS.values() for stem in places["train/graph"])
    return any(place.is_file() for place in _places(directory, list(stems)))


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
