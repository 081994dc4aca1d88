"""How a figure can be read: as the standard has it, from all slots, at the worst order of ties, or as the paper did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leaderboard.board.board import Figure, Figures, Line, figures
from mtbench.results.result import Metrics


@dataclass(frozen=True)
class Reading:
    """One way to read all figures of a page; ``key`` stands in ids and classes."""

    key: str
    label: str
    note: str


STANDARD = Reading(
    "standard", "Standard", "Expected value over the order of ties, ranked among relation types that are present."
)
SLOTS = Reading(
    "slots",
    "Slots",
    "Expected value over ties, candidates drawn from all slots of the relation dictionary, empty ones included.",
)
PESSIMISTIC = Reading("pessimistic", "Pessimistic", "Every tie counts against the target; relation types are present.")
PAPER = Reading(
    "paper",
    "The paper's",
    "Each row under the convention its row of the paper was made by: as reported, and re-evaluated here.",
)
READINGS = (STANDARD, SLOTS, PESSIMISTIC, PAPER)


@dataclass(frozen=True)
class Value:
    """A figure with its bounds over the orders of ties, None where a reading has none."""

    figure: Figure
    low: float | None = None
    high: float | None = None


def values(line: Line, reading: Reading, protocol: str = "dual") -> Mapping[str, Value]:
    """Return what a line has under a reading and a protocol, by metric; empty where it was not scored so."""
    if reading == PAPER:
        own = line.conventions.get(line.own or "", {})
        return {metric: Value(figure) for metric, figure in own.get(protocol, {}).items()}
    vocabulary = "slots" if reading == SLOTS else "present"
    best, worst = bounds(line, protocol, vocabulary)
    if reading == PESSIMISTIC:
        return {metric: Value(figure) for metric, figure in worst.items()}
    found = line.figures.get((protocol, vocabulary), {})
    return {
        metric: Value(figure, *sorted((worst[metric].mean, best[metric].mean))) if metric in worst else Value(figure)
        for metric, figure in found.items()
    }


def value(line: Line, reading: Reading, protocol: str = "dual", metric: str = "mrr") -> Figure | None:
    """Return one figure of a line under a reading."""
    found = values(line, reading, protocol).get(metric)
    return None if found is None else found.figure


def bounds(line: Line, protocol: str, vocabulary: str) -> tuple[Figures, Figures]:
    """Return the means over seeds under the best and under the worst order of ties."""
    best: list[Metrics] = []
    worst: list[Metrics] = []
    for run in line.entry.runs[line.dataset]:
        result = run.results.get((protocol, vocabulary))
        if result is not None and run.headline.run.status == "ok" and result.run.status == "ok":
            best.append(result.optimistic)
            worst.append(result.pessimistic)
    return figures(best), figures(worst)
