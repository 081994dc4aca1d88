"""The command line: a table of verbs, each imported only when it runs or explains itself."""

from __future__ import annotations

import io
import os
import platform
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import SimpleNamespace
from typing import Annotated, Any, NoReturn, cast

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
the same computation, bit for bit, takes about half the time or less. With the last one, threads that wait for each
other sleep instead of spin: nothing changes on a quiet machine, and on a busy machine training was at least three times
as fast.
"""


def restart_with_settings() -> None:
    """Start this command again with `SETTINGS` in its environment, where they matter and are missing.

    Does nothing outside glibc. A variable that is set already keeps its value, and the rest are set all the same.
    """
    # glibc and OpenMP read their variables once, before Python starts: setting them here would be too late.
    if platform.libc_ver()[0] == "glibc" and not SETTINGS.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**SETTINGS, **os.environ})


@dataclass(frozen=True)
class Verb:
    """A line of the help; ``place`` is MODULE:FUNCTION, empty for a verb that an entry point brings."""

    section: str
    summary: str
    place: str = ""


VERBS: Mapping[str, Verb] = {
    "list": Verb("Data", "List the datasets of the catalogue.", "mtbench.cli.datasets:list_datasets"),
    "info": Verb("Data", "Show what is known about datasets, their defects included.", "mtbench.cli.datasets:info"),
    "fetch": Verb("Data", "Download or build datasets, and check them.", "mtbench.cli.datasets:fetch"),
    "build": Verb(
        "Data", "Build a dataset from its parameters, or from raw files, and store it.", "mtbench.cli.building:build"
    ),
    "import": Verb("Data", "Make a dataset of your own files of triples.", "mtbench.cli.building:import_files"),
    "audit": Verb("Data", "Measure what is wrong with a dataset, and who has seen it.", "mtbench.cli.audits:audit"),
    "export": Verb("Data", "Write a dataset in another file format.", "mtbench.cli.datasets:export"),
    "baselines": Verb(
        "Evaluate", "Show what a model has to beat: scorers that learn nothing.", "mtbench.cli.scoring:baselines"
    ),
    "check": Verb("Evaluate", "Check a scorer before its figures are believed.", "mtbench.cli.scoring:check"),
    "score": Verb("Evaluate", "Rank the scores of a file, written by any language.", "mtbench.cli.scoring:score"),
    "show": Verb("Evaluate", "Print runs, whole or by stratum, and draw them.", "mtbench.cli.results:show"),
    "compare": Verb(
        "Evaluate", "Compare runs, task by task: which differences are real.", "mtbench.cli.results:compare"
    ),
    "verify": Verb("Evaluate", "Check a stored dataset or run, or all datasets.", "mtbench.cli.results:verify"),
    "run": Verb(
        "Train",
        "Train a model and score it on the test graph, or on all of a group.",
        "mtbench.cli.running:run",
    ),
    "score-with": Verb("Train", "Predict what is missing in a graph.", "mtbench.cli.running:score_with"),
    "grid": Verb("Train", "Run models on datasets with several seeds, each run once."),
    "table": Verb("Leaderboard", "Print runs beside published models as the table of a paper."),
    "submit": Verb("Leaderboard", "Make an entry of runs, checked and with a card."),
    "leaderboard": Verb("Leaderboard", "Check entries, and show them as pages or tables."),
}
"""The verbs in the order of the help. A module is imported when its verb runs or prints its help, not before."""

MEANT: Mapping[str, str] = {
    "cite": "info NAME --cite",
    "contamination": "audit NAME --against FILE|DATASET",
    "datasets": "list",
    "download": "fetch NAME",
    "eval": "score FILE --task NAME",
    "evaluate": "score FILE --task NAME",
    "help": "--help",
    "load": "fetch NAME",
    "ls": "list",
    "predict": "score-with tally GRAPH --head NAME --relation NAME",
    "rank": "score FILE --task NAME",
    "settings": "run MODEL --dataset NAME --paper",
    "train": "run MODEL --dataset NAME",
    "transfer": "grid MODEL --train NAME --test NAME",
    "urls": "info NAME --files",
    "version": "--version",
}
"""What to type instead of words that people try first, and of verbs that are gone."""

VERBS_GROUP = "mtbench.verbs"
"""The entry points of verbs that packages bring, as our own leaderboard does: functions, or applications."""

INTERRUPTED = 130


class Words(TyperGroup):
    """A group of commands; words of ``meant`` are no commands, and are answered with what to type instead."""

    meant: Mapping[str, str] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0] if args else ""
        near = [word] if word in self.meant else get_close_matches(word, [*self.commands, *self.meant], 1)
        if word not in self.commands and near and near[0] in self.meant:
            ctx.fail(f"No such command {word!r}: type mtbench {self.meant[near[0]]}")
        return super().resolve_command(ctx, args)


@cache
def places() -> dict[str, EntryPoint]:
    """Return where each verb is: those of the core in the order of the help, then those of other packages by name."""
    brought = {place.name: place for place in sorted(entry_points(group=VERBS_GROUP))}
    # Ours win: no package can put its own function behind a verb of the core.
    own = {name: EntryPoint(name, verb.place, VERBS_GROUP) for name, verb in VERBS.items() if verb.place}
    known = brought | own
    return {name: known[name] for name in dict.fromkeys((*VERBS, *brought)) if name in known}


class Commands(Mapping[str, Any]):
    """The verbs of the core and of entry points by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._places = places()
        self._made: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, name: str) -> Any:
        """Return a command; raises `MtbenchError` if its module cannot be imported."""
        place = self._places[name]
        if name not in self._made:
            try:
                verb = place.load()
            except (ImportError, AttributeError) as error:
                raise MtbenchError(f"{place.value} gives no verb {name!r}: {error}") from error
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.callback()(lambda: None)  # keeps an application of one command from becoming that command
            if isinstance(verb, typer.Typer):
                app.add_typer(verb, name=name)
            else:
                app.command(name)(verb)
            self._made[name] = cast("Any", typer.main.get_command(app)).commands[name]
        return self._made[name]


