"""The rows of the table of a paper: a user's models, published entries, heuristic baselines, what others printed."""

from __future__ import annotations

import statistics
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from leaderboard.board import reported
from leaderboard.board.board import Figure, Line, over_seeds
from leaderboard.board.ranking import line_of
from leaderboard.entries import entries, submission
from leaderboard.entries.cards import CARD_FILE
from leaderboard.entries.entries import Entry
from mtbench.analysis import seeds
from mtbench.analysis.overview import labelled, varying
from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.errors import UnknownNameError, UsageError
from mtbench.evaluation.tasks import Task
from mtbench.heuristics.figures import BASELINES, baseline
from mtbench.runs.directory import Run
from mtbench.runs.result import MtbenchWarning, Result
from mtbench.settings.setting import Setting

Kind: TypeAlias = Literal["baseline", "printed", "published", "own"]
BEST = "best heuristic baseline"
PAPER, ELSEWHERE = "paper:", "elsewhere:"
"""What the names of printed figures begin with: those of the paper's tables, and those that others measured."""


@dataclass(frozen=True)
class Column:
    """What a column is of: a setting on one graph, or as the mean over the graphs of a ``group``."""

    setting: Setting
    graphs: tuple[str, ...]
    group: str = ""

    @property
    def place(self) -> str:
        """The name of the group, or of the graph."""
        return self.group or self.graphs[0]


@dataclass(frozen=True, eq=False)
class Row:
    """A model in a metric: its figures by graph and setting, and the ``results`` of its runs, if it has any.

    ``lines`` is what a board knows of its runs, by graph; ``remark`` stands below the table. ``letter`` marks the
    figures of the user's models that differ from those of the row.
    """

    name: str
    kind: Kind
    metric: str
    figures: Mapping[tuple[str, Setting], Figure]
    results: Mapping[tuple[str, Setting], Sequence[Result]] = field(default_factory=dict)
    entry: Entry | None = None
    lines: Mapping[str, Line] = field(default_factory=dict)
    remark: str = ""
    letter: str = ""

    def figure(self, column: Column) -> Figure | None:
        """Return what stands in a column, None where a graph of it lacks. Over a group, a seed's value is its mean."""
        keys = [(graph, column.setting) for graph in column.graphs]
        means = [self.figures[key] for key in keys if key in self.figures]
        if len(means) < len(keys):
            return None
        if len(means) == 1:
            return means[0]
        by_seed = [{each.run.seed: each.metrics[self.metric] for each in self.results.get(key, ())} for key in keys]
        if by_seed[0] and all(values.keys() == by_seed[0].keys() for values in by_seed):
            return over_seeds(statistics.fmean(values[seed] for values in by_seed) for seed in by_seed[0])
        fewest = min((figure.seeds for figure in means if figure.seeds is not None), default=None)
        return Figure(statistics.fmean(figure.mean for figure in means), seeds=fewest)


def of_entry(entry: Entry, name: str, kind: Kind, columns: Sequence[Column], metric: str) -> Row:
    """Return the row of an entry, or of a model of the user's."""
    results = {
        (graph, column.setting): finished
        for column in columns
        for graph in column.graphs
        if (finished := _finished(entry.runs.get(graph, ()), column.setting))
    }
    figures = {key: over_seeds(each.metrics[metric] for each in finished) for key, finished in results.items()}
    graphs = dict.fromkeys(graph for column in columns for graph in column.graphs if graph in entry.runs)
    return Row(name, kind, metric, figures, results, entry, {graph: line_of(entry, graph) for graph in graphs})


def _finished(runs: Sequence[Run], setting: Setting) -> list[Result]:
    scored = [run.results[setting] for run in runs if setting in run.results]
    return [result for result in scored if result.run.status == "ok"]


def of_baseline(name: str, columns: Sequence[Column], metric: str) -> Row:
    """Return the figures of a heuristic baseline as the records have them; without a name those of the best by MRR."""
    figures, best = {}, Counter[str]()
    for graph, setting in dict.fromkeys((graph, column.setting) for column in columns for graph in column.graphs):
        published = catalog.record(graph).baselines_of(setting.key("test", 0))
        chosen = name or max(published, key=lambda each: published[each]["mrr"], default="")
        if chosen in published:
            figures[graph, setting] = Figure(published[chosen][metric])
            best[chosen.replace("_", " ")] += 1
    label = name.replace("_", " ") or BEST
    most = ", ".join(f"{each} ({times}x)" for each, times in best.most_common())
    return Row(label, "baseline", metric, figures, remark=f"The {BEST} by MRR is {most}." if best and not name else "")


@cache
def scored(name: str, dataset: str, setting: Setting) -> Result:
    """Return the result of a heuristic baseline, whose ranks no record has; `DownloadError` without the dataset."""
    split = load(dataset).test
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MtbenchWarning)  # that it ties many is known of it
        return Task.of(split, setting).run(baseline(name, split))


