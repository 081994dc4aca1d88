"""A group of graphs as one task: the mean of a model over its graphs, and how far other graphs could move it.

Tables of the field print the mean over a group without an interval. Here the graphs are the sample: the interval is
Student's over their values, and that of a difference of two models over their paired differences, graph by graph,
which leaves out how hard each graph is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from mtbench.errors import UsageError
from mtbench.files import tables
from mtbench.runs.result import Result


@dataclass(frozen=True)
class GroupMean:
    """The mean of a metric over ``graphs`` graphs, and its interval, which a single graph does not have (infinite)."""

    mean: float
    low: float
    high: float
    graphs: int

    def __str__(self) -> str:
        between = f" [{self.low:.4f}, {self.high:.4f}]" if math.isfinite(self.low) else ""
        return f"{self.mean:.4f}{between}"

    def to_dict(self) -> dict[str, float | None]:
        """Return it as JSON can hold it: None for the ends of an interval that a single graph does not have."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


def mean_over(values: Mapping[str, float], less: Mapping[str, float] | None = None, level: float = 0.95) -> GroupMean:
    """Return the mean over graphs of the values by graph, or of what they are more than those of another model.

    Raises `UsageError` for no graph at all, and for two models that do not have the same graphs.
    """
    if not values:
        raise UsageError("a mean over a group needs at least one graph with a figure")
    if less is not None and less.keys() != values.keys():
        apart = sorted(less.keys() ^ values.keys())
        raise UsageError(f"two models are compared over the same graphs, and only one has {', '.join(apart)}")
    differences = np.array([value - (less[graph] if less else 0.0) for graph, value in values.items()])
    mean, number = float(differences.mean()), len(differences)
    if number == 1:
        return GroupMean(mean, -math.inf, math.inf, 1)
    half = float(stdtrit(number - 1, (1 + level) / 2) * differences.std(ddof=1) / math.sqrt(number))
    return GroupMean(mean, mean - half, mean + half, number)


def p_value_over(values: Sequence[float], less: Sequence[float]) -> float:
    """Return the two-sided p-value of two models being equal in the mean over graphs: a paired t-test, graph by graph.

    It is 1 for a single graph, which tells nothing of others.
    """
    differences = np.subtract(values, less)
    number, spread = len(differences), float(differences.std())
    if number == 1 or spread == 0:
        return float(number == 1 or not differences.any())
    return float(2 * stdtr(number - 1, -abs(differences.mean()) * math.sqrt(number - 1) / spread))


COLUMNS = ("mrr", "hits@1", "hits@10")


def best_baselines(results: Sequence[Result]) -> dict[str, float]:
    """Return the MRR of the best heuristic baseline by dataset, where results have baselines."""
    return {result.dataset: result.baselines[best]["mrr"] for result in results if (best := result.best_baseline)}


def group_table(results: Sequence[Result], format: str = "text") -> str:  # noqa: A002
    """Return a row per graph of a model's results in one setting, and the mean over them with its interval."""
    floors = best_baselines(results)
    rows: list[list[tables.Cell]] = [
        [
            result.dataset,
            *(tables.number(metric, result.metrics[metric]) for metric in COLUMNS),
            tables.number("mrr", floors[result.dataset]) if result.dataset in floors else "",
        ]
        for result in results
    ]
    means = [mean_over({result.dataset: result.metrics[metric] for result in results}) for metric in COLUMNS]
    lift = {result.dataset: result.metrics["mrr"] for result in results if result.dataset in floors}
    rows.append([f"mean over {len(results)}", *map(str, means), str(mean_over(floors)) if floors else ""])
    if floors:
        rows.append(["above the best heuristic baseline", str(mean_over(lift, floors)), *[""] * len(COLUMNS)])
    headings = ["graph", *map(tables.heading, COLUMNS), "MRR of the best baseline"]
    return tables.lay_out(headings, rows, format)
