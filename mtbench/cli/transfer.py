"""``mtbench transfer``: what a model trained on one topic reaches on every other, and the scenarios that suggests."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, say, say_json
from mtbench.cli.run import progress_bars
from mtbench.errors import RunInterrupted, UnknownNameError, UsageError
from mtbench.experiments.settings import parse


def command(
    source: Annotated[str, typer.Argument(metavar="v1|v2", help="The published topics, or a directory of datasets.")],
    topics: Annotated[str | None, typer.Option(metavar="A,B,...", help="Some of the topics.  [default: all]")] = None,
    model: Annotated[
        str, typer.Option(autocompletion=completion.models, help="An installed model, or package.module:factory.")
    ] = "isdea",
    protocol: Annotated[
        str, typer.Option(autocompletion=completion.protocols, help="How to score: any of those of run.")
    ] = "dual",
    vocabulary: Annotated[
        str, typer.Option(autocompletion=completion.vocabularies, help="present, or slots as in the paper.")
    ] = "present",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the model's own randomness.")] = 0,
    candidate_seed: Annotated[int, typer.Option(min=0, help="Which frozen candidates to rank against.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the cells are kept.  [default: below transfer/]")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw it: FILE.png or FILE.svg.")] = None,
    format: Annotated[str, typer.Option(help="text, markdown, latex or csv.")] = "text",  # noqa: A002
    as_json: AsJson = False,
) -> None:
    """Train on each topic, score on all others.

    Finished cells are kept: the same command goes on where it was stopped.

    Example: mtbench transfer v1

    Example: mtbench transfer v1 --topics art,people,health,taxonomy --vocabulary slots --set epochs=1
    """
    from mtbench.experiments.matrix import scenario_table
    from mtbench.experiments.matrix_plot import draw
    from mtbench.experiments.transfer import PICTURE_FILE, Plan, topics_of, transfer
    from mtbench.files import pictures, tables
    from mtbench.results.result import MtbenchWarning

    if format not in tables.FORMATS:
        raise UnknownNameError("table format", format, tables.FORMATS)
    if as_json and format != "text":
        raise UsageError("give either --format or --json")
    if plot is not None:
        pictures.check(plot)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as "python -m mtbench" does, so that a model beside us can be named
    chosen = [name.strip() for name in (topics or "").split(",") if name.strip()]
    name, version, datasets = topics_of(source, chosen)
    plan = Plan(
        name=name,
        datasets=datasets,
        version=version,
        model=model,
        protocol=protocol,
        vocabulary=vocabulary,
        seed=seed,
        candidate_seed=candidate_seed,
        device=device,
        settings=parse(settings or []),
        out=out,
    )
    with warnings.catch_warnings(), progress_bars() as report:
        warnings.simplefilter("ignore", MtbenchWarning)
        try:
            matrix = transfer(plan, report)
        except KeyboardInterrupt:
            raise RunInterrupted("interrupted; the same command goes on with the cells that are missing") from None
    if plot is not None:
        draw(matrix, plot)
    if as_json:
        say_json({"directory": str(plan.directory()), **matrix.to_dict()})
        return
    say(matrix.table(format))
    if format == "csv":
        return
    if found := matrix.scenarios():
        say(f"\n{scenario_table(found, format)}")
    else:
        say("\nno scenario: it takes two topics, and two others on which now one and now the other is better")
    say(f"\n{plan.directory()} holds every cell as a run, and the matrix as CSV, Markdown and JSON")
    if (plan.directory() / PICTURE_FILE).exists():
        say(f"{plan.directory() / PICTURE_FILE} shows it")
    else:
        say('no picture: python -m pip install "mtbench-kg[plots]" draws it')
