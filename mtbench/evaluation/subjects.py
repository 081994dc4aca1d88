"""What can be checked: a scorer, or a factory that makes one for any split; and a small split to check it on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mtbench.data.splits import Split, unique
from mtbench.errors import UsageError
from mtbench.names import (
    COLUMN,
    HEAD,
    RELATION,
    TAIL,
    HeadScorer,
    IntArray,
    RelationScorer,
    ScoreFunction,
    Scorer,
    Side,
    TailScorer,
    TripleScorer,
)
from mtbench.ranking.scorers import RowFunction, ways

Factory: TypeAlias = Callable[[Split, int], ScoreFunction]
KINDS = (TripleScorer, TailScorer, HeadScorer, RelationScorer)


def factory(scorer: object) -> Factory | None:
    """Return how to build a scorer on a split with a seed, or None for what scores triples itself.

    A factory is any function or class whose first parameter is not called ``triples``. One that fails
    is left to fail, with a note on this rule; one that returns no scorer raises `UsageError`.
    """
    if not callable(scorer):
        return None
    if isinstance(scorer, KINDS) and not inspect.isclass(scorer):
        return None
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(scorer).parameters
    except ValueError:
        parameters = {}
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
    """Return a function of triples for any scorer; of one that only scores whole rows, it picks from the rows."""
    if not isinstance(scorer, KINDS) and not callable(scorer):
        raise UsageError(
            f"{what or type(scorer).__name__} cannot score: give a function of triples, an object with a score method "
            f"(score, score_tails, score_heads or score_relations), or a function of the split that returns one of "
            f"them; a function of triples calls its parameter 'triples'"
        )
    found = ways(cast("Scorer", scorer))
    return found.triples or _picked(*next(iter(found.rows.items())))


def _picked(side: Side, rows: RowFunction) -> ScoreFunction:
    first, second = (column for column in (HEAD, RELATION, TAIL) if column != COLUMN[side])

    def score(triples: IntArray) -> ArrayLike:
        found: NDArray[np.floating] = cast("Any", rows(triples[:, first], triples[:, second]))
        return found[np.arange(len(triples)), triples[:, COLUMN[side]]]

    return score


def synthetic(seed: int = 0) -> Split:
    """Return a graph of 60 entities and 6 relations; low ids are popular, so that a model gains by reading ids."""
    rng = np.random.default_rng(seed)
    nodes, kinds, size, missing = 60, 6, 440, 40
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
        relation_slots=kinds + 2,
    )
