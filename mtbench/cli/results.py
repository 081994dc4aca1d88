"""``mtbench show``, ``compare`` and ``verify``: finished runs printed, drawn, compared and recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mtbench.analysis import comparison, overview
from mtbench.analysis.comparison import Comparison
from mtbench.analysis.pictures import draw_comparison, draw_models, draw_ranks, draw_strata
from mtbench.cli import options
from mtbench.cli.options import All
from mtbench.cli.output import AsJson, Cell, fail, records, say, say_json, say_table
from mtbench.data import catalog, store
from mtbench.data.catalog import Record
from mtbench.data.loading import load, stored
from mtbench.data.splits import Split
from mtbench.errors import MtbenchError, UnknownNameError, UsageError, typed
from mtbench.files import atomic
from mtbench.names import METRICS
from mtbench.runs import result as results
from mtbench.runs.directory import find, holds_run, runs_below
from mtbench.runs.result import Result
from mtbench.runs.result import load as load_run
from mtbench.runs.strata import QUERY, Strata, side_by_side
from mtbench.training.again import Again, from_weights
from mtbench.training.predictions import explain


def show(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run directories.")],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="STRATUM",
            help="direction, query_half_link, half_link, relation, relation_seen, inverse_visible, degree, "
            "head_degree, tail_degree, distance or task.",
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="For --by and --explain: the dataset of runs on one that is not released."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Say why a run of tally ranked some triples so; with --plot, draw how much each family of statistics "
            "matters.",
        ),
    ] = False,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar='"HEAD RELATION TAIL"',
            help="For --explain: a test triple; may be repeated.  [default: three, from the best to the worst rank]",
        ),
    ] = None,
    format: options.TableFormat = "text",  # noqa: A002
    metric: Annotated[str, typer.Option(help="For several runs --by, and for pictures: mr, mrr, hits@1 ...")] = "mrr",
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw into FILE.png or FILE.svg as well.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print runs, whole or by stratum, and draw them.

    Several runs stand side by side, with mean and standard deviation over the seeds of a model. A picture
    shows the ranks, the strata with --by, or exactly two runs against each other.

    Example: mtbench show runs/isdea-metafam-seed0 --by half_link

    Example: mtbench show runs/* --format markdown

    Example: mtbench show runs/a runs/b --plot models.png

    Example: mtbench show runs/tally-metafam-seed0 --explain --plot importance.png
    """
    options.check_output(format, plot=plot)
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    if explain:
        if len(runs) > 1 or by is not None or format != "text" or metric != "mrr":
            raise UsageError(
                "--explain explains one run, in text or --json: leave out other runs, --by, --format, --metric"
            )
        _explain(find(Path(runs[0])), target or [], dataset, plot, as_json=as_json)
        return
    if target:
        raise UsageError(f"--target is for --explain: {typed('show', runs[0], '--explain', '--target', target[0])}")
    if dataset is not None and by is None:
        raise UsageError("--dataset is for --by STRATUM, which sorts triples by their graph, and for --explain")
    results = [load_run(find(Path(name))) for name in dict.fromkeys(runs)]  # each once, whatever the shell's patterns
    data = load(dataset) if dataset is not None else None
    strata = [result.by(by, split=data) for result in results] if by is not None else []
    # Drawn before anything is printed, so that a picture that fails leaves no half of an answer.
    drawn = "" if plot is None else _draw(results, strata, plot, metric)
    if as_json:
        say_json([asdict(row) for row in strata or overview.overview(results)])
    else:
        say(_text(results, strata, format, metric))
        if plot is not None and format == "text":
            say(f"\n{plot} shows the {drawn}")


def _explain(run: Path, targets: Sequence[str], dataset: str | None, plot: Path | None, *, as_json: bool) -> None:
    options.look_here_for_modules()
    explanation = explain(run, targets, load(dataset) if dataset is not None else None)
    if plot is not None:
        explanation.draw(plot)
    if as_json:
        say_json(explanation.to_dict())
        return
    say(str(explanation))
    if plot is not None:
        say(f"\n{plot} shows what the families are worth")


