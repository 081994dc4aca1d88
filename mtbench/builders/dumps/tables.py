"""Files of named triples as tables of three columns of text, a block at a time, whatever form they come in."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from mtbench.builders.dumps.blocks import COLUMNS, FORMS, read_blocks
from mtbench.builders.dumps.dump import NAMES, malformed, text_columns
from mtbench.errors import DatasetError


def read_tables(path: Path) -> Iterator[pa.Table]:
    """Yield the triples of a file as tables of the columns head, relation and tail, so that memory need not hold it.

    It is what `mtbench.builders.dumps.blocks.read_blocks` reads, or ``.csv`` and ``.csv.gz`` with the columns head,
    relation and tail (without a heading: three columns in that order). Text may begin with the heading
    ``head TAB relation TAB tail``. Raises `DatasetError` for a file that is missing, damaged, or of another form; an
    empty text file has no tables.
    """
    if path.name.lower().endswith((".csv", ".csv.gz")):
        yield from _comma_separated(path)
        return
    for block in read_blocks([path]):
        table = text_columns(block.data)
        if table is None:
            raise malformed(block, NAMES, "is not head TAB relation TAB tail")
        headed = block.first_line == 1 and [name.as_py() for (name,) in table.slice(0, 1).columns] == list(COLUMNS)
        yield table.slice(int(headed))


def _comma_separated(path: Path) -> Iterator[pa.Table]:
    try:
        with pa.input_stream(path, compression="gzip" if path.suffix.lower() == ".gz" else None) as stream:
            first = stream.read(1 << 16).partition(b"\n")[0].decode("utf-8-sig")
        row = next(csv.reader([first]), [])
        headed = set(COLUMNS) <= set(row)
        if not headed and len(row) != len(COLUMNS):
            raise DatasetError(f"{path}: the first line {first[:200]!r} is neither a heading nor three names")
        reader = arrow_csv.open_csv(
            path,
            arrow_csv.ReadOptions(column_names=None if headed else COLUMNS, use_threads=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.string()), include_columns=COLUMNS, strings_can_be_null=False
            ),
        )
        read = 0
        for batch in reader:
            wrong = [pc.index(pc.match_substring_regex(column, r"^$|[\t\n]"), True).as_py() for column in batch.columns]
            if rows := [row for row in wrong if row >= 0]:
                raise DatasetError(
                    f"{path}, triple {read + min(rows) + 1}: an empty cell, or a name with a tab or a line break"
                )
            read += len(batch)
            yield pa.table(batch.columns, names=list(COLUMNS))
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise DatasetError(f"{path} cannot be read ({error}): name {FORMS}, or a .csv file of three names") from error
