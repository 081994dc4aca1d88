"""Heuristic baselines: scorers that learn nothing, which a model has to beat.

Each is made from the graph of a split and scores triples like any model. A baseline that does not look at the
relation ties all relations of a pair, and its ranks say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.splits import Split
from mtbench.errors import UnknownNameError
from mtbench.heuristics.baselines import (
    Baseline,
    common_neighbours,
    entity_degree,
    half_link_memory,
    inverse_visible,
    personalised_pagerank,
    random,
    relation_frequency,
)
from mtbench.metrics import closed
from mtbench.names import PARTS, IntArray, Part, ScoreFunction
from mtbench.ranking.candidates import Candidates
from mtbench.ranking.ranks import Counts, Ranks


class Ranked(Protocol):
    """What is used of a task: its split, candidates and triples, and how a scorer ranks the targets among them."""

    @property
    def split(self) -> Split: ...

    @property
    def candidates(self) -> Candidates: ...

    @property
    def triples(self) -> IntArray: ...

    def counts(self, score: ScoreFunction, parts: Sequence[Part], /) -> Mapping[Part, Counts]: ...


Factory: TypeAlias = Callable[[Split], Baseline]
"""From a split, of which only the graph is used, to a scorer of triples and of rows."""

Figures: TypeAlias = Mapping[str, Mapping[str, float]]
"""Metrics by the name of the heuristic baseline."""

BASELINES: Mapping[str, Factory] = MappingProxyType(
    {
        made.__name__: made
        for made in (
            random,
            relation_frequency,
            entity_degree,
            common_neighbours,
            personalised_pagerank,
            half_link_memory,
            inverse_visible,
        )
    }
)
"""Every heuristic baseline by name, in the order of the tables."""


def baseline(name: str, split: Split) -> Baseline:
    """Return a heuristic baseline for a split, made without its targets; an unknown name raises `UnknownNameError`."""
    if name not in BASELINES:
        raise UnknownNameError("heuristic baseline", name, BASELINES)
    return BASELINES[name](split.observable())


def measure(name: str, tasks: Sequence[Ranked]) -> list[Mapping[str, float]]:
    """Return a heuristic baseline's metrics on tasks of one split.

    Each triple is scored once for all tasks, and what has the same candidates in several is counted once.
    """
    score = baseline(name, tasks[0].split)
    # A full ranking asks for too many triples to list: it is scored in batches, on its own.
    listed = [task.triples for task in tasks if not task.candidates.setting.full]
    once = _remembered(score, tasks[0].split, listed) if len(listed) > 1 else score
    known: dict[tuple[object, ...], Counts] = {}
    found: list[Mapping[str, float]] = []
    for task in tasks:
        wanted = {part: _key(task.candidates, part) for part in task.candidates.setting.parts}
        if missing := [part for part, key in wanted.items() if key not in known]:
            counted = task.counts(score if task.candidates.setting.full else once, missing)
            known |= {wanted[part]: counts for part, counts in counted.items()}
        ranks = Ranks.unnamed({part: known[key] for part, key in wanted.items()})
        found.append(closed.expected(ranks.greater, ranks.equal))
    return found


def _key(candidates: Candidates, part: Part) -> tuple[object, ...]:
    """Return what is the same for tasks of a split that have the same candidates in a part."""
    side, setting = PARTS[part][1], candidates.setting
    if setting.full:
        return side, setting.vocabulary if side == "relation" else ""
    return side, setting.drawn_as, setting.vocabulary, candidates.seed


def _remembered(score: ScoreFunction, split: Split, triples: Sequence[IntArray]) -> ScoreFunction:
    """Return a scorer that looks up the scores of triples, all of which are scored here."""
    together = np.concatenate(triples)
    known, first = np.unique(keys(split, together), return_index=True)
    scores = np.asarray(score(together[first]))
    return lambda asked: scores[np.searchsorted(known, keys(split, asked))]


class Baselines(Mapping[str, Mapping[str, float]]):
    """Metrics of every heuristic baseline on one task, each computed when it is first looked at.

    A loop that evaluates after every epoch never looks; a printed or saved result has them all.
    """

    def __init__(self, split: Split, expected: Callable[[ScoreFunction], Mapping[str, float]]) -> None:
        self._split, self._expected = split, expected
        self._found: dict[str, Mapping[str, float]] = {}

    def __getitem__(self, name: str) -> Mapping[str, float]:
        if name not in BASELINES:
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = self._expected(baseline(name, self._split))
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(BASELINES)

    def __len__(self) -> int:
        return len(BASELINES)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type, tuple[dict[str, Mapping[str, float]]]]:
        # What is sent to another process is the figures, not the split they are computed from.
        return dict, (dict(self),)
