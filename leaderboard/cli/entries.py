"""``mtbench submit`` and ``mtbench leaderboard``: from finished runs to entries that are checked and shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import track

from leaderboard.board import deviations, tables
from leaderboard.board.board import Board
from leaderboard.board.groups import QUESTIONS, group_board
from leaderboard.board.ranking import rank, rescore
from leaderboard.entries import cards, checks, entries, submission
from leaderboard.entries.cards import Problem
from leaderboard.entries.checks import gather
from leaderboard.entries.entries import holds_entries, named, siblings
from leaderboard.site import render as site
from mtbench.cli import app, options
from mtbench.cli.output import AsJson, fail, say, say_json, say_table
from mtbench.data import catalog
from mtbench.errors import UnknownNameError, UsageError, typed
from mtbench.files import atomic
from mtbench.runs.files import naming

ENTRIES = Path("leaderboard") / "results"
DEVIATIONS = "deviations"
Item = TypeVar("Item")


def submit(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run directories of one model, or folders with runs below them."),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the leaderboard, as leaderboard/results.")],
    name: Annotated[
        str | None, typer.Option(metavar="SLUG", help="The entry's folder in DIR.  [default: from the model]")
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A card.toml, whole or in part, with parameters, summary and citation; the options come first.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The model's name as shown.  [default: that of the runs]")] = None,
    authors: Annotated[list[str] | None, typer.Option(help="Names with commas between them; may be repeated.")] = None,
    url: Annotated[
        str | None, typer.Option(help='Where the model is described; "" if nowhere.  [default: that of the runs]')
    ] = None,
    licence: Annotated[str | None, typer.Option("--licence", "--license", help="Of the model's code.")] = None,
    hardware: Annotated[str | None, typer.Option(help="What it ran on.  [default: as the runs say]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the entry of that name, its runs too.")] = False,
) -> None:
    """Make an entry of runs, checked and with a card.

    Regime and pre-training graphs are what the runs say. Names of triples are published for metafam alone: other data
    may not be passed on.

    Example: mtbench submit runs/mine-* --to leaderboard/results --authors "A. Author" --licence MIT --url https://...
    """
    options = {
        "name": title,
        "hardware": hardware,
        "authors": [author.strip() for names in authors for author in names.split(",") if author.strip()]
        if authors
        else None,
        "url": url,
        "licence": licence,
    }
    table = {}
    if card is not None:
        with naming(card):
            table = cards.read_table(card)
    table |= {key: value for key, value in options.items() if value is not None}
    made = submission.submit(runs, to, slug=name, card=table, force=force)
    for dataset, seeds in made.seeds.items():
        say(f"{dataset}: seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))} of {made.card.model}")
    if made.unnamed:
        say(f"written without names, because the data may not be passed on: {', '.join(made.unnamed)}")
    for remark in made.remarks:
        say(f"remark: {remark}")
    if made.lacking:
        say("shown, but not ranked: runs lack standard tasks, which these commands score")
        for command in made.lacking:
            say(command)
        say("then type this command again with --force")
    say(f"{made.directory} holds the entry; read {made.directory / cards.CARD_FILE}, then type")
    say(typed("leaderboard", "check", made.directory))


SHOWN = 20
"""The most problems of an entry that are printed."""

HEADINGS = ("Entry", "Problems", "Remarks")


def check(
    entry: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENTRY...]",
            help="Entries, by name or folder, or a folder of entries.  [default: all]",
            show_default=False,
        ),
    ] = None,
    entries: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of the leaderboard.  [default: leaderboard/results]")
    ] = None,
    from_weights: Annotated[
        bool, typer.Option("--from-weights", help="Score the runs that ship checkpoints again, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check entries: files, figures, hashes and claims.

    Nothing is downloaded, but a dataset for --from-weights, which prints what `leaderboard/entries/rescored.toml` is to
    hold. A problem ends with exit code 1; a remark says what is worth knowing, or why an entry is
    shown and not ranked.

    Example: mtbench leaderboard check

    Example: mtbench leaderboard check leaderboard/results/mine
    """
    if from_weights and (as_json or not entry):
        raise UsageError("--from-weights takes entries by name and prints text: mtbench leaderboard check ENTRY ...")
    by_entry: dict[str, Sequence[Problem]] = {}
    if not entry:
        by_entry |= checks.check_all(entries or ENTRIES)
    for name in entry or ():
        if holds_entries(folder := Path(name)):
            by_entry |= {str(folder / slug): problems for slug, problems in checks.check_all(folder).items()}
            continue
        directory = named(entries or ENTRIES, name)
        beside = entries or directory.absolute().parent
        by_entry[str(directory)] = checks.check(directory, siblings(directory, beside))
    wrong = {name: _part(problems, remark=False) for name, problems in by_entry.items()}
    if as_json:
        say_json([_record(name, problems) for name, problems in by_entry.items()])
    else:
        remarks = {name: _part(problems, remark=True) for name, problems in by_entry.items()}
        say_table(HEADINGS, [(name, len(wrong[name]), len(remarks[name])) for name in by_entry])
        for remark in chain(*remarks.values()):
            say(f"remark: {remark}")
    for name, problems in wrong.items():
        for problem in problems[:SHOWN]:
            fail(str(problem))
        if len(problems) > SHOWN:
            fail(f"{name}: and {len(problems) - SHOWN} more, which --json lists")
    if any(wrong.values()):
        raise typer.Exit(1)
    if not as_json:
        say("\nevery file, figure, hash and claim holds")
    if from_weights:
        right = [_scored_again(named(entries or ENTRIES, name)) for name in by_entry]
        if not all(right):
            raise typer.Exit(1)


