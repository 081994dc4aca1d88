"""``mtbench run`` and ``score-with``: models trained and scored, and asked for predictions."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from mtbench.cli import groups, options
from mtbench.cli.output import AsJson, note, say, say_json
from mtbench.cli.results import by_query, told_of
from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.data.splits import Split
from mtbench.errors import MtbenchError, RunInterrupted, UsageError, typed
from mtbench.files import pictures, tables
from mtbench.files.reading import expanded
from mtbench.runs.directory import CONVENTIONS_FILE, HISTORY_FILE, RunDirectory
from mtbench.runs.result import MtbenchWarning, Result
from mtbench.runs.strata import QUERY
from mtbench.settings.table import HEADLINE, settings_of
from mtbench.training import costs, learned
from mtbench.training.models import Progress, factory, parse_settings, silent
from mtbench.training.predictions import Question, answers, graph_of
from mtbench.training.run import Plan, finished, folder_name
from mtbench.training.run import run as carry_out


def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", autocompletion=options.models, help="An installed model, or package.module:factory."
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", autocompletion=options.datasets, help=f"A dataset of the catalogue, {options.FOLDERS}."
        ),
    ] = None,
    group: options.Group = None,
    protocol: options.Protocols = None,
    vocabulary: options.Vocabularies = None,
    seed: options.Seed = 0,
    candidate_seed: options.CandidateSeed = 0,
    device: options.Device = "auto",
    settings: options.Settings = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The run directory.  [default: below runs/]")] = None,
    paper: options.Paper = False,
    without_names: options.WithoutNames = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RUN", help="Take what a finished run of the same options and training graph learned."
        ),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Discard the checkpoint of an interrupted run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run directory.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model and score it on the test graph, or on all of a group.

    A group gives the mean over its graphs, with an interval over graphs; what is finished there is not run again.

    Example: mtbench run mtdea --dataset metafam

    Example: mtbench run mtdea --dataset metafam --set tasks=4 --seed 1 --protocol all --vocabulary all

    Example: mtbench run tally-foundation --group entities+relations --protocol full
    """
    options.look_here_for_modules()
    if bool(dataset) == bool(group):
        raise UsageError("give either --dataset NAME or --group NAME (mtbench list shows both)")
    names = [dataset] if dataset else catalog.names(group or "")
    given = parse_settings(settings or [])
    place = expanded(dataset or "")
    called = place.resolve().name if dataset and place.is_dir() else dataset or group or ""
    plan = Plan(
        model=model,
        out=out or Path("runs") / folder_name((model, called), given, seed),
        tasks=settings_of(protocol or [HEADLINE.protocol], vocabulary or [HEADLINE.vocabulary]),
        seed=seed,
        candidate_seed=candidate_seed,
        device=device,
        settings=given,
        restart=restart,
        force=force,
        with_names=not without_names,
        start=start,
        paper=paper,
    )
    factory(model)  # an unknown name is refused before a dataset is built
    if group:
        _run_group(plan, names, as_json)
        return
    directory, results, test = _carried_out(plan, names[0])
    if as_json:
        strata = {name: [asdict(row) for row in of_query] for name, of_query in by_query(results, test).items()}
        described = [
            values | ({QUERY: strata[result.protocol]} if result.protocol in strata else {})
            for result, values in zip(results, groups.described(results), strict=True)
        ]
        say_json({"directory": str(directory), "model": results[0].run.model, "results": described})
    else:
        _show(directory, results, test, paper=paper)
    for result in results:
        if result.run.status != "ok":
            raise MtbenchError(costs.explain(result.run, result.dataset, result.warnings[0], directory))


def _carried_out(plan: Plan, dataset: str) -> tuple[Path, list[Result], Split]:
    """Run a plan on a dataset, show how it gets on, and return the run directory, its results and the test split."""
    unfinished = RunDirectory.to_make(plan.out).partial
    if unfinished.has_checkpoints and not plan.restart:
        note(f"goes on from what {unfinished.checkpoints} holds; --restart begins anew")
    with at_work(lambda: _going_on(unfinished)) as report:
        data = load(dataset)
        directory, results = carry_out(plan, data, report)
    learned.draw(directory, f"{results[0].run.model} on {results[0].dataset}")
    return directory, results, data.test


def _run_group(plan: Plan, names: Sequence[str], as_json: bool) -> None:
    """Run a plan on datasets in turn, each in a folder of its own, and show the mean over them; go on after errors."""
    if plan.start is not None:
        raise UsageError("--from is for one dataset: give --dataset, not --group")
    runs: dict[str, list[Result]] = {}
    errors: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        own = replace(plan, out=plan.out / groups.folder_of(name))
        try:
            runs[name] = finished(own, catalog.find(name))
            if not runs[name]:
                note(f"{number} of {len(names)}: {name}")
                costs.fresh()
                runs[name] = _carried_out(own, name)[1]
        except RunInterrupted:
            raise
        except MtbenchError as error:
            errors[name] = str(error)
        else:
            if failed := [result.warnings[0] for result in runs[name] if result.run.status != "ok"]:
                errors[name] = failed[0]
    scored = {name: results for name, results in runs.items() if name not in errors}
    groups.show(scored, errors, plan.tasks, plan.out, as_json=as_json)


