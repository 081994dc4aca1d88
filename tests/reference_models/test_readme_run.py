"""The README's first command: a model trained, adapted and scored, and a run that verifies."""

import re
from pathlib import Path

import pytest

from mtbench.cli import app as cli
from mtbench.runs.result import load, verify

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_first_command_of_the_readme_leaves_a_run_that_verifies(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"&& mtbench (run .*)\n", README.read_text(encoding="utf-8"))
    with pytest.raises(SystemExit) as stopped:
        # As it is typed, but for fewer epochs.
        cli.main([*command.split(), "--set", "epochs=2"])
    printed = capsys.readouterr()
    assert stopped.value.code == 0, printed.err
    (found,) = (tmp_path / "runs").glob("[!.]*")
    assert f"mtbench verify {found.relative_to(tmp_path)}" in printed.out
    assert verify(found).ok
    assert load(found).metrics["mrr"] > load(found).baselines["inverse_visible"]["mrr"]
