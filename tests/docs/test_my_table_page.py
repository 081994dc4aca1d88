"""The page "From my model to my table": the model is short, commands exist, and a short training ends in a table."""

import re
import shlex
import sys

import pages
import pytest
import typer

from mtbench.cli import app as cli

PAGE = pages.DOCS / "my-table.md"
BLOCKS = pages.blocks(PAGE)
(MODEL,) = (block.text for block in BLOCKS if block.language == "python")
COMMANDS = list(pages.commands(BLOCKS))


def test_the_model_has_sixty_lines_at_most_and_the_page_four_hundred_words():
    assert len(MODEL.splitlines()) <= 60
    prose = re.sub(r"```.*?```", "", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(prose.split()) <= 400


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_has_options_that_exist(line):
    _, *words = shlex.split(line)
    command = typer.main.get_command(cli.make_app())
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


def test_a_shorter_training_ends_in_the_table_and_the_entry_of_the_page(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    short = MODEL.replace("range(500)", "range(2)")
    assert short != MODEL
    (tmp_path / "mine.py").write_text(short, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    _, grid, table, latex, submit, entry, score = COMMANDS
    table, latex = (f"{line} --entries {pages.ROOT / 'leaderboard' / 'results'}" for line in (table, latex))
    grid = grid.replace("metafam,fbnell --seeds 0-2 --protocol all --vocabulary all --paper", "metafam")
    assert pages.run(grid, monkeypatch).endswith("runs/mine: 1 run, 1 done\n")
    (weights,) = (tmp_path / "runs" / "mine" / "mine-ours" / "metafam" / "seed0").glob("checkpoints/weights.pt")
    trained = weights.read_bytes()
    more = pages.run(f"{grid} --protocol dual --protocol relation", monkeypatch)  # from the checkpoints
    assert more.endswith("runs/mine: 1 run, 1 done\n")
    assert trained == weights.read_bytes()
    assert pages.run(table, monkeypatch).splitlines()[0].split() == ["Model", "metafam/dual", "metafam/relation"]
    assert pages.run(latex, monkeypatch) == "table.tex written\n"
    assert "entries/ours holds the entry" in pages.run(submit, monkeypatch)
    assert pages.run(entry, monkeypatch).endswith("every file, figure, hash and claim holds\n")
    assert pages.run(score, monkeypatch).startswith("(alina1317, motherOf, ?) in metafam, by ours")
    sys.modules.pop("mine", None)