def _show(directory: Path, results: Sequence[Result], test: Split, *, paper: bool) -> None:
    say(f"{told_of(results, test)}\n")
    if any(result.run.status != "ok" for result in results):
        return
    for line in learned.summarise(directory):
        say(line)
    if (directory / HISTORY_FILE).exists() and not pictures.available():
        say('no pictures of the training: python -m pip install "mtbench-kg[plots]" draws them')
    if paper:
        say(f"{directory / CONVENTIONS_FILE} holds the model in the evaluation settings of the paper's tables")
    say(f"{directory} holds the result; {typed('verify', directory)} recomputes it")


def _going_on(unfinished: RunDirectory) -> str:
    if unfinished.has_checkpoints:
        return f"the same command goes on from what {unfinished.checkpoints} holds"
    return "there was no checkpoint yet: the same command begins anew"


@contextmanager
def at_work(then: Callable[[], str]) -> Iterator[Callable[[Progress], None]]:
    """Show progress, and warnings but those that results hold, in a line each.

    An interruption is a `RunInterrupted` that says what then.
    """
    with warnings.catch_warnings(), progress_bars() as report:
        warnings.simplefilter("ignore", MtbenchWarning)
        try:
            yield report
        except KeyboardInterrupt:
            raise RunInterrupted(f"interrupted; {then()}") from None


@contextmanager
def progress_bars() -> Iterator[Callable[[Progress], None]]:
    """Show one bar per stage and how far it has got on stderr; nothing where it is no terminal."""
    if not sys.stderr.isatty():
        yield silent
        return

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Bars(*columns, console=console) as bars:
        shown: dict[str, TaskID] = {}

        def report(progress: Progress) -> None:
            if progress.stage not in shown:
                shown[progress.stage] = bars.add_task(progress.stage, total=progress.epochs, state="")
            completed = progress.epoch - 1 + progress.share
            bars.update(shown[progress.stage], completed=completed, state=progress.told)

        yield report


def score_with(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            autocompletion=options.models,
            help="tally, another model that brings weights, or that of --run.",
        ),
    ],
    graph: Annotated[
        str,
        typer.Argument(
            metavar="GRAPH",
            autocompletion=options.datasets,
            help="A file of triples by name (text with tabs, .csv, .gz, .parquet), or a dataset by name or directory.",
        ),
    ],
    head: Annotated[str | None, typer.Option(metavar="NAME", help="The head.")] = None,
    relation: Annotated[str | None, typer.Option(metavar="NAME", help="The relation.")] = None,
    tail: Annotated[str | None, typer.Option(metavar="NAME", help="The tail.")] = None,
    top: Annotated[int, typer.Option(help="How many to show.")] = 10,
    known: Annotated[bool, typer.Option("--known", help="Show triples of the graph, too, marked as known.")] = False,
    of: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="Take the model of this run directory instead of weights that ship."),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="DIR", help="The dataset of --run, if that is not released.")
    ] = None,
    format: options.TableFormat = "text",  # noqa: A002
    as_json: AsJson = False,
) -> None:
    """Predict what is missing in a graph.

    Give two of --head, --relation and --tail: the third is asked for and shown best first. Nothing is trained, unless
    --run names a model that adapts to the graph. A score says only which of two rows of a table is more plausible.

    Example: mtbench score-with tally graph.tsv --head Paris --relation capitalOf

    Example: mtbench score-with tally metafam --head alina1317 --tail julian1316
    """
    options.check_output(format, alone=as_json)
    options.look_here_for_modules()
    if dataset is not None and of is None:
        raise UsageError("--dataset names the dataset of a run: give --run RUN, too")
    question = Question(head, relation, tail)
    observable = graph_of(graph)
    with at_work(lambda: "nothing is kept"):
        name, found = answers(model, observable, question, run=of, dataset=dataset, top=top, known=known)
    if as_json:
        say_json({"model": name, "graph": graph, "question": question.names, "predictions": list(map(asdict, found))})
        return
    headings = ["head", "relation", "tail", "score", "known"]
    if format == "csv":
        say(tables.lay_out(headings, [list(asdict(row).values()) for row in found], format))
        return
    rows = [[row.head, row.relation, row.tail, f"{row.score:.3f}", "yes" if row.known else "no"] for row in found]
    size = f"{len(observable.graph):,} triples, {observable.num_entities:,} entities"
    say(f"{question} in {observable.dataset}, by {name}: {size}\n")
    kept = None if known else -1
    shown = tables.lay_out(
        [name.capitalize() for name in headings[:kept]], [row[:kept] for row in rows], format, left=3
    )
    say(shown if rows else "nothing is left: all of them are in the graph already; --known shows them")
