"""From scores to rank counts: which scores are accepted, and how many candidates are above or tied.

The counts are all that is kept of a run: every metric, bound and stratum follows from them, so a
later correction of a metric can be applied to old runs without their models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mtbench.data.splits import Split
from mtbench.errors import NotFiniteError, ScoreError, UsageError
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
)
from mtbench.ranking import counting

if TYPE_CHECKING:
    import pandas as pd

BLOCK_CELLS = 1 << 20
SHOWN = 3
COUNTS = ("greater", "equal", "count")
NO_RANK = "Look for a division by zero, log(0) or an overflow in the model: such a score has no rank"

AnyArray: TypeAlias = NDArray[np.generic]


@runtime_checkable
class _Tensor(Protocol):
    """What is used of a PyTorch tensor, so that the core accepts one without importing PyTorch."""

    dtype: object

    def detach(self) -> _Tensor: ...
    def cpu(self) -> _Tensor: ...
    def float(self) -> _Tensor: ...


@dataclass(frozen=True, eq=False)
class Counts:
    """Per target of one part or list, int64 ``(m,)``: candidates strictly above it, equal to it, and in all."""

    greater: IntArray
    equal: IntArray
    count: IntArray

    def differs(self, other: Counts) -> BoolArray:
        """Return which targets ``(m,)`` have another rank than in other counts."""
        apart: BoolArray = (self.greater != other.greater) | (self.equal != other.equal)
        return apart

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.greater + other.greater, self.equal + other.equal, self.count + other.count)


@dataclass(frozen=True, eq=False)
class Ranks:
    """The targets by name, in the order of the split, and their counts in every part of the protocol's lists.

    A target has one rank per list, which is one for every direction it was asked for. Ranks that were saved
    without names (of data that may not be passed on) have empty ones; what needs them asks
    `mtbench.runs.origin.with_names`.
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
        """Whether the targets have names; those of no targets have."""
        return not len(self) or bool(self.heads[0])

    def __len__(self) -> int:
        return len(self.heads)

    @cached_property
    def lists(self) -> Mapping[Direction, Counts]:
        """The counts of the list of each direction: those of its parts add up."""
        found: dict[Direction, Counts] = {}
        for part, counts in self.parts.items():
            direction = PARTS[part][0]
            before = found.get(direction)
            found[direction] = counts if before is None else before + counts
        return found

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
        return np.concatenate([np.empty(0, dtype=np.int64), *(getattr(one, name) for one in self.lists.values())])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per target: its names, the counts per part, and its mean rank over lists and tied orders.

        The rank is that among all candidates that were counted, also where metrics are those of a draw.
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
    found = _in_blocks(scores[target], candidates.shape[1], lambda block: (scores[candidates[block]], valid[block]))
    return Counts(*found, valid.sum(axis=1, dtype=np.int64))


def count_rows(own: ScoreArray, row: IntArray, scores: ScoreArray, allowed: BoolArray) -> tuple[IntArray, IntArray]:
    """Return how many candidates are above and equal to each target, ``(t,)`` each.

    ``scores`` ``(b, w)`` holds one row per pair, ``allowed`` ``(b, w)`` which of its columns are candidates;
    ``own`` ``(t,)`` is the score of each target and ``row`` ``(t,)`` its row. See `count`.
    """
    return _in_blocks(own, scores.shape[1], lambda block: (scores[row[block]], allowed[row[block]]))


