"""How a scorer is asked: triple by triple or a whole row at once, in bounded batches, every answer checked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mtbench.data.ragged import batches
from mtbench.data.splits import Split, unique
from mtbench.errors import ScoreError, UsageError
from mtbench.names import (
    COLUMN,
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
from mtbench.ranking.again import Asked
from mtbench.ranking.filtered import fixed, joined
from mtbench.ranking.ranks import Counts, accept, accept_rows

METHODS: Mapping[Side, str] = {
    "head": "score_heads(relations, tails)",
    "relation": "score_relations(heads, tails)",
    "tail": "score_tails(heads, relations)",
}

UNNAMED = "unnamed"
Progress: TypeAlias = Callable[[int, int], None]
RowFunction: TypeAlias = Callable[[IntArray, IntArray], ArrayLike]


SCORE, INVERSES, BETWEEN = "score(triples)", "score_inverses(triples)", "score_between(triples)"


@dataclass(frozen=True, eq=False)
class Ways:
    """What a scorer offers: a function of triples, functions that return a whole row of one side, or both.

    ``inverses`` is the function of triples for the direction ``head``, None where both directions have one, and
    ``between`` that for relations, None where they have that of their direction.
    """

    triples: ScoreFunction | None
    rows: Mapping[Side, RowFunction]
    inverses: ScoreFunction | None = None
    between: ScoreFunction | None = None

    def function(self, part: Part) -> tuple[str, ScoreFunction] | None:
        """Return the function of triples for a part, with its name, None where there is none."""
        direction, side = PARTS[part]
        if side == "relation" and self.between is not None:
            return BETWEEN, self.between
        if direction == "head" and self.inverses is not None:
            return INVERSES, self.inverses
        return None if self.triples is None else (SCORE, self.triples)

    def kinds(self, direction: Direction) -> Sequence[Side]:
        """Return the kinds of rows that may serve a direction: not those of the other end, if there are others."""
        other = "tail" if direction == "head" else "head"
        return [kind for kind in self.rows if kind != other] or list(self.rows)


def ways(score: Scorer | Ways) -> Ways:
    """Return how a scorer can be asked; one that cannot be asked at all raises `UsageError`.

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
    inverses = score.score_inverses if isinstance(score, InverseScorer) else None
    between = score.score_between if isinstance(score, BetweenScorer) else None
    if isinstance(score, TripleScorer):
        return Ways(score.score, rows, inverses, between)
    if rows:
        return Ways(None, rows, inverses, between)
    if callable(score):
        return Ways(score, {}, inverses, between)
    raise UsageError(
        f"{type(score).__name__} cannot score: pass a function of triples or an object with a score method "
        f"(score, score_tails, score_heads or score_relations)"
    )


def name_of(score: Scorer | Ways) -> str:
    """Return what a scorer is called where nobody says: its ``name``, that of the function, or its class's."""
    found = getattr(score.triples if isinstance(score, Ways) else score, "name", None)
    if isinstance(found, str) and found:
        return found
    called = getattr(score, "__name__", type(score).__name__)
    return UNNAMED if called == "<lambda>" or isinstance(score, Ways) else str(called)


def batch_limit(batch_size: int) -> int:
    """Return a batch size as an int; raises `UsageError` for one that is none or is below 1."""
    try:
        size = operator.index(batch_size)
    except TypeError as error:
        raise UsageError(f"batch_size must be an integer, not {batch_size!r}") from error
    if size < 1:
        raise UsageError(f"batch_size must be at least 1, not {size}")
    return size


@dataclass(eq=False)
class Meter:
    """How many of all triples are scored; ``progress(done, total)`` is told after every batch."""

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
    """What a reader has to know of the scores of one method: their type, and whether they look like probabilities."""

    kind: str = ""
    inside: bool = False
    bounded: bool = True

    def add(self, scores: ScoreArray) -> None:
        """Take note of scores of any shape."""
        if scores.dtype.kind != "f":
            self.bounded = False
        if self.bounded:
            self.bounded = bool(((scores >= 0) & (scores <= 1)).all())
            self.inside = self.inside or bool(((scores > 0) & (scores < 1)).any())

    @property
    def probabilities(self) -> bool:
        """Whether all scores lie in [0, 1] and some strictly between."""
        return self.inside and self.bounded


