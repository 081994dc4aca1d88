"""What a leaderboard shows, as plain data: pages, tables and pictures are drawn from it and compute nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leaderboard.board.reported import Cell
from leaderboard.entries.entries import Entry
from mtbench.data.catalog import Record
from mtbench.results.result import Metrics
from mtbench.results.runs import Regime


@dataclass(frozen=True)
class Figure:
    """A mean over seeds with its sample standard deviation, None for a single seed."""

    mean: float
    deviation: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" if self.deviation is None else f"{self.mean:.3f} ({self.deviation:.3f})"


Figures = Mapping[str, Figure]
"""By metric."""


def figures(some: Iterable[Metrics]) -> Figures:
    """Return the mean and deviation of every metric that all of some seeds have; empty for no seeds."""
    seeds = list(some)
    if not seeds:
        return {}
    found = {}
    for metric in seeds[0]:
        values = [seed[metric] for seed in seeds]
        found[metric] = Figure(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)
    return found


@dataclass(frozen=True)
class Place:
    """Where a line stands among those of its regime: its mean with an interval, the ranks that remain possible, ties.

    Lines that share a letter of ``group`` are statistically tied; ``covers`` says what the interval is over. Without
    the dataset there is neither interval nor group, and the ranks are those of the means.
    """

    best: int
    worst: int
    low: float | None = None
    high: float | None = None
    group: str = ""
    covers: str = ""


@dataclass(frozen=True)
class Overlap:
    """How many of a dataset's test targets, ``of`` in all, are in a graph a model learned from; None: unknown."""

    graph: str
    seen: int | None
    of: int

    @property
    def share(self) -> float | None:
        """The seen part, from 0 to 1."""
        return None if self.seen is None else self.seen / self.of


@dataclass(frozen=True)
class Line:
    """One entry on one dataset.

    ``figures`` are expected values by protocol and vocabulary, ``optimistic`` and ``pessimistic`` the bounds of the
    headline over the orders of ties. ``conventions`` holds, by convention and protocol, what the same scores give
    under each convention of the paper; ``own`` is that of the paper's row of this name. A line is ranked exactly if
    it has a ``place``; otherwise ``remarks`` say why not. ``lift`` is the headline MRR less that of the best floor.
    """

    entry: Entry
    dataset: str
    seeds: tuple[int, ...]
    unfinished: Mapping[int, str]
    figures: Mapping[tuple[str, str], Figures]
    optimistic: Figures
    pessimistic: Figures
    tie_rate: float | None
    conventions: Mapping[str, Mapping[str, Figures]]
    own: str | None
    reported: Mapping[tuple[str, str], Cell]
    best_floor: tuple[str, float] | None
    overlaps: tuple[Overlap, ...]
    seconds: float | None
    memory: int | None
    device: str
    place: Place | None = None
    remarks: tuple[str, ...] = ()

    @property
    def regime(self) -> Regime:
        """The regime the entry declares."""
        return self.entry.card.regime

    def figure(self, metric: str = "mrr", protocol: str = "dual", vocabulary: str = "present") -> Figure | None:
        """Return one figure, None where the entry was not scored on that task."""
        return self.figures.get((protocol, vocabulary), {}).get(metric)

    @property
    def lift(self) -> float | None:
        """How far the headline MRR lies above the best floor."""
        headline = self.figure()
        return None if headline is None or self.best_floor is None else headline.mean - self.best_floor[1]

    @property
    def tie_spread(self) -> float | None:
        """How far the bounds of the headline MRR lie apart: the part of it that ties decide."""
        if "mrr" not in self.optimistic:
            return None
        return self.optimistic["mrr"].mean - self.pessimistic["mrr"].mean


@dataclass(frozen=True)
class DatasetBoard:
    """Everything shown of one dataset; ``lines`` are sorted: ranked ones first, by the headline, best first."""

    record: Record
    targets: int
    lines: tuple[Line, ...]
    floors: Mapping[tuple[str, str], Mapping[str, Metrics]]
    chance: Mapping[tuple[str, str], Metrics]
    reported: Mapping[str, Mapping[tuple[str, str], Cell]]
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return self.record.id

    def of(self, regime: Regime) -> tuple[Line, ...]:
        """Return the lines of one regime, in their order."""
        return tuple(line for line in self.lines if line.regime == regime)


@dataclass(frozen=True)
class Overall:
    """One entry over all datasets of the suite; ``mean`` and ``rank`` are None for an entry that lacks some of them."""

    entry: Entry
    by_dataset: Mapping[str, Line]
    mean: float | None
    rank: int | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Board:
    """The whole leaderboard; ``overall`` has the entries of each regime, ranked ones first."""

    datasets: tuple[DatasetBoard, ...]
    overall: Mapping[Regime, tuple[Overall, ...]]
    entries: tuple[Entry, ...]
    suite: tuple[str, ...]
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lines(self, slug: str) -> tuple[Line, ...]:
        """Return the lines of one entry, by dataset."""
        return tuple(line for board in self.datasets for line in board.lines if line.entry.slug == slug)
