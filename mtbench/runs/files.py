"""The two files of a result: ``ranks.parquet`` with the rank counts of every target, ``result.json`` with all else.

``result.json`` is put in place last and names the hash of the ranks, so a directory that has it holds a whole result.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mtbench.errors import MtbenchError, ResultError, UsageError
from mtbench.files.atomic import storage_errors
from mtbench.files.hashing import file_hash
from mtbench.files.reading import read_json
from mtbench.names import COLUMNS
from mtbench.ranking.ranks import COUNTS, Ranks

RESULT_FILE, RANKS_FILE = "result.json", "ranks.parquet"
SCHEMA = 2


def write(
    directory: Path, payload: Mapping[str, object], ranks: Ranks, *, force: bool, with_names: bool = True
) -> None:
    """Write a run into a directory, both files or neither; ``payload`` gains ``ranks_sha256``, null without ranks.

    Without names, ``ranks.parquet`` has the counts alone, in the order of the split's targets.

    Raises `UsageError` when the directory already holds a run and ``force`` is not set, or when the
    payload is not JSON. Whatever goes wrong, an existing run stays as it was until both files are
    written, and nothing half-written is left.
    """
    result, counts = directory / RESULT_FILE, directory / RANKS_FILE
    present = [path for path in (result, counts) if path.exists()]
    if present and not force:
        raise UsageError(
            f"{present[0]} already exists: choose another directory, or replace the run with --force (force=True)"
        )
    created = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    with storage_errors(directory), ExitStack() as undo:
        directory.mkdir(parents=True, exist_ok=True)
        # Undone last first, so the innermost folder is removed first.
        for folder in reversed(created):
            undo.callback(folder.rmdir)
        with tempfile.TemporaryDirectory(prefix=".run-", dir=directory, ignore_cleanup_errors=True) as temporary:
            staging = Path(temporary)
            digest = _write_ranks(ranks, staging / RANKS_FILE, with_names) if len(ranks) else None
            (staging / RESULT_FILE).write_text(_as_json({**payload, "ranks_sha256": digest}), encoding="utf-8")
            # Before the ranks change: a directory without result.json is no run, one with both must fit together.
            result.unlink(missing_ok=True)
            undo.callback(counts.unlink, missing_ok=True)
            if digest:
                (staging / RANKS_FILE).replace(counts)
            else:
                counts.unlink(missing_ok=True)
            (staging / RESULT_FILE).replace(result)
        undo.pop_all()


def read_payload(path: Path) -> dict[str, Any]:
    """Read ``result.json``; raises `ResultError`, without the path, if it is missing, cut short or no object."""
    try:
        payload = read_json(path)
    except ResultError as error:
        raise ResultError(f"{error}; {'evaluate again' if path.exists() else 'is this a run directory?'}") from error
    if not isinstance(payload, dict):
        raise ResultError(f"holds a {type(payload).__name__}, expected an object; evaluate again")
    if (schema := payload.get("schema", SCHEMA)) != SCHEMA:
        raise ResultError(f"written with schema {str(schema)[:20]!r}, this version reads {SCHEMA}: evaluate again")
    return payload


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the path of a file before the message of an error in reading it."""
    try:
        yield
    except MtbenchError as error:
        raise type(error)(f"{path}: {error}") from error


def _write_ranks(ranks: Ranks, path: Path, with_names: bool) -> str:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {}
    if with_names and ranks.named:
        names = zip(COLUMNS, (ranks.heads, ranks.relations, ranks.tails), strict=True)
        columns = {name: pa.array(values.tolist(), pa.string()) for name, values in names}
    for part, counts in ranks.parts.items():
        # No count is above the number of entities, for which 32 bits are enough.
        columns |= {f"{part}_{name}": pa.array(getattr(counts, name).astype(np.int32)) for name in COUNTS}
    parquet.write_table(pa.table(columns), path, compression="zstd")
    return file_hash(path)


def _as_json(payload: Mapping[str, object]) -> str:
    try:
        return json.dumps(payload, indent=2, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"
    except (TypeError, ValueError) as error:
        raise UsageError(f"the run information cannot be written as JSON: {error}") from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} is a {type(value).__name__}, which JSON does not know")
