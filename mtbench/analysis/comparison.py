"""Is a model better than another: models on a task with intervals, pairs with p-values, runs that were left out."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path

from mtbench.analysis import clusters, seeds, significance
from mtbench.analysis.clusters import CLUSTERS, bound
from mtbench.analysis.overview import by_direction
from mtbench.analysis.seeds import Model, Run
from mtbench.analysis.significance import Drawn
from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.data.splits import Split
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import tables
from mtbench.files.tables import Cell
from mtbench.names import DIRECTIONS, METRICS, Direction
from mtbench.runs.origin import splits_of, with_names
from mtbench.runs.result import Result
from mtbench.settings.setting import seed_of

FEWEST_DRAWS = 100
LOWER_IS_BETTER = ("mr",)
SMALLEST = 0.0001
"""P-values below this are shown as such."""


@dataclass(frozen=True)
class Row:
    """A model: its mean over seeds, interval, and the ranks that remain possible for it.

    ``per_seed`` is aligned with ``seeds``, ``deviation`` the standard deviation over them: None for a single
    seed, whose interval ``covers`` targets only. Models that share a letter of ``group`` do not differ.
    ``adjusted`` and ``z`` hold every metric adjusted for chance, as means over seeds, and ``directions`` the
    metrics of each direction where there are two.
    """

    model: str
    seeds: tuple[int, ...]
    per_seed: tuple[float, ...]
    mean: float
    deviation: float | None
    low: float
    high: float
    covers: str
    best_rank: int
    worst_rank: int
    group: str
    adjusted: Mapping[str, float | None]
    z: Mapping[str, float | None]
    directions: Mapping[Direction, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """The difference between a better and a worse model on the same targets.

    ``difference`` is the value of ``first`` less that of ``second``; ``corrected`` is the p-value after
    Holm's correction for all pairs, ``detectable`` the smallest difference detected with a power of 80 %.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float
    corrected: float
    detectable: float
    covers: str


@dataclass(frozen=True)
class Unfinished:
    """A run without ranks, shown but not compared."""

    source: str
    model: str
    seed: int
    status: str


