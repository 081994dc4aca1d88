"""Lists of different lengths as flat arrays: ranges of a sorted array spread out, and summed up again by owner.

And `splitmix64`, the one source of numbers that look random and are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtbench.data.splits import unique
from mtbench.names import FloatArray, IntArray, UIntArray


def spread(starts: IntArray, stops: IntArray) -> tuple[IntArray, IntArray]:
    """Return the positions in all ranges, one range after the other, and the number of the range of each.

    ``starts`` and ``stops`` are int64 ``(n,)``; both results ``(total length,)``, the second in increasing order.
    """
    lengths = stops - starts
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return np.arange(len(owner)) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths), owner


def ranges(known: IntArray, asked: IntArray) -> tuple[IntArray, IntArray]:
    """Return from where to where each asked number stands in an array of known ones in increasing order."""
    first = np.searchsorted(known, asked)
    last = first.copy()
    # Most of what is asked for is not there, and needs no second search.
    there = np.flatnonzero(first < len(known))
    there = there[known[first[there]] == asked[there]]
    last[there] = np.searchsorted(known, asked[there], side="right")
    return first, last


def looked_up(known: IntArray, values: IntArray, asked: IntArray) -> IntArray:
    """Return the value of each asked number by different known ones in increasing order, 0 where it is unknown."""
    if not len(known):
        return np.zeros_like(asked)
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[place] == asked, values[place], 0)


def counted(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return the different numbers in increasing order, and how often each is there."""
    return _runs(np.sort(values))


def counted_rows(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], IntArray]:
    """Return the different rows of some columns ``(n,)``, ``(k, columns)`` in order, and how often each is there.

    `numpy.unique` does the same and takes 14 times as long.
    """
    return _runs(np.stack(columns, axis=1)[np.lexsort(columns[::-1])])


def _runs(ordered: NDArray[Any]) -> tuple[NDArray[Any], IntArray]:
    new = np.ones(len(ordered), dtype=np.bool_)
    changes = ordered[1:] != ordered[:-1]
    new[1:] = changes if ordered.ndim == 1 else changes.any(axis=1)
    first = np.flatnonzero(new)
    return ordered[first], np.diff(first, append=len(ordered))


def added(counts: Sequence[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    """Return the sum of several counts, each as `counted` gives it."""
    if len(counts) == 1:
        return counts[0]
    numbers, times = (np.concatenate(parts) for parts in zip(*counts, strict=True))
    known = unique(numbers)
    return known, sums(times, np.searchsorted(known, numbers), len(known)).astype(np.int64)


def sums(values: FloatArray, owner: IntArray, number: int) -> FloatArray:
    """Return the sum of the values of each of a number of owners, 0 where there is none."""
    return np.bincount(owner, weights=values, minlength=number).astype(np.float64, copy=False)


def largest(values: FloatArray, owner: IntArray, number: int) -> FloatArray:
    """Return the largest value of each of a number of owners, which are in increasing order; 0 where there is none."""
    found = np.zeros(number)
    if len(owner):
        first = np.flatnonzero(np.diff(owner, prepend=-1))
        found[owner[first]] = np.maximum.reduceat(values, first)
    return found


def alone(values: IntArray) -> int | None:
    """Return the number that all of some numbers are, None where there are several or none."""
    return int(values[0]) if len(values) and (values == values[0]).all() else None


def batches(row: IntArray, number: int, step: int) -> Iterator[tuple[int, int, IntArray]]:
    """Return some ``step`` of a ``number`` of rows at a time: from, to, and what is in them by its ``row`` ``(m,)``."""
    order = np.argsort(row, kind="stable")
    bounds = np.searchsorted(row[order], np.arange(number + 1))
    for start in range(0, number, step):
        stop = min(start + step, number)
        yield start, stop, order[bounds[start] : bounds[stop]]


def evenly(number: int, most: int) -> IntArray:
    """Return at most so many of the numbers below ``number``, evenly spread from the first to the last."""
    return np.linspace(0, number - 1, min(most, number)).round().astype(np.int64)


def splitmix64(state: UIntArray, number: int = 0) -> UIntArray:
    """Return output ``number`` of the splitmix64 generators with these states (Steele et al. 2014)."""
    word = state + np.uint64((number + 1) * 0x9E3779B97F4A7C15 % 2**64)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
