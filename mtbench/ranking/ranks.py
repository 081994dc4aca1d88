"""Rank counts: how many candidates are above or tied with every target, counted as fast as memory is read, and kept.

The counts are all that is kept of a run: every metric, bound and stratum follows from them, so a later correction of a
metric can be applied to old runs without their models.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtbench.names import (
    COLUMNS,
    PARTS,
    BoolArray,
    Direction,
    FloatArray,
    IntArray,
    NameArray,
    Part,
    ScoreArray,
    UIntArray,
)

if TYPE_CHECKING:
    import pandas as pd

COUNTS = ("greater", "equal", "count")
BLOCK_CELLS = 1 << 20
"""Scores of candidates that are gathered at a time: some megabytes, whatever the number of targets."""

CACHED_CELLS = 1 << 18
"""Scores compared at a time: with their answers they fit a core's second-level cache."""

CHUNK = 248
"""Columns counted at a time: a whole number of words, and a count of them fits in a byte."""

WIDE = 1024
"""Rows of this many columns or more are long enough to be counted one by one."""

THREADS, CELLS_PER_THREAD = 2, 1 << 22
"""NumPy compares without the interpreter's lock; below this size a thread costs more than it brings."""

WORD = 8
ONES, TOP_BYTE = np.uint64(0x0101010101010101), np.uint64(56)

AnyArray: TypeAlias = NDArray[np.generic]


