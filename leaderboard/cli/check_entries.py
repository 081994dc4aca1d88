"""``mtbench leaderboard check``: is every entry what it says it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtbench.cli.output import AsJson, fail, say, say_json, say_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leaderboard.entries.problems import Problem

ENTRIES = Path("leaderboard") / "results"
SHOWN = 20
"""Problems of an entry that are printed; with so many, something else is wrong with it."""

HEADINGS = ("Entry", "Problems", "Remarks")


def command(
    entry: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENTRY...]", help="Entries, by name or folder.  [default: all]", show_default=False),
    ] = None,
    entries: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of the leaderboard.  [default: leaderboard/results]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check entries: files, figures, hashes and claims.

    Nothing is downloaded. A problem ends with exit code 1; a remark says what is worth knowing, or why an entry is
    shown and not ranked.

    Example: mtbench leaderboard check

    Example: mtbench leaderboard check leaderboard/results/mine
    """
    from leaderboard.entries import checks

    found: dict[str, Sequence[Problem]] = {}
    if not entry:
        found |= checks.check_all(entries or ENTRIES)
    for name in entry or ():
        directory = checks.named(entries or ENTRIES, name)
        beside = entries or directory.absolute().parent
        found[str(directory)] = checks.check(directory, checks.siblings(directory, beside))
    if as_json:
        say_json([_record(name, some) for name, some in found.items()])
    else:
        say_table(HEADINGS, [(name, *_numbers(some)) for name, some in found.items()])
        for problem in _remarks(found):
            say(f"remark: {problem}")
    broken = {name: wrong for name, some in found.items() if (wrong := [one for one in some if not one.remark])}
    for name, wrong in broken.items():
        for problem in wrong[:SHOWN]:
            fail(str(problem))
        if len(wrong) > SHOWN:
            fail(f"{name}: and {len(wrong) - SHOWN} more, which --json lists")
    if broken:
        raise typer.Exit(1)
    if not as_json:
        say("\nevery file, figure, hash and claim holds")


def _numbers(some: Sequence[Problem]) -> tuple[int, int]:
    remarks = sum(problem.remark for problem in some)
    return len(some) - remarks, remarks


def _remarks(found: dict[str, Sequence[Problem]]) -> list[Problem]:
    return [problem for some in found.values() for problem in some if problem.remark]


def _record(name: str, some: Sequence[Problem]) -> dict[str, object]:
    def told(remark: bool) -> list[dict[str, str]]:
        chosen = [problem for problem in some if problem.remark is remark]
        return [{"name": one.name, "where": one.where, "message": one.message} for one in chosen]

    return {"entry": name, "valid": not told(False), "problems": told(False), "remarks": told(True)}
