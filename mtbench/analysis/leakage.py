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
from mtbench.files.reading import expanded
from mtbench.names import HEAD, TAIL, BoolArray, UIntArray

Against: TypeAlias = Iterable[NamedTriple] | Dataset | Split | Fingerprints | Path | str


@dataclass(frozen=True)
class Seen:
    """How many of a split's triples, or of the names in them, are in another graph."""

    seen: int
    of: int

    @property
    def share(self) -> float:
        """The seen part, from 0 to 1; 0 where there is nothing to see."""
        return self.seen / self.of if self.of else 0.0


@dataclass(frozen=True)
class Overlap:
    """What a graph has shown of triples (h, r, t); a triple can be in several of the counts.

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
        values: dict[str, object] = {"dataset": self.dataset, "split": self.split, "triples": self.triples}
        for name, part in (("graph", self.graph), ("targets", self.targets)):
            values[name] = {key: {**asdict(seen), "share": seen.share} for key, seen in vars(part).items()}
        return values


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
    (result,) = contaminations([split], parts_of(triples))
    return result


def parts_of(triples: Against) -> Iterator[Fingerprints]:
    """Yield the fingerprints of what `contamination` accepts."""
    if isinstance(triples, Fingerprints):
        yield triples
    elif isinstance(triples, Split):
        yield from fingerprints.of_split(triples, triples.graph, triples.targets, triples.known)
    elif isinstance(triples, Dataset):
        for split in (triples.valid, triples.test):
            yield from fingerprints.of_split(split, split.graph, split.targets, split.known)
    elif not isinstance(triples, str | Path):
        yield from fingerprints.of_named(triples)
    elif (path := expanded(triples)).is_file():
        yield from fingerprints.read(path)
    else:
        name, (dataset, _, part) = str(triples), str(triples).rpartition("/")
        data: Split | Dataset
        try:
            is_split = part in SPLIT_NAMES and catalog.find(dataset) is not None
            data = load(dataset).split(part) if is_split else load(triples)
        except UnknownNameError as error:
            raise UnknownNameError("dataset, directory or file", name, catalog.choices(name)) from error
        yield from parts_of(data)


def contaminations(splits: Sequence[Split], parts: Iterable[Fingerprints]) -> list[Contamination]:
    """Return the contamination of several splits by the same graph, read once; ``parts`` are its fingerprints."""
    asked = [_asked(split) for split in splits]
    every = [way for both in asked for part in both for way in (part.forward, part.backward)]
    # A dump has a billion triples, the splits have few: what is kept is which of their fingerprints it has.
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
    """The fingerprints of a split's graph or targets, forwards and reversed; ``loops`` marks self-loops."""

    forward: Fingerprints
    backward: Fingerprints
    loops: BoolArray

    def overlap(self, known: Mapping[str, UIntArray]) -> Overlap:
        """Return what is known of the triples."""
        # A self-loop reversed is itself: it would count as an exact and as a reversed triple.
        there = {kind: among(getattr(self.forward, kind), known[kind]) for kind in KINDS}
        back = {kind: among(getattr(self.backward, kind), known[kind]) & ~self.loops for kind in ("triple", "pair")}
        counted = (there["triple"], there["pair"], back["triple"], back["pair"], there["entity"], there["relation"])
        return Overlap(*(Seen(int(np.count_nonzero(part)), len(part)) for part in counted))


def _asked(split: Split) -> list[_Asked]:
    """Return what is asked about a split's graph and about its targets."""
    # In one call, which hashes the names of the split once for all four.
    parts = (split.graph, split.targets)
    ways = fingerprints.of_split(split, *(way for part in parts for way in (part, part[:, ::-1])))
    return [_Asked(next(ways), next(ways), part[:, HEAD] == part[:, TAIL]) for part in parts]
