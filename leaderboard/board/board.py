"""What a leaderboard shows, as plain data, and what is typed for what is not there yet; pages and tables draw it."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from leaderboard.board.reported import Cell
from leaderboard.entries.cards import TRAIN
from leaderboard.entries.entries import Entry
from mtbench.data import catalog
from mtbench.data.catalog import Record
from mtbench.runs.origin import Regime
from mtbench.runs.result import Metrics
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE
from mtbench.training import models


@dataclass(frozen=True)
class View:
    """One evaluation setting of every figure; ``key`` stands in ids and classes."""

    key: str
    label: str
    note: str


STANDARD = View("standard", "Standard", "Realistic rank (ties averaged), among relation types that are present.")
SLOTS = View(
    "slots",
    "All relation ids",
    "Realistic rank (ties averaged), relation candidates from all ids of the dictionary, unused ones included.",
)
PESSIMISTIC = View(
    "pessimistic",
    "Pessimistic",
    "Pessimistic rank: every tie counts against the true triple; relation types are present.",
)
OPTIMISTIC = View(
    "optimistic", "Optimistic", "Optimistic rank: every tie counts for the true triple; relation types are present."
)
PAPER = View(
    "paper",
    "The paper's",
    "Each row in the evaluation setting of its row in the paper: as reported, and re-evaluated here.",
)
VIEWS = (STANDARD, SLOTS, PESSIMISTIC, PAPER)
"""Those a page offers."""


SEEDS = 3
"""Fewer seeds than these are told beside a mean, which is then not marked as the best: one seed may be picked."""


@dataclass(frozen=True)
class Figure:
    """A mean over ``seeds`` with its sample standard deviation, None for a single seed.

    ``low`` and ``high`` are the pessimistic and the optimistic means, None where a setting has none; ``seeds`` is
    None for what is no mean of ours.
    """

    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int | None = None

    @property
    def few(self) -> str:
        """How many seeds it is of if they are fewer than `SEEDS`, else empty."""
        return "" if self.seeds is None or self.seeds >= SEEDS else f"{self.seeds} seed{'s' * (self.seeds > 1)}"

    def __str__(self) -> str:
        beside = ", ".join(filter(None, ("" if self.deviation is None else f"{self.deviation:.3f}", self.few)))
        return f"{self.mean:.3f} ({beside})" if beside else f"{self.mean:.3f}"


Figures = Mapping[str, Figure]
"""By metric."""


def over_seeds(values: Iterable[float]) -> Figure:
    """Return the mean and deviation of what the seeds have; raises `ValueError` for no seeds."""
    seeds = list(values)
    return Figure(statistics.fmean(seeds), statistics.stdev(seeds) if len(seeds) > 1 else None, seeds=len(seeds))


def figures(some: Iterable[Metrics]) -> Figures:
    """Return the mean and deviation of every metric of some seeds, which have the same; empty for no seeds."""
    seeds = list(some)
    return {metric: over_seeds(seed[metric] for seed in seeds) for metric in (seeds[0] if seeds else ())}


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


MOST_SEEN = 0.05
"""The largest share of test targets that a graph may have shown to an entry that is ranked."""


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

    def __str__(self) -> str:
        seen = "that is, the dataset" if self.seen is None else f"which has {self.seen} of the {self.of} test triples"
        return f"{self.graph}, {seen}"


@dataclass(frozen=True)
class Line:
    """One entry on one dataset.

    ``figures`` are by evaluation setting and protocol: those of the paper in its setting ``own``, one that the
    paper's row of this name can be scored in. A line is ranked exactly if it has a ``place``; otherwise
    ``remarks`` say why not.
    """

    entry: Entry
    dataset: str
    seeds: tuple[int, ...]
    unfinished: Mapping[int, str]
    figures: Mapping[tuple[View, str], Figures]
    tie_rate: float | None
    own: str | None
    reported: Mapping[tuple[str, str], Cell]
    baseline: tuple[str, float] | None
    overlaps: tuple[Overlap, ...]
    seconds: float | None
    memory: int | None
    device: str
    place: Place | None = None
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the entry as it is shown."""
        return self.entry.card.name

    @property
    def regime(self) -> Regime:
        """The regime the entry declares."""
        return self.entry.card.regime

    @property
    def failed(self) -> str:
        """The status of the runs that did not finish, as a table shows it; empty for none."""
        return ", ".join(sorted(set(self.unfinished.values()))).upper()

    def read(self, view: View, protocol: str = HEADLINE.protocol) -> Figures:
        """Return the figures of a setting and a protocol by metric, empty where the entry was not scored so."""
        return self.figures.get((view, protocol), {})

    def figure(self, view: View = STANDARD, protocol: str = HEADLINE.protocol) -> Figure | None:
        """Return the MRR of an evaluation setting and a protocol: the headline unless said otherwise."""
        return self.read(view, protocol).get("mrr")

    @property
    def lift(self) -> float | None:
        """How far the headline lies above the best heuristic baseline."""
        headline = self.figure()
        return None if headline is None or self.baseline is None else headline.mean - self.baseline[1]

    @property
    def contaminated(self) -> tuple[str, ...]:
        """What it has seen: what its card says, and other graphs than its own with over `MOST_SEEN` of the targets."""
        own, declared = f"{self.dataset}{TRAIN}", self.entry.card.contaminated
        return (declared,) * bool(declared) + tuple(
            f"it learned from {one}"
            for one in self.overlaps
            if one.graph != own and (one.graph == self.dataset or (one.share or 0) > MOST_SEEN)
        )

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The graphs it learned from of which nobody knows how many targets they have shown: it is not ranked."""
        own = f"{self.dataset}{TRAIN}"
        return tuple(one.graph for one in self.overlaps if one.seen is None and one.graph not in (own, self.dataset))

    @property
    def tie_spread(self) -> float | None:
        """How far the bounds of the headline lie apart: the part of it that ties decide."""
        headline = self.figure()
        return (
            None if headline is None or headline.low is None or headline.high is None else headline.high - headline.low
        )


@dataclass(frozen=True)
class DatasetBoard:
    """Everything shown of one dataset; ``lines`` are sorted: ranked ones first, by the headline, best first.

    ``baselines`` are the heuristic baselines and chance, by setting; ``baseline`` is the best of the
    headline with its MRR.
    """

    record: Record
    baseline: tuple[str, float] | None
    lines: tuple[Line, ...]
    baselines: Mapping[Setting, Mapping[str, Metrics]]
    reported: Mapping[str, Mapping[tuple[str, str], Cell]]
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the dataset."""
        return self.record.id

    def of(self, regime: Regime) -> tuple[Line, ...]:
        """Return the lines of one regime, in their order."""
        return tuple(line for line in self.lines if line.regime == regime)

    def line(self, entry: Entry) -> Line | None:
        """Return the line of an entry, None where it has no runs on this dataset."""
        return next((line for line in self.lines if line.entry.slug == entry.slug), None)

    @property
    def leader(self) -> Line | None:
        """The ranked line with the best headline in any regime, None where there is none."""
        ranked = [line for line in self.lines if line.place is not None]
        return max(ranked, key=lambda line: figure.mean if (figure := line.figure()) else 0.0, default=None)

    def leads(self, line: Line, view: View = STANDARD, regime: Regime | None = None) -> bool:
        """Tell whether a line is marked as the best: of all that are ranked on `SEEDS` seeds, to three digits.

        ``regime`` is the one it is compared in, None for all of them.
        """
        means = {
            one.entry.slug: round(figure.mean, 3)
            for one in (self.lines if regime is None else self.of(regime))
            if one.place is not None and (figure := one.figure(view)) and not figure.few
        }
        return line.entry.slug in means and means[line.entry.slug] == max(means.values())

    def paper(self, model: str, protocol: str = HEADLINE.protocol) -> Cell | None:
        """Return the MRR the paper reports of a model."""
        return self.reported.get(model, {}).get((protocol, "mrr"))


