"""What the observable graph already tells about the targets, before any model has learned anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mtbench.data.graphs import HALF_LINKS, degrees, half_links, keys, repeated
from mtbench.data.splits import Split, among, unique
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.ranking.candidates import PROTOCOLS, STANDARD
from mtbench.ranking.filtered import filter_side


@dataclass(frozen=True)
class TargetAudit:
    """The targets of one split, counted by what the graph shows of them.

    ``duplicates`` are targets listed twice, ``in_graph`` those that are observable; ``reversed_pair``
    those with any observable triple from tail to head, ``reversed_same`` those with one of the same
    relation, ``same_pair`` those with another relation from head to tail. ``half_links`` counts the four
    cases of `HALF_LINKS`, also by relation. ``unseen_entities`` and ``unseen_relations`` count targets
    that name one without an observable triple. ``candidates`` is, for each protocol that draws
    relations, the mean number of present relation types a target is ranked against, and
    ``candidates_asked`` what the protocol asks for.
    """

    targets: int
    duplicates: int
    in_graph: int
    reversed_pair: int
    reversed_same: int
    same_pair: int
    half_links: Mapping[str, int]
    half_links_by_relation: Mapping[str, Mapping[str, int]]
    unseen_entities: int
    unseen_relations: int
    candidates: Mapping[str, float]
    candidates_asked: Mapping[str, int]


def audit_targets(split: Split) -> TargetAudit:
    """Return what the graph of a split shows of its targets."""
    graph, targets = split.graph, split.targets
    head, relation, tail = (targets[:, column] for column in (HEAD, RELATION, TAIL))
    forward, backward = keys(split, targets, HEAD, TAIL), keys(split, targets, TAIL, HEAD)
    pairs, triples = keys(split, graph, HEAD, TAIL), keys(split, graph)
    in_graph = among(keys(split, targets), triples)
    distinct = np.sort(pairs[np.unique(triples, return_index=True)[1]])
    between = np.searchsorted(distinct, forward, side="right") - np.searchsorted(distinct, forward, side="left")
    cases = half_links(split)
    asked = {name: number for name in STANDARD if (number := PROTOCOLS[name].number("relation"))}
    available: IntArray = np.zeros(0, dtype=np.int64)
    if len(targets):
        pool = filter_side(split, "relation", empty_slots=False)
        available = pool.numbers[pool.row]
    lonely = degrees(split) == 0
    return TargetAudit(
        targets=len(targets),
        duplicates=repeated(targets),
        in_graph=int(in_graph.sum()),
        reversed_pair=int(among(backward, pairs).sum()),
        reversed_same=int(among(keys(split, targets[:, ::-1]), triples).sum()),
        same_pair=int((between > in_graph).sum()),
        half_links=_by_case(cases),
        half_links_by_relation={
            split.relation_name(number): _by_case(cases[relation == number]) for number in unique(relation).tolist()
        },
        unseen_entities=int((lonely[head] | lonely[tail]).sum()),
        unseen_relations=int((~np.isin(relation, graph[:, RELATION])).sum()),
        candidates={
            name: float(np.minimum(available, number).mean()) if len(targets) else 0.0 for name, number in asked.items()
        },
        candidates_asked=asked,
    )


def _by_case(cases: IntArray) -> dict[str, int]:
    return dict(zip(HALF_LINKS, np.bincount(cases, minlength=len(HALF_LINKS)).tolist(), strict=True))
