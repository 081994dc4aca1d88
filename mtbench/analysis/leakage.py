"""Contamination: how much of a split a pre-training graph has already shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mtbench.analysis import fingerprints
from mtbench.analysis.fingerprints import KINDS, Fingerprints
from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.data.splits import SPLIT_NAMES, Dataset, NamedTriple, Split, among, unique
from mtbench.errors import UnknownNameError
from mtbench.names import HEAD, TAIL, BoolArray, UIntArray

Against: TypeAlias = Iterable[NamedTriple] | Dataset | Split | Fingerprints | Path | str


@dataclass(frozen=True)
class Seen:
    """How many of a split's triples, or of the names in them, are in another graph."""

    seen: int
    of: int

    @property
    def share(self) -> float:
        """The seen part, from 0 to 1; 0 of nothing."""
        return self.seen / self.of if self.of else 0.0


@dataclass(frozen=True)
class Overlap:
    """What a graph has shown of some triples (h, r, t), each count apart from the others.

    ``exact`` counts triples that are in it, ``same_pair`` those with any (h, ., t) in it, ``reversed_triple``
    those with (t, r, h) and ``reversed_pair`` those with any (t, ., h), self-loops left out of both;
    ``entities`` and ``relations`` count distinct names.
    """

    exact: Seen
    same_pair: Seen
    reversed_triple: Seen
    reversed_pair: Seen
    entities: Seen
    relations: Seen


@dataclass(frozen=True)
class Contamination:
    """What ``triples`` triples of another graph have shown of a split's ``graph`` and of its ``targets``."""

    dataset: str
    split: str
    triples: int
    graph: Overlap
    targets: Overlap

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain dictionaries, with shares."""
        found: dict[str, object] = {"dataset": self.dataset, "split": self.split, "triples": self.triples}
        for name, part in (("graph", self.graph), ("targets", self.targets)):
            found[name] = {key: {**asdict(value), "share": value.share} for key, value in vars(part).items()}
        return found


def contamination(split: Split, triples: Against) -> Contamination:
    """Return how much of a split's graph and targets is among the triples of another graph.

    A model that was trained on the answers is not zero-shot, whatever it is called. Names are compared in
    the form of `mtbench.analysis.leakage.fingerprints.canonical`. ``triples`` are named triples, a `Dataset` (its
    training and test graph with all targets) or its name, a `Split` (its graph and targets) or ``DATASET/SPLIT``, as
    runs name what a model learned from, fingerprints, or the path of a file of triples or fingerprints, which is read
    a block at a time (`mtbench.analysis.fingerprints.read`).
    Raises `UnknownNameError` for a name that is no file and no dataset, and `DatasetError` for a file that
    cannot be read.
    """
    (found,) = contaminations([split], parts_of(triples))
    return found


def parts_of(triples: Against) -> Iterator[Fingerprints]:
    """Yield the fingerprints of what `contamination` accepts."""
    if isinstance(triples, Fingerprints):
        yield triples
    elif isinstance(triples, Split):
        yield from fingerprints.of_split(triples, triples.graph, triples.targets, triples.known)
    elif isinstance(triples, Dataset):
        for split in (triples.valid, triples.test):
            yield from fingerprints.of_split(split, split.graph, split.targets, split.known)
    elif isinstance(triples, str | Path):
        yield from _of_name(triples)
    else:
        yield from fingerprints.of_named(triples)


def _of_name(name: str | Path) -> Iterator[Fingerprints]:
    path = Path(name).expanduser()
    if path.is_file():
        return fingerprints.read(path)
    dataset, _, split = str(name).rpartition("/")
    if split in SPLIT_NAMES and catalog.find(dataset) is not None:
        return parts_of(load(dataset).split(split))
    try:
        return parts_of(load(name))
    except UnknownNameError as error:
        raise UnknownNameError("dataset, directory or file", str(name), catalog.choices(str(name))) from error


def contaminations(splits: Sequence[Split], parts: Iterable[Fingerprints]) -> list[Contamination]:
    """Return the contamination of several splits by one graph, read once; ``parts`` are its fingerprints."""
    asked = [_asked(split) for split in splits]
    every = [way for both in asked for part in both for way in (part.forward, part.backward)]
    wanted = {kind: unique(np.concatenate([getattr(way, kind) for way in every])) for kind in KINDS}
    seen = {kind: np.zeros(len(keys), dtype=np.bool_) for kind, keys in wanted.items()}
    lines = 0
    for part in parts:
        lines += part.lines
        for kind, keys in wanted.items():
            values = getattr(part, kind)
            seen[kind][np.searchsorted(keys, values[among(values, keys)])] = True
    known = {kind: keys[seen[kind]] for kind, keys in wanted.items()}
    return [
        Contamination(split.dataset, split.name, lines, *(part.overlap(known) for part in both))
        for split, both in zip(splits, asked, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Asked:
    """The fingerprints of some triples of a split, both ways round; ``loops`` marks self-loops."""

    forward: Fingerprints
    backward: Fingerprints
    loops: BoolArray

    def overlap(self, known: Mapping[str, UIntArray]) -> Overlap:
        """Return what is known of the triples; a self-loop is no reversed triple of itself."""
        there = {kind: among(getattr(self.forward, kind), known[kind]) for kind in KINDS}
        back = {kind: among(getattr(self.backward, kind), known[kind]) & ~self.loops for kind in ("triple", "pair")}
        counted = (there["triple"], there["pair"], back["triple"], back["pair"], there["entity"], there["relation"])
        return Overlap(*(Seen(int(np.count_nonzero(part)), len(part)) for part in counted))


def _asked(split: Split) -> list[_Asked]:
    """Return what is asked of a split's graph and of its targets, whose names are the same."""
    parts = (split.graph, split.targets)
    ways = fingerprints.of_split(split, *(way for part in parts for way in (part, part[:, ::-1])))
    return [_Asked(next(ways), next(ways), part[:, HEAD] == part[:, TAIL]) for part in parts]
