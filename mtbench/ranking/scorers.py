"""How a scorer is asked: triple by triple or a whole row at once, in bounded batches, every answer checked.

A score that is not finite, or too many or too few of them, is refused by name: a NaN that is only compared ranks first
in silence.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from mtbench.data.ragged import batches
from mtbench.data.splits import Split, unique
from mtbench.errors import NotFiniteError, ScoreError, UsageError
from mtbench.names import (
    COLUMN,
    KEPT,
    PARTS,
    BetweenScorer,
    BoolArray,
    Direction,
    HeadScorer,
    IntArray,
    InverseScorer,
    Part,
    RelationScorer,
    ScoreArray,
    ScoreFunction,
    Scorer,
    Side,
    TailScorer,
    TripleScorer,
)
from mtbench.ranking.ranks import Counts, tally

SCORE, INVERSES, BETWEEN = "score(triples)", "score_inverses(triples)", "score_between(triples)"
METHODS: Mapping[Side, str] = {
    "head": "score_heads(relations, tails)",
    "relation": "score_relations(heads, tails)",
    "tail": "score_tails(heads, relations)",
}
"""What a scorer can be asked for: triples, by one of three functions, or whole rows of a side."""

UNNAMED = "unnamed"
SHOWN = 3
"""How many of the wrong triples are named."""

NO_RANK = "Look for a division by zero, log(0) or an overflow in the model: such a score has no rank"

Progress: TypeAlias = Callable[[int, int], None]
RowFunction: TypeAlias = Callable[[IntArray, IntArray], ArrayLike]


@dataclass(frozen=True, eq=False)
class Method:
    """A way to ask a scorer: its name, the function, and the side whose whole rows it gives, None for triples."""

    name: str
    function: Callable[..., ArrayLike]
    rows: Side | None = None


@dataclass(frozen=True, eq=False)
class Ways:
    """What a scorer offers: a function of triples, functions that return a whole row of a side, or both.

    ``inverses`` is the function of triples for the direction ``head``, None where both directions share ``triples``;
    ``between`` is that for relations, None where their direction's is used. ``name`` is the default name of the scorer:
    its attribute ``name``, the function's name, or that of its class.
    """

    triples: ScoreFunction | None
    rows: Mapping[Side, RowFunction]
    inverses: ScoreFunction | None = None
    between: ScoreFunction | None = None
    name: str = UNNAMED

    def of_triples(self, part: Part) -> Method | None:
        """Return the method that scores triples of a part, None where there is none."""
        direction, side = PARTS[part]
        if side == "relation" and self.between is not None:
            return Method(BETWEEN, self.between)
        if direction == "head" and self.inverses is not None:
            return Method(INVERSES, self.inverses)
        return None if self.triples is None else Method(SCORE, self.triples)

    def of_rows(self, direction: Direction) -> Sequence[Method]:
        """Return the methods of rows that may serve a direction: those of the opposite end only if there are no others.

        A model may answer (h, r, ?) and (?, r, t) by different queries, which do not compare.
        """
        opposite = "tail" if direction == "head" else "head"
        sides = [side for side in self.rows if side != opposite] or list(self.rows)
        return [Method(METHODS[side], self.rows[side], side) for side in sides]


def ways(score: Scorer | Ways) -> Ways:
    """Return how a scorer can be asked; raises `UsageError` for an object that cannot score.

    An object with any of the methods is asked through them alone, also where it can be called: a PyTorch
    module can be, with arguments of its own.
    """
    if isinstance(score, Ways):
        return score
    rows: dict[Side, RowFunction] = {}
    if isinstance(score, HeadScorer):
        rows["head"] = score.score_heads
    if isinstance(score, RelationScorer):
        rows["relation"] = score.score_relations
    if isinstance(score, TailScorer):
        rows["tail"] = score.score_tails
    triples: ScoreFunction | None = None
    if isinstance(score, TripleScorer):
        triples = score.score
    elif callable(score) and not rows:  # a module with score_tails is callable too, but not with triples
        triples = score
    inverses = score.score_inverses if isinstance(score, InverseScorer) else None
    between = score.score_between if isinstance(score, BetweenScorer) else None
    name = getattr(score, "name", None)
    if not isinstance(name, str) or not name:
        called = str(getattr(score, "__name__", type(score).__name__))
        name = UNNAMED if called == "<lambda>" else called
    if triples or rows:
        return Ways(triples, rows, inverses, between, name)
    raise UsageError(
        f"{type(score).__name__} cannot score: pass a function of triples or an object with a score method "
        f"(score, score_tails, score_heads or score_relations)"
    )


def batch_limit(batch_size: int) -> int:
    """Return a batch size as an int; raises `UsageError` for what is no integer or below 1."""
    try:
        size = operator.index(batch_size)  # also NumPy's integers, but no float, not even a whole one
    except TypeError as error:
        raise UsageError(f"batch_size must be an integer, not {batch_size!r}") from error
    if size < 1:
        raise UsageError(f"batch_size must be at least 1, not {size}")
    return size


@dataclass(eq=False)
class Meter:
    """How many of all triples are scored; ``progress(done, total)`` is called after every batch."""

    total: int
    progress: Progress | None = None
    done: int = 0

    def add(self, number: int) -> None:
        """Count further triples."""
        self.done += number
        if self.progress:
            self.progress(self.done, self.total)


@dataclass(eq=False)
class Seen:
    """What a reader has to know of a method's scores: their type, and whether they look like probabilities."""

    kind: str = ""
    inside: bool = False
    bounded: bool = True

    def add(self, scores: ScoreArray) -> None:
        """Take note of scores of any shape."""
        # Integers are no probabilities: a rule that answers 0 or 1 ties on purpose.
        if scores.dtype.kind != "f":
            self.bounded = False
        if self.bounded:
            self.bounded = bool(((scores >= 0) & (scores <= 1)).all())
            self.inside = self.inside or bool(((scores > 0) & (scores < 1)).any())

    @property
    def probabilities(self) -> bool:
        """Whether all scores are from 0 to 1, and not all of them exactly 0 or 1."""
        return self.inside and self.bounded


