"""The site as it is built, once for all tests of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """Build the site, warnings being errors, and return its folder; skipped where its builder is not installed."""
    for library in ("material", "mkdocstrings", "nbconvert"):
        pytest.importorskip(library, reason="the extra docs is not installed")
    return once("docs-site", build)


def build(folder: Path) -> None:
    # Not --quiet: with it, warnings are no errors.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
