"""What to know about a scorer before believing its figures: ten checks that take seconds.

A benchmark cannot see inside a model. It can ask it the same question twice, in other batches, in
another order and under other names, and see whether the answers stay the same.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import permutation_test

from mtbench.data.splits import Split, unique
from mtbench.errors import BatchError, NotFiniteError, ScoreError, UsageError
from mtbench.evaluation.tasks import BATCH_SIZE, Task
from mtbench.metrics import closed
from mtbench.names import (
    COLUMN,
    HEAD,
    KEPT,
    RELATION,
    TAIL,
    FloatArray,
    HeadScorer,
    IntArray,
    RelationScorer,
    ScoreArray,
    ScoreFunction,
    Scorer,
    TailScorer,
    TripleScorer,
)
from mtbench.ranking import again
from mtbench.ranking.decoys import expect_chance, rank_decoys
from mtbench.ranking.lists import RankedPart
from mtbench.ranking.scorers import accept, ways

Verdict: TypeAlias = Literal["pass", "fail", "not applicable"]
Factory: TypeAlias = Callable[[Split, int], ScoreFunction]
KINDS = (TripleScorer, TailScorer, HeadScorer, RelationScorer)

TARGETS = 100
"""Targets of a dataset that are scored: enough to see a rank move, few enough for seconds."""

TRIAL, SCORINGS = 5, 12
"""Targets that are scored first to see how long it takes, and how often all are scored until every check is done."""

ALONE, BATCH = 50, 97
"""Triples that are scored one by one, and the size of the batches that all are scored in again."""

BUILDS, LEVEL = 16, 0.01
"""How many builds of a model with random features are compared on each side, and the level of the test."""

MORE = "allow more (--seconds; 0: no limit)"

NO_FACTORY = "name a function of the split that returns the scorer, so that it can be built on another split"


@dataclass(frozen=True)
class Finding:
    """A check: its name, its verdict, and a sentence on what that means and what to do."""

    name: str
    verdict: Verdict
    message: str


@dataclass(frozen=True)
class Report:
    """All findings about a scorer on a split, by its answers about the first ``targets`` of it."""

    dataset: str
    targets: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not any(finding.verdict == "fail" for finding in self.findings)


class _TimeIsUpError(Exception):
    """There is no time for another question."""


@dataclass(frozen=True, eq=False)
class _Subject:
    """A scorer on the split it is checked with; ``build`` makes it anew on another split with a seed."""

    task: Task
    score: ScoreFunction
    build: Factory | None
    until: float = math.inf
    decoys: RankedPart | None = None

    def read(self, score: ScoreFunction, triples: IntArray) -> ScoreArray:
        if time.monotonic() > self.until:
            raise _TimeIsUpError
        return accept(score(triples.copy()), triples, self.task.split, len(triples))[0]

    @cached_property
    def triples(self) -> IntArray:
        return self.task.triples

    @cached_property
    def scores(self) -> ScoreArray:
        # However long it takes: every check compares with these.
        return accept(self.score(self.triples.copy()), self.triples, self.task.split, len(self.triples))[0]

    def moved(self, scores: ScoreArray) -> int:
        """Return how many ranks differ by other ``scores``; a target has two."""
        ours, theirs = self.task.rank(self.scores), self.task.rank(scores)
        return int(np.count_nonzero((ours.greater != theirs.greater) | (ours.equal != theirs.equal)))

    def reciprocal(self, scores: ScoreArray) -> FloatArray:
        """Return the expected reciprocal of every rank, list by list: ``(l * m,)``."""
        ranks = self.task.rank(scores)
        return closed.per_target(ranks.greater, ranks.equal)["mrr"]


def check(
    scorer: object,
    split: Split | None = None,
    *,
    seconds: float = math.inf,
    report: Callable[[str], None] = lambda name: None,
) -> Report:
    """Ask a scorer the same in different ways and return what changed.

    ``scorer`` is an object with a method ``score``; a function whose parameter is
    called ``triples``; or a factory, any other function, which is called with the observable split (and a
    ``seed``, if it has a parameter of that name) and returns a scorer. Only a factory can be checked for
    equivariance and for reading the targets. ``split`` is any split with targets, of which the first
    100 are used, fewer where all checks of those would take longer than ``seconds``; without it a small graph is
    made on the fly. Checks that are not begun, or not done, when the seconds are over are left out, and say so.
    ``report`` is called with the name of each check before it begins. Raises `UsageError` for something that
    cannot score; an exception from a factory, or from the first scores, is not caught.
    """
    few = synthetic() if split is None else replace(split, targets=split.targets[:TARGETS])
    build, until = factory(scorer), time.monotonic() + seconds
    score = build(few.observable(), 0) if build else function(scorer)
    if seconds < math.inf:
        few = _fewer(few, score, seconds)
    subject = _Subject(Task.of(few), score, build, until)
    # Before all other questions: a scorer that remembers its answers would give those again.
    with suppress(Exception):  # which the check of all scores reports
        fresh = build(few.observable(), 0) if build else score
        asked = ways(partial(subject.read, fresh))
        subject = replace(subject, decoys=rank_decoys(asked, few, subject.task.candidates, BATCH_SIZE))
    return Report(few.dataset, len(few.targets), tuple(_findings(subject, seconds, report)))


def _fewer(split: Split, score: ScoreFunction, seconds: float) -> Split:
    """Return a split with as many of its targets as can be scored `SCORINGS` times, `TRIAL` at least."""
    first = Task.of(replace(split, targets=split.targets[:TRIAL])).triples
    started = time.monotonic()
    try:
        score(first)
    except Exception:  # noqa: BLE001 - the check that asks for all scores reports what a scorer raises
        return split
    # A clock may not tick during a fast scorer's answer; then all targets are kept.
    each = (time.monotonic() - started) / TRIAL
    return replace(split, targets=split.targets[: max(TRIAL, int(seconds / SCORINGS / max(each, 1e-9)))])


def _findings(subject: _Subject, seconds: float, report: Callable[[str], None]) -> Iterator[Finding]:
    report("shape and type")
    shape, finite = _accepted(subject)
    yield shape
    yield finite
    rest: dict[str, Callable[[], Finding]] = {
        **{name: partial(_repeated, name, ask, subject) for name, ask in REPEATED.items()},
        **{name: partial(_rebuilt, name, score_on, subject) for name, score_on in REBUILT.items()},
        "decoys": partial(_decoys, subject),
        "ties": partial(_ties, subject),
    }
    pointless = dict.fromkeys(
        rest if "fail" in (shape.verdict, finite.verdict) else (),
        "nothing can be compared before the scores are accepted",
    )
    for name, look in rest.items():
        if name in pointless:
            yield Finding(name, "not applicable", pointless[name])
            continue
        report(name)
        try:
            finding = look()
        except _TimeIsUpError:
            finding = Finding(name, "not applicable", f"left out: the {seconds:g} seconds are over, {MORE}")
        # A scorer that draws anew every time would fail these two as well, and say nothing about batches or order.
        if (name, finding.verdict) == ("determinism", "fail"):
            pointless |= dict.fromkeys(("batch size", "order"), "the same question twice has two answers already")
        yield finding


def _accepted(subject: _Subject) -> tuple[Finding, Finding]:
    fine = Finding("shape and type", "pass", "one real number per triple")
    try:
        _ = subject.scores
    except NotFiniteError as error:
        return fine, Finding("finiteness", "fail", str(error))
    except ScoreError as error:
        unknown = Finding("finiteness", "not applicable", "nothing can be said before shape and type are right")
        return Finding("shape and type", "fail", str(error)), unknown
    return fine, Finding("finiteness", "pass", "no score is infinite or not a number")


def _alone(subject: _Subject) -> ScoreArray:
    """Score all triples in smaller batches, and some of them one by one."""
    triples, scores = subject.triples, subject.scores.copy()
    for start in range(0, len(triples), BATCH):
        scores[start : start + BATCH] = _same_type(subject, triples[start : start + BATCH])
    for row in range(0, len(triples), -(-len(triples) // ALONE)):
        alone, expected = _same_type(subject, triples[row : row + 1])[0], float(subject.scores[row])
        # Whichever of the two is further from the score in one batch is the one to report.
        if abs(float(alone) - expected) > abs(float(scores[row]) - expected):
            scores[row] = alone
    return scores


def _same_type(subject: _Subject, triples: IntArray) -> ScoreArray:
    scores = subject.read(subject.score, triples)
    # Writing them into an array of the first type would round the difference away.
    if scores.dtype != subject.scores.dtype:
        raise ScoreError(f"{len(triples)} triples are scored in {scores.dtype}, all in {subject.scores.dtype}")
    return scores


def _permuted(subject: _Subject) -> ScoreArray:
    order = np.random.default_rng(0).permutation(len(subject.triples))
    scores = subject.scores.copy()
    scores[order] = subject.read(subject.score, subject.triples[order])
    return scores


REPEATED: Mapping[str, Callable[[_Subject], ScoreArray]] = {
    "determinism": lambda subject: subject.read(subject.score, subject.triples),
    "batch size": _alone,
    "order": _permuted,
}

ADVICE = {
    "determinism": "switch off dropout and fix the seed of whatever is drawn while scoring",
    "batch size": f"a score must not depend on what else is scored with it; {again.ADVICE}",
    "order": f"a score must not depend on what was scored before it; {again.ADVICE}",
    "entity names": "look for embeddings or sorting by entity id; features drawn at random need a parameter 'seed'",
    "relation names": "look for embeddings or sorting by relation id; features drawn at random need a parameter 'seed'",
    "targets": "the model reads split.targets, which are the answers: build it from split.graph alone",
}


def _repeated(name: str, ask: Callable[[_Subject], ScoreArray], subject: _Subject) -> Finding:
    try:
        scores = ask(subject)
    except _TimeIsUpError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a scorer raises at a question it has to answer is the finding
        return Finding(name, "fail", f"raised {type(error).__name__}: {error}; {ADVICE[name]}")
    same, words = _compared(subject, scores)
    return Finding(name, "pass", words) if same else Finding(name, "fail", f"{words}: {ADVICE[name]}")


def _compared(subject: _Subject, scores: ScoreArray) -> tuple[bool, str]:
    """Return whether other scores are the same but for rounding, and a sentence that says by how much they differ."""
    largest, why = again.difference(subject.scores, scores, str(scores.dtype))
    if largest == 0:
        return True, "exactly the same scores"
    ranks = f"{subject.moved(scores)} of {2 * len(subject.task.split.targets)} ranks change"
    if not why:
        return True, f"the same scores within rounding: they differ by at most {largest:.1e}, {ranks}"
    return False, f"scores differ by up to {largest:.2g}, {ranks}"


def _rebuilt(name: str, score_on: Callable[[_Subject, Factory, int], ScoreArray], subject: _Subject) -> Finding:
    """Compare scorers built on another split exactly or, where builds differ by chance, in distribution."""
    build, observable = subject.build, subject.task.split.observable()
    if build is None:
        return Finding(name, "not applicable", NO_FACTORY)
    try:
        same, words = _compared(subject, score_on(subject, build, 0))
        if same:
            return Finding(name, "pass", words)
        # Features drawn at random belong to an id, so that renaming changes scores, but not their distribution.
        ours = [subject.read(build(observable, seed), subject.triples) for seed in range(BUILDS)]
        if all(np.array_equal(scores, ours[0]) for scores in ours):
            return Finding(name, "fail", f"{words}: {ADVICE[name]}")
        theirs = [score_on(subject, build, seed) for seed in range(BUILDS)]
    except _TimeIsUpError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        return Finding(name, "fail", f"raised {type(error).__name__}: {error}; {ADVICE[name]}")
    return _distributed(name, *(np.stack([subject.reciprocal(scores) for scores in side]) for side in (ours, theirs)))


def _distributed(name: str, ours: FloatArray, theirs: FloatArray) -> Finding:
    """Compare reciprocal ranks ``(builds, m)`` by a permutation test on how far the mean ranks of targets are apart."""
    table = np.concatenate((ours, theirs))

    def apart(left: IntArray, right: IntArray) -> float:
        return float(((table[left].mean(axis=0) - table[right].mean(axis=0)) ** 2).sum())

    # What is permuted is the numbers of builds, whole rows of the table: ranks within a build are not independent.
    builds = np.arange(len(ours)), np.arange(len(ours), len(table))
    # 999 permutations give p-values down to 0.001, well below LEVEL, in a second.
    likely = float(permutation_test(builds, apart, alternative="greater", n_resamples=999, rng=0).pvalue)
    here, there = (f"{side.mean():.3f} ± {side.mean(axis=1).std(ddof=1):.3f}" for side in (ours, theirs))
    words = (
        f"builds differ by chance; over {BUILDS} of them the MRR is {here}, and {there} with {name} changed "
        f"(permutation test on all ranks: p = {likely:.2g})"
    )
    if likely < LEVEL:
        return Finding(name, "fail", f"{words}: {ADVICE[name]}")
    return Finding(name, "pass", f"the same in distribution: {words}")


def _renamed(subject: _Subject, build: Factory, seed: int, columns: tuple[int, ...]) -> ScoreArray:
    """Score the same triples on a split where the ids of relations, or those of entities, are permuted."""
    split = subject.task.split.observable()
    # Empty slots keep their ids: a model need not know them, and no triple of the task has them.
    number = split.num_relations if RELATION in columns else split.num_entities
    new = np.random.default_rng(seed + 1).permutation(number)

    def rename(triples: IntArray) -> IntArray:
        renamed = triples.copy()
        for column in columns:
            renamed[:, column] = new[triples[:, column]]
        return renamed

    return subject.read(build(replace(split, graph=rename(split.graph)), seed), rename(subject.triples))


REBUILT: Mapping[str, Callable[[_Subject, Factory, int], ScoreArray]] = {
    "entity names": partial(_renamed, columns=(HEAD, TAIL)),
    "relation names": partial(_renamed, columns=(RELATION,)),
    "targets": lambda subject, build, seed: subject.read(build(subject.task.split, seed), subject.triples),
}


def _decoys(subject: _Subject) -> Finding:
    if subject.decoys is None:
        return Finding("decoys", "not applicable", "too few targets to rank other triples as if they were such")
    try:
        expect_chance(subject.decoys, subject.task.split)
    except BatchError as error:
        return Finding("decoys", "fail", str(error))
    return Finding("decoys", "pass", "triples that nobody stated rank by chance where they are asked for like targets")


def _ties(subject: _Subject) -> Finding:
    if time.monotonic() > subject.until:
        raise _TimeIsUpError
    if len(np.unique(subject.scores)) == 1:
        return Finding("ties", "fail", "every triple has the same score: the figures are those of chance")
    cautions = subject.task.cautions(subject.score)
    if avoidable := [caution.sentence for caution in cautions if caution.code in ("rounding", "saturated")]:
        return Finding("ties", "fail", "; ".join(avoidable))
    share = f"{closed.tie_rate(subject.task.rank(subject.scores).equal):.0%} of ranks tie with a candidate"
    bounds = [caution.sentence for caution in cautions if caution.code == "bounds"]
    return Finding("ties", "pass", "; ".join([share, *bounds]))


def factory(scorer: object) -> Factory | None:
    """Return how to build a scorer on a split with a seed, or None for what scores triples itself.

    A factory is any function or class whose first parameter is not called ``triples``. One that fails
    is left to fail, with a note on this rule; if it returns no scorer, `UsageError` is raised.
    """
    if not callable(scorer):
        return None
    if isinstance(scorer, KINDS) and not inspect.isclass(scorer):
        return None
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(scorer).parameters
    except ValueError:
        parameters = {}
    # Both kinds are functions of one argument: the name of it is all that tells what they want to be called with.
    if next(iter(parameters), None) == "triples":
        return None
    name = getattr(scorer, "__name__", type(scorer).__name__)

    def build(split: Split, seed: int) -> ScoreFunction:
        try:
            made = scorer(split, seed=seed) if "seed" in parameters else scorer(split)
        except Exception as error:
            error.add_note(
                f"{name} was called with the inference graph, as a factory of scorers is; a function that scores "
                f"triples calls its parameter 'triples'"
            )
            raise
        return function(made, f"{name}(split) returned an object of type {type(made).__name__}, which")

    return build


def function(scorer: object, what: str = "") -> ScoreFunction:
    """Return a function of triples for any scorer; where it only scores whole rows, the function picks from them."""
    if not isinstance(scorer, KINDS) and not callable(scorer):
        raise UsageError(
            f"{what or type(scorer).__name__} cannot score: give a function of triples, an object with a score method "
            f"(score, score_tails, score_heads or score_relations), or a function of the split that returns one of "
            f"them; a function of triples calls its parameter 'triples'"
        )
    offered = ways(cast("Scorer", scorer))
    if offered.triples is not None:
        return offered.triples
    side, rows = next(iter(offered.rows.items()))
    first, second = (COLUMN[kept] for kept in KEPT[side])

    def picked(triples: IntArray) -> ArrayLike:
        whole: NDArray[np.floating] = cast("Any", rows(triples[:, first], triples[:, second]))
        return whole[np.arange(len(triples)), triples[:, COLUMN[side]]]

    return picked


def synthetic(seed: int = 0) -> Split:
    """Return a graph of 60 entities and 6 relations; low ids are popular, so that a model gains by reading ids."""
    rng = np.random.default_rng(seed)
    nodes, kinds, size, missing = 60, 6, 440, 40
    # Twice as many as needed, since repeats are dropped; powers of uniform numbers favour low ids.
    pairs = rng.integers(nodes, size=2 * size) * kinds + (kinds * rng.random(2 * size) ** 2).astype(np.int64)
    codes = pairs * nodes + (nodes * rng.random(2 * size) ** 3).astype(np.int64)
    codes = rng.permutation(unique(codes))[:size]
    triples = np.stack((codes // nodes // kinds, codes // nodes % kinds, codes % nodes), axis=1)
    return Split(
        dataset="synthetic",
        name="test",
        graph=triples[missing:],
        targets=triples[:missing],
        entities=np.array([f"entity{index:02d}" for index in range(nodes)]),
        relations=np.array([f"relation{index}" for index in range(kinds)]),
        relation_slots=kinds + 2,  # two empty slots, as the dictionaries of published datasets have
    )
