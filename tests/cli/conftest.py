"""Every test of the command line has the toy in the catalogue and a cache of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import toys


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path) -> Path:
    """Return where the toy is stored."""
    toys.install(monkeypatch.setattr)
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets" / "toy" / "2.0.0"


@pytest.fixture
def run(command) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; returns exit code, stdout and stderr."""
    return command