def _in_blocks(
    own: ScoreArray, width: int, rows: Callable[[slice], tuple[ScoreArray, BoolArray]]
) -> tuple[IntArray, IntArray]:
    """Count the rows of candidates that a function returns for a block of targets, so that few are there at a time."""
    greater, equal = np.empty(len(own), dtype=np.int64), np.empty(len(own), dtype=np.int64)
    step = max(1, BLOCK_CELLS // max(1, width))
    for start in range(0, len(own), step):
        block = slice(start, start + step)
        greater[block], equal[block], _ = counting.tally(own[block], *rows(block))
    return greater, equal


def compare(target_scores: object, candidate_scores: object, valid: BoolArray | None = None) -> Counts:
    """Count, for every row, the candidates above and tied with its target.

    For scores that are there already, from any model and any data: ``target_scores`` ``(m,)`` and
    ``candidate_scores`` ``(m, c)`` are arrays or tensors of one type, integers or floats, and ``valid``
    bool ``(m, c)`` marks the candidates that are not padding; without it all are. A row never has its
    target among its candidates. `mtbench.metrics.closed.figures` turns the counts into metrics. The scores are
    read once and not copied. Raises `ScoreError` for a shape that would have to be broadcast, for two
    types, and for scores that are not finite, by row and column; `UsageError` for a ``valid`` of
    another shape or type.
    """
    own, own_kind = _numbers(target_scores, "targets")
    others, kind = _numbers(candidate_scores, "candidates")
    if own.ndim != 1 or others.ndim != 2 or len(own) != len(others):
        raise ScoreError(
            f"target scores have the shape {own.shape} and candidate scores {others.shape}, expected (m,) and (m, c): "
            f"one row of candidates per target, nothing is broadcast"
        )
    if own_kind != kind:
        raise ScoreError(
            f"target scores have the type {own_kind} and candidate scores {kind}: different precisions do not "
            f"compare; score both in one call of the model"
        )
    if valid is not None and (valid.dtype != np.bool_ or valid.shape != others.shape):
        raise UsageError(f"valid must be bool of shape {others.shape}, not {valid.dtype} of shape {valid.shape}")
    greater, equal, finite = counting.tally(own, others, valid)
    if not finite:
        _refuse_rows(own[:, None], np.ones((len(own), 1), dtype=np.bool_), "target")
        _refuse_rows(others, np.True_ if valid is None else valid, "candidate")
    number = np.full(len(own), others.shape[1]) if valid is None else valid.sum(axis=1, dtype=np.int64)
    return Counts(greater, equal, number)


def accept(scores: object, triples: IntArray, split: Split, total: int) -> tuple[ScoreArray, str]:
    """Return scores as a NumPy array with the name of the type they came in, or refuse them.

    ``scores`` is aligned with ``triples`` ``(k, 3)`` and may be a NumPy array, a PyTorch tensor on any
    device, or anything NumPy reads as an array of integers or floats; ``total`` is the number of
    triples of the whole task. Raises `ScoreError` that names the dataset, how many scores are wrong
    and the first few triples, because a NaN that is only compared ranks first in silence.
    """
    where = f"{split.dataset} {split.name}"
    array, kind = _numbers(scores, where)
    if array.shape != (len(triples),):
        raise ScoreError(f"{where}: {_shape_problem(array, len(triples))}")
    wrong = ~np.isfinite(array)
    if wrong.any():
        part = "scores" if len(triples) == total else f"scores of a batch, {total} in all,"
        few = triples[np.flatnonzero(wrong)[:SHOWN]]
        raise NotFiniteError(f"{where}: {_not_finite(array[wrong], f'of {len(triples)} {part}', _named(few, split))}")
    return array, kind


def accept_rows(
    scores: object,
    needed: BoolArray,
    widths: Mapping[int, str],
    split: Split,
    triples_of: Callable[[IntArray, IntArray], IntArray],
) -> tuple[ScoreArray, str]:
    """Return scores of whole rows with the name of the type they came in, or refuse them as `accept` does.

    ``needed`` ``(b, w)`` marks the scores that will be read: only they have to be finite, because a model
    may mask triples it knows. ``widths`` are the numbers of columns that are understood, none above w, and
    what a column then is; ``triples_of`` returns the triples ``(k, 3)`` of rows and columns ``(k,)``.
    """
    where, rows = f"{split.dataset} {split.name}", len(needed)
    array, kind = _numbers(scores, where)
    if array.ndim != 2 or array.shape[0] != rows or array.shape[1] not in widths:
        expected = " or ".join(f"({rows}, {width}) with a column per {what}" for width, what in widths.items())
        raise ScoreError(
            f"{where}: scores have the shape {array.shape}, expected one row per pair asked for: {expected}"
        )
    wrong = ~np.isfinite(array)
    if wrong.any() and (wrong := wrong & needed[:, : array.shape[1]]).any():
        few = triples_of(*(axis[:SHOWN] for axis in np.nonzero(wrong)))
        of = f"of {np.count_nonzero(needed)} scores of a batch"
        raise NotFiniteError(f"{where}: {_not_finite(array[wrong], of, _named(few, split))}")
    return array, kind


def _numbers(scores: object, where: str) -> tuple[ScoreArray, str]:
    """Return real numbers of any shape as a NumPy array with the name of their type, or refuse them."""
    if isinstance(scores, np.ma.MaskedArray):
        raise ScoreError(
            f"{where}: scores are a masked array, so some may be missing: pass scores.filled() or score them"
        )
    try:
        array, kind = _as_array(scores)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ScoreError(f"{where}: scores cannot be read as an array of numbers: {error}") from error
    if array.dtype.kind not in "iuf":
        raise ScoreError(
            f"{where}: scores have the type {kind}, expected integers or floats: "
            f"return one real number per triple, higher meaning more plausible"
        )
    return array, kind


def _as_array(scores: object) -> tuple[ScoreArray, str]:
    kind = ""
    if isinstance(scores, _Tensor):
        scores = scores.detach().cpu()
        kind = str(scores.dtype).removeprefix("torch.")
        # NumPy has no bfloat16; every bfloat16 value is a float32 value, so order and ties stay.
        scores = scores.float() if kind == "bfloat16" else scores
    array = np.asarray(scores)
    return array, kind or str(array.dtype)


def _shape_problem(array: ScoreArray, expected: int) -> str:
    found = f"scores have the shape {array.shape}, expected ({expected},), one per triple"
    if array.ndim == 0:
        return f"{found}: a single value is not broadcast; return an array"
    if array.ndim > 1 and array.size == expected:
        return f"{found}: return scores.reshape(-1) if that is the order of the triples"
    if array.ndim > 1:
        return f"{found}: return one number per triple"
    if len(array) < expected:
        return f"{found}: {expected - len(array)} of {expected} scores are missing; score every row of the triples"
    return f"{found}: {len(array) - expected} more scores than triples; score each row once, in the order given"


def _named(few: IntArray, split: Split) -> list[str]:
    return [f"({', '.join(name)})" for name in split.named(few)]


def _not_finite(values: ScoreArray, of: str, names: Sequence[str]) -> str:
    """Say how many of the scores are wrong; ``names`` are those of the first ``values``."""
    shown = "; ".join(
        f"{name} scored {value}" for name, value in zip(names, values[: len(names)].tolist(), strict=True)
    )
    rest = f"; and {len(values) - len(names)} more" if len(values) > len(names) else ""
    nan = int(np.count_nonzero(np.isnan(values)))
    return f"{len(values)} {of} are not finite ({nan} NaN, {len(values) - nan} infinite): {shown}{rest}. {NO_RANK}"


def _refuse_rows(scores: ScoreArray, valid: BoolArray | np.bool_, what: str) -> None:
    """Raise `ScoreError` if a score ``(m, c)`` that is marked by ``valid`` is not finite."""
    wrong = ~np.isfinite(scores) & valid
    if wrong.any():
        few = np.argwhere(wrong)[:SHOWN].tolist()
        names = [f"row {row}{f', candidate {column}' if what == 'candidate' else ''}" for row, column in few]
        raise NotFiniteError(_not_finite(scores[wrong], f"{what} scores", names))
