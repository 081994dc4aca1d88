"""``mtbench check``, ``score`` and ``baselines``: scorers and files of scores, without training."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

import typer

from mtbench.analysis.groups import mean_over
from mtbench.cli import groups, options
from mtbench.cli.options import All
from mtbench.cli.output import AsJson, doing, records, say, say_json, say_table
from mtbench.cli.results import told_of
from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.errors import MtbenchError, UsageError, raised, shown, typed
from mtbench.evaluation import check as checking
from mtbench.evaluation.tasks import Task, measure
from mtbench.evaluation.tasks import task as task_of
from mtbench.files import atomic, formats, tables
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
            help="A function of the split that returns a scorer, a scorer (a function whose parameter is called "
            "'triples', or an object with a method score), or a model, which is trained first.",
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help="A dataset to check on.  [default: a small graph made for it; for a model metafam]",
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
    learns = hasattr(loaded, "fit") and hasattr(loaded, "scorer")
    data = load(dataset or "metafam") if dataset or learns else None
    try:
        with doing("checking") as tell:
            if learns and data is not None:
                tell("training")
                model = models.factory(scorer)(models.Context(data.name))
                model.fit(data.train, data.valid)
                loaded = model.scorer
            split = data.test if data is not None else None
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
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Columns head, relation, tail, score, maybe direction: .parquet, .feather, .csv, .tsv [.gz]; of a "
            "group the folder that has a file for each dataset, named as those of --template.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help="DATASET, or DATASET/SPLIT/PROTOCOL/VOCABULARY/SEED or part of it; of a group what follows DATASET.",
        ),
    ] = None,
    group: options.Group = None,
    template: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the triples to score to this file, and stop; those of a group into this folder, or to "
            "FOLDER/NAME.csv, where NAME is replaced by that of each dataset.  [format of a group: Parquet]",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the result as a run directory, or those of a group in it.")
    ] = None,
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

    Example: mtbench score --template triples --group entities+relations

    Example: mtbench score scores --group entities+relations --out runs/mine
    """
    if (file is None) == (template is None):
        raise UsageError("give either FILE, with scores, or --template FILE, to be filled with them")
    if group is None and task is None:
        raise UsageError(
            "give --task NAME, or --group NAME for a file of each of its datasets (mtbench list shows both)"
        )
    info = RunInfo(
        model=model or (file.name.partition(".")[0] if file else "unnamed"),
        seed=seed,
        regime=cast("Regime", regime),
        pretraining_graphs=tuple(pretraining_graph or ()),
    )
    if group:
        words = ("--group", group, *(("--task", task) if task else ()))
        tasks = {name: f"{name}/{task}" if task else name for name in catalog.names(group)}
        if template is not None:
            _write_group(words, tasks, template, by_direction=by_direction, force=force, as_json=as_json)
        elif file is not None:
            _score_group(words, tasks, file, info, out, force=force, as_json=as_json)
        return
    asked = task_of(task or "")
    if template is not None:
        asked.write_triples(template, by_direction=by_direction, force=force)
        triples = sum(len(asked.rows(way)) for way in asked.directions) if by_direction else len(asked.triples)
        if as_json:
            say_json({"task": asked.name, "file": str(template), "triples": triples})
        else:
            again = (
                asked.name if catalog.find(asked.split.dataset) else str(task)
            )  # a folder is found under its path alone
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


def _write_group(
    words: Sequence[str], tasks: Mapping[str, str], template: Path, *, by_direction: bool, force: bool, as_json: bool
) -> None:
    """Write the triples to score of every dataset of a group, a file each, or none where they are too many for one."""
    if "NAME" not in template.name:
        if template.suffix in formats.FORMATS:
            named = template.with_suffix("") / f"NAME{template.suffix}"
            raise UsageError(
                f"{template} is one file, and a group has a file for each dataset: name a folder, or {named}"
            )
        template /= "NAME.parquet"
    files = {name: template.with_name(template.name.replace("NAME", groups.folder_of(name))) for name in tasks}
    for file in files.values():
        formats.format_of(file)
        formats.expect_free(file, force=force)
    asked = {name: task_of(task) for name, task in tasks.items()}
    for each in asked.values():
        each.expect_listed()
    with atomic.storage_errors(template.parent), doing("writing") as tell:
        template.parent.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            tell(name)
            asked[name].write_triples(file, by_direction=by_direction, force=force)
    if as_json:
        say_json([{"task": asked[name].name, "file": str(file)} for name, file in files.items()])
        return
    say(
        f"{template.parent} holds a file of triples for each of {len(files)} datasets, by name and by id: add a column "
        f"score, higher meaning more plausible, then\n{typed('score', template.parent, *words)}"
    )


