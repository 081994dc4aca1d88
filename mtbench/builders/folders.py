"""Datasets and graphs of one's own: files of triples by name, read as they are, without a manifest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mtbench.builders.dumps.files import ARCHIVES, FORMS, MOST_ROWS, expect_file, holds_triples, ids_of, read_blocks
from mtbench.data import catalog
from mtbench.data.catalog import Parameter
from mtbench.data.graphs import keys
from mtbench.data.splits import (
    Dataset,
    NamedTriple,
    Split,
    SplitName,
    among,
    own_release,
    together,
    unique,
    with_known,
)
from mtbench.errors import DatasetError, UsageError, shown
from mtbench.files.reading import expanded
from mtbench.names import COLUMNS, HEAD, RELATION, TAIL, IntArray, NameArray

OPTIONS = {
    "test/graph": "inference",
    "valid/targets": "valid",
    "test/known": "known",
    "train/graph": "train",
    "test/targets": "test",
}
"""What a file may be to a dataset, and the argument that names such a file."""

TRIPLES = {
    "train/graph": "triples of the training graph",
    "valid/targets": "triples to predict in the training graph",
    "test/graph": "triples of the inference graph",
    "test/targets": "test triples",
    "valid/known": "triples of the training graph that are known, not shown; filtered everywhere",
    "test/known": "triples of the inference graph that are known, not shown; filtered everywhere",
}
STEMS: Mapping[str, Sequence[str]] = {
    "train/graph": ("train", "train_graph", "training"),
    "valid/targets": ("valid", "valid_targets", "validation", "dev"),
    "test/graph": ("msg", "test_graph", "inference", "inference_graph"),
    "test/targets": ("test", "test_targets", "testing"),
    "valid/known": ("valid_known",),
    "test/known": ("test_known",),
}
"""What a file of a part may be called: as `mtbench.export.writers` and the releases do, or plainly."""


def _layout(*stems: str) -> Mapping[str, Sequence[str]]:
    return {part: (stem,) for part, stem in zip(STEMS, stems, strict=False) if stem}


LAYOUTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "train, valid, msg, test, as InGram and mtbench have them": STEMS,
    "GraIL: NAME and NAME_ind": _layout(
        "train", "valid", "../{name}_ind/train", "../{name}_ind/test", "test", "../{name}_ind/valid"
    ),
    "GraIL in one folder, as ULTRA keeps it": _layout("train", "valid", "train_ind", "test_ind", "test", "valid_ind"),
    "ULTRA: transductive_train and inference_graph": _layout(
        "transductive_train", "inf_valid", "inference_graph", "inf_test"
    ),
    "PyKEEN and ILPC: train and inference": _layout("train", "inference_validation", "inference", "inference_test"),
    "INDIGO: folders train and test": _layout("train/train", "train/valid", "test/test-graph", "test/test-fact"),
    "OpenKE: one graph of ids": _layout("train2id", "valid2id", "", "test2id"),
    "one graph: train, valid, test": {part: stems for part, stems in STEMS.items() if part != "test/graph"},
}
"""The files of every part by layout; ``{name}`` is the folder's own name. The first that a folder has is taken."""

TEXTS = (".txt", ".tsv", ".csv", ".triples", ".nt")
SUFFIXES = (*TEXTS, *(f"{suffix}.gz" for suffix in TEXTS), ".parquet")
BESIDES = (".py", ".ipynb", ".sh", ".log", ".md", ".yaml", ".yml", ".toml")
"""What lies beside triples under the same names, as train.py does, and holds none."""
NEEDED = (
    "train.txt (the training graph), msg.txt (the test graph), test.txt (what to predict in the test graph) and, if "
    "there is one, valid.txt (what to predict in the training graph)"
)
_ONE_GRAPH = "the test graph is the training graph: no entity or relation is new in it"

MOST_BYTES = 1 << 32
"""Of an array of names, each of which takes as many as the longest."""


def read(directory: Path) -> Dataset:
    """Read the dataset of a folder of files of triples, as `from_files` does: nothing is drawn by chance."""
    return from_files(directory)


