"""The command line: verbs in a few modules, each importing what it needs only when it runs."""

from __future__ import annotations

import importlib
import io
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from mtbench.cli import output
from mtbench.errors import MtbenchError
from mtbench.version import __version__

SETTINGS = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "GOMP_SPINCOUNT": "1000",
}
"""Keep glibc from returning the pages of large temporaries to the system and faulting them in again.

Training on a CPU allocates and frees tensors of tens of megabytes at every step; with these settings
the same computation, bit for bit, takes about half the time or less. The last has threads that wait for each other
sleep instead of spin: nothing changes on a quiet machine, and on a busy one training was three times as fast or more.
"""


def restart_with_settings() -> None:
    """Start this very command again with `SETTINGS` in its environment, where they matter and are missing.

    Does nothing outside glibc, and leaves settings alone that somebody chose.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in SETTINGS):
        return
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **SETTINGS})


VERBS: Mapping[str, str] = {
    "list": "mtbench.cli.datasets:list_datasets",
    "info": "mtbench.cli.datasets:info",
    "cite": "mtbench.cli.datasets:cite",
    "fetch": "mtbench.cli.datasets:fetch",
    "urls": "mtbench.cli.datasets:urls",
    "build": "mtbench.cli.building:build",
    "import": "mtbench.cli.building:import_files",
    "audit": "mtbench.cli.audits:audit",
    "baselines": "mtbench.cli.scoring:baselines",
    "contamination": "mtbench.cli.audits:contamination",
    "settings": "mtbench.cli.scoring:settings",
    "export": "mtbench.cli.datasets:export",
    "check": "mtbench.cli.scoring:check",
    "run": "mtbench.cli.running:run",
    "transfer": "mtbench.cli.running:transfer",
    "score": "mtbench.cli.scoring:score",
    "score-with": "mtbench.cli.running:score_with",
    "show": "mtbench.cli.results:show",
    "compare": "mtbench.cli.results:compare",
    "verify": "mtbench.cli.results:verify",
}
"""The verbs, each with the function that it calls."""

SECTIONS: Mapping[str, Sequence[str]] = {
    "Data": ("list", "info", "cite", "fetch", "urls", "build", "import", "audit", "contamination", "export"),
    "Evaluate": ("baselines", "settings", "check", "score", "show", "compare", "verify"),
    "Train": ("run", "transfer", "score-with", "grid"),
    "Leaderboard": ("submit", "leaderboard"),
}
"""What the verbs are for, as the help shows them; one that is in none comes last."""

MEANT: Mapping[str, str] = {
    "datasets": "list",
    "download": "fetch",
    "evaluate": "score",
    "eval": "score",
    "load": "fetch",
    "predict": "score-with",
    "rank": "score",
    "train": "run",
}
"""Other words for a verb that people try first, none spelled like it."""

VERBS_GROUP = "mtbench.verbs"
"""The entry points of verbs that other packages bring, as the leaderboard of this one does: functions, or apps."""

INTERRUPTED = 130


class Verbs(TyperGroup):
    """The verbs, in the sections of the help."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0] if args else ""
        if word in MEANT and self.get_command(ctx, word) is None:
            ctx.fail(f"No such command {word!r}. Did you mean {MEANT[word]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        verbs = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        width = formatter.width - 6 - max(map(len, verbs))
        known = {name for section in SECTIONS.values() for name in section}
        for title, names in {**SECTIONS, "Other": [name for name in verbs if name not in known]}.items():
            rows = [(name, verb.get_short_help_str(width)) for name in names if (verb := verbs.get(name)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


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
    """Return the application: the verbs of the core, then those of entry points, in the order of their names."""
    app = typer.Typer(
        cls=Verbs,
        add_completion=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(options)
    for verb, place in VERBS.items():
        module, _, function = place.partition(":")
        app.command(verb)(getattr(importlib.import_module(module), function))
    for found in sorted(entry_points(group=VERBS_GROUP)):
        try:
            command = found.load()
        except ImportError as error:  # a verb that is broken must not take the others with it
            output.fail(f"{found.value} gives no verb {found.name!r}: {error}")
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=found.name)
        else:
            app.command(found.name)(command)
    return app


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 all well, 1 a check failed or an error, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # A name the terminal cannot show must not end the program.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if arguments is None and sys.argv[1:2] in (["run"], ["transfer"], ["grid"]):
        restart_with_settings()
    try:
        typer.main.get_command(make_app()).main(arguments, prog_name="mtbench")
    except MtbenchError as error:
        output.fail(str(error))
        sys.exit(error.exit_code)
    except PermissionError as error:
        output.fail(f"{error.filename} may not be read or written: {error.strerror}")
        sys.exit(MtbenchError.exit_code)
    except KeyboardInterrupt:
        output.fail("interrupted")
        sys.exit(INTERRUPTED)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:
            output.fail("interrupted")
        raise
    sys.exit(0)
