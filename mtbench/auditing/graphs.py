"""What a graph consists of: its relation types and their balance, its degrees, what it repeats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from mtbench.data.graphs import degrees, repeated
from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL

MOST = 0.99
"""The share of the triples that ``relations_of_most`` relation types hold."""


@dataclass(frozen=True)
class GraphAudit:
    """One graph: ``triples`` are observable, ``targets`` missing; ``duplicates`` counts rows that repeat another.

    ``relations`` gives the triples of each relation type, observable and missing together, most frequent
    first, ``groups`` the same of groups of relations. ``effective_relations`` is the exponential of the
    entropy of those shares: the number of equally frequent types that would be as diverse.
    ``relations_of_most`` is the fewest types that hold 99 % of the triples. ``relation_types`` counts the
    types with an observable triple, beside the ``relation_slots`` of the published dictionary.
    ``degrees`` are pairs of a degree and the number of entities that have it in the observable graph, a
    self-loop counting twice.
    """

    entities: int
    triples: int
    targets: int
    duplicates: int
    self_loops: int
    relation_types: int
    relation_slots: int
    relations: Mapping[str, int]
    effective_relations: float
    relations_of_most: int
    largest_share: float
    groups: Mapping[str, int]
    degrees: tuple[tuple[int, int], ...]


def audit_graph(split: Split, groups: Mapping[str, Collection[str]] | None = None) -> GraphAudit:
    """Return what the graph of a split consists of; ``groups`` names sets of relations, by default the tasks."""
    graph = split.graph
    counts = np.bincount(np.concatenate((graph, split.targets))[:, RELATION], minlength=split.num_relations)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    relations = {split.relation_name(relation): int(counts[relation]) for relation in order.tolist()}
    total = max(int(counts.sum()), 1)
    shares = counts[order] / total
    entropy = float(-(shares * np.log(shares)).sum()) if len(shares) else 0.0
    cumulated = np.cumsum(counts[order])
    degree, entities = np.unique(degrees(split), return_counts=True)
    if groups is None:
        groups = {}
        for relation, task in sorted(split.tasks.items()):
            groups[task] = (*groups.get(task, ()), relation)
    return GraphAudit(
        entities=split.num_entities,
        triples=len(graph),
        targets=len(split.targets),
        duplicates=repeated(graph),
        self_loops=int((graph[:, HEAD] == graph[:, TAIL]).sum()),
        relation_types=len(np.unique(graph[:, RELATION])),
        relation_slots=split.relation_slots,
        relations=relations,
        effective_relations=float(np.exp(entropy)) if relations else 0.0,
        relations_of_most=int(np.searchsorted(cumulated, MOST * total) + 1) if relations else 0,
        largest_share=float(shares.max(initial=0.0)),
        groups={name: sum(relations.get(member, 0) for member in set(members)) for name, members in groups.items()},
        degrees=tuple(zip(degree.tolist(), entities.tolist(), strict=True)),
    )