@dataclass(frozen=True)
class Comparison:
    """Models on a task, best first, with all that tells a difference from chance.

    ``detectable`` is the median over the pairs compared; without pairs, ``bound`` is the difference that suffices for
    any two models of independent errors.
    """

    dataset: str
    dataset_version: str
    split: str
    protocol: str
    vocabulary: str
    candidate_seed: int
    metric: str
    level: float
    draws: int
    seed: int
    cluster: str
    clusters: int
    targets: int
    chance: float
    bound: float
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    unfinished: tuple[Unfinished, ...] = ()

    @property
    def detectable(self) -> float | None:
        """The median over pairs of the smallest difference detected with a power of 80 %; None without pairs."""
        return statistics.median(pair.detectable for pair in self.pairs) if self.pairs else None

    @property
    def task(self) -> str:
        """Dataset, split, protocol, vocabulary and candidate seed, separated by slashes."""
        return "/".join((self.dataset, self.split, self.protocol, self.vocabulary, str(self.candidate_seed)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences a reader should know: what intervals cover, what was left out, what the targets can show."""
        notes = []
        if alone := ", ".join(row.model for row in self.rows if len(row.seeds) == 1):
            notes.append(f"one seed only ({alone}): the interval covers the choice of test triples, not that of seeds")
        ended = "{source} ({model}, seed {seed}) ended as {status} and is not compared"
        notes += [ended.format(**vars(run)) for run in self.unfinished]
        sample = f"{self.targets} test triples in {self.clusters} {CLUSTERS[self.cluster]}"
        if self.cluster == "none":
            sample = f"{self.targets} test triples, taken as independent,"
        sample += f" ({1 - self.level:.2g} level, 80 % power)"
        needed, unit = [pair.detectable for pair in self.pairs], tables.heading(self.metric)
        if needed:
            least, typical, most = map(self._number, (min(needed), statistics.median(needed), max(needed)))
            over = f" (median of {len(needed)} pairs, {least} to {most})" if len(needed) > 1 else ""
            notes.append(f"{sample} and these seeds tell apart models that differ by {typical} {unit}{over}")
        else:
            notes.append(
                f"{sample} tell apart any two models whose errors are not opposed if they differ by "
                f"{self._number(self.bound)} {unit}, most by less; the spread over seeds comes on top"
            )
        return tuple(notes)

    def _number(self, value: float | None) -> str:
        return "" if value is None else tables.number(self.metric, value)

    def table(self, format: str = "text") -> str:  # noqa: A002
        """Return a row per model, then per run that was left out, in ``text``, ``markdown``, ``latex`` or ``csv``.

        CSV is for programs and has all digits.
        """
        metric = self.metric
        if format == "csv":
            names = ["mean", "deviation", "low", "high", "covers", "best_rank", "worst_rank", "group"]
            headings = ["model", "status", "seeds", *names, "adjusted", "z", *(f"{way}s" for way in DIRECTIONS)]
            exact: list[list[Cell]] = [
                [
                    *(row.model, "ok", len(row.seeds), *map(vars(row).get, names), row.adjusted[metric], row.z[metric]),
                    *(row.directions.get(way, {}).get(metric) for way in DIRECTIONS),
                ]
                for row in self.rows
            ]
            exact += [[run.model, run.status, *[None] * (len(headings) - 2)] for run in self.unfinished]
            return tables.lay_out(headings, exact, format)
        ways = DIRECTIONS if any(row.directions for row in self.rows) else ()
        adjusted = "AMRI" if metric == "mr" else f"Adjusted {tables.heading(metric)}"
        level = f"{100 * self.level:g} % from"
        headings = ["Model", "Seeds", tables.heading(metric), "SD", level, "to", "Covers", "Rank", "Group"]
        headings += [adjusted, "z", *(f"{way}s" for way in ways)]
        rows: list[list[Cell]] = [
            [
                row.model,
                len(row.seeds),
                *map(self._number, (row.mean, row.deviation, row.low, row.high)),
                row.covers,
                row.best_rank if row.best_rank == row.worst_rank else f"{row.best_rank}-{row.worst_rank}",
                row.group,
                None if (index := row.adjusted[metric]) is None else f"{index:.4f}",
                None if (z := row.z[metric]) is None else f"{z:.1f}",
                *(self._number(row.directions[way][metric]) for way in ways),
            ]
            for row in self.rows
        ]
        empty: list[Cell] = [None] * (len(headings) - 1)
        rows += [[f"{run.model} seed {run.seed}: {run.status}", *empty] for run in self.unfinished]
        return tables.lay_out(headings, rows, format)

    def pair_table(self, format: str = "text") -> str:  # noqa: A002
        """Return the differences between models as a table in the same formats."""
        level = f"{100 * self.level:g} % from"
        headings = ["Better", "Worse", "Difference", level, "to", "p", "p (Holm)", "Detectable"]
        rows = []
        for pair in self.pairs:
            difference = map(self._number, (pair.difference, pair.low, pair.high))
            p = (f"<{SMALLEST}" if value < SMALLEST else f"{value:.4f}" for value in (pair.p_value, pair.corrected))
            rows.append([pair.first, pair.second, *difference, *p, self._number(pair.detectable)])
        return tables.lay_out(headings, rows, format, left=2)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values, ready for JSON."""
        return asdict(self) | {"detectable": self.detectable, "notes": list(self.notes)}

    def __str__(self) -> str:
        pairs = [self.pair_table()] if self.pairs else []
        return "\n\n".join([f"{self.task}: {tables.heading(self.metric)}", self.table(), *pairs, "\n".join(self.notes)])


def by_task(runs: Sequence[Path | str | Result]) -> dict[str, list[Run]]:
    """Read runs, or run directories, and return them by the name of their task, as `compare` takes them.

    Raises what `compare` does for a directory without a run, or one that cannot be read.
    """
    tasks: dict[str, list[Run]] = {}
    for run in seeds.read(runs):
        task = "/".join(str(getattr(run.result, name)) for name in seeds.TASK)
        tasks.setdefault(task, []).append(run)
    return tasks


def compare(
    runs: Sequence[Path | str | Result | Run],
    metric: str = "mrr",
    *,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
    cluster: str | None = None,
    split: Split | None = None,
) -> Comparison:
    """Compare runs of the same task: means over seeds, intervals, pairwise differences and ranks.

    ``runs`` are run directories or results; those with the same model name, hyper-parameters (but for the
    seed), regime and pre-training graphs are seeds of a model. Intervals come from a paired two-level
    bootstrap with ``draws`` draws over seeds and over targets, which are drawn by ``cluster``: ``pair``,
    ``component`` or ``none``, by default what is declared for the dataset. Components need the graph:
    ``split``, or else the dataset of that name is loaded. Differences are tested at 1 - ``level`` with
    Holm's correction. Where targets tie, their values are realistic (ties averaged).

    The same runs give the same figures in any order. Raises `UsageError` for
    runs of different tasks, two runs of the same model and seed, no finished run, targets that are all in the same
    cluster, or a directory without a run; `UnknownNameError` for a metric or kind of cluster that does not
    exist; `ResultError` for a run that cannot be read.
    """
    if isinstance(runs, Result) and not isinstance(metric, str):
        raise UsageError("pass the runs to compare as one list: mtbench.compare([first, second])")
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    seed = seed_of(seed, "seed")
    if draws != int(draws) or draws < FEWEST_DRAWS:
        raise UsageError(f"draws must be at least {FEWEST_DRAWS} and a whole number, not {draws!r}")
    if not 0.5 <= level < 1:
        raise UsageError(f"level must be at least 0.5 and below 1, not {level}: 0.95 gives intervals of 95 %")
    if isinstance(runs, str | Path | Result):  # a text is a sequence too, of paths of one letter
        runs = [runs]
    read_runs = seeds.read(runs)
    if not read_runs:
        raise UsageError("no runs to compare: name at least one run directory")
    seeds.same_task(read_runs)
    if split is None and (unnamed := [run.result for run in read_runs if not run.result.ranks.named]):
        split, _ = splits_of(unnamed[0], None)
    read_runs = [replace(run, result=with_names(run.result, split)) for run in read_runs]
    finished = [run for run in read_runs if run.result.run.status == "ok" and len(run.result.ranks)]
    if not finished:
        states = ", ".join(f"{run.source} is {run.result.run.status}" for run in read_runs)
        raise UsageError(f"no finished run to compare: {states}")
    first = finished[0].result
    kind = clusters.choose(first.dataset, cluster)
    # Sorted by name, since the targets of a split that was loaded from elsewhere may stand in another order.
    targets, order = seeds.ordered(first.ranks)
    labels = clusters.label(targets, kind, _graph(first, kind, split))
    models = seeds.models(finished, metric, targets)
    drawn = significance.draw([(model.label, model.values) for model in models], labels, int(draws), seed)
    sign = -1 if metric in LOWER_IS_BETTER else 1
    # Equal means are sorted by name, so that the ranking does not depend on the order of the runs.
    ranked = sorted(zip(models, drawn, strict=True), key=lambda pair: (-sign * pair[1].estimate, pair[0].label))
    pairs = _pairs(ranked, level)
    places = {model.label: place for place, (model, _) in enumerate(ranked)}
    different = [(places[pair.first], places[pair.second]) for pair in pairs if pair.corrected < 1 - level]
    return Comparison(
        dataset=first.dataset,
        dataset_version=first.dataset_version,
        split=first.split,
        protocol=first.protocol,
        vocabulary=first.vocabulary,
        candidate_seed=first.candidate_seed,
        metric=metric,
        level=level,
        draws=int(draws),
        seed=seed,
        cluster=kind,
        clusters=int(labels.max()) + 1,
        targets=len(labels),
        chance=first.chance[metric],
        bound=bound(metric, first.ranks.count.reshape(-1, len(labels))[:, order], labels, level),
        rows=_rows(ranked, metric, level, different),
        pairs=tuple(pairs),
        unfinished=tuple(
            Unfinished(run.source, run.result.run.model, run.result.run.seed, run.result.run.status)
            for run in sorted(read_runs, key=lambda run: (run.result.run.model, run.result.run.seed, run.source))
            if run not in finished
        ),
    )


def _graph(result: Result, kind: str, split: Split | None) -> Split | None:
    """Return the split a result is of, checked by its content; None if the clusters need no graph."""
    remedy = "give the split it was evaluated on (on the command line --data DIR), or choose the clusters pair or none"
    if split is None:
        if kind != "component":
            return None
        if catalog.by_id(result.dataset) is None:
            raise UsageError(f"clusters by component need the graph of {result.dataset}: {remedy}")
        split = load(result.dataset).split(result.split)
    if split.content_sha256 != result.content_sha256:
        raise UsageError(f"the {split.name} split of {split.dataset} is not the one the runs are of: {remedy}")
    return split


def _pairs(ranked: Sequence[tuple[Model, Drawn]], level: float) -> list[Pair]:
    pairs = []
    for (better, upper), (worse, lower) in combinations(ranked, 2):
        difference = upper.minus(lower)
        low, high = difference.interval(level)
        pair = Pair(
            first=better.label,
            second=worse.label,
            difference=difference.estimate,
            low=low,
            high=high,
            p_value=difference.p_value(),
            corrected=1.0,
            detectable=difference.detectable(level),
            covers=_covers(better, worse),
        )
        pairs.append(pair)
    # Only now, since the correction depends on the number of pairs and on all of their p-values.
    corrected = significance.holm([pair.p_value for pair in pairs])
    return [replace(pair, corrected=value) for pair, value in zip(pairs, corrected, strict=True)]


def _rows(
    ranked: Sequence[tuple[Model, Drawn]], metric: str, level: float, different: Sequence[tuple[int, int]]
) -> tuple[Row, ...]:
    places = significance.rank_intervals(len(ranked), different)
    marks = significance.letters(len(ranked), different)
    floor, ceiling = (1.0, float("inf")) if metric in LOWER_IS_BETTER else (0.0, 1.0)
    rows = []
    for (model, drawn), (best, worst), letter in zip(ranked, places, marks, strict=True):
        low, high = drawn.interval(level)
        adjusted = [run.result.adjusted() for run in model.runs]
        means = model.values.mean(axis=1).tolist()
        row = Row(
            model=model.label,
            seeds=model.seeds,
            per_seed=tuple(means),
            mean=drawn.estimate,
            deviation=statistics.stdev(means) if len(means) > 1 else None,
            # A symmetric interval may reach beyond the range of the metric, where no mean can lie.
            low=max(floor, low),
            high=min(ceiling, high),
            covers=_covers(model),
            best_rank=best,
            worst_rank=worst,
            group=letter,
            adjusted={name: _mean([of_seed[name].index for of_seed in adjusted]) for name in METRICS},
            z={name: _mean([of_seed[name].z for of_seed in adjusted]) for name in METRICS},
            directions=by_direction([run.result for run in model.runs]),
        )
        rows.append(row)
    return tuple(rows)


def _covers(*models: Model) -> str:
    return "seeds and triples" if all(len(model.runs) > 1 for model in models) else "triples"


def _mean(values: Sequence[float | None]) -> float | None:
    # A mean over the seeds that have a value would be of another set of seeds than the columns beside it.
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None
