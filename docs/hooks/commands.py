"""The command-line reference, written from the application itself."""

from __future__ import annotations

import re

import typer
from typer.cli import get_docs_for_click

from mtbench.cli.app import make_app

EXAMPLE = re.compile(r"(?:^Example: .*\n\n?)+", re.MULTILINE)


def commands() -> str:
    """Return a section for each verb in Markdown, in the order of the help."""
    app = typer.main.get_command(make_app())
    context = app.make_context("mtbench", ["list"])
    sections = [
        get_docs_for_click(obj=command, ctx=context, indent=1, name=verb, call_prefix="mtbench")
        for verb, command in app.commands.items()
    ]
    return EXAMPLE.sub(_block, "\n".join(sections)).replace("\n$ mtbench", "\nmtbench")


def _block(found: re.Match[str]) -> str:
    lines = [line.removeprefix("Example: ") for line in found[0].splitlines() if line]
    return "\n".join(["```console", *lines, "```", "", ""])
