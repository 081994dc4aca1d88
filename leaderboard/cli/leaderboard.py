"""``mtbench leaderboard``: what is done with all entries at once."""

from __future__ import annotations

import typer

from leaderboard.cli import render

command = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Render the leaderboard.")
command.command("render")(render.command)
