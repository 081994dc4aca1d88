"""What train and test share by name: entities, relation types, triples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtbench.data.splits import Dataset, Split
from mtbench.names import HEAD, RELATION, TAIL, IntArray, NameArray


@dataclass(frozen=True)
class Overlap:
    """Names that train and test have in common.

    ``train`` means the training graph with the validation targets, ``test`` the test graph with its
    targets. ``entities`` counts entities and ``triples`` triples that are in both; ``relations`` are the
    relation types in both, by name. ``targets_on_training_relations`` counts the test targets whose
    relation type occurs in train: not new, whatever the dataset is for. ``targets_in_training`` counts
    those that are training triples themselves.
    """

    entities: int
    relations: tuple[str, ...]
    triples: int
    targets: int
    targets_on_training_relations: int
    targets_in_training: int


def audit_overlap(data: Dataset) -> Overlap:
    """Return what train and test share by name."""
    train, test = data.valid, data.test
    triples = np.concatenate((train.graph, train.targets))
    everything = np.concatenate((test.graph, test.targets))
    used = np.unique(triples[:, RELATION])
    shared = np.intersect1d(train.relations[used], test.relations[np.unique(everything[:, RELATION])])
    known = _shared_triples(train, test, triples, test.targets)
    return Overlap(
        entities=len(np.intersect1d(_entities(train, triples), _entities(test, everything))),
        relations=tuple(shared.tolist()),
        triples=len(np.unique(_shared_triples(train, test, triples, everything), axis=0)),
        targets=len(test.targets),
        targets_on_training_relations=int(np.isin(test.relations[test.targets[:, RELATION]], shared).sum()),
        targets_in_training=len(known),
    )


def _entities(split: Split, triples: IntArray) -> NameArray:
    return split.entities[np.unique(triples[:, (HEAD, TAIL)])]


def _shared_triples(train: Split, test: Split, triples: IntArray, rows: IntArray) -> IntArray:
    """Return the rows of the test vocabulary that are among the training triples, ``(k, 3)``."""
    entity = _position(train.entities, test.entities)
    relation = _position(train.relations, test.relations)
    translated = np.stack((entity[rows[:, HEAD]], relation[rows[:, RELATION]], entity[rows[:, TAIL]]), axis=1)
    known = (translated >= 0).all(axis=1)
    size = train.num_entities, max(train.num_relations, 1)
    same = np.isin(_keys(translated, size), _keys(triples, size))
    return rows[known & same]


def _position(names: NameArray, wanted: NameArray) -> IntArray:
    """Return the id of each wanted name among sorted names, -1 where there is none."""
    if not len(names):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[place] == wanted, place, -1).astype(np.int64)


def _keys(triples: IntArray, size: tuple[int, int]) -> IntArray:
    entities, relations = size
    return (triples[:, HEAD] * entities + triples[:, TAIL]) * relations + triples[:, RELATION]
