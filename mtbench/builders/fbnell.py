"""FBNELL from raw files: exactly the release, or the recipe on full dumps; and its strict variant."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from mtbench.builders.dumps.dump import read_dump
from mtbench.builders.dumps.sampling import Stream, hold_out
from mtbench.data import catalog
from mtbench.data.catalog import Parameter, Record
from mtbench.data.loading import RawRecipe, Rebuilt, derive
from mtbench.data.splits import Dataset, NamedTriple, from_named, together
from mtbench.errors import DatasetError, UsageError
from mtbench.files.hashing import content_hash
from mtbench.names import RELATION

SOURCES = {"nell-995": "nell_v3", "fb15k-237": "fb237_v2"}
"""The knowledge graphs and the GraIL subsets of them, in the order of the released rows."""

DEFAULTS: Mapping[str, Parameter] = {
    "recipe": "release",
    "seed": 0,
    "train_relations": 50,
    "test_relations": 100,
    "share": 0.1,
}
"""Everything but ``recipe`` is of the paper's recipe; the release has no choices."""


def rebuild(raw: Sequence[Path], record: Record) -> Dataset:
    """Cut FBNELL out of the inductive splits published with GraIL: row by row the release.

    ``raw`` names their folder (GraIL's ``data``), the four folders in it or the eight files. Training
    graph: the rows of both ``train.txt`` with a relation of the list; validation: those of both
    ``valid.txt`` whose entities the training graph has. Test: the same on the ``_ind`` files.

    Raises `DatasetError` listing what is missing, or which file is not GraIL's.
    Source: Teru, Denis and Hamilton (2020) for the splits; Zhou, Bevilacqua and Ribeiro (2023).
    """
    files = grail_files(raw)
    rows = {name: named_triples([path]) for name, path in files.items()}
    for name, path in files.items():
        if content_hash(rows[name]) != _files()[name]:
            raise DatasetError(f"{path} is not GraIL's {name}: its {len(rows[name])} triples are others")
    kept = _facts()["relations"]

    def cut(suffix: str, file: str, part: str) -> list[NamedTriple]:
        found: list[NamedTriple] = []
        for source, subset in SOURCES.items():
            wanted = frozenset(kept[source][part].split())
            of_source = [row for row in rows[f"{subset}{suffix}/{file}.txt"] if row[1] in wanted]
            found += sorted(of_source, key=lambda row: (row[0], row[2], row[1]))
        return found

    train, valid = cut("", "train", "train"), cut("", "valid", "train")
    test, missing = cut("_ind", "train", "test_observed"), cut("_ind", "test", "test_missing")
    slots = {name: graph.relation_slots for name, graph in record.graphs.items()}
    trained = from_named(record.id, "valid", train, _known(valid, train), slots["train"])
    tested = from_named(record.id, "test", test, _known(missing, test), slots["test"])
    return together(record, record.id, trained, tested, record.parameters)


def rebuild_paper(raw: Sequence[Path], record: Record, options: Mapping[str, Parameter]) -> Dataset:
    """Follow the paper's words on full dumps of FB15k-237 and NELL-995: another, larger dataset than the release.

    Training graph: the triples of each dump's ``train_relations`` most frequent relation types. Test
    graph: those of its ``test_relations`` most frequent ones; its targets are only on types that the
    training graph lacks. ``share`` of the training triples, and of the test triples on new types, are
    hidden at random so that every entity of a target stays in the graph. Both graphs come from the
    same dump, so that they share entities, as the released ones hardly do. ``raw`` are files or folders
    of train, valid and test files; relation names that begin with ``concept:`` are NELL's. ``options`` are
    those of `DEFAULTS`.

    Raises `UsageError` for numbers that cannot be, `DatasetError` for files that are no triples, for a
    missing dump, and where so many triples cannot be hidden.
    Source: Zhou, Bevilacqua and Ribeiro (2023), appendix on datasets.
    """
    seed, share = int(options["seed"]), float(options["share"])
    train_relations, test_relations = int(options["train_relations"]), int(options["test_relations"])
    if seed < 0 or not 0 < train_relations < test_relations or not 0 < share < 1:
        raise UsageError(
            f"no such recipe: seed={seed}, train_relations={train_relations}, test_relations={test_relations}, "
            f"share={share}; there must be more relations to test on than to train on, and a share between 0 and 1"
        )
    rows = named_triples(raw)
    dumps = [[row for row in rows if row[1].startswith("concept:") is of_nell] for of_nell in (True, False)]
    if not all(dumps):
        raise DatasetError("the paper's recipe needs two dumps, FB15k-237 and NELL-995 (relations concept:...)")
    trained: set[str] = set()
    tested: set[str] = set()
    for dump in dumps:
        counts = Counter(relation for _, relation, _ in dump)
        by_frequency = sorted(counts, key=lambda name: (-counts[name], name))
        trained.update(by_frequency[:train_relations])
        tested.update(by_frequency[:test_relations])
    train = [row for row in rows if row[1] in trained]
    test = [row for row in rows if row[1] in tested]
    graph, targets = _hide(train, share, Stream(seed, "fbnell/train"), set())
    test_graph, missing = _hide(test, share, Stream(seed, "fbnell/test"), trained)
    changed = [f"{key}={value}" for key, value in options.items() if key == "seed" or value != DEFAULTS[key]]
    name = f"{record.id}[{','.join(changed)}]"
    valid = from_named(name, "valid", graph, targets, len(trained))
    return together(record, name, valid, from_named(name, "test", test_graph, missing, len(tested)), options)


