"""Released datasets: made of their published files, triple by triple as they were published."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mtbench.data import downloads
from mtbench.data.catalog import Parameter, Record
from mtbench.data.splits import Dataset, NamedTriple, from_named, together, with_known
from mtbench.errors import DatasetError

_SEPARATORS = {"\t": "tabs", " ": "single spaces"}


def build(record: Record, parameters: Mapping[str, Parameter]) -> Dataset:
    """Make a dataset of the published files its record names, downloading those that are not at hand.

    Rows keep the order of the files, names become ids as in `mtbench.data.splits.from_named`.

    Raises `DownloadError` for a file that cannot be had, `DatasetError` for a line that is no triple and
    for a target with an unknown entity.
    """
    files = downloads.fetch(record.sources)
    rows = {
        source.part: read_triples(path, downloads.place(source.url))
        for source, path in zip(record.sources, files, strict=True)
    }
    if missing := sorted(record.parts.keys() - rows.keys()):
        raise DatasetError(f"{record.id}: the record names no file for {', '.join(missing)}")
    slots = {name: graph.relation_slots for name, graph in record.graphs.items()}
    valid = from_named(record.id, "valid", rows["train/graph"], rows["valid/targets"], slots["train"])
    test = from_named(record.id, "test", rows["test/graph"], rows["test/targets"], slots["test"])
    valid, test = (with_known(split, rows.get(f"{split.name}/known", ()))[0] for split in (valid, test))
    return together(record, record.id, valid, test, parameters)


def read_triples(path: Path, name: str = "") -> list[NamedTriple]:
    """Return the triples of a text file, one a line: head, relation and tail between tabs or single spaces.

    The first line decides between tabs and spaces; the releases have both. A line that is no triple
    raises `DatasetError` with the file (``name`` tells its published name), the line's number and text.
    """
    data = path.read_bytes()
    separator = "\t" if b"\t" in data.partition(b"\n")[0] else " "
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise _malformed(path, name, number, repr(data.split(b"\n")[number - 1]), "is not UTF-8") from error
    if lines[-1] == "":
        lines.pop()
    rows = []
    for number, line in enumerate(lines, start=1):
        fields = line.split(separator)
        if len(fields) != 3 or "" in fields or line[-1] == "\r":
            raise _malformed(path, name, number, repr(line), f"is not three names between {_SEPARATORS[separator]}")
        rows.append((fields[0], fields[1], fields[2]))
    return rows


def _malformed(path: Path, name: str, number: int, text: str, reason: str) -> DatasetError:
    file = f"{name} ({path})" if name else str(path)
    return DatasetError(f"{file}, line {number} {reason}: {text[:200]}")
