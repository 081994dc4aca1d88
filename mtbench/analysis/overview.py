"""Several runs side by side: a row per model and task, averaged over the seeds of the model."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from mtbench.data.catalog import Parameter
from mtbench.files import tables
from mtbench.names import DIRECTIONS, METRICS, Direction

if TYPE_CHECKING:
    from mtbench.runs.result import Result

Value = TypeVar("Value")
HEADINGS = ("Model", "Dataset", "Protocol", "Relations", "Seeds")


@dataclass(frozen=True)
class Row:
    """A model on a task: ``mean`` and sample standard deviation ``sd`` of its finished seeds.

    ``seeds`` are the finished seeds, ``unfinished`` those that ran out of memory or failed, so that a mean over fewer
    seeds is seen. ``details``, such as a hyper-parameter, tells the row from further rows of the model on the task.
    ``directions`` are the means of each direction where there are two. A baseline or chance has neither seeds nor
    ``sd``.
    """

    model: str
    dataset: str
    split: str
    protocol: str
    vocabulary: str
    mean: Mapping[str, float]
    sd: Mapping[str, float] = field(default_factory=dict)
    optimistic: Mapping[str, float] = field(default_factory=dict)
    pessimistic: Mapping[str, float] = field(default_factory=dict)
    directions: Mapping[Direction, Mapping[str, float]] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    unfinished: tuple[int, ...] = ()
    details: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The model, with its details in brackets."""
        return labelled(self.model, self.details)


def labelled(model: str, details: Mapping[str, object]) -> str:
    """Return a model's name with ``details``, which tell it from namesakes, in brackets."""
    text = ", ".join(f"{key}={value}" for key, value in details.items())
    return f"{model} ({text})" if text else model