def from_raw() -> RawRecipe:
    """Return how FBNELL is made of raw files: the release of GraIL's, or the paper's recipe on full dumps."""
    return RawRecipe(options=DEFAULTS, rebuild=_from_raw, gives_release=_gives_release)


def _gives_release(options: Mapping[str, Parameter]) -> bool:
    if options["recipe"] not in ("release", "paper"):
        raise UsageError(f"fbnell: recipe must be release or paper, not {options['recipe']!r}")
    if options["recipe"] == "release" and options != DEFAULTS:
        raise UsageError("fbnell: the release has no options; a larger dataset from full dumps: --set recipe=paper")
    return options["recipe"] == "release"


def _from_raw(names: Sequence[str], raw: Sequence[Path], options: Mapping[str, Parameter]) -> Rebuilt:
    records = map(catalog.record, names)
    released = _gives_release(options)
    return Rebuilt(
        tuple(rebuild(raw, record) if released else rebuild_paper(raw, record, options) for record in records)
    )


def named_triples(paths: Sequence[Path]) -> list[NamedTriple]:
    """Return the distinct triples of a knowledge graph; a folder stands for its train, valid and test files."""
    files: list[Path] = []
    for path in paths:
        inside = [path / f"{name}.txt" for name in ("train", "valid", "test")]
        files += [file for file in inside if file.exists()] if path.is_dir() else [path]
    dump = read_dump(files)
    head, relation, tail = dump.select(dump.relations)
    heads, tails = dump.entity_names(head).tolist(), dump.entity_names(tail).tolist()
    return list(zip(heads, [dump.relations[index] for index in relation.tolist()], tails, strict=True))


def grail_files(raw: Sequence[Path]) -> dict[str, Path]:
    """Return the eight GraIL files, ``fb237_v2/train.txt`` and so on, found in or named by ``raw``.

    Raises `DatasetError` listing those that are missing.
    """
    found: dict[str, Path] = {}
    for name in _files():
        subset, file = name.split("/")
        for path in raw:
            places = [path / name, path / "data" / name, path / file if path.name == subset else path, path]
            for place in places:
                if place.is_file() and place.resolve().parts[-2:] == (subset, file):
                    found.setdefault(name, place)
    if missing := [name for name in _files() if name not in found]:
        raise DatasetError(
            f"FBNELL is cut from GraIL's files {', '.join(_files())}; not found: {', '.join(missing)}. Name the folder "
            "that holds these folders (data of https://github.com/kkteru/grail), or the files"
        )
    return found


def _known(targets: Sequence[NamedTriple], graph: Sequence[NamedTriple]) -> list[NamedTriple]:
    entities = {name for head, _, tail in graph for name in (head, tail)}
    return [row for row in targets if row[0] in entities and row[2] in entities]


def _hide(
    rows: Sequence[NamedTriple], share: float, stream: Stream, never: Collection[str]
) -> tuple[list[NamedTriple], list[NamedTriple]]:
    eligible = np.array([row[1] not in never for row in rows], dtype=np.bool_)
    if not eligible.any():
        raise DatasetError("the dumps have no relation type beyond those trained on: ask for fewer train_relations")
    ids = {name: index for index, name in enumerate(sorted({name for row in rows for name in (row[0], row[2])}))}
    head = np.array([ids[row[0]] for row in rows], dtype=np.int32)
    tail = np.array([ids[row[2]] for row in rows], dtype=np.int32)
    hidden = hold_out(head, tail, share, stream, eligible).tolist()
    graph = [row for row, is_hidden in zip(rows, hidden, strict=True) if not is_hidden]
    return graph, [row for row, is_hidden in zip(rows, hidden, strict=True) if is_hidden]


@cache
def _facts() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads((resources.files("mtbench.builders") / "fbnell.toml").read_text(encoding="utf-8"))


def _files() -> Mapping[str, object]:
    return _facts()["files"]


def keep_new_relations(data: Dataset, name: str) -> Dataset:
    """Return a dataset called ``name`` without the test targets whose relation type occurs in training.

    The question of these benchmarks is prediction on *new* relation types; a target on a trained one is
    answered by memory. Names are compared; the training targets count as training. Graphs, vocabularies
    and validation stay as they are. Raises `DatasetError` where no target is left.
    """
    train, test = data.valid, data.test
    used = np.unique(np.concatenate((train.graph, train.targets))[:, RELATION])
    old = np.isin(test.relations[test.targets[:, RELATION]], train.relations[used])
    if old.all():
        raise DatasetError(f"{data.name}: every test target is on a relation type of training; none is left for {name}")
    test = replace(test, targets=test.targets[~old])
    return together(data.info, name, data.valid, test, data.parameters)


def build_strict(record: Record, parameters: Mapping[str, Parameter]) -> Dataset:
    """Build ``fbnell-strict``: FBNELL with the 397 targets on relation types that are absent from training."""
    data = keep_new_relations(derive(catalog.record("fbnell")), record.id)
    return together(record, record.id, data.valid, data.test, parameters)
