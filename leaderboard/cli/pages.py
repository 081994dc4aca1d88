"""``mtbench leaderboard render``, ``serve`` and ``cite``: entries as pages, as tables, and in a paper."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from mtbench.cli.output import fail, say

if TYPE_CHECKING:
    from leaderboard.board.board import Board

Some = TypeVar("Some")
ENTRIES = Path("leaderboard") / "results"
DEVIATIONS = "deviations"

Folder = Annotated[Path, typer.Option("--entries", metavar="DIR", help="The folder of entries.")]


def render(
    entries: Folder = ENTRIES,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of the pages, or the file of the tables.  [default: site, or print the tables]",
            show_default=False,
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="html, markdown, latex, summary, or deviations.")] = "html",  # noqa: A002
    force: Annotated[
        bool, typer.Option("--force", help="Replace a site, or a file of tables, that is there already.")
    ] = False,
) -> None:
    """Render the leaderboard.

    Example: mtbench leaderboard render --out site

    Example: mtbench leaderboard render --format latex

    Example: mtbench leaderboard render --format deviations
    """
    from leaderboard.board import deviations, tables
    from leaderboard.entries.checks import gather
    from leaderboard.site import render
    from leaderboard.site.cells import dataset_page
    from leaderboard.site.strata import ABSENT
    from mtbench.errors import UnknownNameError, UsageError
    from mtbench.files import atomic

    formats = ("html", *tables.FORMATS, DEVIATIONS)
    if format not in formats:
        raise UnknownNameError("format", format, formats)
    if format == "html":
        place = out or Path("site")
        render.expect_free(place, force=force)
        board = _board(entries)
        written = render.render(board, entries, place, force=force, watch=watching)
        pages = {part.name: place / dataset_page(part.name) for part in board.datasets}
        if absent := " ".join(name for name, page in pages.items() if ABSENT in page.read_text(encoding="utf-8")):
            say(
                f"left out, because these datasets are not here: intervals, strata and audits of {absent}. With a "
                f"network, type mtbench fetch {absent}; then render again with --force"
            )
        say(f"{len(written)} files; open {place / 'index.html'}")
        return
    if out is not None and out.is_dir():
        raise UsageError(f"{out} is a folder: --format {format} writes one file")
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists: add --force to replace it")
    if format == DEVIATIONS:
        text = deviations.markdown(gather(entries, watching)[0])
    else:
        board = _board(entries)
        text = tables.FORMATS[format](board)
        for name, wrong in board.unread.items():
            fail(f"left out: {name}: {wrong}")
    if out is None:
        say(text)
        return
    atomic.replace_file(out, f"{text}\n".encode())
    say(f"{out} written")


def serve(
    entries: Folder = ENTRIES,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the address; 0 is any that is free.")] = 0,
) -> None:
    """Show the leaderboard's pages on this machine until Ctrl-C, and keep nothing.

    Example: mtbench leaderboard serve
    """
    from leaderboard.site import render
    from mtbench.errors import UsageError

    with tempfile.TemporaryDirectory(prefix="mtbench-") as temporary:
        site = Path(temporary) / "site"
        render.expect_free(site)
        render.render(_board(entries), entries, site, watch=watching)
        try:
            server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Silent, directory=str(site)))
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}): choose another, or leave it out"
            ) from error
        with server:
            say(f"http://127.0.0.1:{server.server_port}/ shows the leaderboard; Ctrl-C stops it")
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                say("stopped")


class _Silent(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of each."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def cite(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="An entry, by its name.", show_default=False)],
    entries: Folder = ENTRIES,
) -> None:
    """Print what a paper needs of an entry: its BibTeX, and its row of the LaTeX table.

    Example: mtbench leaderboard cite tally
    """
    from leaderboard.board import citing
    from mtbench.errors import UnknownNameError

    board = _board(entries)
    known = {one.slug: one for one in board.entries}
    if entry not in known:
        raise UnknownNameError("entry", entry, known)
    say(citing.snippet(board, known[entry]))


def _board(entries: Path) -> Board:
    from leaderboard.board.ranking import rank
    from leaderboard.entries.checks import gather

    return rank(*gather(entries, watching), watch=watching)


def watching(some: Sequence[Some], doing: str) -> Iterable[Some]:
    """Give what is given, with a bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        return some
    from rich.console import Console
    from rich.progress import track

    return track(some, doing, console=Console(stderr=True), transient=True)
