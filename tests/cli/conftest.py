"""Every test of the command line has the toy in the catalogue and a cache of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(toy_cache) -> Path:
    """Return where the toy is stored."""
    return toy_cache


@pytest.fixture
def run(command) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; returns exit code, stdout and stderr."""
    return command
