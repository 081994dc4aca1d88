"""Audit: the defects of a dataset that are visible in its triples, without a model, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice

from mtbench.analysis.contents import (
    SEEDS,
    CandidateAudit,
    GraphAudit,
    Overlap,
    TargetAudit,
    audit_candidates,
    audit_graph,
    audit_overlap,
    audit_targets,
)
from mtbench.analysis.relations import COMPARED, Pattern, RelationPair, similar_relations, two_hop_patterns
from mtbench.data.splits import Dataset
from mtbench.errors import UsageError

PATTERNS = 3
"""How many two-hop patterns are kept for each relation of the targets."""

NOTABLE = 0.1
"""A defect gets a sentence if it concerns at least this share of the targets."""

NEARLY_ALL = 0.9
"""What is so of at least this share of the targets is said of all of them."""

FEW = 10
"""Relations with fewer targets than this get no sentence of their own."""

NAMED = 4
"""How many names a sentence lists."""


@dataclass(frozen=True)
class Audit:
    """The figures and findings of an audit.

    ``graphs`` and ``similar_relations`` have the keys ``train`` and ``test``, with the training graph's
    targets being those of validation; ``targets`` and ``patterns`` the keys ``valid`` and ``test``.
    ``candidates`` has an entry per sampled protocol, vocabulary and published seed on the test targets.
    ``findings`` holds a sentence for everything that somebody who reports numbers on this dataset should know.
    """

    dataset: str
    version: str
    threshold: float
    graphs: Mapping[str, GraphAudit]
    targets: Mapping[str, TargetAudit]
    overlap: Overlap
    similar_relations: Mapping[str, tuple[RelationPair, ...]]
    patterns: Mapping[str, tuple[Pattern, ...]]
    candidates: tuple[CandidateAudit, ...]
    findings: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return everything as dictionaries, lists, text and numbers, ready for JSON."""
        return asdict(self)


def audit(data: Dataset, *, threshold: float = 0.8, seeds: Sequence[int] = SEEDS) -> Audit:
    """Return the defects of a dataset that its triples show.

    A model can score well because a target's inverse is observable, because a relation was trained on,
    or because there are only three relation types to rank; an audit says how far that is so. It
    compares names in the dataset it is passed, whatever the catalogue says of it.

    ``threshold`` is the Jaccard index from which two relation types count as inverses or near-duplicates.
    ``seeds`` are those of the candidates to look at. Raises `UsageError` for a threshold outside (0, 1].
    """
    if not isinstance(data, Dataset):
        raise UsageError(f"{type(data).__name__} is no dataset: mtbench.audit(mtbench.load(NAME))")
    if not 0 < threshold <= 1:
        raise UsageError(f"threshold must be above 0 and at most 1, not {threshold!r}")
    splits = {"train": data.valid, "test": data.test}
    patterns = {str(split.name): two_hop_patterns(split, PATTERNS) for split in splits.values()}
    report = Audit(
        dataset=data.name,
        version=data.version,
        threshold=threshold,
        graphs={name: audit_graph(split) for name, split in splits.items()},
        targets={str(split.name): audit_targets(split) for split in splits.values()},
        overlap=audit_overlap(data),
        similar_relations={name: similar_relations(split, threshold) for name, split in splits.items()},
        patterns={name: _best(rows) for name, rows in patterns.items()},
        candidates=audit_candidates(data.test, seeds),
        findings=(),
    )
    return replace(report, findings=tuple(_sentences(report, patterns)))