def from_files(
    directory: Path | str | None = None,
    *,
    train: Path | str | None = None,
    valid: Path | str | None = None,
    inference: Path | str | None = None,
    test: Path | str | None = None,
    known: Path | str | None = None,
    name: str | None = None,
    columns: Sequence[str] = COLUMNS,
    hide: float | None = None,
    seed: int = 0,
) -> Dataset:
    """Return a dataset of files of triples by name: those of a folder in a known layout, and those that are named.

    ``train`` is the training graph, ``valid`` what to predict in it, ``inference`` the observable triples of the test
    graph, ``test`` what to predict there, and ``known`` what is known of it besides. A folder has the files of one of
    the `LAYOUTS`, each with a suffix of `SUFFIXES`; one that is named comes in the place of the folder's own. Their
    forms are those of `mtbench.builders.dumps.files.read_blocks`, and ``columns`` is the order of their columns where
    no heading says it. Rows that repeat another are dropped; ``parameters["files"]`` says what each file became.

    Targets may name entities and relations without an observable triple. Without ``train`` there is only what trains
    nothing to run. Without ``inference`` the test graph is the training graph if ``test`` is about its entities; if
    not, or if ``hide`` is given, that share of ``test``, drawn with ``seed``, is to be predicted and the rest
    observable. Validation triples of the test graph are no targets but known (`Split.known`), as are, on one graph, the
    targets of the other split.

    Raises `DatasetError` for a file of triples in the folder that has no part in this, a part that is missing or there
    twice, an empty one, and targets that are observable, or about another graph; `UsageError` for neither a folder nor
    files.
    """
    arguments = {"train": train, "valid": valid, "inference": inference, "test": test, "known": known}
    paths = {part: arguments[option] for part, option in OPTIONS.items()}
    files = {part: expanded(path) for part, path in paths.items() if path is not None}
    layout = "files named one by one"
    if directory is not None:
        folder = expanded(directory)
        layout, files = _recognise(folder, files)
    elif "test/targets" in files and (files.keys() & {"train/graph", "test/graph"} or hide is not None):
        folder = files.get("train/graph", files["test/targets"]).parent
    else:
        raise UsageError(
            "give a folder of files, or a file for test and one for train or inference (valid and known may follow)"
        )
    reading = _Reading(tuple(columns))
    parts = {part: reading.read(path) for part, path in files.items()}
    return _dataset(name or folder.resolve().name, layout, reading, parts, hide, seed)


def _recognise(folder: Path, named: Mapping[str, Path]) -> tuple[str, dict[str, Path]]:
    """Return the layout of a folder, and its files by part, in whose place come those that are named."""
    here, partial = folder.resolve(), dict[str, Path]()
    for layout, places in LAYOUTS.items():
        stems = {part: [stem.format(name=here.name) for stem in stems] for part, stems in places.items()}
        own = {part: path for part, names in stems.items() if (path := _find(here, names)) is not None}
        files = {**own, **named}
        graph = "test/graph" if "test/graph" in places else "train/graph"
        if {graph, "test/targets"} <= files.keys():
            _expect_roles(folder, layout, files, {here, *(path.parent for path in own.values())})
            return layout, files
        partial = partial or files
    missing = [STEMS[part][0] for part in ("train/graph", "test/graph", "test/targets") if part not in partial]
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    below = [] if partial else _datasets_below(folder)
    raise DatasetError(
        f"{folder} has no {' and no '.join(missing)} file, and no manifest.json, which mtbench build writes; it "
        f"holds {shown(there) or 'nothing'}: "
        + (f"did you mean {shown(below)}?" if below else f"name a folder of {NEEDED}")
    )


def _datasets_below(folder: Path) -> list[str]:
    """Return the folders in a folder that may be meant in its place, GraIL's pairs by their first half."""
    places = sorted(path for path in folder.glob("*") if path.is_dir() and is_dataset(path))
    return [str(path) for path in places if path.with_name(path.name.removesuffix("_ind")) not in {*places} - {path}]


