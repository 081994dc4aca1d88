"""Metrics of parts of the targets: which kind of target a model gets right, and which it gets for free.

One number hides that a model remembers half-links, or copies visible inverses. Everything here follows
from the rank counts of a run and the split it was made on; no model is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mtbench.data.splits import Dataset, Split, encode
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import tables
from mtbench.metrics import summary
from mtbench.names import METRICS, BoolArray, FloatArray
from mtbench.ranking.ranks import Counts, Ranks
from mtbench.results.labelling import STRATA
from mtbench.results.origin import Evaluated, splits_of, with_names

if TYPE_CHECKING:
    import pandas as pd


WHOLE = "all"
KINDS = ("metrics", "optimistic", "pessimistic", "chance")


@dataclass(frozen=True)
class Stratum:
    """One part of the targets: ``share`` of all, metrics expected over ties, both tie bounds, and chance."""

    label: str
    targets: int
    share: float
    metrics: Mapping[str, float]
    optimistic: Mapping[str, float]
    pessimistic: Mapping[str, float]
    chance: Mapping[str, float]


@dataclass(frozen=True)
class Strata:
    """The strata of a run under one name, in a fixed order, without those that hold no target.

    ``whole`` is the run itself: the mean of the rows weighted by ``targets``. Iterating gives the rows.
    """

    name: str
    model: str
    seed: int
    task: str
    rows: tuple[Stratum, ...]
    whole: Stratum

    def __iter__(self) -> Iterator[Stratum]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, label: str) -> Stratum:
        """Return a row by its label; an unknown one raises `UnknownNameError`."""
        found = {row.label: row for row in self.rows}
        if label not in found:
            raise UnknownNameError(f"stratum of {self.name}", label, found)
        return found[label]

    def __str__(self) -> str:
        return f"{self.model} on {self.task}, by {self.name}\n\n{self.table()}"

    def table(self, format: str = "text", decimals: int = 4) -> str:  # noqa: A002
        """Return the rows and the whole in ``text``, ``markdown``, ``latex`` or ``csv``.

        Of the bounds and chance only the MRR is shown; ``csv`` holds every figure with all its digits.
        """
        if format == "csv":
            frame = self.to_frame()
            return tables.lay_out(list(frame.columns), frame.to_numpy(dtype=object).tolist(), format)
        headings = [self.name, "Targets", "Share", *map(tables.heading, METRICS), "MRR by ties", "MRR by chance"]
        rows = [
            [
                row.label,
                f"{row.targets:,}",
                f"{row.share:.1%}",
                *(tables.number(name, row.metrics[name], decimals) for name in METRICS),
                tables.bounds(row.optimistic, row.pessimistic, decimals),
                tables.number("mrr", row.chance["mrr"], decimals),
            ]
            for row in (*self.rows, self.whole)
        ]
        return tables.lay_out(headings, rows, format)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per stratum and one for the whole: label, targets, share, and every metric four times.

        ``mrr`` is the expected value; ``mrr_optimistic``, ``mrr_pessimistic`` and ``mrr_chance`` follow it.
        """
        import pandas as pd

        return pd.DataFrame(
            [
                {"stratum": row.label, "targets": row.targets, "share": row.share}
                | {
                    name if kind == "metrics" else f"{name}_{kind}": getattr(row, kind)[name]
                    for name in METRICS
                    for kind in KINDS
                }
                for row in (*self.rows, self.whole)
            ]
        )


