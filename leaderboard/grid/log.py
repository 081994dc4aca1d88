"""``grid.jsonl``: one line per attempt at a run, added at the end and never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from mtbench.files.atomic import storage_errors

LOG_FILE = "grid.jsonl"


@dataclass(frozen=True)
class Line:
    """One attempt: whose it was, when it began (UTC), how many seconds it took, and how it ended.

    ``dataset`` is the name of the dataset's folder, ``attempt`` counts from 1, ``status`` is that of the result,
    or ``stopped`` where the budget ended it, or ``blocked`` where something other than the model stood in
    the way. ``model`` and ``settings`` are what was asked for, which a result does not tell.
    """

    label: str
    dataset: str
    seed: int
    attempt: int
    started: str
    seconds: float
    status: str
    error: str = ""
    model: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what the key of its job is."""
        return self.label, self.dataset, self.seed


_KINDS = {"label": str, "dataset": str, "seed": int, "attempt": int, "status": str, "model": str, "settings": dict}


def append(directory: Path, line: Line) -> None:
    """Add a line in one write, so that processes that share the file never mix theirs.

    What a killed process left of a line is closed first. Raises `MtbenchError` for a full or read-only disk.
    """
    path = directory / LOG_FILE
    with storage_errors(path):
        directory.mkdir(parents=True, exist_ok=True)
        torn = _is_torn(path)
        text = json.dumps(asdict(line), ensure_ascii=False)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, ("\n" * torn + text + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(directory: Path) -> Sequence[Line]:
    """Return all attempts in order; a line that a killed process left unfinished is none."""
    path = directory / LOG_FILE
    if not path.exists():
        return []
    texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in map(_parse, texts) if line is not None]


def _parse(text: str) -> Line | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    known = {declared.name for declared in fields(Line)}
    try:
        line = Line(**{name: value for name, value in found.items() if name in known})
    except (TypeError, AttributeError):
        return None
    return line if all(isinstance(getattr(line, name), kind) for name, kind in _KINDS.items()) else None


def _is_torn(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"