@dataclass(frozen=True, eq=False)
class Counts:
    """Per target of a part or list, int64 ``(m,)``: candidates strictly above it, equal to it, and in all."""

    greater: IntArray
    equal: IntArray
    count: IntArray

    def differs(self, other: Counts) -> BoolArray:
        """Return which targets ``(m,)`` have another rank than in other counts."""
        differing: BoolArray = (self.greater != other.greater) | (self.equal != other.equal)
        return differing

    def against(self) -> Counts:
        """Return the counts where a tie counts against the target: all that is equal to it is above it."""
        return Counts(self.greater + self.equal, np.zeros_like(self.equal), self.count)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.greater + other.greater, self.equal + other.equal, self.count + other.count)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The targets by name, in the order of the split, and their counts in every part of the protocol's lists.

    A target has a rank per list: one for every direction it was asked for. Ranks that were saved
    without names (of data that may not be passed on) have empty ones, which `mtbench.runs.origin.with_names` fills in.
    """

    heads: NameArray
    relations: NameArray
    tails: NameArray
    parts: Mapping[Part, Counts]

    @classmethod
    def empty(cls) -> Ranks:
        """Return the ranks of no targets: what a run that failed has."""
        nothing = np.empty(0, dtype=np.str_)
        return cls(nothing, nothing, nothing, {})

    @classmethod
    def unnamed(cls, parts: Mapping[Part, Counts]) -> Ranks:
        """Return the ranks of targets that have no names."""
        nothing = np.full(max((len(counts.count) for counts in parts.values()), default=0), "", dtype=np.str_)
        return cls(nothing, nothing, nothing, parts)

    @property
    def named(self) -> bool:
        """Whether the targets have names; true without targets."""
        return not len(self) or bool(self.heads[0])

    def __len__(self) -> int:
        return len(self.heads)

    @cached_property
    def lists(self) -> Mapping[Direction, Counts]:
        """The counts of the list of each direction: those of its parts add up."""
        lists: dict[Direction, Counts] = {}
        for part, counts in self.parts.items():
            direction = PARTS[part][0]
            before = lists.get(direction)
            lists[direction] = counts if before is None else before + counts
        return lists

    @property
    def greater(self) -> IntArray:
        """Candidates strictly above each target, list by list: ``(l * m,)`` for l lists."""
        return self._joined("greater")

    @property
    def equal(self) -> IntArray:
        """Candidates tied with each target, list by list: ``(l * m,)``."""
        return self._joined("equal")

    @property
    def count(self) -> IntArray:
        """Candidates of each target, list by list: ``(l * m,)``."""
        return self._joined("count")

    @property
    def mean(self) -> FloatArray:
        """The rank of each target ``(m,)``, in the mean over its lists and over the order of ties."""
        ranks: FloatArray = (self.greater + 1 + self.equal / 2).reshape(-1, len(self)).mean(axis=0)
        return ranks

    def _joined(self, name: str) -> IntArray:
        # The empty array gives the counts of a failed run, which has no lists, their type.
        return np.concatenate([np.empty(0, dtype=np.int64), *(getattr(counts, name) for counts in self.lists.values())])

    def to_frame(self) -> pd.DataFrame:
        """Return a row per target: its names, the counts per part, and its mean rank over lists and tied orders.

        The rank is among all candidates that were counted.
        """
        import pandas as pd

        columns: dict[str, AnyArray] = dict(zip(COLUMNS, (self.heads, self.relations, self.tails), strict=True))
        for part, counts in self.parts.items():
            columns |= {f"{part}_{name}": getattr(counts, name) for name in COUNTS}
        return pd.DataFrame(columns | {"rank": self.mean})


def count(scores: ScoreArray, target: IntArray, candidates: IntArray, valid: BoolArray) -> Counts:
    """Compare each target's score with those of its candidates.

    ``scores`` ``(k,)`` holds one score per distinct triple; ``target`` ``(m,)`` and ``candidates``
    ``(m, c)`` index it, and ``valid`` ``(m, c)`` marks candidates that are not padding. Scores are
    compared in the type they came in, because converting them could create or break ties.
    """
    counts = _in_blocks(scores[target], candidates.shape[1], lambda block: (scores[candidates[block]], valid[block]))
    return Counts(*counts, valid.sum(axis=1, dtype=np.int64))


def count_rows(own: ScoreArray, row: IntArray, scores: ScoreArray, allowed: BoolArray) -> tuple[IntArray, IntArray]:
    """Return how many candidates are above and equal to each target, ``(t,)`` each.

    ``scores`` ``(b, w)`` holds one row per pair, ``allowed`` ``(b, w)`` which of its columns are candidates;
    ``own`` ``(t,)`` is the score of each target and ``row`` ``(t,)`` its row. See `count`.
    """
    return _in_blocks(own, scores.shape[1], lambda block: (scores[row[block]], allowed[row[block]]))


def _in_blocks(
    own: ScoreArray, width: int, rows: Callable[[slice], tuple[ScoreArray, BoolArray]]
) -> tuple[IntArray, IntArray]:
    """Count block by block of targets: ``rows`` returns the scores of a block, so that few are in memory at a time."""
    greater, equal = np.empty(len(own), dtype=np.int64), np.empty(len(own), dtype=np.int64)
    # Gathering all at once would take targets times candidates, which full rankings of large graphs do not fit.
    step = max(1, BLOCK_CELLS // max(1, width))
    for start in range(0, len(own), step):
        block = slice(start, start + step)
        greater[block], equal[block], _ = tally(own[block], *rows(block))
    return greater, equal


def tally(own: ScoreArray, others: ScoreArray, valid: BoolArray | None = None) -> tuple[IntArray, IntArray, bool]:
    """Return how many of ``others`` ``(m, c)`` are above and how many equal ``own`` ``(m,)``, both int64 ``(m,)``.

    Both arrays have one type and are compared in it; only cells marked by ``valid`` ``(m, c)`` count.
    The third value says whether every score, marked or not, is finite: a NaN is neither above nor
    equal, so counts of scores that are not finite mean nothing.

    Blocks of rows are compared into a small buffer that stays in the processor's cache, and the bytes of
    a row's answers are added eight at a time; long rows are compared and counted one by one.
    """
    # Unsigned, as the words are that their bytes are summed in; no count comes near 2**63, so the bits are int64's too.
    above, equal = np.zeros((2, len(own)), dtype=np.uint64)
    workers = max(1, min(THREADS, _processors(), others.size // CELLS_PER_THREAD))
    cuts = [len(own) * part // workers for part in range(workers + 1)]
    shares = [slice(first, last) for first, last in pairwise(cuts)]

    def work(share: slice) -> bool:
        marked = None if valid is None else valid[share]
        return _count(own[share], others[share], marked, above[share], equal[share])

    # Most calls are small blocks, for which starting a pool would take longer than the comparison.
    if workers == 1:
        finite = [work(shares[0])]
    else:
        with ThreadPoolExecutor(workers) as pool:
            finite = list(pool.map(work, shares))
    return above.view(np.int64), equal.view(np.int64), all(finite)


def _count(own: ScoreArray, others: ScoreArray, valid: BoolArray | None, above: UIntArray, equal: UIntArray) -> bool:
    if others.shape[1] >= WIDE:
        return _count_wide(own, others, valid, above, equal)
    finite = _finite(own)
    columns = min(others.shape[1], CHUNK)
    rows = max(1, min(len(own), CACHED_CELLS // max(1, columns)))
    # Rows of whole words; the bytes after the last column stay zero.
    answers = np.zeros((rows, -(-columns // WORD) * WORD), dtype=np.bool_)
    words, sums = answers.view(np.uint64), np.empty(rows, dtype=np.uint64)
    for start in range(0, len(own), rows):
        block = slice(start, start + rows)
        target = own[block, None]
        for first in range(0, others.shape[1], CHUNK):
            chunk = others[block, first : first + CHUNK]
            marked = None if valid is None else valid[block, first : first + CHUNK]
            finite &= _finite(chunk)
            # A narrower last chunk must not count what the chunk before left behind.
            answers[:, chunk.shape[1] :] = False
            answered = answers[: len(chunk), : chunk.shape[1]]
            for operation, total in ((np.greater, above), (np.equal, equal)):
                operation(chunk, target, out=answered)
                if marked is not None:
                    np.logical_and(answered, marked, out=answered)
                # Most models tie nowhere, and looking is cheaper than counting.
                if not answers.any():
                    continue
                total[block] += _row_sums(words[: len(chunk)], sums[: len(chunk)])
    return finite


def _count_wide(
    own: ScoreArray, others: ScoreArray, valid: BoolArray | None, above: UIntArray, equal: UIntArray
) -> bool:
    # A long row fills the cache by itself, and count_nonzero on it is as fast as memory is read.
    finite = _finite(own)
    answers = np.empty(others.shape[1], dtype=np.bool_)
    for row, (target, scores) in enumerate(zip(own, others, strict=True)):
        finite &= _finite(scores)
        for operation, total in ((np.greater, above), (np.equal, equal)):
            operation(scores, target, out=answers)
            if valid is not None:
                np.logical_and(answers, valid[row], out=answers)
            total[row] = np.count_nonzero(answers)
    return finite


def _row_sums(words: UIntArray, sums: UIntArray) -> UIntArray:
    """Add up the bytes of each row of words ``(b, w)``, in place of what ``sums`` ``(b,)`` held."""
    if words.shape[1] == 1:
        np.copyto(sums, words[:, 0])
    else:
        np.add(words[:, 0], words[:, 1], out=sums)
    for column in range(2, words.shape[1]):
        np.add(sums, words[:, column], out=sums)
    # The product's top byte is the sum of all bytes, none of which overflows: a row has at most CHUNK ones.
    np.multiply(sums, ONES, out=sums)
    return np.right_shift(sums, TOP_BYTE, out=sums)


def _finite(scores: ScoreArray) -> bool:
    """Return whether no score is infinite or not a number: both extremes are NaN if any score is."""
    if scores.dtype.kind != "f" or not scores.size:
        return True
    return bool(np.isfinite(scores.min()) and np.isfinite(scores.max()))


def _processors() -> int:
    # What this process may use: a container or a queue may have pinned it to fewer than the machine has.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
