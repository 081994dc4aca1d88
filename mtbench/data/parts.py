"""Is it the same dataset: the parts of one beside the counts and content hashes they should have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mtbench.data.catalog import Record
from mtbench.data.splits import SPLIT_NAMES, Dataset
from mtbench.files.hashing import CONTENT_HASH_OF_NOTHING

Expected: TypeAlias = Mapping[str, tuple[int, str]]
"""For each part (``train/graph`` ... ``test/targets``) the number of triples and their content hash."""


@dataclass(frozen=True)
class Comparison:
    """One set of triples beside what it should be: counts and content hashes of both."""

    part: str
    triples: int
    expected_triples: int
    sha256: str
    expected_sha256: str

    @property
    def same(self) -> bool:
        """Whether both are the same set of triples."""
        return self.sha256 == self.expected_sha256 and self.triples == self.expected_triples


def describe(dataset: Dataset) -> dict[str, tuple[int, str]]:
    """Return the counts and content hashes of a dataset's six parts, computed from its triples."""
    found = {}
    for name in SPLIT_NAMES:
        split = dataset.split(name)
        # Validation usually holds the very arrays of training: hashing them once is enough.
        train = dataset.train
        same = all(
            ours is theirs
            for ours, theirs in (
                (split.graph, train.graph),
                (split.entities, train.entities),
                (split.relations, train.relations),
            )
        )
        found[f"{name}/graph"] = (len(split.graph), train.graph_sha256 if same else split.graph_sha256)
        found[f"{name}/targets"] = (len(split.targets), split.targets_sha256)
    return found


def released(record: Record) -> dict[str, tuple[int, str]]:
    """Return the counts and content hashes of a catalogued release, for the six parts of a dataset.

    The record declares four: training has no targets, and validation shares training's graph.
    """
    parts = {key: (part.triples, part.content_sha256) for key, part in record.parts.items()}
    return parts | {"train/targets": (0, CONTENT_HASH_OF_NOTHING), "valid/graph": parts["train/graph"]}


def compare(dataset: Dataset, expected: Expected) -> list[Comparison]:
    """Return the graph and the targets of each split beside what is expected of them."""
    return [
        Comparison(part, triples, expected[part][0], sha256, expected[part][1])
        for part, (triples, sha256) in describe(dataset).items()
    ]