@dataclass(eq=False)
class Asker:
    """Asks for scores in batches of at most ``size`` and keeps what was ``seen``; refuses what `ScoreError` names."""

    split: Split
    size: int
    meter: Meter
    seen: Seen

    def triples(self, triples: IntArray, *, function: ScoreFunction) -> ScoreArray:
        """Return the score of each triple ``(k, 3)``, each asked for once."""
        scores: ScoreArray = np.empty(0)
        for start in range(0, len(triples), self.size):
            batch = triples[start : start + self.size]
            part, kind = accept(function(batch.copy()), batch, self.split, self.meter.total)
            if not start:
                scores = np.empty_like(part, shape=len(triples))
            self._note(part, kind)
            scores[start : start + self.size] = part
            self.meter.add(len(part))
        return scores

    def rows(self, side: Side, function: RowFunction, pairs: IntArray, needed: BoolArray) -> ScoreArray:
        """Return whole rows of scores ``(b, w)`` for pairs ``(b, 2)``; ``needed`` marks those that will be read."""
        answer = function(pairs[:, 0].copy(), pairs[:, 1].copy())
        widths = self._widths(side, needed)
        array, kind = accept_rows(answer, needed, widths, self.split, lambda rows, ids: joined(side, pairs, rows, ids))
        self._note(array[needed[:, : array.shape[1]]], kind)
        self.meter.add(int(np.count_nonzero(needed)))
        return array

    def gathered(self, triples: IntArray, *, side: Side, function: RowFunction) -> ScoreArray:
        """Return the score of each triple ``(k, 3)`` from the rows of one side, each row asked for once."""
        keys, width = _keys(self.split, side, triples)
        _, first, row = np.unique(keys, return_index=True, return_inverse=True)
        scores: ScoreArray = np.empty(0)
        for start, stop, chosen in batches(row, len(first), max(1, self.size // width)):
            cells = row[chosen] - start, triples[chosen, COLUMN[side]]
            needed = np.zeros((stop - start, width), dtype=np.bool_)
            needed[cells] = True
            pairs = triples[first[start:stop]][:, [COLUMN[other] for other in fixed(side)]]
            found = self.rows(side, function, pairs, needed)
            if not start:
                scores = np.empty_like(found, shape=len(triples))
            scores[chosen] = found[cells]
        return scores

    def _widths(self, side: Side, needed: BoolArray) -> Mapping[int, str]:
        """Return the numbers of columns that serve: relations may come without the empty slots if none is needed."""
        width, few = needed.shape[1], self.split.num_relations
        if side != "relation":
            return {width: "entity"}
        every = {width: "relation slot, empty ones included"}
        return every if needed[:, few:].any() else every | {few: "relation type"}

    def _note(self, scores: ScoreArray, kind: str) -> None:
        if self.seen.kind not in ("", kind):
            raise ScoreError(
                f"{self.split.dataset} {self.split.name}: scores have the type {self.seen.kind} before triple "
                f"{self.meter.done} and {kind} from there on: different precisions do not compare; return one type"
            )
        self.seen.kind = kind
        self.seen.add(scores)


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores ``(k,)`` of triples by one method, what was seen of them, and how to ask it again if there is a way."""

    method: str
    scores: ScoreArray
    seen: Seen
    ask: Callable[[IntArray], ScoreArray] | None = None


@dataclass(frozen=True, eq=False)
class RankedPart:
    """The counts of one part, the score of each target they were made with, ``(m,)``, and what was seen.

    ``asked`` holds some of the triples with their scores, to be asked for again.
    """

    counts: Counts
    own: ScoreArray
    seen: Seen
    method: str
    asked: Asked | None


def score_listed(
    found: Ways, split: Split, triples: IntArray, needed: Mapping[Part, IntArray], size: int, progress: Progress | None
) -> Mapping[Part, Scored]:
    """Return per part scores ``(k,)`` aligned with ``triples`` ``(k, 3)``, filled in the rows ``needed`` of it,
    which may repeat.

    A scorer of triples is asked for each once per function it has: of a direction, of both, or of relations.
    Otherwise every part is read from the kind of rows of its direction that takes the fewest scores, parts that
    share a kind from the same rows, so that a target and its candidates in a part always come from one method.
    """
    needed = {part: unique(rows) for part, rows in needed.items()}
    methods: dict[str, Callable[[Asker, IntArray], ScoreArray]] = {}
    chosen: dict[Part, str] = {}
    for part, rows in needed.items():
        if (given := found.function(part)) is not None:
            chosen[part] = given[0]
            methods[given[0]] = partial(Asker.triples, function=given[1])
        else:
            kind = min(found.kinds(PARTS[part][0]), key=lambda kind: _cells(split, kind, triples[rows]))
            chosen[part] = METHODS[kind]
            methods[METHODS[kind]] = partial(Asker.gathered, side=kind, function=found.rows[kind])
    wanted = {
        method: unique(np.concatenate([rows for part, rows in needed.items() if chosen[part] == method]))
        for method in methods
    }
    meter = Meter(sum(map(len, wanted.values())), progress)
    answers: dict[str, Scored] = {}
    for method, rows in wanted.items():
        asker = Asker(split, size, meter, Seen())
        part_scores = methods[method](asker, triples[rows])
        scores = np.empty_like(part_scores, shape=len(triples))
        scores[rows] = part_scores
        silent = Asker(split, size, Meter(meter.total), asker.seen)
        answers[method] = Scored(method, scores, asker.seen, partial(methods[method], silent))
    return {part: answers[chosen[part]] for part in needed}


def _keys(split: Split, side: Side, triples: IntArray) -> tuple[IntArray, int]:
    """Return one number per triple for the row of a side it is in, and how many scores a row has."""
    sizes = {"head": split.num_entities, "relation": split.relation_slots, "tail": split.num_entities}
    first, second = fixed(side)
    return triples[:, COLUMN[first]] * sizes[second] + triples[:, COLUMN[second]], sizes[side]


def _cells(split: Split, side: Side, triples: IntArray) -> int:
    keys, width = _keys(split, side, triples)
    return len(unique(keys)) * width
