"""Every test of the grid has a small MetaFam, and a cache and a diary of its own."""

from __future__ import annotations

from functools import partial

import pytest

import mtbench


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Return the directory of a MetaFam of three trees."""
    directory = tmp_path_factory.mktemp("data") / "small"
    mtbench.build("metafam", seed=3, out=directory, train_trees=2, test_trees=1)
    return directory


@pytest.fixture(autouse=True)
def diary(monkeypatch, tmp_path):
    """Return where the models write; the test is in an empty folder."""
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MTBENCH_TOY_DIARY", str(tmp_path / "diary"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "diary"


@pytest.fixture
def mtbench_grid(command):
    """Run ``mtbench grid`` in this process; returns exit code, stdout and stderr."""
    return partial(command, "grid")
