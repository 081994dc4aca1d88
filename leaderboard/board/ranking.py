"""From entries to a board: means over seeds, intervals, tied groups, who is ranked, and what models may have seen."""

from __future__ import annotations

import json
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib import resources
from itertools import count
from typing import Any

from leaderboard.board import reported
from leaderboard.board.board import (
    OPTIMISTIC,
    PAPER,
    PESSIMISTIC,
    REGIMES,
    SLOTS,
    STANDARD,
    Board,
    DatasetBoard,
    Figures,
    Line,
    Overlap,
    Place,
    Regime,
    Standing,
    View,
    figures,
    installed,
)
from leaderboard.entries.cards import TRAIN
from leaderboard.entries.entries import Entry, Watch, unwatched
from leaderboard.entries.verified import rescored_ranks, verified_by
from mtbench.analysis.comparison import compare
from mtbench.data import catalog
from mtbench.errors import DownloadError
from mtbench.files.hashing import file_hash
from mtbench.runs.directory import CONVENTIONS_FILE, Run
from mtbench.runs.files import RANKS_FILE
from mtbench.runs.result import EVALUATOR_VERSION, Metrics, Result
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE, codes_of, setting_in
from mtbench.training.again import from_weights


def overlap(dataset: str, graph: str) -> Overlap:
    """Return how many test targets of a dataset a graph has shown, exactly as they stand, as ``overlaps.toml`` has it.

    Graphs are named as in results: ``NAME/train`` is the training graph of a released dataset with its validation
    targets, ``NAME`` the whole of it. Nothing is loaded or fetched, so that every machine ranks the same entries. The
    number is None if nobody counted it, or if it was counted on another release.
    """
    record = catalog.record(dataset)
    return Overlap(graph, _seen(record, graph.lower()), record.part("test", "targets").triples)


def _seen(record: catalog.Record, graph: str) -> int | None:
    measured = _measured()
    # The counts hold for the content they were counted on, of both datasets.
    for known in filter(None, (record, catalog.by_id(graph.removesuffix(TRAIN)))):
        if measured["content"].get(known.id) != content_hash(known):
            return None
    if graph in measured["seen"]:
        return int(measured["seen"][graph].get(record.id, 0))
    names = measured["names"]
    # Names of other sources (Freebase, NELL, Wikidata) never make the same triple: nothing has to be counted then.
    return 0 if graph in names and not set(names[graph]) & set(names[record.id]) else None


def content_hash(record: catalog.Record) -> str:
    """Return the SHA-256 of the hashes of all parts of a dataset, in the order of their names."""
    return sha256("".join(part.content_sha256 for _, part in sorted(record.parts.items())).encode()).hexdigest()


@cache
def _measured() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads((resources.files("leaderboard.board") / "overlaps.toml").read_text(encoding="utf-8"))


DRAWS = 2000
UNMEASURED = (
    "nobody has counted the test triples in {}, from which it learned: mtbench audit {} --against FILE counts "
    "them in a file of the graph, and leaderboard/board/overlaps.toml holds the counts"
)


def rank(
    entries: Sequence[Entry],
    problems: Mapping[str, Sequence[str]] | None = None,
    *,
    draws: int = DRAWS,
    datasets: Iterable[str] = (),
    watch: Watch = unwatched,
) -> Board:
    """Return the board of some entries; those with ``problems`` (sentences by slug) are shown but not ranked.

    Regimes are those of `leaderboard.board.board.regime_of`. On every dataset and in every regime, entries are ranked
    by the mean over seeds of the headline: dual MRR, expected over ties, relations that are present. They must be
    complete (all sampled protocols and both vocabularies, every run finished), up to date (this evaluator, these
    candidates, this version of the dataset), and must not have learned from another graph that has more than
    `MOST_SEEN` of the test targets or whose targets nobody counted. Intervals and groups are those of
    `mtbench.compare` with ``draws`` draws. Overall, the entries of a regime are sorted by the number of the paper's
    datasets they are ranked on, then by their mean lift over the best heuristic baseline on these; only those ranked
    on all of them have a rank. An entry is in the regime of the dataset where it has seen most. Nobody is the first for
    whose ranks nobody stands, or who has few seeds: without ranks that the maintainers made or scored again an entry
    has no place above the second on a dataset, and none overall. With ``datasets``, the board has these alone, and
    none of the paper's others is bootstrapped. ``watch`` shows the progress.
    """
    broken = {slug: tuple(sentences) for slug, sentences in (problems or {}).items() if sentences}
    names = {name for entry in entries for name in entry.runs}
    paper = reported.datasets()
    shown = datasets or [*paper, *sorted(names - set(paper))]
    boards = tuple(_dataset(name, entries, broken, draws) for name in watch(list(shown), "ranking"))
    return Board(boards, _standings(entries, boards, paper), tuple(entries), paper, broken)


