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


@pytest.fixture(scope="session")
def excerpt() -> Path:
    """A file of 1.2 million lines of Wikidata5M; tests that need it are skipped without it."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared" / "dumps" / "wikidata5m_excerpt.txt.gz"
    path = Path(os.environ.get("MTBENCH_TEST_DUMP", default)).resolve()
    if not path.exists():
        pytest.skip(f"no excerpt of Wikidata5M at {path}: set MTBENCH_TEST_DUMP to one")
    return path
