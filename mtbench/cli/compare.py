"""``mtbench compare``: which of several models is better, and what the targets can tell at all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtbench.cli import completion
from mtbench.cli.output import AsJson, say, say_json
from mtbench.errors import UnknownNameError, UsageError


def command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, several seeds of a model too.")
    ],
    metric: Annotated[str, typer.Option(help="mr, mrr, hits@1, hits@3, hits@5 or hits@10.")] = "mrr",
    level: Annotated[float, typer.Option(help="Of the intervals; differences are tested at 1 less this.")] = 0.95,
    cluster: Annotated[
        str | None,
        typer.Option(help="Draw targets by pair, component or none.  [default: as declared for the dataset]"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completion.datasets,
            help="The dataset or directory whose graph gives the components.",
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of the bootstrap.")] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    format: Annotated[str, typer.Option(help="text, markdown, latex, or csv of the models.")] = "text",  # noqa: A002
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the intervals: FILE.png or FILE.svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs of one task: which differences are real.

    Example: mtbench compare runs/*

    Example: mtbench compare runs/isdea-* runs/mtdea-* --metric hits@10 --plot intervals.png
    """
    from mtbench.comparison import findings as show
    from mtbench.comparison import plot as picture
    from mtbench.comparison.compare import compare
    from mtbench.files import pictures

    if format not in show.FORMATS:
        raise UnknownNameError("table format", format, show.FORMATS)
    if as_json and format != "text":
        raise UsageError("give either --format or --json")
    if plot is not None:
        pictures.check(plot)
    split = None
    if data is not None:
        from mtbench.data.load import load
        from mtbench.results import result as results

        split = load(data).split(results.load(runs[0]).split)
    found = compare(runs, metric, draws=draws, seed=seed, level=level, cluster=cluster, split=split)
    if plot is not None:
        picture.draw(found, plot)
    if as_json:
        say_json(found.to_dict())
        return
    if format == "text":
        say(str(found))
    else:
        say(found.table(format))
        # A reader of CSV expects one table.
        if found.pairs and format != "csv":
            say(f"\n{found.pair_table(format)}")
    if plot is not None and format != "csv":
        say(f"\n{plot} shows the intervals")
