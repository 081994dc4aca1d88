"""Files that somebody else may have made: regular ones alone are opened, and none larger than its kind can be."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

from mtbench.errors import ResultError, UsageError

KIB, MIB = 1024, 1024 * 1024
LIMITS = {
    "card.toml": 64 * KIB,
    "result.json": 256 * KIB,
    "conventions.json": 256 * KIB,
    "history.json": 4 * MIB,
    "manifest.json": 4 * MIB,
    "tasks.json": 64 * MIB,
    "ranks.parquet": 1024 * MIB,
    ".json": 16 * MIB,
}
"""The most bytes of a file, by its name or ending. What has no limit here is held to a size that is known elsewhere."""

DIGITS = 20
"""The most digits of a whole number in JSON; no number of 64 bits has more."""

NOBODY = "there is no such user here, so that ~ stands for no folder: spell it out"
_KINDS = {stat.S_ISDIR: "a directory", stat.S_ISFIFO: "a named pipe", stat.S_ISSOCK: "a socket"}


def expanded(path: Path | str) -> Path:
    """Return a path with a leading ``~`` spelt out; raises `UsageError` where that is the folder of nobody here."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: {NOBODY}") from error


def irregular(mode: int) -> str:
    """Return what a file of such a mode is where it is no regular file: empty for one that is."""
    other = next((words for is_kind, words in _KINDS.items() if is_kind(mode)), "a device")
    return "" if stat.S_ISREG(mode) else other


def opened(path: Path) -> BufferedReader:
    """Open a regular file for reading; anything else raises `OSError` at once: a pipe may have no other end."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if kind := irregular(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"it is {kind}", str(path))
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Return the bytes of a regular file; `OSError` for one of more than ``most``, left out that of `LIMITS`."""
    most = most or LIMITS.get(path.name) or LIMITS[path.suffix]
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        data = stream.read(min(size, most) + 1)  # it may have grown since
    if size > most or len(data) > most:
        raise OSError(errno.EINVAL, f"more than {most:,} bytes", str(path))
    return data


def read_json(path: Path, most: int | None = None) -> Any:
    """Read JSON strictly: no key twice, no NaN, no number beyond 64 bits, no half of a character; see `read_bytes`.

    Readers disagree about anything else, and a check must not see other figures than a reader is shown. Raises
    `ResultError` saying what is wrong, without the path.
    """
    try:
        text = read_bytes(path, most).decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_real, parse_int=_whole
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except OSError as error:
        raise ResultError(f"cannot be read ({error.strerror})") from error
    except RecursionError as error:
        raise ResultError("not valid JSON (nested too deeply)") from error
    except ValueError as error:
        raise ResultError(f"not valid JSON ({error})") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"the key {key[:60]!r} is there twice")
        members[key] = value
    return members


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is beyond any number")
    return value


def _whole(text: str) -> int:
    if len(text.removeprefix("-")) > DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)
