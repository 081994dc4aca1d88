"""Tasks by name: load a dataset and freeze its candidates in one call."""

from __future__ import annotations

from pathlib import Path

from mtbench.datasets import load
from mtbench.evaluate import Task
from mtbench.evaluate import task as task_of
from mtbench.splits import Split


def task(
    source: str | Path | Split, protocol: str = "dual", vocabulary: str = "present", seed: int = 0, split: str = "test"
) -> Task:
    """Return the task of a dataset, or of a split that is loaded already.

    ``source`` is what `load` takes, and ``split`` then says which of its splits is meant, or a `Split`
    itself. The other arguments are those of `mtbench.evaluate.task`. Raises `UnknownNameError` for a
    dataset, split, protocol or vocabulary that does not exist, and `UsageError` for a split without
    targets.
    """
    if isinstance(source, Split):
        return task_of(source, protocol, vocabulary, seed)
    data = load(source)
    return task_of(data.split(split), protocol, vocabulary, seed, dataset_version=data.version)
