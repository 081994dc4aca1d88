"""Metrics of parts of the targets: which kind of target a model gets right, and which it gets for free.

One number hides that a model remembers half-links, or copies visible inverses. Everything here follows
from the rank counts of a run and the split it was made on; no model is needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtbench.data.splits import Dataset, Split, encode
from mtbench.errors import ResultError, UnknownNameError, UsageError
from mtbench.files import tables
from mtbench.metrics import summary
from mtbench.names import METRICS, QUESTIONS, BoolArray, FloatArray, IntArray
from mtbench.runs.labelling import STRATA
from mtbench.runs.origin import Evaluated, splits_of

if TYPE_CHECKING:
    import pandas as pd


WHOLE = "all"
DIRECTION = "direction"
KINDS = ("metrics", "optimistic", "pessimistic", "chance")


@dataclass(frozen=True)
class Stratum:
    """One part of the targets: ``share`` of all, metrics with ties averaged, both tie bounds, and chance."""

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
        headings = [self.name, "Triples", "Share", *map(tables.heading, METRICS), "MRR by ties", "MRR by chance"]
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

        ``mrr`` is realistic (ties averaged); ``mrr_optimistic``, ``mrr_pessimistic`` and ``mrr_chance`` follow it.
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

    ``direction``, which needs no split, divides the ranks and not the targets: by what was asked of them.
    ``split`` is the split the run was made on, or its dataset; left out, it is loaded by the name and
    version the run has. Raises `UnknownNameError` for another name, `UsageError` for a run without ranks,
    a dataset that is not released or lacks what the strata need, and `ResultError` when the split is not
    the one the run was made on: its figures would be sorted by another graph.
    """
    if name not in (DIRECTION, *STRATA):
        raise UnknownNameError("stratum", name, [DIRECTION, *STRATA])
    if not len(result.ranks):
        raise UsageError(f"{result.run.model} on {result.dataset}: the run is {result.run.status} and has no ranks")
    if name == DIRECTION:
        rows, whole = _directions(result)
    else:
        found, train = splits_of(result, split)
        labels = STRATA[name](found, train)
        values = by_target(result, found)
        chosen = ((label, labels.case == number) for number, label in enumerate(labels.names))
        rows = tuple(_stratum(label, part, values) for label, part in chosen if part.any())
        whole = _stratum(WHOLE, np.ones(len(result.ranks), dtype=np.bool_), values)
    return Strata(
        name=name,
        model=result.run.model,
        seed=result.run.seed,
        task=f"{result.dataset} {result.split}, protocol {result.protocol}, {result.vocabulary} relations"
        + (f", candidate seed {result.candidate_seed}" if result.candidate_seed else ""),
        rows=rows,
        whole=whole,
    )


def _directions(result: Evaluated) -> tuple[tuple[Stratum, ...], Stratum]:
    """Return the ranks of each direction as a stratum, and all of them."""
    kinds = {kind: summary.per_list(changed) for kind, changed in summary.kinds(result.ranks).items()}
    number = len(result.ranks)
    directions = list(kinds["metrics"])
    values = {
        kind: {name: np.concatenate([lists[way][name] for way in directions]) for name in METRICS}
        for kind, lists in kinds.items()
    }
    place = np.repeat(np.arange(len(directions)), number)
    rows = tuple(_stratum(f"{way}s, {QUESTIONS[way]}", place == which, values) for which, way in enumerate(directions))
    return rows, _stratum(WHOLE, np.ones(len(place), dtype=np.bool_), values)


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
    names = ["stratum", "targets", "share"] if exact else [first.name, "Triples", "Share"]
    return tables.lay_out([*names, *(f"{heading}, {label}" for label in (*labels, "chance"))], cells, format)


def _sizes(strata: Strata) -> list[tuple[str, int]]:
    return [(row.label, row.targets) for row in strata]


def by_target(result: Evaluated, split: Split, kinds: Collection[str] = KINDS) -> dict[str, dict[str, FloatArray]]:
    """Return per kind of figure every metric ``(m,)`` of the targets of the run's split, in the order of that split.

    The kinds are some of `KINDS`: ties averaged, both bounds, and chance, under the rules of the run's
    protocol. Raises `ResultError` for ranks of other targets.
    """
    ranks = result.ranks
    if len(ranks) != len(split.targets):
        raise ResultError(
            f"{result.dataset} {result.split}: {len(ranks)} ranks, the split has {len(split.targets)} triples to rank; "
            "evaluate again"
        )
    place = _places(result, split) if ranks.named else slice(None)  # without names they are in the order of the split
    return {
        kind: {name: values[place] for name, values in summary.per_target(changed).items()}
        for kind, changed in summary.kinds(ranks).items()
        if kind in kinds
    }


def _places(result: Evaluated, split: Split) -> IntArray:
    """Return for every target of a split the row it has in ranks with names."""
    ranks = result.ranks
    names = list(zip(ranks.heads.tolist(), ranks.relations.tolist(), ranks.tails.tolist(), strict=True))
    rows = encode(names, split.entities, split.relations, f"ranks of {result.run.model} on {result.dataset}")
    found = np.empty(len(rows), dtype=np.int64)
    found[np.lexsort(split.targets.T)] = np.lexsort(rows.T)
    return found


def _stratum(label: str, rows: BoolArray, values: Mapping[str, Mapping[str, FloatArray]]) -> Stratum:
    targets = int(rows.sum())
    means = {
        kind: {name: math.fsum(per_target[rows].tolist()) / targets for name, per_target in of_kind.items()}
        for kind, of_kind in values.items()
    }
    return Stratum(label, targets, targets / len(rows), **means)
