"""Audit: the defects of a dataset that are visible in its triples, found without a model.

The package itself can be called: ``mtbench.audit(data)``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, islice

from mtbench.analysis.auditing.candidates import SEEDS, CandidateAudit, audit_candidates
from mtbench.analysis.auditing.findings import describe
from mtbench.analysis.auditing.graphs import GraphAudit, Overlap, audit_graph, audit_overlap
from mtbench.analysis.auditing.relations import Pattern, RelationPair, similar_relations, two_hop_patterns
from mtbench.analysis.auditing.targets import TargetAudit, audit_targets
from mtbench.data.splits import Dataset
from mtbench.errors import UsageError

__all__ = ["Audit", "CandidateAudit", "GraphAudit", "Overlap", "Pattern", "RelationPair", "TargetAudit", "audit"]

PATTERNS = 3
"""How many two-hop patterns are kept for each relation of the targets."""


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    ``graphs`` and ``similar_relations`` have the keys ``train`` and ``test``, with the training graph's
    targets being those of validation; ``targets`` and ``patterns`` the keys ``valid`` and ``test``.
    ``candidates`` has one entry per sampled protocol, vocabulary and published seed on the test targets.
    ``findings`` says in one sentence each what somebody who reports numbers on this dataset should know.
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


def audit(
    data: Dataset,
    *,
    threshold: float = 0.8,
    groups: Mapping[str, Collection[str]] | None = None,
    seeds: Sequence[int] = SEEDS,
) -> Audit:
    """Return the defects of a dataset that its triples show.

    A model can score well because a target's inverse is observable, because a relation was trained on,
    or because three relation types are all there is to rank; an audit says how far that is so. It
    compares names, so it takes what somebody loaded or built, not what the catalogue promises.

    ``threshold`` is the Jaccard index from which two relation types count as inverses or near-duplicates.
    ``groups`` names sets of relation types whose share of the triples is counted, such as the topics a
    graph was combined from; by default the ground-truth tasks where they are known. ``seeds``
    are those of the candidates to look at. Raises `UsageError` for a threshold outside (0, 1].
    """
    if not 0 < threshold <= 1:
        raise UsageError(f"threshold must be above 0 and at most 1, not {threshold!r}")
    splits = {"train": data.valid, "test": data.test}
    graphs = {name: audit_graph(split, groups) for name, split in splits.items()}
    with_targets = {split.name: split for split in splits.values()}
    targets = {str(name): audit_targets(split) for name, split in with_targets.items()}
    overlap = audit_overlap(data)
    patterns = {str(name): two_hop_patterns(split) for name, split in with_targets.items()}
    similar = {name: similar_relations(split, threshold) for name, split in splits.items()}
    candidates = audit_candidates(data.test, seeds)
    return Audit(
        dataset=data.name,
        version=data.version,
        threshold=threshold,
        graphs=graphs,
        targets=targets,
        overlap=overlap,
        similar_relations=similar,
        patterns={name: _best(rows) for name, rows in patterns.items()},
        candidates=candidates,
        findings=describe(graphs, targets, overlap, similar, patterns, candidates),
    )


def _best(patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    by_relation = groupby(patterns, key=lambda pattern: pattern.relation)
    return tuple(pattern for _, rows in by_relation for pattern in islice(rows, PATTERNS))
