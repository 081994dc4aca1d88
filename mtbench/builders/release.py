"""Released datasets: made of their published files, triple by triple as they were published."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtbench.data import downloads
from mtbench.data.catalog import Parameter, Record, Source
from mtbench.data.loading import UntrainedError
from mtbench.data.splits import Dataset, NamedTriple, Split, encode, from_named, together, vocabulary, with_known
from mtbench.errors import DatasetError, DownloadError
from mtbench.names import COLUMNS

_SEPARATORS = {"\t": "tabs", " ": "single spaces"}


def build(record: Record, parameters: Mapping[str, Parameter]) -> Dataset:
    """Make a dataset of the published files its record names, downloading those that are not at hand.

    Rows keep the order of the files, names become ids as in `mtbench.data.splits.from_named`.

    Raises `DownloadError` for a file that cannot be had, `DatasetError` for a line that is no triple and
    for a target with an unknown entity.
    """
    rows = _rows(record.sources)
    if missing := sorted(record.parts.keys() - rows.keys()):
        raise DatasetError(f"{record.id}: the record names no file for {', '.join(missing)}")
    slots = {name: graph.relation_slots for name, graph in record.graphs.items()}
    valid = from_named(record.id, "valid", rows["train/graph"], rows["valid/targets"], slots["train"])
    test = from_named(record.id, "test", rows["test/graph"], rows["test/targets"], slots["test"])
    valid, test = (with_known(split, rows.get(f"{split.name}/known", ()))[0] for split in (valid, test))
    return together(record, record.id, valid, test, parameters)


def build_as_field(record: Record, parameters: Mapping[str, Parameter]) -> Dataset:
    """Make a dataset of published files as the field reads them: whatever names an entity makes it a candidate.

    So targets, and triples that are known besides, may name entities and relations without an observable triple, and
    a test graph may be the training graph; rows keep the order of the files, and those that repeat another stay.
    Where a record asks for a number of ``targets``, the test targets are a sample (`_sampled`), and the others known.

    Raises `UntrainedError` with the rest of the dataset where only the files of the training graph cannot be had,
    `DownloadError` for others, and `DatasetError` for a line that is no triple.
    """
    try:
        rows, untrained = _rows(record.sources), None
    except DownloadError as error:
        rows, untrained = _rows_of_test(record.sources, error), error
    if wanted := int(parameters.get("targets", 0)):
        rows["test/targets"], others = _sampled(rows["test/targets"], wanted)
        rows["test/known"] = rows.get("test/known", []) + others
    splits = []
    for name, graph in (("valid", "train/graph"), ("test", "test/graph")):
        parts = [rows.get(part, []) for part in (graph, f"{name}/targets", f"{name}/known")]
        entities, relations = vocabulary(*parts)
        where = f"{record.id} {name}"
        observable, targets = (encode(part, entities, relations, where) for part in parts[:2])
        split = Split(record.id, "test", observable, targets, entities, relations, len(relations))
        splits.append(with_known(split, parts[2])[0])
    valid, test = splits
    dataset = together(record, record.id, valid, test, parameters)
    if untrained is not None:
        raise UntrainedError(str(untrained), dataset) from untrained
    return dataset


def _sampled(rows: list[NamedTriple], wanted: int) -> tuple[list[NamedTriple], list[NamedTriple]]:
    """Return the triples whose names have the smallest SHA-256, and the others, both in the order of the file."""
    order = sorted(range(len(rows)), key=lambda number: hashlib.sha256("\t".join(rows[number]).encode()).digest())
    chosen = set(order[:wanted])
    return [rows[number] for number in sorted(chosen)], [row for number, row in enumerate(rows) if number not in chosen]


def _rows(sources: Sequence[Source]) -> dict[str, list[NamedTriple]]:
    """Return the triples of published files by what part of a dataset they are."""
    files = downloads.fetch(sources)
    return {
        source.part: read_triples(path, downloads.place(source.url), source.columns, source.member)
        for source, path in zip(sources, files, strict=True)
    }


def _rows_of_test(sources: Sequence[Source], error: DownloadError) -> dict[str, list[NamedTriple]]:
    """Return those of the test graph alone; raises ``error``, which names every file, if they cannot be had either."""
    try:
        return _rows([source for source in sources if source.part.startswith("test/")])
    except DownloadError:
        raise error from None


def read_triples(path: Path, name: str = "", columns: Sequence[str] = COLUMNS, member: str = "") -> list[NamedTriple]:
    """Return the triples of a text file, one a line: head, relation and tail between tabs or single spaces.

    The first line decides between tabs and spaces; the releases have both. ``columns`` is the order of the three, and
    ``member`` the file that is meant where ``path`` is an archive. A line that is no triple raises `DatasetError` with
    the file (``name`` tells its published name), the line's number and text.
    """
    data = _unpacked(path, member) if member else path.read_bytes()
    separator = "\t" if b"\t" in data.partition(b"\n")[0] else " "
    file = f"{name} ({path})" if name else str(path)
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise _malformed(file, number, repr(data.split(b"\n")[number - 1]), "is not UTF-8") from error
    if lines[-1] == "":
        lines.pop()
    head, relation, tail = map(list(columns).index, COLUMNS)
    rows = []
    for number, line in enumerate(lines, start=1):
        fields = line.split(separator)
        if len(fields) != 3 or "" in fields or line[-1] == "\r":
            raise _malformed(file, number, repr(line), f"is not three names between {_SEPARATORS[separator]}")
        rows.append((fields[head], fields[relation], fields[tail]))
    return rows


def _unpacked(path: Path, member: str) -> bytes:
    with tarfile.open(path) as archive:
        for file in archive:
            if file.name == member and (stream := archive.extractfile(file)) is not None:
                return stream.read().replace(b"\r\n", b"\n")  # as FB15k-237 was packed under Windows
    raise DatasetError(f"{path} holds no {member}")


def _malformed(file: str, number: int, text: str, reason: str) -> DatasetError:
    return DatasetError(f"{file}, line {number} {reason}: {text[:200]}")