def of_paper(model: str, columns: Sequence[Column], metric: str) -> Row:
    """Return what the paper printed of a model, in the evaluation setting of its row."""
    keys = [(graph, column.setting) for column in columns for graph in column.graphs]
    cells = {key: reported.of(key[0], model).get((key[1].protocol, metric)) for key in keys}
    figures = {key: Figure(cell.mean, cell.std) for key, cell in cells.items() if cell and cell.mean is not None}
    name, source = f"{model} (printed)", next(cell.setting.source for cell in reported.cells() if cell.model == model)
    remark = f"{name}: as in the tables of Zhou et al. 2023, in the evaluation setting of {source}."
    return Row(name, "printed", metric, figures, remark=remark)


def of_elsewhere(model: str, columns: Sequence[Column], metric: str) -> Row:
    """Return what others measured of a foundation model, among all entities."""
    known, place = reported.elsewhere()[model], {"mrr": 0, "hits@10": 1}.get(metric)
    figures = {
        (graph, column.setting): Figure(known.figures[graph][place])
        for column in columns
        for graph in column.graphs
        if place is not None and column.setting.protocol in ("full", "full-ultra") and graph in known.figures
    }
    name = f"{known.name} (elsewhere)"
    remark = f"{name}: {known.source}, MRR and Hits@10 among all entities, ties against the true triple."
    return Row(name, "printed", metric, figures, remark=remark)


def named(name: str, published: Path | None, columns: Sequence[Column], metric: str) -> Row:
    """Return the row of a name: an entry in the folder ``published``, a heuristic baseline, or printed figures.

    Raises `UnknownNameError` for a name that is none of these.
    """
    folders = entries.folders(published) if published is not None else ()
    slugs = {path.name: path for path in folders if (path / CARD_FILE).is_file()}
    baselines = {known.replace("_", "-"): known for known in BASELINES} | {"half-link": "half_link_memory"}
    papers = {f"{PAPER}{model}": model for model in reported.models()}
    measured = {f"{ELSEWHERE}{model}": model for model in reported.elsewhere()}
    if name in slugs:
        entry = entries.load(slugs[name])
        return of_entry(entry, entry.card.name, "published", columns, metric)
    if (plain := name.replace("_", "-").replace(" ", "-")) in baselines:
        return of_baseline(baselines[plain], columns, metric)
    if name in papers:
        return of_paper(papers[name], columns, metric)
    if name in measured:
        return of_elsewhere(measured[name], columns, metric)
    error = UnknownNameError("name in --against", name, [*slugs, *baselines, *papers, *measured])
    if slugs:
        raise error
    where = published or "the installed package"
    raise UsageError(f"{error}; no entries are in {where}: --entries DIR names leaderboard/results of the repository")


def own_models(folders: Sequence[Path]) -> dict[str, Entry]:
    """Return a user's models by name: runs, in folders at any depth, that differ in nothing but the seed.

    A model may keep a recipe for each dataset, so that what tells two of them apart is what varies on one dataset.
    Raises `SubmissionError` for folders without runs and data that are not released, `UsageError` for a run twice.
    """
    by_model = defaultdict[str, list[Run]](list)
    for run in map(submission.read, submission.find(folders) if folders else []):
        by_model[run.headline.run.model].append(run)
    models = {}
    for model, runs in by_model.items():
        settings = [(run.headline.dataset, seeds.identity(run.headline)) for run in runs]
        telling = {
            key
            for dataset, own in settings
            for key in varying(own, [namesake for place, namesake in settings if place == dataset])
        }
        of_rows = defaultdict[str, list[Run]](list)
        for run, (_, own) in zip(runs, settings, strict=True):
            of_rows[labelled(model, {key: own[key] for key in sorted(telling & own.keys())})].append(run)
        for label, of_row in of_rows.items():
            card = submission.fill({"name": model, "authors": ["-"], "url": "", "licence": "-"}, of_row)
            models[label] = entries.of_runs(Path(label), card, _joined(of_row, label))
    return models


def _joined(runs: Iterable[Run], label: str) -> list[Run]:
    """Return runs with those of a dataset and seed in one: their tasks may lie in several folders."""
    joined: dict[tuple[str, int], Run] = {}
    for run in runs:
        key = run.headline.dataset, run.headline.run.seed
        before = joined.setdefault(key, run)
        if before is not run and (both := before.results.keys() & run.results.keys()):
            raise UsageError(
                f"{before.directory} and {run.directory} are both {label} on {key[0]} with seed {key[1]} "
                f"({', '.join(sorted(setting.name for setting in both))}): name each run once"
            )
        joined[key] = Run(before.directory, {**before.results, **run.results})
    return list(joined.values())
