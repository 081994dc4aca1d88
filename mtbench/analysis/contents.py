"""What the graphs, the targets and the drawn candidates of a dataset are like, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mtbench.data import catalog
from mtbench.data.graphs import HALF_LINKS, components, degrees, half_links, keys, repeated
from mtbench.data.splits import Dataset, Split, among, unique
from mtbench.metrics import closed
from mtbench.names import COLUMN, HEAD, RELATION, TAIL, IntArray
from mtbench.ranking.candidates import Candidates, draw, filter_side, is_known
from mtbench.settings.table import ALL, MAIN, setting_of, settings_of

MOST = 0.99
"""The share of the triples that ``relations_of_most`` relation types hold."""

SEEDS = (0, 1, 2)
"""The published candidate seeds."""


@dataclass(frozen=True)
class GraphAudit:
    """A graph: ``triples`` are observable, ``targets`` missing, ``known`` neither, ``duplicates`` rows listed again.

    ``relations`` gives the triples of each relation type, observable and missing together, most frequent
    first, ``groups`` the same of each known task. ``effective_relations`` is the exponential of the
    entropy of those shares: the number of equally frequent types that would be as diverse.
    ``relations_of_most`` is the fewest types that hold 99 % of the triples. ``relation_types`` counts the
    types with an observable triple, beside the ``relation_slots`` of the published dictionary.
    ``relations_like_entities`` counts the types that are called as an entity is, by a name that is no number.
    ``degrees`` are pairs of a degree and the number of entities that have it in the observable graph, a
    self-loop counting twice.
    """

    entities: int
    triples: int
    targets: int
    known: int
    duplicates: int
    self_loops: int
    relation_types: int
    relation_slots: int
    relations: Mapping[str, int]
    effective_relations: float
    relations_of_most: int
    largest_share: float
    relations_like_entities: int
    groups: Mapping[str, int]
    degrees: tuple[tuple[int, int], ...]


def audit_graph(split: Split) -> GraphAudit:
    """Return what the graph of a split consists of."""
    graph = split.graph
    counts = np.bincount(np.concatenate((graph, split.targets))[:, RELATION], minlength=split.num_relations)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    relations = dict(zip(split.relations[order].tolist(), counts[order].tolist(), strict=True))
    total = max(int(counts.sum()), 1)
    shares = counts[order] / total
    # Types without a triple were taken out above: the logarithm of their share would not be finite.
    entropy = float(-(shares * np.log(shares)).sum()) if len(shares) else 0.0
    cumulated = np.cumsum(counts[order])
    degree, entities = np.unique(degrees(split), return_counts=True)
    tasks: dict[str, int] = dict.fromkeys(sorted(split.tasks.values()), 0)
    for relation, task in split.tasks.items():
        tasks[task] += relations.get(relation, 0)
    return GraphAudit(
        entities=split.num_entities,
        triples=len(graph),
        targets=len(split.targets),
        known=len(split.known),
        duplicates=repeated(graph),
        self_loops=int((graph[:, HEAD] == graph[:, TAIL]).sum()),
        relation_types=len(unique(graph[:, RELATION])),
        relation_slots=split.relation_slots,
        relations=relations,
        effective_relations=float(np.exp(entropy)) if relations else 0.0,
        # The first count that reaches the share is at this index, and indexes start at 0.
        relations_of_most=int(np.searchsorted(cumulated, MOST * total) + 1) if relations else 0,
        largest_share=float(shares.max(initial=0.0)),
        relations_like_entities=sum(not name.isdecimal() for name in {*split.entities.tolist()} & relations.keys()),
        groups=tasks,
        degrees=tuple(zip(degree.tolist(), entities.tolist(), strict=True)),
    )


@dataclass(frozen=True)
class Overlap:
    """Names that train and test have in common.

    ``train`` means the training graph with the validation targets, ``test`` the test graph with its
    targets. ``entities`` counts entities and ``triples`` triples that are in both; ``relations`` are the
    relation types in both, by name. ``targets_on_training_relations`` counts the test targets whose
    relation type occurs in train: not new, whatever the dataset is for. ``targets_in_training`` counts
    those that are training triples themselves. ``one_graph`` tells that the test graph is the training graph, and
    ``same_training`` names the datasets of the catalogue that have this training graph too.
    """

    entities: int
    relations: tuple[str, ...]
    triples: int
    targets: int
    targets_on_training_relations: int
    targets_in_training: int
    one_graph: bool
    same_training: tuple[str, ...]


def audit_overlap(data: Dataset) -> Overlap:
    """Return what train and test share by name."""
    # By name: the ids of the two graphs have nothing to do with each other.
    train, test = (set(split.named(np.concatenate((split.graph, split.targets)))) for split in (data.valid, data.test))
    entities = [{name for head, _, tail in part for name in (head, tail)} for part in (train, test)]
    relations = {relation for _, relation, _ in train} & {relation for _, relation, _ in test}
    targets = data.test.named(data.test.targets)
    return Overlap(
        entities=len(entities[0] & entities[1]),
        relations=tuple(sorted(relations)),
        triples=len(train & test),
        targets=len(targets),
        targets_on_training_relations=sum(relation in relations for _, relation, _ in targets),
        targets_in_training=sum(target in train for target in targets),
        one_graph=len(data.valid.graph) > 0 and data.valid.graph_sha256 == data.test.graph_sha256,
        # Without the graph, that of the record is meant; a variant of a dataset has another than its record.
        same_training=tuple(catalog.same_training(data.measured() if len(data.valid.graph) else data.info)),
    )


@dataclass(frozen=True)
class TargetAudit:
    """The targets of a split, counted by what the graph shows of them.

    ``duplicates`` are targets listed twice, ``in_graph`` those that are observable; ``reversed_pair``
    those with any observable triple from tail to head, ``reversed_same`` those with a triple of the same
    relation, ``same_pair`` those with another relation from head to tail. ``half_links`` counts the four
    cases of `HALF_LINKS`, also by relation. ``unseen_entities`` and ``unseen_relations`` count targets
    with an entity or a relation that no observable triple has, ``apart`` those whose head and tail lie in two
    components of the graph, so that no path leads from one to the other. ``candidates`` is, for each protocol that
    draws relations, the mean number of present relation types a target is ranked against, and ``candidates_asked``
    what the protocol asks for.
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
    apart: int
    candidates: Mapping[str, float]
    candidates_asked: Mapping[str, int]


