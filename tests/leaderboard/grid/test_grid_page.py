"""The page on grids: its file is read, and its commands are ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from leaderboard.grid.jobs import jobs, read_declared
from mtbench.cli.app import make_app

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "grid.md").read_text(encoding="utf-8")
(FILE,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [
    line.partition("mtbench ")[2]
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if "mtbench " in line
]


def test_the_declared_grid_is_one(tmp_path):
    (tmp_path / "grid.toml").write_text(FILE, encoding="utf-8")
    found = {str(job): job.plan for job in jobs(read_declared(tmp_path / "grid.toml"), tmp_path)}
    assert len(found) == 12
    assert found["mtdea-k4/fbnell/seed2"].settings == {"tasks": "2", "epochs": "5"}
    assert len(found["mtdea-k4/metafam/seed0"].tasks) == 6


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_one(command):
    verb, *words = shlex.split(command)
    app = typer.main.get_command(make_app())
    context = app.commands[verb].make_context(verb, words)
    if verb == "grid":
        assert context.params["file"] or context.params["models"]