@dataclass(frozen=True)
class Standing:
    """One entry over the datasets of the paper, of which it is ranked on those it has ``covered``.

    ``lift`` is the mean over these of how far the headline lies above the best heuristic baseline; ``rank`` is None
    below complete coverage.
    """

    entry: Entry
    covered: tuple[str, ...]
    lift: float | None
    rank: int | None = None


@dataclass(frozen=True)
class Board:
    """The whole leaderboard; ``standings`` has every entry, by coverage and then by lift."""

    datasets: tuple[DatasetBoard, ...]
    standings: tuple[Standing, ...]
    entries: tuple[Entry, ...]
    suite: tuple[str, ...]
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lines(self, slug: str) -> tuple[Line, ...]:
        """Return the lines of one entry, by dataset."""
        return tuple(line for part in self.datasets for line in part.lines if line.entry.slug == slug)

    @property
    def unread(self) -> dict[str, str]:
        """What is wrong with the entries that could not be read, by their slug."""
        known = {entry.slug for entry in self.entries}
        return {slug: "; ".join(found) for slug, found in self.problems.items() if slug not in known}


def command(model: str, datasets: Iterable[str]) -> str:
    """Return what runs a model on some datasets as the leaderboard wants it; MODULE:MODEL stands for one of others."""
    where = " ".join(f"--dataset {name}" for name in datasets)
    name, tasks = installed(model)
    chosen = f"{name}:tasks={tasks}" if tasks else name
    if name not in _known():
        chosen = "MODULE:MODEL"
    return f"mtbench grid {shlex.quote(chosen)} {where} --seeds 0-2 --protocol all --vocabulary all --paper"


def installed(model: str) -> tuple[str, str]:
    """Return what ``mtbench run`` knows a model of an entry by, and how many tasks it then has if its name says so."""
    name, _, tasks = model.partition("-k")
    return (name, tasks) if tasks.isdigit() else (model, "")


@cache
def _known() -> frozenset[str]:
    return frozenset(models.names())


def estimate(lines: Sequence[Line], datasets: Iterable[str]) -> float | None:
    """Return about how many seconds a seed takes on some datasets, None where nothing is recorded of the model.

    That is what a run took there before, else the median of the seconds per triple of the training graph, times the
    triples.
    """
    took = {line.dataset: line.seconds for line in lines if line.seconds is not None and line.seeds}
    if not took:
        return None
    rate = statistics.median(seconds / _triples(name) for name, seconds in took.items())
    return sum(took.get(name, rate * _triples(name)) for name in datasets)


def _triples(dataset: str) -> int:
    return catalog.record(dataset).part("train", "graph").triples
