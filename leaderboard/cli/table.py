"""``mtbench table``: finished runs beside published models and baselines, as the table of a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leaderboard.board.paper_table import paper_table
from leaderboard.cli.entries import ENTRIES
from mtbench.cli import options
from mtbench.cli.output import say
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import atomic
from mtbench.names import METRICS

FORMATS = ("text", "markdown", "latex", "csv")
BESIDE = Path(__file__).resolve().parents[1] / "results"
"""The published entries in a copy of the repository; an installed package does not bring them."""


def command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Run directories, or folders with runs below them, such as a grid's."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Published entries (tally, trix), heuristic baselines (half-link), printed figures (paper:isdea, "
            "elsewhere:ultra-3g); with commas between them, or repeated.",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            autocompletion=options.datasets,
            help="The columns, with commas between them, or repeated.  [default: those of the runs]",
        ),
    ] = None,
    group: options.Group = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=options.protocols,
            help="dual, entity, relation, full ...; with commas between them.  [default: those of the runs]",
        ),
    ] = None,
    metric: Annotated[str, typer.Option(help="mr, mrr, hits@1, hits@3, hits@5 or hits@10.")] = "mrr",
    format: Annotated[str, typer.Option(help="text, markdown, latex or csv.")] = "text",  # noqa: A002
    entries: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of published entries.  [default: leaderboard/results]"),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table to a file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace that file.")] = False,
) -> None:
    """Print runs beside published models as the table of a paper.

    Rows are models, with means and deviations over seeds, below the best heuristic baseline; columns are datasets, or
    the mean over a group, in each protocol. A letter marks where a model differs from one it is compared with.

    Example: mtbench table runs/grid --against tally,half-link

    Example: mtbench table runs/grid --against trix --group entities+relations --protocol full --format latex
    """
    if format not in FORMATS:
        raise UnknownNameError("table format", format, FORMATS)
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    if group and dataset:
        raise UsageError("give either --dataset or --group")
    if not (runs or against):
        raise UsageError("name finished runs, or published models: mtbench table runs/grid --against tally")
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists: add --force to replace it")
    made = paper_table(
        runs or [],
        options.separated(against),
        published=entries or next((folder for folder in (ENTRIES, BESIDE) if folder.is_dir()), None),
        datasets=options.separated(dataset),
        group=group or "",
        protocols=options.separated(protocol),
        metric=metric,
    )
    text = made.text(format)
    if out is None:
        say(text)
        return
    atomic.replace_file(out, f"{text}\n".encode())
    say(f"{out} written")
    for line in made.commands if format == "csv" else ():
        say(f"what lacks is made by: {line}")