def _scored_again(directory: Path) -> bool:
    """Print the lines of an entry for ``rescored.toml``, and tell whether all its weights give the ranks it claims."""
    say(f"\n[{directory.resolve().name}]")
    right = True
    for run, ranks, wrong in rescore(entries.load(directory)):
        if not wrong:
            say(f'"{run}" = "{ranks}"')
        for message in wrong:
            fail(message)
        right = right and not wrong
    return right


def _part(problems: Sequence[Problem], *, remark: bool) -> list[Problem]:
    return [problem for problem in problems if problem.remark is remark]


def _record(name: str, problems: Sequence[Problem]) -> dict[str, object]:
    def listed(remark: bool) -> list[dict[str, str]]:
        return [
            {"name": problem.name, "where": problem.where, "message": problem.message}
            for problem in _part(problems, remark=remark)
        ]

    return {"entry": name, "valid": not listed(False), "problems": listed(False), "remarks": listed(True)}


def render(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The folder of entries.  [default: leaderboard/results]"),
    ] = None,
    entries: Annotated[Path | None, typer.Option(metavar="DIR", help="The same, as check has it.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of the pages, or the file of the tables.  [default: site, or print the tables]",
            show_default=False,
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="html, markdown, latex, or deviations.")] = "html",  # noqa: A002
    cite: Annotated[
        str | None,
        typer.Option(
            metavar="ENTRY", help="Print instead what a paper needs of an entry: its BibTeX, and its row of the table."
        ),
    ] = None,
    group: options.Group = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a site, or a file of tables, that is there already.")
    ] = False,
) -> None:
    """Render the leaderboard.

    Example: mtbench leaderboard render --out site

    Example: mtbench leaderboard render --format latex

    Example: mtbench leaderboard render --format markdown --group entities+relations

    Example: mtbench leaderboard render --cite tally
    """
    if folder is not None and entries is not None:
        raise UsageError(f"give the folder of entries once: {folder}, or --entries {entries}")
    entries = folder or entries or ENTRIES
    if cite is not None:
        if out is not None or format != "html":
            raise UsageError("--cite prints: leave out --out and --format")
        board = _board(entries)
        known = {entry.slug: entry for entry in board.entries}
        if cite not in known:
            raise UnknownNameError("entry", cite, known)
        say(tables.snippet(board, known[cite]))
        return
    formats = ("html", *tables.FORMATS, DEVIATIONS)
    if format not in formats:
        raise UnknownNameError("format", format, formats)
    if group is not None and format not in tables.FORMATS:
        raise UsageError(f"--group is of tables: add --format {' or '.join(tables.FORMATS)}; a site has all groups")
    if format == "html":
        place = out or Path("site")
        site.expect_free(place, force=force)  # before the board is computed, which takes a while
        board = _board(entries)
        written, absent = site.render(board, entries, place, force=force, watch=watching)
        if absent:
            names = " ".join(absent)
            say(
                f"left out, because these datasets are not here: intervals, strata and audits of {names}. With a "
                f"network, type mtbench fetch {names}; then render again with --force"
            )
        say(f"{len(written)} files; open {place / 'index.html'}")
        return
    if out is not None and out.is_dir():
        raise UsageError(f"{out} is a folder: --format {format} writes one file")
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} exists: add --force to replace it")
    if format == DEVIATIONS:
        read, problems = gather(entries, watching)
        held = [entry for entry in read if entry.slug not in problems]
        text = deviations.markdown(held, deviations.replication(entries))
    else:
        board = _board(entries, catalog.names(group) if group else ())
        text = _of_group(board, group, format) if group else tables.FORMATS[format](board)
        for name, wrong in board.unread.items():
            fail(f"left out: {name}: {wrong}")
    if out is None:
        say(text)
        return
    atomic.replace_file(out, f"{text}\n".encode())
    say(f"{out} written")


def _of_group(board: Board, group: str, format: str) -> str:  # noqa: A002
    """Return the table of each question that an entry was asked on a graph of a group."""
    of_groups = [group_board(board, question, group) for question in QUESTIONS]
    asked = [of_group for of_group in of_groups if of_group.members]
    if not asked:
        command = typed("run", "MODULE:MODEL", "--group", group, "--protocol", QUESTIONS[0].setting.protocol)
        raise UsageError(f"no entry was run on a graph of {group} yet: {command}")
    return "\n\n".join(tables.group_table(of_group, format) for of_group in asked)


def _board(entries: Path, datasets: Iterable[str] = ()) -> Board:
    return rank(*gather(entries, watching), datasets=datasets, watch=watching)


def watching(items: Sequence[Item], doing: str) -> Iterable[Item]:
    """Give the items in turn, with a bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        return items
    return track(items, doing, console=Console(stderr=True), transient=True)


class Words(app.Words):
    """The verbs of the leaderboard, and what to type instead of former ones."""

    meant: Mapping[str, str] = {
        "cite": "leaderboard render --cite ENTRY",
        "serve": "leaderboard render --out site, then python -m http.server --directory site",
    }


leaderboard = typer.Typer(
    cls=Words,
    help="Check entries, and show them as pages or tables.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
)
for verb in (check, render):
    leaderboard.command(verb.__name__)(verb)
