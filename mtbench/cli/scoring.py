"""``mtbench check``, ``score`` and ``baselines``: scorers and files of scores, without training."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import typer

from mtbench.analysis.groups import mean_over
from mtbench.cli import options
from mtbench.cli.options import All
from mtbench.cli.output import AsJson, doing, records, say, say_json, say_table
from mtbench.cli.results import told_of
from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.errors import MtbenchError, UsageError, raised, typed
from mtbench.evaluation import check as checking
from mtbench.evaluation.tasks import Task, measure
from mtbench.evaluation.tasks import task as task_of
from mtbench.files import tables
from mtbench.heuristics.figures import BASELINES, Figures
from mtbench.metrics.closed import chance
from mtbench.runs.directory import RunDirectory
from mtbench.runs.origin import Regime, RunInfo
from mtbench.runs.result import MtbenchWarning, Result
from mtbench.settings.setting import Setting
from mtbench.settings.table import HEADLINE, PROTOCOLS, settings_of
from mtbench.training import models

HEADINGS = ("Check", "Verdict", "Message")


def check(
    scorer: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:SCORER",
            help="A function of the split that returns a scorer, or a scorer: a function whose parameter is called "
            "'triples', or an object with a method score.",
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help="A dataset to check on.  [default: a small graph made for it]",
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="How long it may take: of a slow scorer fewer triples are ranked; 0: no limit.")
    ] = 120,
    as_json: AsJson = False,
) -> None:
    """Check a scorer before its figures are believed.

    Are its scores finite and repeatable, whatever the batch, the order and the names, and without the answers?

    Example: mtbench check mymodel:build

    Example: mtbench check mypackage.models:build --dataset metafam
    """
    options.look_here_for_modules()
    expected = "expected package.module:name, importable from here"
    loaded = models.attribute(scorer, "scorer", expected)
    if hasattr(loaded, "fit") and hasattr(loaded, "scorer"):
        raise UsageError(
            f"{scorer} is a model, which learns before it scores: type {typed('run', scorer, '--dataset', 'metafam')}, "
            "or name a function of the split that returns a scorer"
        )
    split = load(dataset).test if dataset else None
    try:
        with doing("checking") as tell:
            report = checking.check(loaded, split, seconds=seconds or math.inf, report=tell)
    except MtbenchError:
        raise
    except Exception as error:  # the scorer's own: its author needs the name and place of it, not our traceback
        raise MtbenchError(f"{scorer} raised {raised(error)}") from error
    rows = [(finding.name, finding.verdict, finding.message) for finding in report.findings]
    if as_json:
        say_json(
            {
                "scorer": scorer,
                "dataset": report.dataset,
                "targets": report.targets,
                "ok": report.ok,
                "checks": records(HEADINGS, rows),
            }
        )
    else:
        say_table(HEADINGS, rows)
        counts = Counter(finding.verdict for finding in report.findings)
        numbers = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("pass", "fail", "not applicable"))
        say(f"\n{scorer} on {report.dataset}, {report.targets} triples to rank: {numbers}")
    if not report.ok:
        raise typer.Exit(1)


def score(
    task: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help="DATASET, or DATASET/SPLIT/PROTOCOL/VOCABULARY/SEED or part of it.",
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Columns head, relation, tail, score, maybe direction: .parquet, .feather, .csv, .tsv [.gz]",
        ),
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the triples to score to this file, and stop.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Save the result as a run directory.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="The model.  [default: the file's name]")] = None,
    seed: options.Seed = 0,
    regime: Annotated[
        str, typer.Option(help="zero-shot, test-time-adaptation, fine-tuned or supervised.")
    ] = "zero-shot",
    pretraining_graph: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A graph the model learned from; may be repeated.")
    ] = None,
    by_direction: Annotated[
        bool,
        typer.Option("--by-direction", help="A template with a row for each direction: heads and tails asked apart."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run directory or the template.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rank the scores of a file, written by any language.

    Example: mtbench score --template triples.parquet --task metafam

    Example: mtbench score scores.parquet --task metafam/dual/present/0 --out runs/mine --model mine

    Example: mtbench score --template triples.parquet --task metafam/entity/slots
    """
    if (file is None) == (template is None):
        raise UsageError("give either FILE, with scores, or --template FILE, to be filled with them")
    info = RunInfo(
        model=model or (file.name.partition(".")[0] if file else "unnamed"),
        seed=seed,
        regime=cast("Regime", regime),
        pretraining_graphs=tuple(pretraining_graph or ()),
    )
    asked = task_of(task)
    if template is not None:
        asked.write_triples(template, by_direction=by_direction, force=force)
        triples = sum(len(asked.rows(way)) for way in asked.directions) if by_direction else len(asked.triples)
        if as_json:
            say_json({"task": asked.name, "file": str(template), "triples": triples})
        else:
            again = asked.name if catalog.find(asked.split.dataset) else task  # a folder is found under its path alone
            say(
                f"{template} holds the {triples} triples of {asked.name}, by name and by id: add a column score, "
                f"higher meaning more plausible, then\n{typed('score', template, '--task', again)}"
            )
    elif file is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MtbenchWarning)  # the result prints them
            result = replace(asked.evaluate_file(file), run=info)
        if out:
            directory = RunDirectory.to_make(out)
            with directory.alone():
                directory.keep([result], force=force)
        _show(asked, result, out, as_json)


