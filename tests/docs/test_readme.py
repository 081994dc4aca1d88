"""The README does what it says: examples and commands run as they stand, and tables are what commands print."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from mtbench.cli import app as cli
from mtbench.data import loading

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
BLOCKS = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if not line.startswith("python -m pip")]


@pytest.fixture
def place(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("MTBENCH_CACHE", str(shared / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(number) for number in range(len(EXAMPLES))])
@pytest.mark.filterwarnings("ignore::mtbench.results.result.MtbenchWarning")
def test_example_runs(example, place):
    exec(compile(example, str(README), "exec"), {"__name__": "example"})


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs(command, place, mirror, excerpt, monkeypatch, capsys):
    monkeypatch.setenv("MTBENCH_MIRROR", str(mirror))
    (place / "grail").symlink_to(next((mirror / "raw.githubusercontent.com" / "kkteru" / "grail").iterdir()))
    (place / "wikidata5m_all_triplet.txt.gz").symlink_to(excerpt)
    with pytest.raises(SystemExit) as stopped:
        cli.main(command.split()[1:])
    assert stopped.value.code == 0, capsys.readouterr().err


def test_there_are_examples_and_commands():
    assert len(EXAMPLES) == 3
    assert [command.split()[1] for command in COMMANDS] == ["build", "build"]
    assert BLOCKS[0].endswith("&& mtbench run mtdea --dataset metafam\n")  # run by the tests of the models


def test_ci_runs_exactly_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()
    assert f"{script[-1]}\n" == BLOCKS[1]


@pytest.mark.once
@pytest.mark.usefixtures("examined")
def test_the_tables_are_what_the_commands_print(shared, mirror, monkeypatch):
    monkeypatch.setenv("MTBENCH_CACHE", str(shared / "cache"))
    monkeypatch.setenv("MTBENCH_MIRROR", str(mirror))
    # Forty runs are on ten datasets: each is read once.
    monkeypatch.setattr(loading, "load", cache(loading.load))
    described = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "readme.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    for page in module.PAGES:
        text = page.read_text(encoding="utf-8")
        assert module.filled(text) == text, "run: python docs/readme.py"
    assert module.PICTURE.read_text(encoding="utf-8") == module.picture(), "run: python docs/readme.py"
