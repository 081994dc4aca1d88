"""Export to tab-separated files, named and ordered like the published release."""

from __future__ import annotations

from pathlib import Path

from mtbench.data.splits import Dataset, Split
from mtbench.errors import DatasetError
from mtbench.export.writers import store

FILES = {
    "train.txt": ("train", "graph"),
    "valid.txt": ("valid", "targets"),
    "msg.txt": ("test", "graph"),
    "test.txt": ("test", "targets"),
}
"""File names of the release; ``msg.txt`` is the observable test graph, along which messages are passed."""


def write(dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]:
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
