"""A leaderboard as plain data, which pages and tables draw, and the commands that fill its gaps."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal, TypeAlias, get_args

from leaderboard.board.reported import Cell
from leaderboard.entries.cards import TRAIN
from leaderboard.entries.entries import Entry
from leaderboard.entries.verified import Verifier
from mtbench.data import catalog
from mtbench.data.catalog import Record
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
"""The views that a page offers."""

Regime: TypeAlias = Literal["elsewhere", "trained", "adapted"]
"""What a model may have learned from before it is asked about a pair of graphs, see `regime_of`."""

REGIMES: tuple[Regime, ...] = get_args(Regime)
REGIME_NAMES: Mapping[Regime, str] = {
    "elsewhere": "Pre-trained elsewhere",
    "trained": "Trained on the pair's training graph",
    "adapted": "Adapted to the inference graph",
}


def regime_of(dataset: str, declared: str, graphs: Iterable[str]) -> Regime:
    """Return the regime of a run on a dataset, of the regime it declares and the graphs it learned from before.

    ``elsewhere``: it never saw a graph of the pair. ``trained``: it learned from the pair's training graph, under its
    name here or in the field. ``adapted``: it was fitted to the inference graph, which no run does but by declaring it.
    """
    if declared != "zero-shot":
        return "adapted"
    own = _training_graph(dataset)
    return "trained" if own and any(_training_graph(graph) == own for graph in graphs) else "elsewhere"


@cache
def _training_graph(graph: str) -> str:
    """Return the hash of the training graph that is named so, in any spelling of a dataset's name; empty for none.

    Two datasets may share one, as those of a WikiTopics-MT pair do.
    """
    name = graph.strip()
    whole = name[: -len(TRAIN)] if name.casefold().endswith(TRAIN) else name
    record = catalog.find(whole)
    return record.parts["train/graph"].content_sha256 if record and "train/graph" in record.parts else ""


SEEDS = 3
"""Below this, the number of seeds stands beside a mean, and it is not marked as the best: one seed may be picked."""


@dataclass(frozen=True)
class Figure:
    """A mean over ``seeds`` with its sample standard deviation, None for a single seed.

    ``low`` and ``high`` are the pessimistic and the optimistic means, None where a setting has none; ``seeds`` is
    None for a figure that is not a mean of ours.
    """

    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int | None = None

    @property
    def few(self) -> str:
        """The number of seeds in words if there are fewer than `SEEDS`, else empty."""
        return "" if self.seeds is None or self.seeds >= SEEDS else f"{self.seeds} seed{'s' * (self.seeds > 1)}"

    def __str__(self) -> str:
        beside = ", ".join(filter(None, ("" if self.deviation is None else f"{self.deviation:.3f}", self.few)))
        return f"{self.mean:.3f} ({beside})" if beside else f"{self.mean:.3f}"


Figures = Mapping[str, Figure]
"""By metric."""


def over_seeds(values: Iterable[float]) -> Figure:
    """Return the mean and deviation over seeds; raises `ValueError` for no seeds."""
    seeds = list(values)
    return Figure(statistics.fmean(seeds), statistics.stdev(seeds) if len(seeds) > 1 else None, seeds=len(seeds))


def figures(metrics_by_seed: Iterable[Metrics]) -> Figures:
    """Return the mean and deviation of every metric over seeds, which have the same metrics; empty for no seeds."""
    seeds = list(metrics_by_seed)
    return {metric: over_seeds(seed[metric] for seed in seeds) for metric in (seeds[0] if seeds else ())}


@dataclass(frozen=True)
class Place:
    """The place of a line among those of its regime: the ranks that remain possible, an interval of its mean, ties.

    Lines that share a letter of ``group`` are statistically tied; ``covers`` says what the interval is over. Without
    the dataset there is neither interval nor group, and ranks are those of the means.
    """

    best: int
    worst: int
    low: float | None = None
    high: float | None = None
    group: str = ""
    covers: str = ""


MOST_SEEN = 0.05
"""The largest share of test targets that a graph may have shown to a ranked entry."""


@dataclass(frozen=True)
class Overlap:
    """How many of a dataset's ``of`` test targets are in a graph that a model learned from, None if unknown."""

    graph: str
    seen: int | None
    of: int

    @property
    def share(self) -> float | None:
        """The share of seen targets, from 0 to 1."""
        return None if self.seen is None else self.seen / self.of

    def __str__(self) -> str:
        seen = "that is, the dataset" if self.seen is None else f"which has {self.seen} of the {self.of} test triples"
        return f"{self.graph}, {seen}"


