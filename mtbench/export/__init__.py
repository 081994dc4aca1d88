"""Exports: a dataset in the file formats other tools read."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from mtbench.errors import UnknownNameError
from mtbench.splits import Dataset

FORMATS: dict[str, str] = {"tsv": "mtbench.export.tsv:write"}
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
