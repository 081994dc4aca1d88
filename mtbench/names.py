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
