"""What the two files of a run may hold, whoever wrote them: the keys of ``result.json``, the columns of the ranks.

Imported when a run is read, because it takes pydantic and pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet
from pydantic import AfterValidator, Field

from mtbench.errors import ResultError
from mtbench.files import schema
from mtbench.files.pages import unpacked_sizes
from mtbench.files.reading import read_bytes
from mtbench.names import COLUMNS, METRICS, PARTS
from mtbench.ranking.ranks import COUNTS, Counts, Ranks
from mtbench.runs.origin import Regime, Status

SHA256 = re.compile(r"[0-9a-f]{64}")


def expected(good: Callable[[Any], object], wanted: str) -> AfterValidator:
    """Return a validator that refuses a value of the right type that is not ``good``, saying what is ``wanted``."""

    def checked(value: Any) -> Any:
        if not good(value):
            raise ValueError(f"must be {wanted}")
        return value

    return AfterValidator(checked)


Whole = Annotated[int, Field(ge=0)]
Metrics = Annotated[
    Mapping[str, float], expected(lambda values: not values or set(values) == set(METRICS), f"of {', '.join(METRICS)}")
]
Hash = Annotated[str, expected(SHA256.fullmatch, "a SHA-256 in hexadecimal")]


@dataclass(frozen=True)
class Saved:
    """The keys of ``result.json``: those of a `Result` and its `RunInfo`, and what ties them to the ranks.

    ``tie_rate`` and ``ranks_sha256`` are null for a run without ranks.
    """

    schema: int
    dataset: str
    dataset_version: str
    split: str
    content_sha256: Hash
    protocol: str
    vocabulary: str
    candidate_seed: int
    candidates_sha256: Hash
    metrics: Metrics
    optimistic: Metrics
    pessimistic: Metrics
    tie_rate: Annotated[float, Field(ge=0, le=1)] | None
    chance: Metrics
    floors: Mapping[str, Metrics]
    warnings: tuple[str, ...]
    asked: Mapping[str, str]
    asked_again: str
    evaluator_version: str
    candidates_version: Whole
    targets: Whole
    model: str
    seed: int
    regime: Regime
    hyperparameters: Mapping[str, Any]
    pretraining_graphs: tuple[str, ...]
    url: str
    commit: str
    device: str
    wall_seconds: float | None
    peak_memory_bytes: int | None
    status: Status
    environment: Mapping[str, str]
    ranks_sha256: Hash | None


def shaped(payload: object) -> Saved:
    """Return what ``result.json`` holds; raises `ResultError`, without the path, for other keys or other values."""
    try:
        return schema.convert(payload, Saved, "", ResultError)
    except ResultError as error:
        raise ResultError(f"{error}; the file was edited: evaluate again") from error


MOST_UNPACKED = 16 * 1024 * 1024
"""The most bytes of ranks that a stranger made, once unpacked."""

LONGEST_NAME = 1_000
RANK_COLUMNS = (*COLUMNS, *(f"{part}_{name}" for part in PARTS for name in COUNTS))


@dataclass(frozen=True)
class Limits:
    """The most ``targets`` ranks can be of, and the most ``candidates`` each can have."""

    targets: int
    candidates: int


def read_ranks(path: Path, limits: Limits | None = None) -> Ranks:
    """Read ``ranks.parquet``; raises `ResultError`, without the path, if it is missing, cut or of other columns.

    ``limits`` are for a file that a stranger made: it is refused by the rows its footer states and the bytes that
    its pages state before anything is unpacked, then by the length of its names and the size of its counts.
    """
    try:
        content = read_bytes(path)
        data = pa.BufferReader(content)
        schema = parquet.read_schema(data)
        _expect_columns(schema)
        # A name that all rows share is one text, not as many as rows.
        with parquet.ParquetFile(data, read_dictionary=[name for name in COLUMNS if name in schema.names]) as file:
            if limits is not None:
                _expect_small(file.metadata, limits, content)
            table = file.read(use_threads=False)  # a column at a time, so that a lying page is alone in memory
            table.validate(full=True)  # a crafted file may have indices beyond its dictionary
            _expect_values(table, limits)
        return _ranks(table)
    except ResultError as error:
        raise ResultError(f"{error}; evaluate again") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or error
        raise ResultError(f"cannot be read as Parquet ({why}); evaluate again") from error


def _expect_columns(schema: pa.Schema) -> None:
    if wrong := [name for name in schema.names if name not in RANK_COLUMNS]:
        raise ResultError(f"the column {wrong[0][:60]!r} does not belong there")
    if len(set(schema.names)) < len(schema.names):
        raise ResultError("a column is there twice")
    for column in schema:
        if not (pa.types.is_string if column.name in COLUMNS else pa.types.is_signed_integer)(column.type):
            raise ResultError(f"column {column.name} has the type {column.type}")


def _expect_small(about: parquet.FileMetaData, limits: Limits, content: bytes) -> None:
    if about.num_rows > limits.targets:
        raise ResultError(f"{about.num_rows:,} rows, at most {limits.targets:,} can be targets")
    if about.num_row_groups > max(limits.targets, 1):
        raise ResultError(f"{about.num_row_groups:,} groups of rows, more than there are targets")
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    columns = [group.column(place) for group in groups for place in range(group.num_columns)]
    size = 0
    # The footer gives sizes, too, which need not be true.
    for column in columns:
        start = column.dictionary_page_offset or column.data_page_offset
        for page in unpacked_sizes(content, min(start, column.data_page_offset), column.total_compressed_size):
            if (size := size + page) > MOST_UNPACKED:
                break
    if size > MOST_UNPACKED:
        raise ResultError(f"{size:,} bytes once unpacked, at most {MOST_UNPACKED:,} are read")


def _expect_values(table: pa.Table, limits: Limits | None) -> None:
    for name in table.column_names:
        column = table.column(name)
        if column.null_count:
            raise ResultError(f"column {name} has {column.null_count} empty cells")
        if limits is None:
            continue
        if name not in COLUMNS:
            if (compute.max(column).as_py() or 0) > limits.candidates:
                raise ResultError(f"column {name} counts more than {limits.candidates:,} candidates")
            continue
        # In the dictionary alone: spelt out for every row, one long name could fill the memory.
        for chunk in column.chunks:
            if (compute.max(compute.binary_length(chunk.dictionary)).as_py() or 0) > LONGEST_NAME:
                raise ResultError(f"column {name} has a name of more than {LONGEST_NAME:,} bytes")


def _ranks(table: pa.Table) -> Ranks:
    parts = [part for part in PARTS if any(f"{part}_{name}" in table.column_names for name in COUNTS)]
    named = any(name in table.column_names for name in COLUMNS)
    expected = [*(COLUMNS if named else ()), *(f"{part}_{name}" for part in parts for name in COUNTS)]
    if missing := [name for name in expected if name not in table.column_names]:
        raise ResultError(f"the columns {', '.join(missing)} are missing")
    counts = {
        part: Counts(*(table.column(f"{part}_{name}").to_numpy().astype(np.int64) for name in COUNTS)) for part in parts
    }
    if not named:
        return Ranks.unnamed(counts)
    # Names were read as dictionaries: each is made a text once and looked up by its rows.
    coded = [table.column(name).unify_dictionaries().combine_chunks() for name in COLUMNS]
    heads, relations, tails = (
        np.array(column.dictionary.to_pylist(), dtype=np.str_)[column.indices.to_numpy()] for column in coded
    )
    return Ranks(heads, relations, tails, counts)
