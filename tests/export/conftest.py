"""The toy, with relations that have a task."""

import pytest
import toys

from mtbench.data.splits import Dataset


@pytest.fixture
def toy(monkeypatch) -> Dataset:
    toys.install(monkeypatch.setattr)
    return toys.dataset(tasks="eating")
