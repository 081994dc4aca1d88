"""What the board asks besides the paper's task: one figure for all graphs of a group, ranked as the field ranks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from leaderboard.board.board import REGIMES, SEEDS, STANDARD, Board, Figures, Line, Regime, View
from leaderboard.board.ranking import most_seen
from leaderboard.entries.entries import Entry
from mtbench.analysis.groups import GroupMean, mean_over
from mtbench.data import catalog
from mtbench.settings.setting import Setting
from mtbench.settings.table import setting_of


@dataclass(frozen=True)
class Question:
    """A task over groups of graphs: its ``setting``, the ``groups``, and what it asks in words."""

    key: str
    label: str
    asks: str
    setting: Setting
    groups: tuple[str, ...]


FIELD = tuple(group for group in catalog.GROUPS if group != "others")
SUITE = Question(
    "suite",
    "The field's suite",
    "Which entity completes (h, r, ?) or (?, r, t)? Filtered ranking among all entities of the inference graph.",
    setting_of("full"),
    FIELD,
)
RELATIONS = Question(
    "relations",
    "Relations",
    "Which relation type holds, (h, ?, t)? Filtered ranking among all relation types of the inference graph.",
    setting_of("full-relation"),
    FIELD,
)
QUESTIONS = (SUITE, RELATIONS)


@dataclass(frozen=True, eq=False)
class Member:
    """One entry on a group: its ``lines`` that count, by graph, of the ``graphs`` of the group.

    ``rank`` is that among the entries of its regime, None for one that is not ranked: ``remarks`` say why.
    """

    entry: Entry
    regime: Regime
    question: Question
    graphs: tuple[str, ...]
    lines: Mapping[str, Line]
    remarks: tuple[str, ...]
    rank: int | None = None

    def read(self, graph: str, view: View = STANDARD) -> Figures:
        """Return the figures on a graph by metric, empty where there are none."""
        return self.lines[graph].read(view, self.question.setting.protocol) if graph in self.lines else {}

    def values(
        self, metric: str = "mrr", view: View = STANDARD, graphs: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Return a metric by graph, of those of the group or of ``graphs`` that it was scored on."""
        asked = self.graphs if graphs is None else graphs
        return {graph: self.read(graph, view)[metric].mean for graph in asked if graph in self.lines}

    def mean(self, metric: str = "mrr", view: View = STANDARD) -> GroupMean:
        """Return the mean of a metric over the graphs that it was scored on."""
        return mean_over(self.values(metric, view))

    @property
    def whole(self) -> bool:
        """Whether it was scored on every graph of the group."""
        return len(self.lines) == len(self.graphs)

    @cached_property
    def seen(self) -> frozenset[str]:
        """The graphs of whose targets it saw some, or may have."""
        return frozenset(graph for graph, line in self.lines.items() if line.seen or line.unmeasured)

    @property
    def seconds(self) -> float | None:
        """The mean seconds of a run over its graphs, None if unknown."""
        known = [line.seconds for line in self.lines.values() if line.seconds is not None]
        return statistics.fmean(known) if known else None

    @property
    def seeds(self) -> int:
        """The fewest seeds that it has on a graph."""
        return min(len(line.seeds) for line in self.lines.values())


