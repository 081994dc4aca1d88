"""Scores that arrive in pieces: collected row by row, ranked once every triple has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtbench.data.splits import unique
from mtbench.errors import ScoreError, UsageError
from mtbench.evaluation.questions import Questions
from mtbench.names import IntArray, ScoreArray
from mtbench.ranking.ranks import _as_array, accept
from mtbench.runs.result import Result

Index: TypeAlias = slice | ArrayLike


class Evaluator:
    """Collects the scores of one task in any order and any batches; ``Task.evaluator()`` makes one.

    A piece that is refused leaves the evaluator as it was, so that a corrected one can follow. One
    evaluator serves one set of scores: take a new one after every epoch. Raises `UsageError` where the
    task has no list of triples.
    """

    def __init__(self, asked: Questions, finish: Callable[[ScoreArray, str], Result]) -> None:
        self._asked, self._finish = asked, finish
        self._scores: ScoreArray = np.empty(0, dtype=np.float64)
        self._kind = ""
        self._scored = np.zeros(len(asked.triples), dtype=np.bool_)

    @property
    def remaining(self) -> int:
        """How many triples have no score yet."""
        return int(np.count_nonzero(~self._scored))

    def update(self, index: Index, scores: object) -> None:
        """Take the scores ``(b,)`` of the rows ``index`` of ``task.triples``, a slice or ``(b,)`` integers.

        ``scores`` is an array of integers or floats, or a PyTorch tensor on any device. Raises
        `UsageError` for an index that is no slice and no row numbers, and `ScoreError` for scores that
        are not finite or of a wrong shape, of another type than before, or for a triple scored already.
        """
        rows = self._rows(index)
        triples = self._asked.triples
        part, kind = accept(scores, triples[rows], self._asked.split, len(triples))
        self._refuse(self._scored[rows], rows, "are scored already")
        if len(distinct := unique(rows)) < len(rows):
            numbers = np.bincount(rows, minlength=len(triples))
            self._refuse(numbers[distinct] > 1, distinct, "are in this batch more than once")
        if not len(rows):
            return
        if self._kind and kind != self._kind:
            raise ScoreError(
                f"{self._asked.where}: scores have the type {self._kind} before and {kind} in this batch: different "
                f"precisions do not compare; give one type"
            )
        if not self._kind:
            self._scores = cast("ScoreArray", np.empty(len(triples), dtype=part.dtype))
            self._kind = kind
        self._scores[rows] = part
        self._scored[rows] = True

    def compute(self) -> Result:
        """Rank the scores; raises `ScoreError` with the number and the first few triples that have none."""
        self._refuse(~self._scored, np.arange(len(self._scored)), f"of {len(self._scored)} have no score")
        return self._finish(self._scores, self._kind)

    def _rows(self, index: Index) -> IntArray:
        total = len(self._scored)
        if isinstance(index, slice):
            return np.arange(total)[index]
        try:
            rows, _ = _as_array(index)
        except (RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"the index cannot be read as row numbers of task.triples: {error}") from error
        if rows.ndim == 1 and not len(rows):
            return np.empty(0, dtype=np.int64)
        if rows.dtype.kind not in "iu" or rows.ndim != 1:
            raise UsageError(
                f"the index must be a slice or row numbers of task.triples (b,), not {rows.dtype} of shape "
                f"{rows.shape}; np.flatnonzero turns a mask into row numbers"
            )
        wrong = (rows < 0) | (rows >= total)
        if wrong.any():
            raise UsageError(
                f"{int(wrong.sum())} row numbers are outside 0 to {total - 1}, first {rows[wrong][0]}; "
                f"they are rows of task.triples"
            )
        return rows.astype(np.int64)

    def _refuse(self, wrong: NDArray[np.bool_], rows: IntArray, what: str) -> None:
        if wrong.any():
            raise ScoreError(
                f"{self._asked.where}: {int(np.count_nonzero(wrong))} triples {what}: "
                f"{self._asked.shown(rows[wrong])}; score each row of task.triples once"
            )
