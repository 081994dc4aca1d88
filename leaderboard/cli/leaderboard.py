"""``mtbench leaderboard``: what is done with all entries at once."""

from __future__ import annotations

import typer

from leaderboard.cli import check_entries, render

command = typer.Typer(
    help="Check the entries of a leaderboard, and render them as pages or tables.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    rich_markup_mode=None,
)
command.command("check")(check_entries.command)
command.command("render")(render.command)