def varying(own: Mapping[str, Value], namesakes: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """Return the items of a run's settings that are missing or different in the settings of any namesake."""
    known = list(namesakes)
    missing = object()
    return {key: value for key, value in own.items() if any(run.get(key, missing) != value for run in known)}


def overview(results: Iterable[Result]) -> list[Row]:
    """Return a row per model and task, and after the rows of a task its baselines and chance.

    Runs are averaged when only the seed of the model differs: different hyper-parameters, versions of
    the dataset or evaluator, or candidates give separate rows, as do two runs with the same seed,
    which an average would count twice.
    """
    groups: list[list[Result]] = []
    for result in results:
        for group in groups:
            # A second run of a seed starts a group of its own: an average would count that seed twice.
            same = _place(group[0]) == _place(result) and _details(group[0]) == _details(result)
            if same and result.run.seed not in [member.run.seed for member in group]:
                group.append(result)
                break
        else:
            groups.append([result])
    # By hashes, not names: baselines are shown once per task, and belong to these candidates alone.
    tasks: dict[tuple[str, ...], list[list[Result]]] = {}
    for group in groups:
        first = group[0]
        task = first.content_sha256, first.protocol, first.vocabulary, first.candidates_sha256
        tasks.setdefault(task, []).append(group)
    rows = []
    for of_task in tasks.values():
        rows += [_row(group, [members[0] for members in groups]) for group in of_task]
        first = of_task[0][0]
        floors = {name.replace("_", " "): values for name, values in first.baselines.items()} | {"chance": first.chance}
        rows += [Row(name, *_place(first)[1:], mean=values) for name, values in floors.items() if values]
    return rows


def tasks_table(results: Sequence[Result]) -> str:
    """Return a line per task for the results of a model: its metrics, the best heuristic baseline and the ties."""
    names = [name for name in METRICS if any(name in result.metrics for result in results)]
    rows = []
    for result in results:
        best = result.best_baseline
        shown = f"{best.replace('_', ' ')} {tables.number('mrr', result.baselines[best]['mrr'])}" if best else ""
        metrics = [tables.number(name, result.metrics[name]) if name in result.metrics else "" for name in names]
        ties = tables.bounds(result.optimistic, result.pessimistic) if result.optimistic else result.run.status
        rows.append([f"{result.protocol}, {result.vocabulary}", *metrics, shown, ties])
    headings = ["task", *map(tables.heading, names), "MRR of the best baseline", "MRR, pessimistic to optimistic"]
    return tables.lay_out(headings, rows, "text")


def table(rows: Sequence[Row], format: str = "text") -> str:  # noqa: A002
    """Return the rows in ``text``, ``markdown``, ``latex`` or ``csv``; cells are ``mean (sd)`` over seeds.

    The bounds of the MRR over the orders of ties are means over the seeds too. CSV has a column for
    every figure with all its digits.
    """
    if format == "csv":
        return _csv(rows)
    names = [name for name in METRICS if any(name in row.mean for row in rows)]
    ways = DIRECTIONS if any(row.directions for row in rows) else ()
    cells = []
    for row in rows:
        figures = [_mean_sd(row, name) for name in names]
        ties = tables.bounds(row.optimistic, row.pessimistic) if row.optimistic else ""
        dataset = row.dataset if row.split == "test" else f"{row.dataset} {row.split}"
        sides = [tables.number("mrr", row.directions[way]["mrr"]) if row.directions else "" for way in ways]
        cells.append([row.label, dataset, row.protocol, row.vocabulary, _seeds(row), *figures, *sides, ties])
    headings = [*HEADINGS, *map(tables.heading, names), *(f"MRR {way}s" for way in ways), "MRR by ties"]
    return tables.lay_out(headings, cells, format, left=len(HEADINGS))


def _csv(rows: Sequence[Row]) -> str:
    where = ("model", "dataset", "split", "protocol", "vocabulary")
    kinds = {"": "mean", "_sd": "sd", "_optimistic": "optimistic", "_pessimistic": "pessimistic"}
    columns = [(name, suffix, kind) for name in METRICS for suffix, kind in kinds.items()]
    cells = [
        [
            *(getattr(row, name) for name in where),
            " ".join(f"{key}={value}" for key, value in row.details.items()),
            " ".join(map(str, row.seeds)),
            " ".join(map(str, row.unfinished)),
            *(getattr(row, kind).get(name) for name, _, kind in columns),
            *(row.directions.get(way, {}).get(name) for way in DIRECTIONS for name in METRICS),
        ]
        for row in rows
    ]
    names = [*(a + b for a, b, _ in columns), *(f"{name}_{way}s" for way in DIRECTIONS for name in METRICS)]
    return tables.lay_out([*where, "details", "seeds", "unfinished", *names], cells, "csv")


def _mean_sd(row: Row, name: str) -> str:
    if name not in row.mean:
        return ""
    shown = tables.number(name, row.mean[name])
    return f"{shown} ({tables.number(name, row.sd[name])})" if name in row.sd else shown


def _seeds(row: Row) -> str:
    # More than five would make the column wider than all the figures.
    finished = ", ".join(map(str, row.seeds)) if len(row.seeds) <= 5 else f"{len(row.seeds)} seeds"
    unfinished = f"unfinished: {', '.join(map(str, row.unfinished))}" if row.unfinished else ""
    return "; ".join(filter(None, (finished, unfinished)))


def _row(group: Sequence[Result], firsts: Sequence[Result]) -> Row:
    """Average a group; ``firsts`` holds a run of every group, which show what is special about it."""
    finished = [result for result in group if result.run.status == "ok"]
    alike = [_details(first) for first in firsts if _place(first) == _place(group[0])]
    return Row(
        *_place(group[0]),
        mean=_each([result.metrics for result in finished], statistics.fmean),
        # Of the sample, over n - 1, as papers report it; of a single seed there is none.
        sd=_each([result.metrics for result in finished], statistics.stdev) if len(finished) > 1 else {},
        optimistic=_each([result.optimistic for result in finished], statistics.fmean),
        pessimistic=_each([result.pessimistic for result in finished], statistics.fmean),
        directions=by_direction(finished),
        seeds=tuple(sorted(result.run.seed for result in finished)),
        unfinished=tuple(sorted(result.run.seed for result in group if result.run.status != "ok")),
        details=varying(_details(group[0]), alike),
    )


def by_direction(runs: Sequence[Result]) -> dict[Direction, dict[str, float]]:
    """Return the mean metrics of runs of a task in each direction, where there are two."""
    metrics = [run.by_direction() for run in runs]
    return {way: _each([of_run[way] for of_run in metrics], statistics.fmean) for way in (metrics[0] if runs else ())}


def _each(values: Sequence[Mapping[str, float]], average: Callable[[Sequence[float]], float]) -> dict[str, float]:
    return {name: average([metrics[name] for metrics in values]) for name in values[0]} if values else {}


def _place(result: Result) -> tuple[str, str, str, str, str]:
    """Return what a reader sees of a row: model, dataset, split, protocol and relation vocabulary."""
    return result.run.model, result.dataset, result.split, result.protocol, result.vocabulary


def _details(result: Result) -> dict[str, Parameter]:
    """Return what else must be the same for two runs to be averaged, under the names a reader sees."""
    return dict(result.run.hyperparameters) | {
        "regime": result.run.regime,
        "commit": result.run.commit,
        "version": result.dataset_version,
        "candidate seed": result.candidate_seed,
        "candidates": result.candidates_sha256[:8],
        "evaluator": result.evaluator_version,
    }
