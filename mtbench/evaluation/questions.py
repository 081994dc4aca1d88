"""What a task asks of a scorer: its triples, of which split, and which candidates they come from."""

from __future__ import annotations

from dataclasses import dataclass

from mtbench.data.splits import Split
from mtbench.names import IntArray


@dataclass(frozen=True, eq=False)
class Questions:
    """The distinct triples ``(k, 3)`` of a task, its name, its split and the hash of its candidates."""

    name: str
    split: Split
    triples: IntArray
    candidates_sha256: str
