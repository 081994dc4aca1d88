"""Every test of the command line has the toy in the catalogue and a cache of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

import mtbench
from mtbench.data import catalog


@pytest.fixture(autouse=True)
def cache(toy_cache) -> Path:
    """Return where the toy is stored."""
    return toy_cache


@pytest.fixture
def run(command) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; returns exit code, stdout and stderr."""
    return command


@pytest.fixture
def two(monkeypatch, tmp_path):
    """Let a group be the toy and another draw of it, which lies in the working directory."""
    monkeypatch.chdir(tmp_path)
    mtbench.build("toy", seed=2, out="other")
    monkeypatch.setattr(catalog, "names", lambda group="": ["toy", "other"])