class Verbs(Words):
    """The verbs, in the sections of the help."""

    meant = MEANT

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("Any", Commands())

    def summaries(self) -> dict[str, str]:
        """Return the first sentence of every verb; only those of other packages are imported for it."""
        return {name: VERBS[name].summary if name in VERBS else self._summary(name) for name in self.commands}

    def _summary(self, name: str) -> str:
        try:
            return str(self.commands[name].get_short_help_str(80))
        except MtbenchError as error:  # a broken verb must not cost the help of all
            return f"({error})"

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, summary in self.summaries().items():
            section = VERBS[name].section if name in VERBS else "Other"
            sections.setdefault(section, []).append((name, summary))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        # Typer's own would import every verb that begins so, for a help text that Bash does not show.
        verbs = [name for name in self.commands if name.startswith(incomplete)]
        proposed = [SimpleNamespace(type="plain", value=name, help=None) for name in verbs]
        return proposed or super(TyperGroup, self).shell_complete(ctx, incomplete)


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
    return app


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 all well, 1 a check failed or an error, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # A name the terminal cannot show must not end the program.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Only verbs that train: starting Python again costs a tenth of a second, which every other verb would feel.
    if arguments is None and sys.argv[1:2] in (["run"], ["grid"]):
        restart_with_settings()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: output.note(f"warning: {message}")
            typer.main.get_command(make_app()).main(arguments, prog_name="mtbench")
    except MtbenchError as error:
        output.fail(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None:  # no place that somebody named, but an error of ours
            raise
        output.fail(f"{error.filename} may not be read or written: {error.strerror}")
        sys.exit(MtbenchError.exit_code)
    except KeyboardInterrupt:
        output.fail("interrupted")
        sys.exit(INTERRUPTED)
    except SystemExit as stop:
        # Typer turns Ctrl-C into this exit, and says nothing.
        if stop.code == INTERRUPTED:
            output.fail("interrupted")
        raise
    sys.exit(0)
