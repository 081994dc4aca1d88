"""What the verbs print with: plain text, tables and JSON on stdout, errors on stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import typer

from mtbench.errors import printable

WIDE = 10_000
"""Characters in a line of a table outside a terminal: enough that nothing is cut or wrapped."""

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Cell: TypeAlias = str | int | float | bool | None


def say(text: str) -> None:
    """Print text to stdout; what a terminal would obey is spelt out, see `mtbench.errors.printable`."""
    _write(printable(text))


def _write(text: str) -> None:
    # If the reader has gone, as ``head`` does, go on in silence, so that the exit code stays true.
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would try to flush stdout once more at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_json(value: object) -> None:
    """Print a value as JSON."""
    say(json.dumps(value, ensure_ascii=False, indent=2))


def say_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print rows under headings, numbers to the right with thousands separated; cells are never markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    on_terminal = sys.stdout.isatty()
    # Printed into a text first: Rich pads lines with blanks, which are taken off, and knows nothing of closed pipes.
    page = io.StringIO()
    console = Console(
        file=page,
        width=None if on_terminal else WIDE,
        force_terminal=on_terminal,
        markup=False,
        emoji=False,
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, heading in enumerate(headings):
        numeric = bool(rows) and all(type(row[index]) is int for row in rows)  # a bool is an int too, but shown as yes
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_show, row))
    console.print(table)
    _write("\n".join(line.rstrip() for line in page.getvalue().splitlines()))


def records(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[Mapping[str, Cell]]:
    """Return the rows of a table as JSON objects, their keys the headings in snake case."""
    keys = [heading.lower().replace(" ", "_") for heading in headings]
    return [dict(zip(keys, row, strict=True)) for row in rows]


@contextmanager
def doing(what: str) -> Iterator[Callable[[str], None]]:
    """Show on stderr what is being done, step by step, until it is done; nothing where it is no terminal."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(what) as status:
        yield lambda step: status.update(f"{what}: {escape(step)}")


def note(message: str) -> None:
    """Print one line to stderr that is no error."""
    sys.stderr.write(f"{printable(message)}\n")


def fail(message: str) -> None:
    """Print a message as a single line to stderr, red on a terminal."""
    from rich.console import Console
    from rich.text import Text

    line = printable(" ".join(f"error: {message}".splitlines()))
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text(line, style="red"))


def _show(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:,}" if isinstance(cell, int) else printable(str(cell))