@dataclass(frozen=True)
class Line:
    """One entry on one dataset.

    ``figures`` are by view and protocol; those of the view `PAPER` are in the setting ``own``, in which the paper's row
    of this name can be scored. A line is ranked in the headline exactly if it has a ``place``; otherwise ``remarks``
    say why not. Those that are ``faults`` of its runs or its entry keep it out of every ranking. ``verified`` says who
    stands for its ranks (`leaderboard.entries.verified.verified_by`): without anybody, or with few seeds, it is never
    the first.
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
    verified: Verifier = ""
    faults: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the entry as it is shown."""
        return self.entry.card.name

    @property
    def regime(self) -> Regime:
        """What it may have learned from, of what its runs say."""
        return regime_of(self.dataset, self.entry.card.regime, (overlap.graph for overlap in self.overlaps))

    def few(self, protocol: str = HEADLINE.protocol, view: View = STANDARD) -> bool:
        """Tell whether it has so few seeds that one may be picked; weights that come from elsewhere have but one."""
        figure = self.figure(view, protocol)
        before = self.regime == "elsewhere" and self.entry.card.pretraining_graphs
        return not before and figure is not None and bool(figure.few)

    @property
    def may_lead(self) -> bool:
        """Whether it can be the first: somebody stands for its ranks, and its seeds are enough."""
        return bool(self.verified) and not self.few()

    @property
    def failed(self) -> str:
        """The status of the runs that did not finish, as a table shows it; empty for none."""
        return ", ".join(sorted(set(self.unfinished.values()))).upper()

    def read(self, view: View, protocol: str = HEADLINE.protocol) -> Figures:
        """Return the figures of a view and a protocol by metric, empty where the entry was not scored there."""
        return self.figures.get((view, protocol), {})

    def figure(self, view: View = STANDARD, protocol: str = HEADLINE.protocol) -> Figure | None:
        """Return the MRR of a view and a protocol, by default the headline."""
        return self.read(view, protocol).get("mrr")

    @property
    def lift(self) -> float | None:
        """The headline less the MRR of the best heuristic baseline."""
        headline = self.figure()
        return None if headline is None or self.baseline is None else headline.mean - self.baseline[1]

    @property
    def contaminated(self) -> tuple[str, ...]:
        """What its card says, and other graphs that have shown more than `MOST_SEEN` of the targets, see `seen`."""
        declared = self.entry.card.contaminated
        return (declared,) * bool(declared) + tuple(f"it learned from {overlap}" for overlap in self.seen)

    @property
    def seen(self) -> tuple[Overlap, ...]:
        """The graphs other than its own training graph that have shown it more than `MOST_SEEN` of the targets.

        If none has, but all together may have, because the sum of their shares is larger, these are all that have any.
        """
        own = f"{self.dataset}{TRAIN}"
        others = [overlap for overlap in self.overlaps if overlap.graph != own]
        alone = [one for one in others if one.graph == self.dataset or (one.share or 0) > MOST_SEEN]
        together = sum(one.share or 0 for one in others) > MOST_SEEN
        return tuple(alone or (one for one in others if together and one.share))

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The graphs that it learned from and that were never compared with the targets: it is not ranked."""
        own = f"{self.dataset}{TRAIN}"
        return tuple(
            overlap.graph
            for overlap in self.overlaps
            if overlap.seen is None and overlap.graph not in (own, self.dataset)
        )


@dataclass(frozen=True)
class DatasetBoard:
    """All that is shown of a dataset; ``lines`` are sorted: by regime, ranked ones first, the best headline first.

    ``baselines`` are the heuristic baselines and chance, by setting; ``baseline`` is the name and the MRR of the best
    one in the headline.
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
        """The line with the best headline in any regime of those that may lead, None where there is none."""
        ranked = [line for line in self.lines if line.place is not None and line.may_lead]
        return max(ranked, key=lambda line: figure.mean if (figure := line.figure()) else 0.0, default=None)

    def leads(self, line: Line, view: View = STANDARD, regime: Regime | None = None) -> bool:
        """Tell whether a line is marked as the best of all that may lead, to three digits.

        It is compared within ``regime``, or with all for None.
        """
        # Rounded as they are shown: figures that look the same are both the best, or neither.
        means = {
            ranked.entry.slug: round(figure.mean, 3)
            for ranked in (self.lines if regime is None else self.of(regime))
            if ranked.place is not None
            and ranked.may_lead
            and not ranked.few(view=view)
            and (figure := ranked.figure(view))
        }
        return line.entry.slug in means and means[line.entry.slug] == max(means.values())


