"""Directories that are complete or absent: locks, replacement by renaming, and what a killed process left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from mtbench.errors import MtbenchError, UsageError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, so that one process at a time makes or replaces it.

    The lock is a hidden file beside the directory, whose parents are made. What a killed process left
    there is undone first. A place that cannot be written raises `MtbenchError`.
    """
    lock = FileLock(_beside(directory, "lock"))
    with storage_errors(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        with storage_errors(directory):
            _tidy(directory)
        yield
    finally:
        lock.release()


def replace_directory(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make a directory of the given files, path to bytes, in place of what was there.

    They are written beside it, flushed to the disk and renamed, so that the old directory stays until
    the new one is complete; whatever fails, the directory is afterwards what it was before. Call it
    under the lock. A full or read-only disk raises `MtbenchError`.
    """
    new, old = _beside(directory, "new"), _beside(directory, "old")
    with storage_errors(directory):
        try:
            for name, data in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_bytes(data)
                _sync(new / name)
            for folder in {(new / name).parent for name in files} | {new}:
                _sync(folder)
            if is_free(directory):
                if directory.exists():
                    directory.rmdir()
            else:
                directory.rename(old)
            new.rename(directory)
            _sync(directory.parent)
        finally:
            _tidy(directory)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file that is complete or, whatever fails, what it was before; see `replacing`."""
    with replacing(path) as new:
        new.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, beside a file that is complete or, whatever fails, what it was before.

    What was written takes the file's place when the block ends well; its parents are made. A full or read-only disk
    raises `MtbenchError`.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = _beside(path, f"{os.getpid()}.new")
        try:
            yield new
            _sync(new)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        _sync(path.parent)


def is_free(directory: Path) -> bool:
    """Tell whether nothing would be lost by making this directory: it is absent or empty, as far as one may look."""
    try:
        return not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    except PermissionError:
        return False


def expect_replaceable(directory: Path, names: tuple[str, ...]) -> None:
    """Raise `UsageError` if a directory holds files other than ``names``, which replacing it would delete."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file: name a directory")
    ours = set(map(Path, names))
    present = (path for path in sorted(directory.rglob("*")) if not path.is_dir())
    other = next((path for path in present if path.relative_to(directory) not in ours), None)
    if other is not None:
        raise UsageError(f"{directory} holds other files ({other.relative_to(directory)}): name another directory")


@contextmanager
def storage_errors(place: Path) -> Iterator[None]:
    """Turn a full or read-only disk into one `MtbenchError` that names the place."""
    try:
        yield
    except OSError as error:
        raise MtbenchError(
            f"cannot write {place}: {error.strerror or error}; nothing was stored "
            "(free some space there, or name another place with --out or MTBENCH_CACHE)"
        ) from error


def _beside(directory: Path, state: str) -> Path:
    return directory.parent / f".{directory.name}.{state}"


def _tidy(directory: Path) -> None:
    # Under the lock nobody else is at work, so ".new" is a torso, ".old" is complete (renamed whole)
    # and ".gone" is on its way out.
    new, old, gone = (_beside(directory, state) for state in ("new", "old", "gone"))
    if new.exists():
        shutil.rmtree(new)
    shutil.rmtree(gone, ignore_errors=True)
    if old.exists():
        if directory.exists():
            old.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
        else:
            old.rename(directory)


def _sync(path: Path) -> None:
    """Have the disk keep what was written to a file, or which files are in a folder."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