def audit_targets(split: Split) -> TargetAudit:
    """Return what the graph of a split shows of its targets."""
    graph, targets = split.graph, split.targets
    head, relation, tail = (targets[:, column] for column in (HEAD, RELATION, TAIL))
    forward, backward = keys(split, targets, HEAD, TAIL), keys(split, targets, TAIL, HEAD)
    pairs, triples = keys(split, graph, HEAD, TAIL), keys(split, graph)
    in_graph = among(keys(split, targets), triples)
    # Triples listed twice count once; each different triple of a pair (h, ., t) is a relation from head to tail, and
    # where the target itself is among them it is not another relation.
    distinct = np.sort(pairs[np.unique(triples, return_index=True)[1]])
    between = np.searchsorted(distinct, forward, side="right") - np.searchsorted(distinct, forward, side="left")
    cases = half_links(split)
    asked = {name: number for name in MAIN if (number := setting_of(name).relations)}
    available: IntArray = np.zeros(0, dtype=np.int64)
    if len(targets):
        pool = filter_side(split, "relation", empty_slots=False)
        available = pool.numbers[pool.row]
    lonely, component = degrees(split) == 0, components(graph, split.num_entities)
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
        apart=int((component[head] != component[tail]).sum()),
        candidates={
            name: float(np.minimum(available, number).mean()) if len(targets) else 0.0 for name, number in asked.items()
        },
        candidates_asked=asked,
    )


def _by_case(cases: IntArray) -> dict[str, int]:
    return dict(zip(HALF_LINKS, np.bincount(cases, minlength=len(HALF_LINKS)).tolist(), strict=True))


@dataclass(frozen=True)
class CandidateAudit:
    """A draw of candidates: a protocol, a vocabulary and a seed on the test targets.

    Per side, ``asked`` is what the protocol asks for, ``drawn`` the mean number drawn per target, equal
    candidates each counted, and ``distinct`` the mean number of different ones: a list that asks for 26
    relations of which 7 differ is an easier list. ``short`` is the share of targets for which fewer than
    asked were drawn on some side, ``without`` the number of targets with an empty list. ``false_negatives``
    counts the candidates that are known triples, observable or missing: each costs a model that is right.
    ``chance`` are the expected metrics of a scorer that ties everything, ``sha256`` names the draw.
    """

    protocol: str
    vocabulary: str
    seed: int
    asked: Mapping[str, int]
    drawn: Mapping[str, float]
    distinct: Mapping[str, float]
    short: float
    without: int
    false_negatives: int
    chance: Mapping[str, float]
    sha256: str


def audit_candidates(split: Split, seeds: Sequence[int] = SEEDS) -> tuple[CandidateAudit, ...]:
    """Return the audit of every sampled protocol and vocabulary with each of the seeds; nothing without targets."""
    if not len(split.targets):
        return ()
    return tuple(examine(split, draw(split, setting, seed)) for setting in settings_of([ALL], [ALL]) for seed in seeds)


def examine(split: Split, candidates: Candidates) -> CandidateAudit:
    """Return what a draw of candidates is like; it need not be of this package's settings."""
    setting = candidates.setting
    drawn: dict[str, float] = {}
    distinct: dict[str, float] = {}
    short = np.zeros(len(split.targets), dtype=np.bool_)
    false_negatives = 0
    for side in setting.sides:
        ids, valid = candidates.side(side)
        drawn[side] = float(valid.sum(axis=1).mean())
        short |= valid.sum(axis=1) < setting.number(side)
        owner, drawn_ids = np.nonzero(valid)[0], ids[valid]
        # An id with its owner is one integer, so that ids are distinct per target, not over all of them.
        distinct[side] = len(unique(owner * (drawn_ids.max(initial=0) + 1) + drawn_ids)) / len(split.targets)
        corrupted = split.targets[owner]
        corrupted[:, COLUMN[side]] = drawn_ids
        false_negatives += int(is_known(split, corrupted).sum())
    return CandidateAudit(
        protocol=setting.protocol,
        vocabulary=setting.vocabulary,
        seed=candidates.seed,
        asked={side: setting.number(side) for side in setting.sides},
        drawn=drawn,
        distinct=distinct,
        short=float(short.mean()),
        without=int((candidates.lengths == 0).any(axis=0).sum()),
        false_negatives=false_negatives,
        chance=closed.chance(candidates.lengths.ravel()),
        sha256=candidates.sha256,
    )