def _expect_roles(folder: Path, layout: str, files: Mapping[str, Path], places: set[Path]) -> None:
    """Raise `DatasetError` for a file of triples that the layout does not take: it may be the graph that is meant."""
    taken = {path.resolve() for path in files.values()}
    for path in sorted(path for place in places for path in place.iterdir()):
        if path.name.startswith(".") or path.is_dir() or not path.exists() or path.resolve() in taken:
            continue
        expect_file(path)
        free = [f"--{option}" for part, option in OPTIONS.items() if part not in files]
        lacking = {stem for part in OPTIONS.keys() - files.keys() for stem in STEMS[part]}
        if path.name.partition(".")[0].lower() in lacking and not path.name.lower().endswith((*SUFFIXES, *BESIDES)):
            raise DatasetError(f"{path} has a name of its part but is of no form that is read: name {FORMS}")
        if not path.name.lower().endswith(ARCHIVES) and holds_triples(path):
            command = f"mtbench import {shlex.quote(str(folder))} {{}} {shlex.quote(str(path))} --out DIR"
            say = f"say what it is, as in {command.format(free[0])} ({' or '.join(free)}), or " if free else ""
            raise DatasetError(
                f"{folder} holds {path.name}, a file of triples that has no part in what the folder was taken for "
                f"({layout}): {say}keep it elsewhere"
            )


@dataclass(frozen=True, eq=False)
class _Part:
    """The distinct triples of a file as ids ``(n, 3)``, in its order, and how many lines it had."""

    path: Path
    triples: IntArray
    lines: int

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def entities(self) -> IntArray:
        return unique(self.triples[:, (HEAD, TAIL)].ravel())


_NOTHING = _Part(Path(), np.empty((0, 3), dtype=np.int64), 0)


@dataclass(eq=False)
class _Reading:
    """The names met in some files, by id in the order in which they appear, and the order of columns in the files."""

    columns: tuple[str, ...] = COLUMNS
    entities: dict[str, int] = field(default_factory=dict)
    relations: dict[str, int] = field(default_factory=dict)

    def read(self, path: Path) -> _Part:
        ids = {"head": self.entities, "relation": self.relations, "tail": self.entities}
        rows, lines = [np.empty((0, 3), dtype=np.int32)], 0
        for block in read_blocks([path], columns=self.columns):
            table = block.table
            rows.append(np.stack([ids_of(table[column], ids[column]) for column in COLUMNS], axis=1))
            lines += len(table)
            if lines > MOST_ROWS:
                raise DatasetError(f"{path} has more than {MOST_ROWS:,} triples, which no memory holds: cut it")
        triples = np.concatenate(rows).astype(np.int64)
        return _Part(path, triples[self._first(triples)], lines)

    def _first(self, triples: IntArray) -> IntArray:
        """Return the rows, in increasing order, that repeat none before them."""
        pairs = triples[:, HEAD] * len(self.entities) + triples[:, TAIL]
        if len(self.entities) ** 2 * len(self.relations) >= 1 << 63:
            pairs = np.unique(pairs, return_inverse=True)[1]
        rows: IntArray = np.sort(np.unique(pairs * len(self.relations) + triples[:, RELATION], return_index=True)[1])
        return rows

    def named(self, triples: IntArray) -> list[NamedTriple]:
        """Return triples by name."""
        entities, relations = list(self.entities), list(self.relations)
        return [(entities[head], relations[relation], entities[tail]) for head, relation, tail in triples.tolist()]

    def split(self, dataset: str, name: SplitName, graph: IntArray, targets: IntArray) -> Split:
        """Return two tables of triples as a split, whose names are those of both, sorted."""
        triples = np.concatenate((graph, targets))
        entities, entity = _sorted(self.entities, unique(triples[:, (HEAD, TAIL)].ravel()))
        relations, relation = _sorted(self.relations, unique(triples[:, RELATION]))
        if len(entities) ** 2 * 2 * len(relations) >= 1 << 63:
            raise DatasetError(
                f"{len(entities):,} entities and {len(relations):,} relations are too many to number every triple of "
                "them in 63 bits: take a part of the graph"
            )
        numbers = (entity, relation, entity)
        ids = np.stack([known[column] for known, column in zip(numbers, triples.T, strict=True)], axis=1)
        return Split(dataset, name, ids[: len(graph)], ids[len(graph) :], entities, relations, len(relations))