@dataclass(frozen=True, eq=False)
class GroupBoard:
    """A question on one group; ``members`` are sorted by regime, ranked ones first, the best mean MRR first.

    ``baselines`` are the name and the MRR of the best heuristic baseline by graph, where they are published.
    """

    question: Question
    group: str
    graphs: tuple[str, ...]
    members: tuple[Member, ...]
    baselines: Mapping[str, tuple[str, Mapping[str, float]]]

    def baseline(self, metric: str = "mrr") -> GroupMean | None:
        """Return the mean of the best heuristic baselines over the graphs that have one, None without any."""
        values = {graph: metrics[metric] for graph, (_, metrics) in self.baselines.items()}
        return mean_over(values) if values else None

    def of(self, regime: Regime) -> tuple[Member, ...]:
        """Return the members of one regime, in their order."""
        return tuple(member for member in self.members if member.regime == regime)

    def clean(self, regime: Regime) -> tuple[str, ...]:
        """Return the graphs that no member of a regime has seen that could be ranked, were its seeds enough.

        Means over them are of the same graphs. None where there is no such member.
        """
        whole = [member for member in self.of(regime) if set(member.remarks) <= {FEW}]
        return tuple(graph for graph in self.graphs if whole and not any(graph in member.seen for member in whole))

    def unseen(self, member: Member) -> float | None:
        """Return the mean MRR over the `clean` graphs of its regime, None for who was not run on all or saw some."""
        clean = self.clean(member.regime)
        values = member.values(graphs=clean)
        if not clean or len(values) < len(clean) or member.seen.intersection(clean):
            return None
        return statistics.fmean(values.values())

    def lift(self, member: Member) -> GroupMean | None:
        """Return the mean of what a member is above the best heuristic baseline, over the graphs that have both."""
        values = {graph: value for graph, value in member.values().items() if graph in self.baselines}
        return mean_over(values, {graph: self.baselines[graph][1]["mrr"] for graph in values}) if values else None


def group_board(board: Board, question: Question, group: str) -> GroupBoard:
    """Return the members of a group: the entries that were scored in the setting on one of its graphs at least.

    A line counts if its runs are finished and up to date and its entry holds. Ranked within its regime is who has all
    graphs, by the mean of the realistic MRR, unless its card tells that it is contaminated, it has few seeds, or it
    learned from a graph whose triples nobody compared with the targets. Targets that it has seen keep nobody from a
    rank, as in the field; `GroupBoard.clean` has the graphs without.
    """
    graphs = tuple(catalog.names(group))
    members = []
    for entry in board.entries:
        lines = {
            graph: line
            for graph in graphs
            if (part := board.by_name.get(graph))
            and (line := part.line(entry))
            and not line.faults
            and line.read(STANDARD, question.setting.protocol)
        }
        if lines:
            remarks = tuple(_remarks(entry, graphs, lines, question.setting.protocol))
            members.append(Member(entry, most_seen(lines.values()), question, graphs, lines, remarks))
    members.sort(
        key=lambda member: (
            REGIMES.index(member.regime),
            bool(member.remarks),
            -len(member.lines),
            -member.mean().mean,
            member.entry.slug,
        )
    )
    numbers = {regime: count(1) for regime in REGIMES}
    ranked = (member if member.remarks else replace(member, rank=next(numbers[member.regime])) for member in members)
    return GroupBoard(question, group, graphs, tuple(ranked), _baselines(graphs, question.setting))


FEW = f"fewer than {SEEDS} seeds, of which one may have been picked"


def _remarks(entry: Entry, graphs: Sequence[str], lines: Mapping[str, Line], protocol: str) -> list[str]:
    remarks = [f"contaminated: {entry.card.contaminated}"] if entry.card.contaminated else []
    if lacking := [graph for graph in graphs if graph not in lines]:
        remarks.append(f"not run on {', '.join(lacking)}")
    if unverified := [graph for graph, line in lines.items() if not line.verified]:
        remarks.append(f"unverified by us on {', '.join(unverified)}")
    if unmeasured := sorted({graph for line in lines.values() for graph in line.unmeasured}):
        remarks.append(f"nobody has counted the test triples in {', '.join(unmeasured)}, from which it learned")
    if any(line.few(protocol) for line in lines.values()):
        remarks.append(FEW)
    return remarks


def _baselines(graphs: Sequence[str], setting: Setting) -> Mapping[str, tuple[str, Mapping[str, float]]]:
    best = {}
    for graph in graphs:
        published = catalog.record(graph).baselines_of(setting.key("test", 0))
        if published:
            best[graph] = max(published.items(), key=lambda baseline: baseline[1]["mrr"])
    return best
