"""``mtbench leaderboard render``: the entries as static pages, or as tables for a document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtbench.cli.output import say

RESULTS = Path("leaderboard/results")


def command(
    entries: Annotated[Path, typer.Option(metavar="DIR", help="The folder of entries.")] = RESULTS,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of the pages, or the file of the tables.  [default: site, or print the tables]",
            show_default=False,
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="html, markdown, latex, or summary.")] = "html",  # noqa: A002
    force: Annotated[
        bool, typer.Option("--force", help="Replace a site, or a file of tables, that is there already.")
    ] = False,
) -> None:
    """Render the leaderboard.

    Example: mtbench leaderboard render --out site

    Example: mtbench leaderboard render --format markdown
    """
    from leaderboard.board import tables
    from leaderboard.board.ranking import rank
    from leaderboard.entries.checks import gather
    from leaderboard.site import render
    from mtbench.errors import UnknownNameError, UsageError
    from mtbench.files import atomic

    formats = ("html", *tables.FORMATS)
    if format not in formats:
        raise UnknownNameError("format", format, formats)
    if format == "html":
        place = out or Path("site")
        render.expect_free(place, force=force)
        found, problems = gather(entries)
        written = render.render(rank(found, problems), entries, place, force=force)
        say(f"{len(written)} files; open {place / 'index.html'}")
        return
    if out is not None and out.is_dir():
        raise UsageError(f"{out} is a folder: --format {format} writes one file")
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists: add --force to replace it")
    found, problems = gather(entries)
    text = tables.FORMATS[format](rank(found, problems))
    if out is None:
        say(text)
        return
    atomic.replace_file(out, f"{text}\n".encode())
    say(f"{out} written")
