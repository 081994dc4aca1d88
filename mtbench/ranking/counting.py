"""Rows of scores counted against their target: the inner loop of every rank, as fast as memory is read.

Blocks of rows are compared into one small buffer that stays in the processor's cache, and the bytes of
a row's answers are added eight at a time; long rows are compared and counted one by one. The plain version
is one line per count; this one reads the scores once, allocates next to nothing, and checks on the way that
they are numbers.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from mtbench.names import BoolArray, IntArray, ScoreArray, UIntArray

BLOCK_CELLS = 1 << 18
"""Scores compared at a time: with their answers they fit a core's second-level cache."""

CHUNK = 248
"""Columns counted at a time: a whole number of words, and a count of them fits in a byte."""

WIDE = 1024
"""From so many columns on, a row is long enough to be counted by itself."""

THREADS, CELLS_PER_THREAD = 2, 1 << 22
"""NumPy lets go of the interpreter while it compares; below this size a thread costs more than it brings."""

WORD = 8
ONES, TOP_BYTE = np.uint64(0x0101010101010101), np.uint64(56)


def tally(own: ScoreArray, others: ScoreArray, valid: BoolArray | None = None) -> tuple[IntArray, IntArray, bool]:
    """Return how many of ``others`` ``(m, c)`` are above and how many equal ``own`` ``(m,)``, both int64 ``(m,)``.

    Both arrays have one type and are compared in it; only cells marked by ``valid`` ``(m, c)`` count.
    The third value says whether every score, marked or not, is finite: a NaN is neither above nor
    equal, so counts of scores that are not finite mean nothing.
    """
    above, equal = np.zeros((2, len(own)), dtype=np.uint64)
    workers = max(1, min(THREADS, _processors(), others.size // CELLS_PER_THREAD))
    cuts = [len(own) * part // workers for part in range(workers + 1)]
    shares = [slice(first, last) for first, last in pairwise(cuts)]

    def work(share: slice) -> bool:
        part = None if valid is None else valid[share]
        return _count(own[share], others[share], part, above[share], equal[share])

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
    rows = max(1, min(len(own), BLOCK_CELLS // max(1, columns)))
    # Rows of whole words; the bytes after the last column stay zero.
    answers = np.zeros((rows, -(-columns // WORD) * WORD), dtype=np.bool_)
    words, sums = answers.view(np.uint64), np.empty(rows, dtype=np.uint64)
    for start in range(0, len(own), rows):
        block = slice(start, start + rows)
        target = own[block, None]
        for first in range(0, others.shape[1], CHUNK):
            part = others[block, first : first + CHUNK]
            marked = None if valid is None else valid[block, first : first + CHUNK]
            finite &= _finite(part)
            # A narrower last chunk must not see what the one before left behind.
            answers[:, part.shape[1] :] = False
            found = answers[: len(part), : part.shape[1]]
            for operation, total in ((np.greater, above), (np.equal, equal)):
                operation(part, target, out=found)
                if marked is not None:
                    np.logical_and(found, marked, out=found)
                # Most models tie nowhere, and looking is cheaper than counting.
                if not answers.any():
                    continue
                total[block] += _row_sums(words[: len(part)], sums[: len(part)])
    return finite


def _count_wide(
    own: ScoreArray, others: ScoreArray, valid: BoolArray | None, above: UIntArray, equal: UIntArray
) -> bool:
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
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
