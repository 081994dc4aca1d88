"""From p-values to statements: Holm's correction, ranks that remain possible, and groups that are tied."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from string import ascii_lowercase

from mtbench.analysis.comparison import bootstrap, clusters, entries
from mtbench.analysis.comparison.bootstrap import Drawn
from mtbench.analysis.comparison.entries import Entry, Model
from mtbench.analysis.comparison.findings import Comparison, Pair, Row, Unfinished
from mtbench.analysis.comparison.resolution import Resolution, bound, minimum_detectable
from mtbench.analysis.overview import by_direction
from mtbench.data.splits import Split
from mtbench.errors import UnknownNameError, UsageError
from mtbench.names import METRICS
from mtbench.runs.origin import splits_of, with_names
from mtbench.runs.result import Result


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in the same order (Holm 1979).

    Calling those below alpha different is wrong in any place at all with a probability of at most alpha.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - step) * p_values[index]))
        corrected[index] = largest
    return corrected


def rank_intervals(number: int, worse: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the best and the worst rank each model can have; ``worse`` pairs a better model with a worse one.

    One plus the models shown to be better, and the number less the models shown to be worse: with
    corrected comparisons all intervals hold at once (Mogstad et al. 2024).
    """
    best, worst = [1] * number, [number] * number
    for upper, lower in worse:
        worst[upper] -= 1
        best[lower] += 1
    return list(zip(best, worst, strict=True))


def letters(number: int, different: Iterable[tuple[int, int]]) -> list[str]:
    """Return letters per model, best model first: two models share one exactly if they do not differ.

    The compact letter display of Piepho 2004: start with one group, split every group that holds a
    different pair, and drop groups that lie within another.
    """
    groups = [frozenset(range(number))]
    for first, second in sorted(different):
        split = [
            part
            for group in groups
            for part in ((group - {first}, group - {second}) if {first, second} <= group else (group,))
        ]
        distinct = list(dict.fromkeys(split))
        groups = [group for group in distinct if not any(group < other for other in distinct)]
    groups.sort(key=sorted)
    return ["".join(_letter(index) for index, group in enumerate(groups) if model in group) for model in range(number)]


def _letter(index: int) -> str:
    rounds, rest = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[rest] + (str(rounds) if rounds else "")


__all__ = ["Comparison", "Pair", "Resolution", "Row", "Unfinished", "compare", "minimum_detectable"]

FEWEST_DRAWS = 100
LOWER_IS_BETTER = ("mr",)


def by_task(runs: Sequence[Path | str | Result]) -> dict[str, list[Entry]]:
    """Read runs, or run directories, and return them by the name of their task: `compare` takes those of one.

    Raises what `compare` does for a directory without a run, or one that cannot be read.
    """
    found: dict[str, list[Entry]] = {}
    for entry in entries.read(runs):
        task = "/".join(str(getattr(entry.result, name)) for name in entries.TASK)
        found.setdefault(task, []).append(entry)
    return found


def compare(
    runs: Sequence[Path | str | Result | Entry],
    metric: str = "mrr",
    *,
    draws: int = 2000,
    seed: int = 0,
    level: float = 0.95,
    cluster: str | None = None,
    split: Split | None = None,
) -> Comparison:
    """Compare runs of one task: means over seeds, intervals, pairwise differences and ranks.

    ``runs`` are run directories or results; those with the same model name, hyper-parameters (but for the
    seed), regime and pre-training graphs are seeds of one model. Intervals come from a paired two-level
    bootstrap with ``draws`` draws over seeds and over targets, which are drawn by ``cluster``: ``pair``,
    ``component`` or ``none``, by default what is declared for the dataset. Components need the graph:
    ``split``, or else the dataset of that name is loaded. Differences are tested at 1 - ``level`` with
    Holm's correction. Where targets tie, their values are realistic (ties averaged).

    The same arguments give the same figures, in whichever order runs are given. Raises `UsageError` for
    runs of different tasks, two runs of one model and seed, no finished run, targets that are all in one
    cluster, or a directory without a run; `UnknownNameError` for a metric or kind of cluster that does not
    exist; `ResultError` for a run that cannot be read.
    """
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    draws, seed = _checked(draws, seed, level)
    if isinstance(runs, str | Path | Result):
        runs = [runs]
    given = entries.read(runs)
    if not given:
        raise UsageError("no runs to compare: name at least one run directory")
    entries.same_task(given)
    if split is None and (unnamed := [entry.result for entry in given if not entry.result.ranks.named]):
        split, _ = splits_of(unnamed[0], None)
    given = [replace(entry, result=with_names(entry.result, split)) for entry in given]
    finished = [entry for entry in given if entry.result.run.status == "ok" and len(entry.result.ranks)]
    if not finished:
        states = ", ".join(f"{entry.source} is {entry.result.run.status}" for entry in given)
        raise UsageError(f"no finished run to compare: {states}")
    first = finished[0].result
    kind = clusters.choose(first.dataset, cluster)
    targets, order = entries.ordered(first.ranks)
    labels = clusters.label(targets, kind, _graph(first, kind, split))
    models = entries.models(finished, metric, targets)
    drawn = bootstrap.draw([(model.label, model.values) for model in models], labels, draws, seed)
    sign = -1 if metric in LOWER_IS_BETTER else 1
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
        draws=draws,
        seed=seed,
        cluster=kind,
        clusters=int(labels.max()) + 1,
        targets=len(labels),
        chance=first.chance[metric],
        bound=bound(metric, first.ranks.count.reshape(-1, len(labels))[:, order], labels, level),
        rows=_rows(ranked, metric, level, different),
        pairs=tuple(pairs),
        unfinished=tuple(
            Unfinished(entry.source, entry.result.run.model, entry.result.run.seed, entry.result.run.status)
            for entry in sorted(given, key=lambda entry: (entry.result.run.model, entry.result.run.seed, entry.source))
            if entry not in finished
        ),
    )