def _sorted(ids: Mapping[str, int], used: IntArray) -> tuple[NameArray, IntArray]:
    """Return the names of some ids, sorted, and the place of every id among them."""
    every = list(ids)
    names = sorted(every[number] for number in used.tolist())
    longest = max(names, key=len, default="")
    if len(names) * len(longest) * np.dtype("U1").itemsize > MOST_BYTES:
        raise DatasetError(
            f"{len(names):,} names of up to {len(longest):,} characters take more than {MOST_BYTES >> 30} GiB, as each "
            f"takes as much as the longest: shorten {longest[:60]!r}..."
        )
    places = np.zeros(len(every), dtype=np.int64)
    places[[ids[name] for name in names]] = np.arange(len(names))
    return np.array(names, dtype=np.str_), places


def _dataset(
    name: str, layout: str, reading: _Reading, parts: dict[str, _Part], hide: float | None, seed: int
) -> Dataset:
    """Return the dataset of files by part."""
    for part, file in parts.items():
        if not len(file) and part.endswith("graph") | part.startswith("test/t"):
            raise DatasetError(f"{file.path} holds no triple")
    test, train = parts["test/targets"], parts.get("train/graph", _NOTHING)
    graph, targets = _observable(reading, parts, hide, seed)
    one_graph = hide is None and "test/graph" not in parts
    roles = {part: [file] for part, file in parts.items()}
    inference = unique(graph[:, (HEAD, TAIL)].ravel())
    valid = parts.get("valid/targets", _NOTHING)
    if _about(valid, inference) > _about(valid, train.entities):
        roles["test/known"] = [*roles.get("test/known", ()), *roles.pop("valid/targets")]
        valid = _NOTHING
    for file, entities, of in ((valid, train.entities, train), (test, inference, parts.get("test/graph", train))):
        if len(file) and not _about(file, entities):
            there = f"{of.path.name}, the graph it belongs to"
            if of is _NOTHING:
                there = "the test graph, and there is no training graph: leave it out, or add --train FILE (train=)"
            raise DatasetError(f"{file.path}: none of its entities is in {there}")
    splits = reading.split(name, "valid", train.triples, valid.triples), reading.split(name, "test", graph, targets)
    for split, path in zip(splits, (valid.path, test.path), strict=True):
        observable = split.targets[among(keys(split, split.targets), keys(split, split.graph))]
        if len(observable):
            raise DatasetError(
                f"{path}: {len(observable)} of {len(split.targets)} triples are in the {split.name} graph as well, "
                f"first {split.named(observable[:1])[0]}: what is to be predicted must not be observable"
            )
    places = {file.path.resolve().parent for file in parts.values()}
    became = [
        f"{_called(file.path, places)}: {_counted(file, part, targets if hide is not None else None)}"
        for part in TRIPLES
        for file in roles.get(part, ())
    ]
    known = [[file.triples for file in roles.get(f"{part}/known", ())] for part in ("valid", "test")]
    if one_graph:  # what either split asks for is true in the other as well
        known = [[*known[0], targets], [*known[1], valid.triples]]
    filtered = []
    for split, rows, graph_name in zip(splits, known, ("training", "inference"), strict=True):
        whole, outside = with_known(split, reading.named(np.concatenate(rows))) if rows else (split, 0)
        if outside:
            became.append(
                f"{outside:,} known triples of the {graph_name} graph name an entity or a relation that it has not: "
                "left out, as no candidate can be one of them"
            )
        filtered.append(whole)
    parameters: dict[str, Parameter] = {
        "layout": layout,
        "notes": _ONE_GRAPH if one_graph else "",
        "files": "\n".join(became),
    }
    if hide is not None:
        parameters |= {"hide": hide, "seed": seed}
    if reading.columns != COLUMNS:
        parameters["columns"] = ",".join(reading.columns)
    info = catalog.own(catalog.FILES, name, parameters, licence="unknown", citation="")
    return own_release(together(info, name, filtered[0], filtered[1], parameters))


