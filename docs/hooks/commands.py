"""The command-line reference: written from the application itself whenever the site is built."""

from __future__ import annotations

import re

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

from mtbench.cli.app import make_app

PAGE = "reference/commands.md"
OPENING = """# Command line

Every verb with its arguments and options, as `mtbench VERB --help` prints them. Exit codes: 0 all well, 1 a check
failed or an error, 2 wrong usage, 130 interrupted.

"""
EXAMPLE = re.compile(r"(?:^Example: .*\n\n?)+", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to the site."""
    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Return the page in Markdown: a section for each verb, in the order of the help."""
    app = typer.main.get_command(make_app())
    context = app.make_context("mtbench", ["list"])
    sections = [
        get_docs_for_click(obj=command, ctx=context, indent=1, name=verb, call_prefix="mtbench")
        for verb, command in app.commands.items()
    ]
    return OPENING + EXAMPLE.sub(_block, "\n".join(sections)).replace("\n$ mtbench", "\nmtbench")


def _block(found: re.Match[str]) -> str:
    lines = [line.removeprefix("Example: ") for line in found[0].splitlines() if line]
    return "\n".join(["```console", *lines, "```", "", ""])
