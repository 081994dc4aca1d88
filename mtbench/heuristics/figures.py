"""Heuristic baselines: scorers that learn nothing, which a model has to beat.

Each is made from the graph of a split and scores triples like any model. A baseline that does not look at the
relation ties all relations of a pair, and its ranks say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

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
from mtbench.names import ScoreFunction

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


class Baselines(Mapping[str, Mapping[str, float]]):
    """Metrics of every heuristic baseline on a task, each computed when it is first read.

    A loop that evaluates after every epoch never reads them; a printed or saved result has them all.
    """

    def __init__(self, split: Split, expected: Callable[[ScoreFunction], Mapping[str, float]]) -> None:
        self._split, self._expected = split, expected
        self._metrics: dict[str, Mapping[str, float]] = {}

    def __getitem__(self, name: str) -> Mapping[str, float]:
        if name not in BASELINES:
            raise KeyError(name)
        if name not in self._metrics:
            self._metrics[name] = self._expected(baseline(name, self._split))
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(BASELINES)

    def __len__(self) -> int:
        return len(BASELINES)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type, tuple[dict[str, Mapping[str, float]]]]:
        # What is sent to another process is the figures, not the split they are computed from.
        return dict, (dict(self),)
