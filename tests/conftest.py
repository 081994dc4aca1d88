"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of released files, laid out as HOST/PATH; tests that need it are skipped without it."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared" / "mirror"
    folder = Path(os.environ.get("MTBENCH_TEST_MIRROR", default)).resolve()
    if not folder.is_dir():
        pytest.skip(f"no released files at {folder}: set MTBENCH_TEST_MIRROR to a folder laid out as HOST/PATH")
    return folder