def _dataset(name: str, entries: Sequence[Entry], broken: Mapping[str, Sequence[str]], draws: int) -> DatasetBoard:
    record = catalog.record(name)
    lines = [line_of(entry, name, broken.get(entry.slug, ())) for entry in entries if name in entry.runs]
    placed_lines: list[Line] = []
    remarks: list[str] = []
    for regime in REGIMES:
        ranked = [line for line in lines if line.regime == regime and not line.remarks and line.figure()]
        try:
            places = _places(ranked, draws)
        except DownloadError:
            # Not the error's own message: it names folders of this machine.
            remarks.append("no intervals and no tied groups: they need the dataset, which is not here")
            places = {line.entry.slug: Place(rank, rank) for rank, line in enumerate(sorted(ranked, key=_headline), 1)}
        placed = [
            replace(line, place=_below_first(line, places.get(line.entry.slug)))
            for line in lines
            if line.regime == regime
        ]
        placed_lines += sorted(placed, key=lambda line: (line.place is None, *_headline(line)))
    return DatasetBoard(
        record=record,
        baseline=_baseline(record),
        lines=tuple(placed_lines),
        baselines={
            setting: {**record.baselines_of(setting.key("test", 0)), "chance": result.chance}
            # The last run wins: baselines of an entry that holds replace those of a broken one.
            for entry in sorted(entries, key=lambda entry: entry.slug not in broken)
            for run in entry.runs.get(name, ())
            for setting, result in run.results.items()
            if result.run.status == "ok"
        },
        reported={model: reported.of(name, model) for model in reported.models() if reported.of(name, model)},
        remarks=tuple(remarks),
    )


def _baseline(record: catalog.Record) -> tuple[str, float] | None:
    """Return the best heuristic baseline of the headline and its MRR; from the catalogue, so that no entry moves it."""
    baselines = [(name, values["mrr"]) for name, values in record.baselines_of(HEADLINE.key("test", 0)).items()]
    return max(baselines, key=lambda baseline: baseline[1], default=None)


def _headline(line: Line) -> tuple[float, str]:
    figure = line.figure()
    return (-figure.mean if figure else 0.0), line.entry.slug


def line_of(entry: Entry, dataset: str, problems: Sequence[str] = ()) -> Line:
    """Return what is shown of an entry on a dataset that it has runs on, not ranked yet."""
    runs = entry.runs[dataset]
    finished = [run for run in runs if run.headline.run.status == "ok"]
    headline = [run.results[HEADLINE] for run in finished if HEADLINE in run.results]
    infos = [run.headline.run for run in runs]
    graphs = sorted({graph for info in infos for graph in info.pretraining_graphs} | set(entry.card.pretraining_graphs))
    seconds = [info.wall_seconds for info in infos if info.wall_seconds is not None]
    own, by_own = by_paper(finished, entry.card.model)
    line = Line(
        entry=entry,
        dataset=dataset,
        seeds=tuple(run.headline.run.seed for run in finished),
        unfinished={info.seed: info.status for info in infos if info.status != "ok"},
        figures=_figures(finished) | by_own,
        tie_rate=statistics.fmean(result.tie_rate for result in headline) if headline else None,
        own=own,
        reported=reported.of(dataset, entry.card.model),
        baseline=_baseline(catalog.record(dataset)),
        overlaps=tuple(overlap(dataset, graph) for graph in graphs),
        seconds=statistics.fmean(seconds) if seconds else None,
        memory=max((info.peak_memory_bytes for info in infos if info.peak_memory_bytes), default=None),
        device=", ".join(sorted({info.device for info in infos if info.device})),
        verified=verified_by(entry, dataset),
    )
    faults = (*problems, *_remarks(runs, _faults))
    touched = [f"contaminated: {reason}" for reason in line.contaminated]
    unmeasured = [UNMEASURED.format(", ".join(line.unmeasured), dataset)] if line.unmeasured else []
    remarks = dict.fromkeys([*faults, *_remarks(runs, _lacks), *touched, *unmeasured])
    return replace(line, faults=faults, remarks=tuple(remarks))


