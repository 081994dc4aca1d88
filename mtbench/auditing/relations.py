"""Relation types that say the same: near-duplicates, inverses of each other, symmetric ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL, IntArray

Kind: TypeAlias = Literal["near-duplicate", "inverse", "symmetric"]


@dataclass(frozen=True)
class RelationPair:
    """Two relation types over nearly the same pairs of entities, or one that is nearly its own inverse.

    ``jaccard`` is the size of the intersection of the two sets of (head, tail) pairs over that of their
    union, the second set reversed unless the kind is near-duplicate; ``pairs`` is the intersection.
    """

    relation: str
    other: str
    kind: Kind
    jaccard: float
    pairs: int


def similar_relations(split: Split, threshold: float) -> tuple[RelationPair, ...]:
    """Return the pairs of relation types with a Jaccard index of at least ``threshold``, largest first.

    A target on a relation whose inverse is observable is a matter of looking it up, which is what
    FB15k and WN18 were replaced for. Observable and missing triples count together. Source: Toutanova
    and Chen (2015), Akrami et al., Realistic Re-evaluation of Knowledge Graph Completion Methods (2020).
    """
    triples = np.concatenate((split.graph, split.targets))
    forward = triples[:, HEAD] * split.num_entities + triples[:, TAIL]
    backward = triples[:, TAIL] * split.num_entities + triples[:, HEAD]
    keys = np.unique(np.concatenate((forward, backward)))
    direct = _incidence(triples, np.searchsorted(keys, forward), split.num_relations, len(keys))
    reversed_ = _incidence(triples, np.searchsorted(keys, backward), split.num_relations, len(keys))
    sizes = np.asarray(direct.sum(axis=1)).ravel()
    found: list[RelationPair] = []
    for kind, matrix in (("near-duplicate", direct), ("inverse", reversed_)):
        shared = np.asarray((direct @ matrix.T).todense())
        union = sizes[:, None] + sizes[None, :] - shared
        jaccard = shared / np.maximum(union, 1)
        rows, columns = np.nonzero(np.triu((jaccard >= threshold) & (shared > 0)))
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            if row == column and kind == "near-duplicate":
                continue
            label: Kind = "symmetric" if row == column else "inverse" if kind == "inverse" else "near-duplicate"
            names = split.relation_name(row), split.relation_name(column)
            found.append(RelationPair(*names, label, float(jaccard[row, column]), int(shared[row, column])))
    return tuple(sorted(found, key=lambda pair: (-pair.pairs, pair.relation, pair.other, pair.kind)))


def _incidence(triples: IntArray, columns: IntArray, relations: int, width: int) -> csr_array:
    # float64 holds these counts exactly and is what SciPy multiplies fastest.
    data = np.ones(len(triples), dtype=np.float64)
    matrix = csr_array((data, (triples[:, RELATION], columns)), shape=(relations, width))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix
