"""Export to one NumPy archive: ids as int64, names as text, nothing pickled."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtbench.data.splits import Dataset
from mtbench.export.writers import store
from mtbench.names import NameArray

FILE = "dataset.npz"


def write(dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]:
    """Write ``dataset.npz`` into a directory and return its path; see `arrays` for what is in it."""
    page = io.BytesIO()
    columns: dict[str, Any] = dict(arrays(dataset))
    np.savez_compressed(page, **columns)
    return store(directory, {FILE: page.getvalue()}, force=force)


def arrays(dataset: Dataset) -> dict[str, NDArray[np.int64] | NameArray]:
    """Return the arrays of a dataset by name.

    ``train_graph``, ``valid_targets``, ``test_graph`` and ``test_targets`` are int64 ``(n, 3)`` in the
    order head, relation, tail. For ``train`` (whose vocabulary validation shares) and ``test`` there are
    ``*_entities`` and ``*_relations``, the names by id, ``*_relation_slots``, and ``*_tasks``, the task
    of each relation, empty text where it is not known.
    """
    found: dict[str, NDArray[np.int64] | NameArray] = {
        "train_graph": dataset.train.graph,
        "valid_targets": dataset.valid.targets,
        "test_graph": dataset.test.graph,
        "test_targets": dataset.test.targets,
    }
    for split in (dataset.train, dataset.test):
        found[f"{split.name}_entities"] = split.entities
        found[f"{split.name}_relations"] = split.relations
        found[f"{split.name}_relation_slots"] = np.array(split.relation_slots, dtype=np.int64)
        tasks = [split.tasks.get(name, "") for name in split.relations.tolist()]
        found[f"{split.name}_tasks"] = np.array(tasks, dtype=np.str_)
    return found
