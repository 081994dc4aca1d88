"""Directories that are complete or absent: locks, replacement by renaming, and what a killed process left."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from mtbench.errors import AtWorkError, MtbenchError, UsageError


@contextmanager
def locked(directory: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a directory, so that one process at a time makes or replaces it.

    The lock is a hidden file beside the directory, whose parents are made, so that all processes that see the
    directory see the lock, whatever their caches. What a killed process left there is undone first. Where another
    process holds it, `AtWorkError` is raised unless ``wait`` is set. A place that cannot be written raises
    `MtbenchError`.
    """
    path = _beside(directory, "lock")
    lock = FileLock(path)
    with storage_errors(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Where no file can be made, FileLock would take it for one that another process holds, and wait for ever.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644))
        try:
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout as error:
            raise AtWorkError(
                f"another process is at work on {directory}: wait for it, or name another with --out DIR"
            ) from error
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
    new = _beside(directory, "new")
    with storage_errors(directory):
        try:
            for name, data in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_bytes(data)
            flush(new)
            put_in_place(new, directory)
        finally:
            _tidy(directory)


def put_in_place(new: Path, directory: Path) -> None:
    """Rename a finished directory into the place of ``directory``, beside which it lies; call it under the lock.

    A process killed between the two renames leaves the old one under another name, from which the next to hold the
    lock brings it back. A full or read-only disk raises `MtbenchError`.
    """
    with storage_errors(directory):
        try:
            if is_free(directory):
                if directory.exists():
                    directory.rmdir()
            else:
                directory.rename(_beside(directory, "old"))
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
    """Tell whether nothing would be lost by making this directory: it is absent, or empty and may be read."""
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


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WRITING = (*FULL, errno.EROFS)
"""What only writing fails with."""


@contextmanager
def storage_errors(place: Path) -> Iterator[None]:
    """Turn an error of the disk into one `MtbenchError`: ``place`` cannot be written, or a file elsewhere not read."""
    try:
        yield
    except OSError as error:
        # What is made of other files fails at them as well, and no space at ``place`` would mend that.
        if isinstance(error.filename, str) and error.errno not in WRITING:
            source, written = Path(error.filename).absolute(), place.absolute()
            if not (source.is_relative_to(written.parent) or written.is_relative_to(source)):
                raise MtbenchError(f"cannot read {source}: {error.strerror}; nothing was stored") from error
        space = "free some space there, or " if error.errno in FULL else ""
        raise MtbenchError(
            f"cannot write {place}: {error.strerror or error}; nothing was stored "
            f"({space}name another place with --out or MTBENCH_CACHE)"
        ) from error


def _beside(directory: Path, state: str) -> Path:
    return directory.parent / f".{directory.name}.{state}"


def _tidy(directory: Path) -> None:
    # Under the lock nobody else is at work, so ".new" is a torso, ".old" is complete (renamed whole)
    # and ".gone" is on its way out.
    new, old, gone = (_beside(directory, state) for state in ("new", "old", "gone"))
    remove(new)
    remove(gone)
    if old.exists():
        if directory.exists():
            old.rename(gone)
            remove(gone)
        else:
            old.rename(directory)


def remove(path: Path) -> None:
    """Delete a directory with all that is in it, or a file or link itself; one that is not there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def copy(source: Path, target: Path, *, leave: str = "") -> None:
    """Copy the files of a directory into another, but for one entry; copies may be written, whatever the source may.

    `shutil.copytree` copies the modes, too: of a run that is read-only, a copy that cannot go on.
    """
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.name == leave:
            continue
        if path.is_dir():
            copy(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)


def flush(directory: Path) -> None:
    """Have the disk keep a directory with all that is in it."""
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            _sync(path)


def _sync(path: Path) -> None:
    """Have the disk keep what was written to a file, or which files are in a folder."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