def _best(patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    by_relation = groupby(patterns, key=lambda pattern: pattern.relation)
    return tuple(pattern for _, rows in by_relation for pattern in islice(rows, PATTERNS))


def _sentences(report: Audit, patterns: Mapping[str, Sequence[Pattern]]) -> Iterator[str]:
    """Yield a sentence per defect, the gravest first; ``patterns`` are the two-hop patterns, not the best alone."""
    for counted, words in (
        ("false_negatives", "test candidates are known triples, and cost whoever is right"),
        ("without", "test triples have no candidate and rank first for free"),
    ):
        if draws := [candidates for candidates in report.candidates if getattr(candidates, counted)]:
            least, most = (extreme(getattr(candidates, counted) for candidates in draws) for extreme in (min, max))
            yield f"{least:,}{f' to {most:,}' * (most > least)} {words} ({_drawn(draws)})"
    if not report.graphs["train"].triples:
        yield "there is no training graph: it is for models that bring weights, and for what learns nothing"
    elif not report.targets["valid"].targets:
        yield "there are no validation triples: models train through all epochs, without early stopping"
    overlap = report.overlap
    if overlap.one_graph:
        yield "the test graph is the training graph: no entity or relation type is new in it"
        if overlap.targets_in_training:
            shown = overlap.targets_in_training
            yield f"{shown:,} of {overlap.targets:,} test triples are training or validation triples"
    elif overlap.targets_on_training_relations:
        yield (
            f"{overlap.targets_on_training_relations:,} of {overlap.targets:,} test triples are on relation types "
            f"that occur in training ({len(overlap.relations)} types are in both)"
        )
    elif overlap.relations:
        yield f"{len(overlap.relations)} relation types are in train and test: {_names(overlap.relations)}"
    if overlap.entities and not overlap.one_graph:
        yield f"{overlap.entities:,} entities are in train and test"
    if overlap.triples and not overlap.one_graph:
        yield f"{overlap.triples:,} triples are in train and test, {overlap.targets_in_training:,} of them test triples"
    if overlap.same_training:
        yield f"the training graph is that of {_names(overlap.same_training)} as well"
    for name, graph in report.graphs.items():
        if overlap.one_graph and name == "train":
            continue
        if graph.relation_types < graph.relation_slots:
            yield f"{name} graph: {graph.relation_types} relation types occur, of {graph.relation_slots} relation ids"
        rare = len(graph.relations) - graph.relations_of_most
        # Every graph has rare types; where they are half of all, a mean over targets says nothing about them.
        if rare and rare >= len(graph.relations) // 2:
            total = graph.triples + graph.targets
            held = sum(list(graph.relations.values())[: graph.relations_of_most])
            yield (
                f"{name} graph: {graph.relations_of_most} of {len(graph.relations)} relation types hold 99 % of the "
                f"triples; the other {rare} have {total - held:,} of {total:,}"
            )
        if graph.known:
            yield (
                f"{name} graph: {graph.known:,} triples more are known, neither observable nor to be predicted; no "
                "candidate is one of them"
            )
        if graph.self_loops:
            yield f"{name} graph: {graph.self_loops:,} triples lead from an entity to itself"
        if graph.relations_like_entities or 2 * graph.relation_types > graph.entities:
            yield (
                f"{name} graph: {graph.relation_types:,} relation types and {graph.entities:,} entities, with "
                f"{graph.relations_like_entities:,} names in common: if the columns of its files are head, tail, "
                "relation, import them with --columns head,tail,relation"
            )
        if graph.relation_types > COMPARED:
            yield (
                f"{name} graph: of {graph.relation_types:,} relation types the {COMPARED:,} most frequent were "
                "compared with each other"
            )
        if graph.duplicates:
            yield f"{name} graph: {graph.duplicates:,} triples are listed more than once"
        for kind, words in (
            ("inverse", "relation types that are inverses of each other"),
            ("near-duplicate", "relation types that are near-duplicates"),
            ("symmetric", "symmetric relation types"),
        ):
            if chosen := [pair for pair in report.similar_relations[name] if pair.kind == kind]:
                listed = [
                    pair.relation if kind == "symmetric" else f"{pair.relation} / {pair.other}" for pair in chosen
                ]
                yield f"{name} graph: {words} ({len(chosen)}): {_names(listed)}"
    for name, part in report.targets.items():
        yield from _of_targets(name, part)
        yield from _of_patterns(name, part, patterns[name])


def _drawn(draws: Sequence[CandidateAudit]) -> str:
    """Return of which protocols, relations and seeds some draws of candidates are."""
    texts = []
    for kind, names in (
        ("protocol", dict.fromkeys(candidates.protocol for candidates in draws)),
        ("", dict.fromkeys(f"{candidates.vocabulary} relations" for candidates in draws)),
        ("seed", dict.fromkeys(str(candidates.seed) for candidates in draws)),
    ):
        texts.append(f"{kind}{'s' * (len(names) > 1 and bool(kind))} {', '.join(names)}".strip())
    return "; ".join(texts)


def _of_targets(name: str, part: TargetAudit) -> Iterator[str]:
    for count, words in (
        (part.duplicates, "are listed more than once"),
        (part.in_graph, "are in the graph as well"),
        (part.unseen_entities, "name an entity without a triple in the graph"),
        (part.unseen_relations, "are on a relation type without a triple in the graph"),
    ):
        if count:
            yield f"{name} triples: {count:,} of {part.targets:,} {words}"
    if part.reversed_pair and part.reversed_pair >= NOTABLE * part.targets:
        yield (
            f"{name} triples: for {_share(part.reversed_pair, part.targets)} a triple from tail to head is in the graph"
            ", so that an inverse relation gives them away"
        )
    if part.same_pair and part.same_pair >= NOTABLE * part.targets:
        yield (
            f"{name} triples: for {_share(part.same_pair, part.targets)} another relation leads from head to tail in "
            "the graph, which gives away the pair"
        )
    if part.apart and part.apart >= NOTABLE * part.targets:
        yield (
            f"{name} triples: for {_share(part.apart, part.targets)} head and tail lie in two components of the graph, "
            "and no path leads from one to the other"
        )
    one_sided = part.half_links["head only"] + part.half_links["tail only"]
    if one_sided and one_sided >= NEARLY_ALL * part.targets:
        yield (
            f"{name} triples: of {_share(one_sided, part.targets)} exactly one of the two half-links is seen in the "
            "graph"
        )
    for protocol, mean in part.candidates.items():
        asked = part.candidates_asked[protocol]
        if part.targets and mean < asked:
            yield f"{name} triples: the {protocol} protocol asks for {asked} relation candidates and finds {mean:.1f}"


def _of_patterns(name: str, part: TargetAudit, patterns: Sequence[Pattern]) -> Iterator[str]:
    targets = {pattern.relation: pattern.targets for pattern in patterns}
    # Without any pattern, all relations of the targets are without one.
    targets = targets or {relation: sum(cases.values()) for relation, cases in part.half_links_by_relation.items()}
    own = {pattern.relation for pattern in patterns if pattern.relation in (pattern.first, pattern.second)}
    lost = {relation: count for relation, count in targets.items() if count >= FEW and relation not in own}
    if lost and sum(lost.values()) >= NOTABLE * part.targets:
        yield (
            f"{name} triples: none of {_names(list(lost))} is reached by two steps of which one is of its "
            f"own relation, so that no pattern of that kind can be learned from them ({sum(lost.values()):,} of "
            f"{part.targets:,})"
        )


def _share(count: int, total: int) -> str:
    return f"all {total:,}" if count == total else f"{count:,} of {total:,}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