def _score_group(
    words: Sequence[str],
    tasks: Mapping[str, str],
    folder: Path,
    info: RunInfo,
    out: Path | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Rank the scores in the files of a folder, one for each dataset of a group, and show the means over them."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder: a group has a file of scores for each dataset, give the folder of them"
        )
    files = {name: _file_of(name, folder) for name in tasks}
    there = {name: file for name, file in files.items() if file is not None}
    unknown = sorted(path.name for path in folder.iterdir() if path.is_file() and path not in there.values())
    if not there:
        raise UsageError(
            f"{folder} has no file of scores of any dataset of the group, such as "
            f"{groups.folder_of(next(iter(tasks)))}.parquet or .csv: {typed('score', '--template', folder, *words)} "
            "writes what is to be scored"
        )
    directories = {name: RunDirectory.to_make(out / groups.folder_of(name)) for name in there} if out else {}
    for directory in directories.values():
        directory.expect_replaceable(force=force)
    results: dict[str, list[Result]] = {}
    missing = f"{folder} has no file {{}}.parquet, .csv or of another format"
    if unknown:
        missing += f" (of no dataset: {shown(unknown)})"
    errors = {name: missing.format(groups.folder_of(name)) for name, file in files.items() if file is None}
    with doing("scoring") as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore", MtbenchWarning)
        for name, file in there.items():
            tell(name)
            try:
                results[name] = [replace(task_of(tasks[name]).evaluate_file(file), run=info)]
            except UsageError:
                raise
            except MtbenchError as error:
                errors[name] = str(error)
                continue
            if name in directories:
                with directories[name].alone():
                    directories[name].keep(results[name], force=force)
    settings = list(dict.fromkeys(result.setting for each in results.values() for result in each))
    in_order = {name: errors[name] for name in tasks if name in errors}
    groups.show(results, in_order, settings, out, as_json=as_json)


def _file_of(dataset: str, folder: Path) -> Path | None:
    """Return the file of a dataset in a folder of score files, None without one; `UsageError` for two of them."""
    packed = ("", formats.COMPRESSED)
    names = [f"{groups.folder_of(dataset)}{suffix}{end}" for suffix in formats.FORMATS for end in packed]
    files = [folder / name for name in names if (folder / name).is_file()]
    if len(files) > 1:
        raise UsageError(f"{folder} has two files of {dataset}, {files[0].name} and {files[1].name}: keep one of them")
    return files[0] if files else None


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
    wanted = options.asked(names, every, group)
    options.check_output(format)
    # All protocols, where ``all`` of mtbench run are the paper's: baselines take seconds, models hours.
    asked = settings_of(protocol or [HEADLINE.protocol], vocabulary or [HEADLINE.vocabulary], PROTOCOLS)
    described = []
    by_graph: dict[Setting, dict[str, Figures]] = {setting: {} for setting in asked}
    errors: dict[str, str] = {}
    for name in wanted:
        try:
            measurements = list(_measure(name, asked))
        except UsageError:
            raise
        except MtbenchError as error:
            if not group:
                raise
            errors[name] = str(error)
            continue
        for measured, figures, whose in measurements:
            by_graph[measured.setting][name] = figures
            if as_json:
                described.append(_described(measured, figures))
                continue
            rows = [(label.replace("_", " "), values) for label, values in figures.items()]
            setting = measured.setting
            say(
                f"{measured.split.dataset} test{whose}: protocol {setting.protocol}, {setting.vocabulary} "
                f"relations, candidate seed {measured.candidates.seed}\n\n{tables.render(rows, format)}\n"
            )
    turned = {setting: _by_label(graphs) for setting, graphs in by_graph.items() if group and graphs}
    if as_json and group:
        means = {
            setting.name: {label: groups.means(by_metric) for label, by_metric in labels.items()}
            for setting, labels in turned.items()
        }
        say_json({"datasets": described, "means": means, "errors": errors})
    elif as_json:
        say_json(described)
    for setting, labels in {} if as_json else turned.items():
        means_of = [[label.replace("_", " "), str(mean_over(metrics["mrr"]))] for label, metrics in labels.items()]
        number = f"mean over {len(by_graph[setting])} graphs"
        headings = [f"MRR, {setting.protocol}, {setting.vocabulary} relations", number]
        say(f"{tables.lay_out(headings, means_of, format)}\n")
    groups.expect_all(errors, len(wanted))


def _by_label(figures: Mapping[str, Figures]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures of datasets the other way about: by baseline, then by metric, then by dataset."""
    return {
        label: {metric: {name: own[label][metric] for name, own in figures.items()} for metric in metrics}
        for label, metrics in next(iter(figures.values())).items()
    }


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
