"""The command line: one small module per verb, each importing what it needs only when it runs."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

from mtbench.cli import allocator, output
from mtbench.errors import MtbenchError
from mtbench.version import __version__

VERBS: Mapping[str, str] = {
    "list": "mtbench.cli.list",
    "info": "mtbench.cli.info",
    "cite": "mtbench.cli.cite",
    "fetch": "mtbench.cli.fetch",
    "urls": "mtbench.cli.urls",
    "build": "mtbench.cli.build",
    "audit": "mtbench.cli.audit",
    "floors": "mtbench.cli.floors",
    "contamination": "mtbench.cli.contamination",
    "conventions": "mtbench.cli.conventions",
    "export": "mtbench.cli.export",
    "check": "mtbench.cli.check",
    "run": "mtbench.cli.run",
    "transfer": "mtbench.cli.transfer",
    "score": "mtbench.cli.score",
    "show": "mtbench.cli.show",
    "compare": "mtbench.cli.compare",
    "verify": "mtbench.cli.verify",
    "grid": "leaderboard.cli.grid",
    "submit": "leaderboard.cli.submit",
    "leaderboard": "leaderboard.cli.leaderboard",
}
"""The verbs in the order of the help, each with its module, whose ``command`` it is: a function or an app."""

INTERRUPTED = 130


def _print_version(asked: bool) -> None:
    if asked:
        output.say(f"mtbench {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Datasets and evaluation for link prediction with new relation types and new nodes.

    Example: mtbench build metafam --check
    """


def make_app() -> typer.Typer:
    """Return the application with every verb whose module is there."""
    app = typer.Typer(
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(options)
    for verb, module in VERBS.items():
        if _is_there(module):
            command = importlib.import_module(module).command
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=verb)
            else:
                app.command(verb)(command)
    return app


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package it is in
        return False


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 all well, 1 a check failed or an error, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # A name the terminal cannot show must not end the program.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if arguments is None and sys.argv[1:2] in (["run"], ["transfer"], ["grid"]):
        allocator.restart_with_settings()
    try:
        typer.main.get_command(make_app()).main(arguments, prog_name="mtbench")
    except MtbenchError as error:
        output.fail(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        output.fail("interrupted")
        sys.exit(INTERRUPTED)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            output.fail("interrupted")
        raise
    sys.exit(0)