@dataclass(eq=False)
class Asker:
    """Asks by a single method, in batches of at most ``size`` scores, and keeps what was ``seen`` of the answers.

    Answers that cannot be ranked are refused as in `accept`, and answers of two types with `ScoreError`.
    """

    split: Split
    method: Method
    size: int
    meter: Meter
    seen: Seen

    def score(self, triples: IntArray) -> ScoreArray:
        """Return the score of each triple ``(k, 3)``; each triple, or the row it is in, is asked for once."""
        if self.method.rows is not None:
            return self._gathered(triples, self.method.rows)
        scores: ScoreArray = np.empty(0)
        for start in range(0, len(triples), self.size):
            batch = triples[start : start + self.size]
            # A copy, since a model may write into what it is handed.
            answer, kind = accept(self.method.function(batch.copy()), batch, self.split, self.meter.total)
            if not start:
                # In the type of the first answer: a conversion could make or break ties.
                scores = np.empty_like(answer, shape=len(triples))
            self._note(answer, kind, len(answer))
            scores[start : start + self.size] = answer
        return scores

    def score_rows(self, side: Side, pairs: IntArray, needed: BoolArray) -> ScoreArray:
        """Return scores ``(b, w)`` of all triples of a side with pairs ``(b, 2)`` of the two fixed sides.

        ``needed`` marks those that will be read; a method that does not give rows of the side is asked for them alone,
        and the rest is 0.
        """
        if self.method.rows == side:
            return self._whole(side, pairs, needed)
        values = self.score(joined(side, pairs, *np.nonzero(needed)))
        scores = cast("ScoreArray", np.zeros_like(values, shape=needed.shape))
        scores[needed] = values
        return scores

    def _whole(self, side: Side, pairs: IntArray, needed: BoolArray) -> ScoreArray:
        answer = self.method.function(pairs[:, 0].copy(), pairs[:, 1].copy())
        width, few = needed.shape[1], self.split.num_relations
        widths = {width: "entity"}
        if side == "relation":
            # Relations may come without the empty slots, if none of these is needed.
            widths = {width: "relation slot, empty ones included"}
            widths |= {} if needed[:, few:].any() else {few: "relation type"}
        array, kind = accept_rows(answer, needed, widths, self.split, lambda rows, ids: joined(side, pairs, rows, ids))
        # Only what will be read: a model may mask known triples with -inf, which says nothing about its scores.
        self._note(array[needed[:, : array.shape[1]]], kind, int(np.count_nonzero(needed)))
        return array

    def _gathered(self, triples: IntArray, side: Side) -> ScoreArray:
        """Return the scores of triples ``(k, 3)`` by asking for each row they are in once, batch by batch of rows."""
        keys, width = _row_keys(self.split, side, triples)
        _, first, row = np.unique(keys, return_index=True, return_inverse=True)
        scores: ScoreArray = np.empty(0)
        for start, stop, chosen in batches(row, len(first), max(1, self.size // width)):
            cells = row[chosen] - start, triples[chosen, COLUMN[side]]
            needed = np.zeros((stop - start, width), dtype=np.bool_)
            needed[cells] = True
            pairs = triples[first[start:stop]][:, [COLUMN[kept] for kept in KEPT[side]]]
            answers = self._whole(side, pairs, needed)
            if not start:
                scores = np.empty_like(answers, shape=len(triples))
            scores[chosen] = answers[cells]
        return scores

    def _note(self, scores: ScoreArray, kind: str, number: int) -> None:
        # NumPy would compare float16 with float32 without a word, and scores that tied would tie no more.
        if self.seen.kind not in ("", kind):
            raise ScoreError(
                f"{self.split.dataset} {self.split.name}: scores have the type {self.seen.kind} before triple "
                f"{self.meter.done} and {kind} from there on: different precisions do not compare; return one type"
            )
        self.seen.kind = kind
        self.seen.add(scores)
        self.meter.add(number)


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores ``(k,)`` of triples by a method, what was seen of them, and how to ask again (None: impossible)."""

    method: str
    scores: ScoreArray
    seen: Seen
    ask: Callable[[IntArray], ScoreArray] | None = None


def score_listed(
    scorer: Ways, split: Split, triples: IntArray, needed: Mapping[Part, IntArray], size: int, progress: Progress | None
) -> Mapping[Part, Scored]:
    """Return per part scores ``(k,)`` aligned with ``triples`` ``(k, 3)``, filled in the rows ``needed`` of it,
    which may repeat.

    A scorer of triples is asked for each triple once per function it has: for a direction, for both, or for relations.
    Otherwise every part is read from those rows of its direction that take the fewest scores, and parts that read the
    same kind of rows share them. So a target and its candidates in a part always come from one method.
    """
    chosen: dict[Part, Method] = {}
    for part, rows in needed.items():
        method = scorer.of_triples(part)
        if method is None:
            method = min(scorer.of_rows(PARTS[part][0]), key=partial(_cells, split, triples[rows]))
        chosen[part] = method
    methods = {method.name: method for method in chosen.values()}
    wanted = {
        name: unique(np.concatenate([rows for part, rows in needed.items() if chosen[part].name == name]))
        for name in methods
    }
    meter = Meter(sum(map(len, wanted.values())), progress)
    answers: dict[str, Scored] = {}
    for name, rows in wanted.items():
        asker = Asker(split, methods[name], size, meter, Seen())
        answer = asker.score(triples[rows])
        scores = np.empty_like(answer, shape=len(triples))
        scores[rows] = answer
        asker.meter = Meter(meter.total)  # what is asked for again is no progress
        answers[name] = Scored(name, scores, asker.seen, asker.score)
    # Parts with the same method share its answer: `Layout.rank` sees that they are the same array, and counts it once.
    return {part: answers[chosen[part].name] for part in needed}


def _cells(split: Split, triples: IntArray, method: Method) -> int:
    """Return how many scores a method of rows is asked for to score triples ``(k, 3)``."""
    assert method.rows is not None
    keys, width = _row_keys(split, method.rows, triples)
    return len(unique(keys)) * width


def _row_keys(split: Split, side: Side, triples: IntArray) -> tuple[IntArray, int]:
    """Return a number per triple for the row of a side it is in, ``(k,)``, and how many scores a row has."""
    sizes = {"head": split.num_entities, "relation": split.relation_slots, "tail": split.num_entities}
    first, second = KEPT[side]
    return triples[:, COLUMN[first]] * sizes[second] + triples[:, COLUMN[second]], sizes[side]


def joined(side: Side, pairs: IntArray, rows: IntArray, ids: IntArray) -> IntArray:
    """Return triples ``(k, 3)``: what stays fixed from rows ``(k,)`` of the pairs ``(b, 2)``, and ids of the side."""
    triples = np.empty((len(ids), 3), dtype=np.int64)
    for kept, values in zip(KEPT[side], pairs.T, strict=True):
        triples[:, COLUMN[kept]] = values[rows]
    triples[:, COLUMN[side]] = ids
    return triples


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
    greater, equal, finite = tally(own, others, valid)
    # Counting looks at every cell anyway; only where padding or a score is not finite is it worth asking which.
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
    and the first few triples.
    """
    where = f"{split.dataset} {split.name}"
    array, kind = _numbers(scores, where)
    if array.shape != (len(triples),):
        raise ScoreError(f"{where}: {_shape_problem(array, len(triples))}")
    wrong = ~np.isfinite(array)
    if wrong.any():
        scope = "scores" if len(triples) == total else f"scores of a batch, {total} in all,"
        few = triples[np.flatnonzero(wrong)[:SHOWN]]
        raise NotFiniteError(f"{where}: {_not_finite(array[wrong], f'of {len(triples)} {scope}', _named(few, split))}")
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
    # np.asarray would drop the mask, and what it hides would be ranked.
    if isinstance(scores, np.ma.MaskedArray):
        raise ScoreError(
            f"{where}: scores are a masked array, so some may be missing: pass scores.filled() or score them"
        )
    kind = ""
    try:
        if isinstance(scores, _Tensor):
            scores = scores.detach().cpu()
            kind = str(scores.dtype).removeprefix("torch.")
            # NumPy has no bfloat16; every bfloat16 value is a float32 value, so order and ties stay.
            scores = scores.float() if kind == "bfloat16" else scores
        array = np.asarray(scores)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ScoreError(f"{where}: scores cannot be read as an array of numbers: {error}") from error
    kind = kind or str(array.dtype)
    if array.dtype.kind not in "iuf":
        raise ScoreError(
            f"{where}: scores have the type {kind}, expected integers or floats: "
            f"return one real number per triple, higher meaning more plausible"
        )
    return array, kind


def _shape_problem(array: ScoreArray, expected: int) -> str:
    problem = f"scores have the shape {array.shape}, expected ({expected},), one per triple"
    if array.ndim == 0:
        return f"{problem}: a single value is not broadcast; return an array"
    if array.ndim > 1 and array.size == expected:
        return f"{problem}: return scores.reshape(-1) if that is the order of the triples"
    if array.ndim > 1:
        return f"{problem}: return one number per triple"
    if len(array) < expected:
        return f"{problem}: {expected - len(array)} of {expected} scores are missing; score every row of the triples"
    return f"{problem}: {len(array) - expected} more scores than triples; score each row once, in the order given"


def _named(few: IntArray, split: Split) -> list[str]:
    return [f"({', '.join(name)})" for name in split.named(few)]


def _not_finite(values: ScoreArray, of: str, names: Sequence[str]) -> str:
    """Say how many scores are wrong, and name the first few: ``names`` belong to the first ``values``."""
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


@runtime_checkable
class _Tensor(Protocol):
    """What is used of a PyTorch tensor, so that the core accepts it without importing PyTorch."""

    dtype: object

    def detach(self) -> _Tensor: ...
    def cpu(self) -> _Tensor: ...
    def float(self) -> _Tensor: ...
