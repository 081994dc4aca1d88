"""The vocabulary of the package: column order, array types and what a scorer looks like."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

HEAD, RELATION, TAIL = 0, 1, 2
"""Columns of a triple array: int64, shape ``(n, 3)``."""

COLUMNS = ("head", "relation", "tail")

Side: TypeAlias = Literal["head", "relation", "tail"]
SIDES: tuple[Side, ...] = get_args(Side)
COLUMN: Mapping[Side, int] = MappingProxyType({"head": HEAD, "relation": RELATION, "tail": TAIL})
"""The column of a triple array that is replaced when a side is corrupted."""

KEPT: Mapping[Side, tuple[Side, Side]] = MappingProxyType(
    {"head": ("relation", "tail"), "relation": ("head", "tail"), "tail": ("head", "relation")}
)
"""The two sides that stay when one is corrupted, in column order."""

Direction: TypeAlias = Literal["tail", "head"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
"""What is asked of a target (h, r, t): its tail, or its head."""

QUESTIONS: Mapping[Direction, str] = MappingProxyType({"tail": "(h, r, ?)", "head": "(?, r, t)"})

Part: TypeAlias = Literal["tail", "relation", "head", "head_relation"]
PARTS: Mapping[Part, tuple[Direction, Side]] = MappingProxyType(
    {
        "tail": ("tail", "tail"),
        "relation": ("tail", "relation"),
        "head": ("head", "head"),
        "head_relation": ("head", "relation"),
    }
)
"""What a list of candidates consists of: in which direction a target is asked for, and the side that is corrupted."""

HITS = (1, 3, 5, 10)
METRICS = ("mr", "mrr", *(f"hits@{k}" for k in HITS))
"""The rank metrics, in the order of every table: mean rank, mean reciprocal rank, and the share at most k."""

IntArray: TypeAlias = NDArray[np.int64]
UIntArray: TypeAlias = NDArray[np.uint64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
NameArray: TypeAlias = NDArray[np.str_]
ScoreArray: TypeAlias = NDArray[np.floating] | NDArray[np.integer]


@runtime_checkable
class TripleScorer(Protocol):
    """An object that scores triples; a plain function with the signature of ``score`` serves as well."""

    def score(self, triples: IntArray, /) -> ArrayLike:
        """Return one finite score per triple, higher meaning more plausible.

        ``triples`` is int64 of shape ``(m, 3)`` in the column order head, relation, tail; the result
        has shape ``(m,)`` in the same order, an array or a PyTorch tensor on any device.
        """
        ...


class ScoreFunction(Protocol):
    """A plain function from triples ``(m, 3)`` to scores ``(m,)``."""

    def __call__(self, triples: IntArray, /) -> ArrayLike: ...


@runtime_checkable
class TailScorer(Protocol):
    """An object that scores every tail of a pair at once: what a full ranking asks for, pair by pair."""

    def score_tails(self, heads: IntArray, relations: IntArray, /) -> ArrayLike:
        """Return the scores ``(b, num_entities)`` of all tails, for int64 heads and relations ``(b,)``."""
        ...


@runtime_checkable
class HeadScorer(Protocol):
    """An object that scores every head of a pair at once."""

    def score_heads(self, relations: IntArray, tails: IntArray, /) -> ArrayLike:
        """Return the scores ``(b, num_entities)`` of all heads, for int64 relations and tails ``(b,)``."""
        ...


@runtime_checkable
class RelationScorer(Protocol):
    """An object that scores every relation of a pair at once."""

    def score_relations(self, heads: IntArray, tails: IntArray, /) -> ArrayLike:
        """Return the scores of all relations, for int64 heads and tails ``(b,)``.

        The shape is ``(b, num_relations)``, or ``(b, relation_slots)`` where empty slots are candidates too.
        """
        ...


@runtime_checkable
class InverseScorer(Protocol):
    """A scorer that answers (?, r, t) by another query than (h, r, ?), as a network with inverse relations does.

    Lists of the direction ``head`` are scored by it, and everything else by the scorer's other methods.
    """

    def score_inverses(self, triples: IntArray, /) -> ArrayLike:
        """Return the scores ``(m,)`` of ``(t, r inverse, h)`` for int64 triples ``(m, 3)`` of ``(h, r, t)``."""
        ...


@runtime_checkable
class BetweenScorer(Protocol):
    """A scorer that answers (h, ?, t) by a query of its own, as a network for relation prediction does.

    Relations are scored by it in every list, and everything else by the scorer's other methods.
    """

    def score_between(self, triples: IntArray, /) -> ArrayLike:
        """Return the scores ``(m,)`` of the relations of int64 triples ``(m, 3)`` between their heads and tails."""
        ...


Scorer: TypeAlias = ScoreFunction | TripleScorer | TailScorer | HeadScorer | RelationScorer
"""Whatever can be ranked: an object with one or more of the four methods, or a plain function of triples."""
