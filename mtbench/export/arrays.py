"""Export as ids: one NumPy archive, nothing pickled, or tab-separated files, named and ordered like the release."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtbench.data.splits import Dataset, Split
from mtbench.errors import DatasetError
from mtbench.export.writers import store
from mtbench.names import NameArray

FILE = "dataset.npz"


def write_npz(dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]:
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


FILES = {
    "train.txt": ("train", "graph"),
    "valid.txt": ("valid", "targets"),
    "msg.txt": ("test", "graph"),
    "test.txt": ("test", "targets"),
}
"""File names of the release; ``msg.txt`` is the observable test graph, along which messages are passed."""


def write_tsv(dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]:
    """Write the four parts of a dataset as ``head TAB relation TAB tail LF`` lines and return the files.

    Rows keep the dataset's order, so that a release comes out byte for byte. The directory is complete
    or absent. Raises `UsageError` if it has files already and ``force`` is not set, or files that are
    not an export, and `DatasetError` for names that hold a tab or a line break.
    """
    files = {name: encode(dataset.split(split), part) for name, (split, part) in FILES.items()}
    return store(directory, files, force=force)


def encode(split: Split, part: str) -> bytes:
    """Return the ``graph`` or the ``targets`` of a split as tab-separated UTF-8 lines."""
    rows = split.named(split.graph if part == "graph" else split.targets)
    text = "".join(f"{head}\t{relation}\t{tail}\n" for head, relation, tail in rows)
    if text.count("\t") != 2 * len(rows) or text.count("\n") != len(rows) or "\r" in text:
        broken = next(name for row in rows for name in row if any(mark in name for mark in "\t\n\r"))
        raise DatasetError(
            f"{split.dataset} {split.name}: {broken!r} holds a tab or a line break, which a tab-separated file cannot"
        )
    return text.encode()