@dataclass(frozen=True)
class Standing:
    """One entry over the datasets of the paper; ``covered`` are those on which it is ranked.

    ``lift`` is the mean over these of the headline less the best heuristic baseline; ``rank`` is that among the entries
    of its regime, None below complete coverage, or if one of its lines may not lead.
    """

    entry: Entry
    regime: Regime
    covered: tuple[str, ...]
    lift: float | None
    rank: int | None = None
    may_lead: bool = True


@dataclass(frozen=True)
class Board:
    """The whole leaderboard; ``paper`` are the datasets of the paper.

    ``standings`` has every entry over these, by regime, then by coverage and by lift.
    """

    datasets: tuple[DatasetBoard, ...]
    standings: tuple[Standing, ...]
    entries: tuple[Entry, ...]
    paper: tuple[str, ...]
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> Mapping[str, DatasetBoard]:
        """What is shown of each dataset."""
        return {part.name: part for part in self.datasets}

    def lines(self, slug: str) -> tuple[Line, ...]:
        """Return the lines of one entry, by dataset."""
        return tuple(line for part in self.datasets for line in part.lines if line.entry.slug == slug)

    @property
    def unread(self) -> dict[str, str]:
        """What is wrong with the entries that cannot be read, by slug."""
        known = {entry.slug for entry in self.entries}
        return {slug: "; ".join(sentences) for slug, sentences in self.problems.items() if slug not in known}


def command(model: str, datasets: Iterable[str]) -> str:
    """Return the command that makes a model's missing runs; MODULE:MODEL stands for a model that is not installed."""
    where = " ".join(f"--dataset {name}" for name in datasets)
    name, tasks = installed(model)
    chosen = f"{name}:tasks={tasks}" if tasks else name
    if name not in _known():
        chosen = "MODULE:MODEL"
    return f"mtbench grid {shlex.quote(chosen)} {where} --seeds 0-2 --protocol all --vocabulary all --paper"


def installed(model: str) -> tuple[str, str]:
    """Return the name by which ``mtbench run`` knows the model of an entry, and its number of tasks, if in the name."""
    name, _, tasks = model.partition("-k")
    return (name, tasks) if tasks.isdigit() else (model, "")


@cache
def _known() -> frozenset[str]:
    return frozenset(models.names())


def estimate(lines: Sequence[Line], datasets: Iterable[str]) -> float | None:
    """Return about how many seconds a seed takes on some datasets, None where nothing is recorded of the model.

    A dataset takes what a run on it took before, else the median of the seconds per triple of training graphs times its
    triples.
    """
    took = {line.dataset: line.seconds for line in lines if line.seconds is not None and line.seeds}
    if not took:
        return None
    rate = statistics.median(seconds / _triples(name) for name, seconds in took.items())
    return sum(took.get(name, rate * _triples(name)) for name in datasets)


def _triples(dataset: str) -> int:
    return catalog.record(dataset).part("train", "graph").triples
