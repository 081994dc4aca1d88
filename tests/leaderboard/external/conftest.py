"""Folders that look like a checkout of somebody's repository."""

import subprocess
import sys

import pytest

from mtbench.runs.result import load, verify
from mtbench.training.run import Plan, run


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes the files of a checkout; what is imported from it is forgotten after the test."""

    def write(name, files):
        place = tmp_path / name
        for path, text in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text, encoding="utf-8")
            module = path.removesuffix(".py").removeprefix("src/").removesuffix("/__init__").replace("/", ".")
            monkeypatch.setitem(sys.modules, module, None)
            del sys.modules[module]
        return place

    for name in ("torch_scatter", "torch_geometric.utils.degree", "trix.rspmm", "ultra.rspmm"):
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return write


@pytest.fixture
def committed():
    """Return a function that makes what a folder holds a commit."""

    def commit(place):
        git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "theirs"]):
            subprocess.run([*git, *words], check=True)
        return place

    return commit


@pytest.fixture
def ran(toy_cache, tmp_path):
    """Return a function that runs a recipe on a toy dataset, and returns the directory and what the run tells."""

    def run_it(recipe, **settings):
        plan = Plan(f"leaderboard.external.{recipe}:build", "toy", settings=settings, out=tmp_path / "run")
        directory, _ = run(plan)
        assert verify(directory).ok
        return directory, load(directory).run

    return run_it
