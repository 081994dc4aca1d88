"""FBNELL cut out of GraIL's files, exactly as it was released; and its strict variant."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from mtbench.builders.release import read_triples
from mtbench.data import catalog
from mtbench.data.catalog import Parameter, Record
from mtbench.data.loading import RawRecipe, Rebuilt, derive
from mtbench.data.splits import Dataset, NamedTriple, from_named, together
from mtbench.errors import DatasetError
from mtbench.files.hashing import content_hash
from mtbench.names import RELATION

SOURCES = {"nell-995": "nell_v3", "fb15k-237": "fb237_v2"}
"""The knowledge graphs and the GraIL subsets of them, in the order of the released rows."""


def rebuild(raw: Sequence[Path], record: Record) -> Dataset:
    """Cut FBNELL out of the inductive splits published with GraIL: row by row the release.

    ``raw`` names their folder (GraIL's ``data``), the four folders in it or the eight files. Training
    graph: the rows of both ``train.txt`` with a relation of the list; validation: those of both
    ``valid.txt`` whose entities the training graph has. Test: the same on the ``_ind`` files.

    Raises `DatasetError` listing what is missing, or which file is not GraIL's.
    Source: Teru, Denis and Hamilton (2020) for the splits; Zhou, Bevilacqua and Ribeiro (2023).
    """
    files = grail_files(raw)
    rows = {name: list(dict.fromkeys(read_triples(path))) for name, path in files.items()}
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


def from_raw() -> RawRecipe:
    """Return how FBNELL is made of GraIL's files: bit for bit the release, so there is nothing to choose."""

    def made(names: Sequence[str], raw: Sequence[Path], _: Mapping[str, Parameter]) -> Rebuilt:
        return Rebuilt(tuple(rebuild(raw, catalog.record(name)) for name in names))

    return RawRecipe(options={}, rebuild=made, gives_release=True)


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
