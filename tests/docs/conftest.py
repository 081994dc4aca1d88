"""The site as it is built, once for all tests of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """Build the site, warnings being errors, and return its folder; skipped where its builder is not installed."""
    for library in ("furo", "myst_parser", "nbformat", "sphinx_copybutton", "ziamath"):
        pytest.importorskip(library, reason="the extra docs is not installed")
    return once("docs-site", build)


def build(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--keep-going",
        "--doctree-dir",
        f"{folder}-doctrees",
    ]
    done = subprocess.run([*command, "docs", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