def _draw(results: Sequence[Result], strata: Sequence[Strata], path: Path, metric: str) -> str:
    """Draw the strata of a run, two runs against each other, or the ranks of any number; return what is shown."""
    if len(strata) > 1:
        raise UsageError(
            f"--plot draws the strata of one run, not {len(strata)}: draw each, or print them side by side"
        )
    if strata:
        draw_strata(strata[0], path, metric)
        return "strata"
    if len(results) == 2:
        draw_models(results[0], results[1], path, metric)
        return "models"
    draw_ranks(results, path)
    return "ranks"


def _text(results: Sequence[Result], strata: Sequence[Strata], format: str, metric: str) -> str:  # noqa: A002
    if len(strata) > 1:
        return side_by_side(strata, metric, format)
    if strata:
        return str(strata[0]) if format == "text" else strata[0].table(format)
    if len(results) > 1:
        return overview.table(overview.overview(results), format)
    return results[0].text("all") if format == "text" else results[0].table(format=format)


def told_of(results: Sequence[Result], split: Split) -> str:
    """Return the text on the results of a run: of a single task the short form, of several a line each.

    Where all entities were ranked, the strata by half-links of the query follow: they differ most there.
    """
    first = results[0]
    if len(results) == 1:
        text = str(first)
    else:
        about = f"{first.run.model} on {first.dataset} {first.split}, candidate seed {first.candidate_seed}"
        text = f"{about}\n\n{overview.tasks_table(results)}"
    asked = "by which half of the query and of its answer is observable"
    return "\n\n".join(
        [text, *(f"{name}, {asked}\n\n{each.table()}" for name, each in by_query(results, split).items())]
    )