def _figures(runs: Sequence[Run]) -> dict[tuple[View, str], Figures]:
    """Return the means over the seeds of finished runs, by evaluation setting and protocol."""
    seeds: dict[Setting, list[Result]] = defaultdict(list)
    for run in runs:
        for setting, result in run.results.items():
            if result.run.status == "ok":
                seeds[setting].append(result)
    means_by_view: dict[tuple[View, str], Figures] = {}
    for setting, results in seeds.items():
        view, protocol = SLOTS if setting.empty_slots else STANDARD, setting.protocol
        best, worst = (
            figures(result.optimistic for result in results),
            figures(result.pessimistic for result in results),
        )
        means_by_view[view, protocol] = {
            metric: replace(figure, low=min(means), high=max(means))
            if (means := [side[metric].mean for side in (worst, best) if metric in side])
            else figure
            for metric, figure in figures(result.metrics for result in results).items()
        }
        if view == STANDARD:
            means_by_view |= {(PESSIMISTIC, protocol): worst, (OPTIMISTIC, protocol): best}
    return means_by_view


def by_paper(runs: Sequence[Run], model: str) -> tuple[str | None, dict[tuple[View, str], Figures]]:
    """Return the figures of runs in the evaluation setting of the paper's row, with the name of that setting."""
    name, seeds = readings(runs, model)
    return name, {(PAPER, protocol): figures(metrics) for protocol, metrics in seeds.items()}


def readings(runs: Sequence[Run], model: str) -> tuple[str | None, dict[str, list[Metrics]]]:
    """Return the name of the evaluation setting of the paper's row, and the metrics of every run in it by protocol.

    It is the row's own setting if all runs have it in ``conventions.json``, else the next in which it can be scored; of
    the last, those runs count that have it. A reading of an older version of a setting, which has another ``source``,
    does not count.
    """
    names = codes_of(model)
    for name in names:
        seeds: dict[str, list[Metrics]] = defaultdict(list)
        for run in runs:
            path = run.directory.path / CONVENTIONS_FILE
            if path.exists():
                for protocol, settings in json.loads(path.read_text(encoding="utf-8"))["protocols"].items():
                    own = [reading for reading in settings if reading["convention"] == name]
                    source = setting_in(name, protocol).source
                    # The mean over a random integer says more than its draw; where none is drawn it is the same.
                    seeds[protocol] += [reading["expected"] for reading in own if reading["source"] == source]
        if whole := {
            protocol: metrics
            for protocol, metrics in seeds.items()
            if metrics and (len(metrics) == len(runs) or name == names[-1])
        }:
            return name, whole
    return next(iter(names), None), {}


def _remarks(runs: Iterable[Run], reasons_of: Callable[[Run], Iterator[str]]) -> Iterator[str]:
    """Give the reasons why runs are not ranked, each once with its seeds."""
    seeds: dict[str, list[int]] = defaultdict(list)
    for run in runs:
        for reason in dict.fromkeys(reasons_of(run)):
            seeds[reason].append(run.headline.run.seed)
    for reason, of_reason in seeds.items():
        yield f"{reason} (seed{'s' * (len(of_reason) > 1)} {', '.join(map(str, of_reason))})"


def _faults(run: Run) -> Iterator[str]:
    """Give the reasons why a run is ranked in nothing: unfinished, or outdated."""
    info, result = run.headline.run, run.headline
    if info.status != "ok":
        yield "out of memory" if info.status == "oom" else info.status
        return
    version = catalog.record(result.dataset).version
    if result.dataset_version != version:
        yield f"outdated: dataset version {result.dataset_version}, now {version}"
    for scored in run.results.values():
        if scored.evaluator_version != EVALUATOR_VERSION:
            yield f"outdated: evaluator version {scored.evaluator_version}, now {EVALUATOR_VERSION}"