def _checked(draws: int, seed: int, level: float) -> tuple[int, int]:
    try:
        draws, seed = operator.index(draws), operator.index(seed)
    except TypeError as error:
        raise UsageError(f"draws and seed must be integers, not {draws!r} and {seed!r}") from error
    if draws < FEWEST_DRAWS:
        raise UsageError(
            f"draws must be at least {FEWEST_DRAWS}, not {draws}: fewer say little about an interval's ends"
        )
    if seed < 0:
        raise UsageError(f"seed must be at least 0, not {seed}")
    if not 0.5 <= level < 1:
        raise UsageError(f"level must be at least 0.5 and below 1, not {level}: 0.95 gives intervals of 95 %")
    return draws, seed


def _graph(result: Result, kind: str, split: Split | None) -> Split | None:
    """Return the split a result is of, checked by its content; None where no graph is needed or given."""
    from mtbench.data import catalog
    from mtbench.data.loading import load

    remedy = "give the split it was evaluated on (on the command line --data DIR), or choose the clusters pair or none"
    if split is None:
        if kind != "component":
            return None
        if result.dataset not in catalog.names():
            raise UsageError(f"clusters by component need the graph of {result.dataset}: {remedy}")
        split = load(result.dataset).split(result.split)
    if split.content_sha256 != result.content_sha256:
        raise UsageError(f"the {split.name} split of {split.dataset} is not the one the runs are of: {remedy}")
    return split


def _pairs(ranked: Sequence[tuple[Model, Drawn]], level: float) -> list[Pair]:
    found = []
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
        found.append(pair)
    corrected = holm([pair.p_value for pair in found])
    return [replace(pair, corrected=value) for pair, value in zip(found, corrected, strict=True)]


def _rows(
    ranked: Sequence[tuple[Model, Drawn]], metric: str, level: float, different: Sequence[tuple[int, int]]
) -> tuple[Row, ...]:
    places = rank_intervals(len(ranked), different)
    marks = letters(len(ranked), different)
    floor, ceiling = (1.0, float("inf")) if metric in LOWER_IS_BETTER else (0.0, 1.0)
    rows = []
    for (model, drawn), (best, worst), letter in zip(ranked, places, marks, strict=True):
        low, high = drawn.interval(level)
        adjusted = [entry.result.adjusted() for entry in model.entries]
        means = model.values.mean(axis=1).tolist()
        row = Row(
            model=model.label,
            seeds=model.seeds,
            per_seed=tuple(means),
            mean=drawn.estimate,
            deviation=statistics.stdev(means) if len(means) > 1 else None,
            low=max(floor, low),
            high=min(ceiling, high),
            covers=_covers(model),
            best_rank=best,
            worst_rank=worst,
            group=letter,
            adjusted={name: _mean([found[name].index for found in adjusted]) for name in METRICS},
            z={name: _mean([found[name].z for found in adjusted]) for name in METRICS},
            directions=by_direction([entry.result for entry in model.entries]),
        )
        rows.append(row)
    return tuple(rows)


def _covers(*models: Model) -> str:
    return "seeds and triples" if all(len(model.entries) > 1 for model in models) else "triples"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None
