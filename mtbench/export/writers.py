"""Exports: a dataset in the file formats other tools read."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

from mtbench.data.splits import Dataset
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import atomic

FORMATS: dict[str, str] = {
    "tsv": "mtbench.export.arrays:write_tsv",
    "npz": "mtbench.export.arrays:write_npz",
    "pyg": "mtbench.export.pyg:write",
    "huggingface": "mtbench.export.huggingface:write",
    "croissant": "mtbench.export.croissant:write",
    "record": "mtbench.export.record:write",
}
"""The format's name on the command line, and the function that writes it."""


class Writer(Protocol):
    """A function that writes a dataset into a directory and returns the files it wrote."""

    def __call__(self, dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]: ...


def writer(format: str) -> Writer:  # noqa: A002
    """Return the writer of a format; an unknown one raises `UnknownNameError`."""
    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS)
    module, _, function = FORMATS[format].partition(":")
    return cast(Writer, getattr(importlib.import_module(module), function))


def store(directory: str | Path, files: Mapping[str, bytes], *, force: bool) -> list[Path]:
    """Write the files of an export, path to bytes, into a directory that is then complete, and return them.

    Raises `UsageError` if the directory has files already and ``force`` is not set, or files that this
    export does not have.
    """
    directory = Path(directory).expanduser().absolute()
    atomic.expect_replaceable(directory, tuple(files))
    with atomic.locked(directory):
        if not (force or atomic.is_free(directory)):
            raise UsageError(f"{directory} holds an export already: add --force to replace it")
        atomic.replace_directory(directory, files)
    return [directory / name for name in files]