def _show(asked: Task, result: Result, directory: Path | None, as_json: bool) -> None:
    if as_json:
        fields = ("metrics", "optimistic", "pessimistic", "tie_rate", "chance", "warnings")
        about = {
            "task": asked.name,
            "model": result.run.model,
            "directory": None if directory is None else str(directory),
        }
        say_json(about | {field: getattr(result, field) for field in fields} | {"baselines": dict(result.baselines)})
        return
    say(f"{told_of([result], asked.split)}\n")
    if directory is None:
        say("not saved: --out DIR keeps the result as a run directory")
    else:
        say(f"{directory} holds the result; {typed('verify', directory)} recomputes it")


def baselines(
    names: options.NamesOrFolders = None,
    every: All = False,
    group: options.Group = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=options.protocols,
            help="Any of those of mtbench run, or all; may be repeated.  [default: dual]",
        ),
    ] = None,
    vocabulary: options.Vocabularies = None,
    format: Annotated[str, typer.Option(help="text, markdown or latex.")] = "text",  # noqa: A002
    as_json: AsJson = False,
) -> None:
    """Show what a model has to beat: scorers that learn nothing.

    Example: mtbench baselines metafam

    Example: mtbench baselines --all --protocol all --vocabulary all --json

    Example: mtbench baselines --group entities+relations --protocol full
    """
    if bool(names) + every + bool(group) != 1:
        raise UsageError(f"{options.NAMES_OR_ALL} or --group NAME")
    options.check_output(format)
    # All protocols, where ``all`` of mtbench run are the paper's: baselines take seconds, models hours.
    asked = settings_of(protocol or [HEADLINE.protocol], vocabulary or [HEADLINE.vocabulary], PROTOCOLS)
    described = []
    by_graph: dict[Setting, dict[str, dict[str, float]]] = {setting: {} for setting in asked}
    for name in dict.fromkeys(names or catalog.names(group or "")):
        for measured, figures, whose in _measure(name, asked):
            by_graph[measured.setting][name] = {label: values["mrr"] for label, values in figures.items()}
            if as_json:
                described.append(_described(measured, figures))
                continue
            rows = [(label.replace("_", " "), values) for label, values in figures.items()]
            setting = measured.setting
            say(
                f"{measured.split.dataset} test{whose}: protocol {setting.protocol}, {setting.vocabulary} "
                f"relations, candidate seed {measured.candidates.seed}\n\n{tables.render(rows, format)}\n"
            )
    if as_json:
        say_json(described)
    elif group:
        for setting, graphs in by_graph.items():
            labels = next(iter(graphs.values()))
            means = [
                [label.replace("_", " "), str(mean_over({name: mrr[label] for name, mrr in graphs.items()}))]
                for label in labels
            ]
            headings = [f"MRR, {setting.protocol}, {setting.vocabulary} relations", f"mean over {len(graphs)} graphs"]
            say(f"{tables.lay_out(headings, means, format)}\n")


def _measure(name: str, asked: Sequence[Setting]) -> Iterator[tuple[Task, Figures, str]]:
    data = load(name)
    tasks = [Task.of(data.test, setting, 0, data.version) for setting in asked]
    by_baseline = {baseline: measure(baseline, tasks) for baseline in BASELINES}
    for number, task in enumerate(tasks):
        figures = {baseline: values[number] for baseline, values in by_baseline.items()}
        yield task, figures | {"chance": chance(task.candidates.lengths.ravel())}, data.caveat


def _described(task: Task, figures: Figures) -> dict[str, object]:
    return {
        "dataset": task.split.dataset,
        "dataset_version": task.dataset_version,
        "split": task.split.name,
        "protocol": task.setting.protocol,
        "vocabulary": task.setting.vocabulary,
        "candidate_seed": task.candidates.seed,
        "candidates_sha256": task.candidates.sha256,
        "baselines": figures,
    }