def _lacks(run: Run) -> Iterator[str]:
    """Give what a run lacks to be ranked in the headline."""
    if run.headline.run.status == "ok" and run.missing:
        yield f"incomplete: lacks {', '.join(setting.name for setting in run.missing)}"


def _below_first(line: Line, place: Place | None) -> Place | None:
    """Return the place of a line, below the first where it may not lead."""
    if place is None or line.may_lead:
        return place
    return replace(place, best=max(2, place.best), worst=max(2, place.worst))


def _places(lines: Sequence[Line], draws: int) -> dict[str, Place]:
    """Return the places of ranked lines by slug, from all their seeds and targets."""
    if not lines:
        return {}
    renamed = []
    for line in lines:
        for run in line.entry.runs[line.dataset]:
            result = run.results[HEADLINE]
            # compare groups runs by model and settings: an entry is one model, whatever its runs say.
            info = replace(result.run, model=line.entry.slug, hyperparameters={}, pretraining_graphs=())
            renamed.append(replace(result, run=info))
    comparison = compare(renamed, "mrr", draws=draws)
    return {
        row.model: Place(row.best_rank, row.worst_rank, row.low, row.high, row.group, row.covers)
        for row in comparison.rows
    }


def _standings(entries: Sequence[Entry], boards: Sequence[DatasetBoard], paper: Sequence[str]) -> tuple[Standing, ...]:
    standings = []
    for entry in entries:
        lines = [line for board in boards if board.name in paper and (line := board.line(entry))]
        covered = [line for line in lines if line.place is not None]
        lifts = [line.lift for line in covered if line.lift is not None]
        lift = statistics.fmean(lifts) if lifts else None
        standings.append(
            Standing(
                entry,
                most_seen(lines),
                tuple(line.dataset for line in covered),
                lift,
                may_lead=bool(covered) and all(line.may_lead for line in covered),
            )
        )
    # Sorted by coverage: those with complete coverage come first, and only they are numbered.
    standings.sort(
        key=lambda standing: (
            REGIMES.index(standing.regime),
            not standing.may_lead,
            -len(standing.covered),
            -(standing.lift or 0.0),
            standing.entry.slug,
        )
    )
    numbers = {regime: count(1) for regime in REGIMES}
    return tuple(
        replace(standing, rank=next(numbers[standing.regime]))
        if len(standing.covered) == len(paper) and standing.may_lead
        else standing
        for standing in standings
    )


def most_seen(lines: Iterable[Line]) -> Regime:
    """Return the regime of the line that has seen most, the first for no lines."""
    return max((line.regime for line in lines), key=REGIMES.index, default=REGIMES[0])


def rescored(entry: Entry) -> list[str]:
    """Return the runs of an entry, as ``DATASET seed 0``, whose ranks were reproduced from their weights."""
    known = rescored_ranks().get(entry.slug, {})
    return [_name(run) for run in _shipping(entry) if known.get(_name(run)) == _ranks(run)]


def rescore(entry: Entry) -> Iterator[tuple[str, str, list[str]]]:
    """Score every run of an entry that ships weights again; give its name, the hash of its ranks, and what is wrong.

    Raises `UsageError` for a run whose model cannot be rebuilt.
    """
    for run in _shipping(entry):
        model, _ = installed(entry.card.model)
        wrong = [
            f"{run.directory}: {difference}"
            for difference in from_weights(run.directory.path, model)
            if not difference.ok
        ]
        yield _name(run), _ranks(run), wrong


def _shipping(entry: Entry) -> list[Run]:
    # A run that was out of memory may have weights, but has no ranks to compare with.
    runs = [run for of_dataset in entry.runs.values() for run in of_dataset if run.headline.run.status == "ok"]
    return [run for run in runs if run.directory.checkpoints.is_dir()]


def _name(run: Run) -> str:
    return f"{run.headline.dataset} seed {run.headline.run.seed}"


def _ranks(run: Run) -> str:
    return file_hash(run.directory.path / RANKS_FILE)