def by(result: Evaluated, name: str, split: Split | Dataset | None = None) -> Strata:
    """Return the metrics of a run for every stratum of its targets; ``name`` is one of `labelling.STRATA`.

    ``split`` is the split the run was made on, or its dataset; left out, it is loaded by the name and
    version the run has. Raises `UnknownNameError` for another name, `UsageError` for a run without ranks,
    a dataset that is not released or lacks what the strata need, and `ResultError` when the split is not
    the one the run was made on: its figures would be sorted by another graph.
    """
    if name not in STRATA:
        raise UnknownNameError("stratum", name, STRATA)
    if not len(result.ranks):
        raise UsageError(f"{result.run.model} on {result.dataset}: the run is {result.run.status} and has no ranks")
    found, train = splits_of(result, split)
    result = with_names(result, found)
    ranks = result.ranks
    rows = list(zip(ranks.heads.tolist(), ranks.relations.tolist(), ranks.tails.tolist(), strict=True))
    targets = encode(rows, found.entities, found.relations, f"ranks of {result.run.model} on {result.dataset}")
    labels = STRATA[name](replace(found, targets=targets), train)
    values = _values(result)
    chosen = ((label, labels.case == number) for number, label in enumerate(labels.names))
    return Strata(
        name=name,
        model=result.run.model,
        seed=result.run.seed,
        task=f"{result.dataset} {result.split}, protocol {result.protocol}, {result.vocabulary} relations"
        + (f", candidate seed {result.candidate_seed}" if result.candidate_seed else ""),
        rows=tuple(_stratum(label, rows, values) for label, rows in chosen if rows.any()),
        whole=_stratum(WHOLE, np.ones(len(ranks), dtype=np.bool_), values),
    )


def side_by_side(runs: Sequence[Strata], metric: str = "mrr", format: str = "text", decimals: int = 4) -> str:  # noqa: A002
    """Return one metric of several runs of the same task as a table: a row per stratum, a column per run.

    Raises `UsageError` for runs of different tasks or strata, whose rows would not hold the same targets.
    """
    first = runs[0]
    for other in runs[1:]:
        same = (other.name, other.task) == (first.name, first.task)
        if not same or _sizes(other) != _sizes(first):
            raise UsageError(f"runs of different tasks have no strata in common: {first.task}; {other.task}")
    models = [run.model for run in runs]
    labels = [run.model if models.count(run.model) == 1 else f"{run.model} (seed {run.seed})" for run in runs]
    exact = format == "csv"
    cells: list[list[tables.Cell]] = []
    for row, *others in zip(*((*run.rows, run.whole) for run in runs), strict=True):
        values = [*(other.metrics[metric] for other in (row, *others)), row.chance[metric]]
        numbers = values if exact else [tables.number(metric, value, decimals) for value in values]
        size: list[tables.Cell] = [row.targets, row.share] if exact else [f"{row.targets:,}", f"{row.share:.1%}"]
        cells.append([row.label, *size, *numbers])
    heading = metric if exact else tables.heading(metric)
    names = ["stratum", "targets", "share"] if exact else [first.name, "Targets", "Share"]
    return tables.lay_out([*names, *(f"{heading}, {label}" for label in (*labels, "chance"))], cells, format)


def _sizes(strata: Strata) -> list[tuple[str, int]]:
    return [(row.label, row.targets) for row in strata]


def _values(result: Evaluated) -> dict[str, dict[str, FloatArray]]:
    """Return per kind of figure every metric of every target, under the rules of the run's protocol."""

    def changed(change: Callable[[Counts], Counts]) -> Ranks:
        return replace(result.ranks, sides={side: change(counts) for side, counts in result.ranks.sides.items()})

    none = np.zeros(len(result.ranks), dtype=np.int64)
    ranks = {
        "metrics": result.ranks,
        "optimistic": changed(lambda side: Counts(side.greater, none, side.count)),
        "pessimistic": changed(lambda side: Counts(side.greater + side.equal, none, side.count)),
        "chance": changed(lambda side: Counts(none, side.count, side.count)),
    }
    return {kind: summary.per_target(ranks[kind], result.protocol, result.vocabulary) for kind in KINDS}


def _stratum(label: str, rows: BoolArray, values: Mapping[str, Mapping[str, FloatArray]]) -> Stratum:
    targets = int(rows.sum())
    means = {
        kind: {name: math.fsum(per_target[rows].tolist()) / targets for name, per_target in of_kind.items()}
        for kind, of_kind in values.items()
    }
    return Stratum(label, targets, targets / len(rows), **means)
