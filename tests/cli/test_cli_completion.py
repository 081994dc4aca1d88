"""What the shell proposes after Tab, asked for as the installed completion asks."""

import os
import shlex
import subprocess
import sys

import pytest

from mtbench.cli import app as cli


def asked(line):
    """Return what the shell has in the environment when it asks how a line goes on."""
    words = line.split(" ")
    return {"_MTBENCH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mtbench aud", ["audit"]),
        ("mtbench info metaf", ["metafam", "metafam-hard", "metafam-strict"]),
        ("mtbench fetch fbnell wikitopics-mt1/", ["wikitopics-mt1/health", "wikitopics-mt1/taxonomy"]),
        ("mtbench run mtdea --dataset fbnell-", ["fbnell-strict"]),
        ("mtbench run mtdea --dataset metafam --protocol full-t", ["full-tail"]),
        ("mtbench run mtdea --dataset metafam --vocabulary p", ["present"]),
        ("mtbench info nothing", []),
    ],
)
def test_the_shell_proposes_names(line, expected, monkeypatch, capsys):
    for name, value in asked(line).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["mtbench"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.out.split(), printed.err) == (0, expected, "")


def test_the_shell_proposes_installed_models():
    environment = os.environ | asked("mtbench run isd")
    found = subprocess.run(
        [sys.executable, "-m", "mtbench"], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stderr == ""
    assert {"isdea", "isdea-homo"} <= set(found.stdout.split())


def test_the_script_that_installs_completion_is_printed():
    # Which shell it is for is found out from the processes above: here a shell of the test's own.
    line = shlex.join([sys.executable, "-m", "mtbench", "--show-completion", "bash"])
    found = subprocess.run(["bash", "-c", f"{line} && true"], capture_output=True, text=True, check=True)
    assert "complete -o default -F _mtbench_completion mtbench" in found.stdout