def _observable(
    reading: _Reading, parts: Mapping[str, _Part], hide: float | None, seed: int
) -> tuple[IntArray, IntArray]:
    """Return the test graph and what is to be predicted in it."""
    test = parts["test/targets"]
    if hide is not None:
        if "test/graph" in parts:
            path = parts["test/graph"].path
            raise UsageError(f"{path} is the test graph, so nothing has to be hidden: leave out hide")
        return _held_out(reading, test.triples, hide, seed)
    if "test/graph" in parts:
        return parts["test/graph"].triples, test.triples
    train = parts["train/graph"]
    if 2 * _about(test, train.entities) < len(test):
        raise DatasetError(
            f"{test.path} is about entities that {train.path.name} has not, and no file tells of them, so there is no "
            f"graph for test: give it with --inference FILE (inference=), or hide a part of {test.path.name} with "
            "--hide 0.2 (hide=0.2)"
        )
    return train.triples, test.triples


def _called(path: Path, places: set[Path]) -> str:
    return path.name if len(places) == 1 else f"{path.resolve().parent.name}/{path.name}"


def _counted(file: _Part, part: str, hidden: IntArray | None) -> str:
    """Return what the triples of a file became, and how many of its lines repeat another."""
    repeated = file.lines - len(file)
    dropped = f", {repeated:,} repeated line{'s' * (repeated > 1)} dropped" if repeated else ""
    if part == "test/targets" and hidden is not None:
        shown_triples = f"{len(file) - len(hidden):,} {TRIPLES['test/graph']}"
        return f"{shown_triples} and {len(hidden):,} {TRIPLES[part]}, drawn by chance{dropped}"
    return f"{len(file):,} {TRIPLES[part]}{dropped}"


def _held_out(reading: _Reading, triples: IntArray, hide: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return a graph and what is to be predicted in it: each entity and each relation keeps an observable triple."""
    if not 0 < hide < 1:
        raise UsageError(f"hide must be between 0 and 1, not {hide}")
    entities = np.bincount(triples[:, (HEAD, TAIL)].ravel(), minlength=len(reading.entities)).tolist()
    relations = np.bincount(triples[:, RELATION], minlength=len(reading.relations)).tolist()
    hidden = np.zeros(len(triples), dtype=bool)
    wanted = round(hide * len(triples))
    for row in np.random.default_rng(seed).permutation(len(triples)).tolist():
        head, relation, tail = triples[row].tolist()
        if wanted == 0:
            break
        if min(entities[head], entities[tail], relations[relation]) > (2 if head == tail else 1):
            hidden[row] = True
            wanted -= 1
            for counts, place in ((entities, head), (entities, tail), (relations, relation)):
                counts[place] -= 1
    if not hidden.any():
        raise DatasetError("no triple can be held out: each is the last one of an entity or a relation")
    return triples[~hidden], triples[hidden]


def is_dataset(directory: Path) -> bool:
    """Tell whether a folder holds files of triples for training, or for testing: whether it is meant as a dataset."""
    places = LAYOUTS.values()
    parts = [dict.fromkeys(stem for layout in places for stem in layout.get(part, ())) for part in STEMS]
    train, _, graph, test, *_ = (any(place.is_file() for place in _places(directory, list(stems))) for stems in parts)
    return train or (graph and test)


def read_graph(path: Path) -> Split:
    """Read a file of triples as a graph without targets; raises `DatasetError` for one without a triple."""
    reading = _Reading()
    triples = reading.read(path).triples
    if not len(triples):
        raise DatasetError(f"{path} holds no triple")
    return reading.split(path.name, "test", triples, triples[:0])


def _places(directory: Path, stems: Sequence[str]) -> list[Path]:
    return [directory / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES]


def _find(directory: Path, stems: Sequence[str]) -> Path | None:
    found = [place for place in _places(directory, stems) if place.exists() or place.is_symlink()]
    for place in found:
        expect_file(place)
    if len(found) > 1:
        raise DatasetError(f"{directory} holds {' and '.join(place.name for place in found)}: keep one of them")
    return found[0] if found else None


def _about(part: _Part, entities: IntArray) -> int:
    """Return how many ends of triples are among some entities."""
    return int(among(part.triples[:, (HEAD, TAIL)].ravel(), entities).sum())