def by_query(results: Sequence[Result], split: Split) -> dict[str, Strata]:
    """Return the strata by half-links of the query of every result in which all entities were ranked, by protocol."""
    ranked = (result for result in results if result.setting.full and len(result.ranks))
    return {result.protocol: result.by(QUERY, split) for result in ranked if "relation" not in result.setting.sides}


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, several seeds of a model too.")
    ],
    metric: Annotated[str, typer.Option(help="mr, mrr, hits@1, hits@3, hits@5 or hits@10.")] = "mrr",
    cluster: Annotated[
        str | None,
        typer.Option(help="Draw triples by pair, component or none.  [default: as declared for the dataset]"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help="The dataset or directory whose graph gives the components.",
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap.")] = 2000,
    format: Annotated[str, typer.Option(help="text, markdown, latex, or csv of the models.")] = "text",  # noqa: A002
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the intervals: FILE.png or FILE.svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs, task by task: which differences are real.

    Example: mtbench compare runs/*

    Example: mtbench compare runs/isdea-* runs/mtdea-* --metric hits@10 --plot intervals.png
    """
    options.check_output(format, alone=as_json, plot=plot)
    split = None if data is None else load(data).split(results.load(runs[0]).split)
    tasks = comparison.by_task(runs)
    if len(tasks) > 1 and (plot is not None or format == "csv" or split is not None):
        what = "--plot" if plot is not None else "--data" if split is not None else "--format csv"
        raise UsageError(f"{what} is for runs of one task, and these are of {len(tasks)}: {', '.join(tasks)}")
    compared = [comparison.compare(own, metric, draws=draws, cluster=cluster, split=split) for own in tasks.values()]
    if plot is not None:
        draw_comparison(compared[0], plot)
    if as_json:
        say_json(compared[0].to_dict() if len(compared) == 1 else [task.to_dict() for task in compared])
        return
    say("\n\n\n".join(_compared(task, format, named=len(compared) > 1) for task in compared))
    if plot is not None and format != "csv":
        say(f"\n{plot} shows the intervals")


def _compared(task: Comparison, format: str, *, named: bool) -> str:  # noqa: A002
    if format == "text":
        return str(task)
    # A reader of CSV expects one table.
    pairs = [task.pair_table(format)] if task.pairs and format != "csv" else []
    return "\n\n".join([*([task.task] if named else []), task.table(format), *pairs])


HEADINGS = ("Part", "Triples", "Content SHA-256", "Same")
PROBLEMS = ("Name", "Message")
DATASETS = ("Name", "Stored", "Valid")
WEIGHTS = ("Protocol", "Vocabulary", "MRR", "From weights", "Same ranks")


def verify(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|RUN", autocompletion=options.datasets, help="A dataset, its directory, or a run's directory."
        ),
    ] = None,
    every: All = False,
    from_weights: Annotated[
        bool,
        typer.Option("--from-weights", help="Remake a run's model from its checkpoints and rank every task again."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For --from-weights: the model, where the run calls it otherwise."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a stored dataset or run, or all datasets.

    Example: mtbench verify metafam

    Example: mtbench verify --all

    Example: mtbench verify runs/isdea-metafam

    Example: mtbench verify runs/isdea-metafam --from-weights
    """
    if (name is None) is not every:
        raise UsageError("give either 'NAME|RUN' or --all")
    is_run = name is not None and holds_run(Path(name))
    if model is not None and not from_weights:
        raise UsageError("--model is for --from-weights")
    if from_weights and not is_run:
        raise UsageError(f"--from-weights takes the directory of a run, not {name or '--all'}: there is no result.json")
    if name is not None and not is_run and (below := runs_below(Path(name))):
        raise UsageError(f"{name} is no run, but holds some: name one of them, as in {typed('verify', below[0])}")
    if name is None:
        _verify_all(as_json=as_json)
    elif is_run:
        _verify_run(Path(name), as_json=as_json, weights=from_weights, model=model)
    else:
        directory, release = stored(name)
        rows, valid = _stored(directory, release)
        if as_json:
            say_json({"directory": str(directory), "valid": valid, "parts": records(HEADINGS, rows)})
        else:
            say_table(HEADINGS, rows)
        if not valid:
            raise typer.Exit(1)
        if not as_json:
            caveat = "" if release else load(name).caveat
            say(f"\n{directory}: every file and every content hash is as recorded{caveat}")


def _stored(directory: Path, release: Record | None) -> tuple[list[tuple[Cell, ...]], bool]:
    """Return a row per part of a stored dataset, and whether all are as recorded; prints an error if not."""
    rows = store.verify(directory, release)
    if differing := [row.part for row in rows if not row.same]:
        fail(f"{directory}: {', '.join(differing)} differ from the manifest: {store.mending(directory, release)}")
    return [(row.part, row.triples, row.sha256, row.same) for row in rows], not differing


def _verify_all(*, as_json: bool) -> None:
    rows: list[tuple[Cell, ...]] = []
    for record in catalog.records():
        directory = store.cached(record)
        there, valid = not atomic.is_free(directory), None
        if there:
            # A dataset that cannot be read is an answer about it, and no reason to leave out the rest.
            try:
                _, valid = _stored(directory, record)
            except MtbenchError as error:
                fail(str(error))
                valid = False
        rows.append((record.id, there, valid))
    if as_json:
        say_json(records(DATASETS, rows))
    else:
        say_table(DATASETS, rows)
    if any(valid is False for *_, valid in rows):
        raise typer.Exit(1)


def _verify_run(directory: Path, *, as_json: bool, weights: bool, model: str | None) -> None:
    problems = results.verify(directory).problems
    # Figures that contradict their own counts need no model to be refused.
    tasks: Sequence[Again] = from_weights(directory, model) if weights and not problems else []
    wrong = [problem.message for problem in problems]
    wrong += [f"{directory}: {task}" for task in tasks if not task.ok]
    rows = [(task.protocol, task.vocabulary, task.recorded, task.found, task.same) for task in tasks]
    if as_json:
        named = [(problem.name, problem.message) for problem in problems]
        report = {"directory": str(directory), "valid": not wrong, "problems": records(PROBLEMS, named)}
        say_json(report | {"from_weights": records(WEIGHTS, rows)} if weights else report)
    elif not problems:
        say(f"{directory}: verified, all metrics match the ranks")
        if rows:
            say("")
            say_table(WEIGHTS, [(*names, f"{old:.4f}", f"{new:.4f}", f"{same:.1%}") for *names, old, new, same in rows])
    for message in wrong:
        fail(message)
    if wrong:
        raise typer.Exit(1)
