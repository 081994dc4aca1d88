"""Export: a dataset as the files of a format, in a directory that is complete or absent.

Here as text, as arrays, and as the record of a new dataset.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mtbench.data.splits import Dataset, Split
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.evaluation.tasks import Task, measure
from mtbench.files import atomic
from mtbench.files.reading import expanded
from mtbench.heuristics.figures import BASELINES
from mtbench.names import METRICS, NameArray
from mtbench.ranking.candidates import draw
from mtbench.settings.table import RECORDED, VOCABULARIES, setting_of

FORMATS = {
    "tsv": "mtbench.export.writers:tsv",
    "npz": "mtbench.export.writers:npz",
    "pyg": "mtbench.export.pyg:files",
    "huggingface": "mtbench.export.hubs:huggingface",
    "croissant": "mtbench.export.hubs:croissant",
    "record": "mtbench.export.writers:record",
}
"""The format's name on the command line, and the function from a dataset to its files, path to bytes."""


def write(dataset: Dataset, directory: str | Path, format: str, *, force: bool = False) -> list[Path]:  # noqa: A002
    """Write a dataset as the files of a format, a key of `FORMATS`, into a directory, and return them.

    The directory is complete or absent. Raises `UnknownNameError` for another format, `UsageError` if the directory
    has files already and ``force`` is not set, or files that this export does not have, `MissingExtraError` where the
    format needs a library that is not installed, and `DatasetError` for names that it cannot hold.
    """
    if format not in FORMATS:
        raise UnknownNameError("format", format, FORMATS)
    module, _, function = FORMATS[format].partition(":")
    # By name, so that only the module of this format is imported: PyTorch alone takes seconds.
    render = cast(Callable[[Dataset], Mapping[str, bytes]], getattr(importlib.import_module(module), function))
    directory = expanded(directory).absolute()
    # Rendered before anything is touched: a name that the format cannot hold leaves the old export as it was.
    files = render(dataset)
    atomic.expect_replaceable(directory, tuple(files))
    with atomic.locked(directory):
        if not (force or atomic.is_free(directory)):
            raise UsageError(f"{directory} holds an export already: add --force to replace it")
        atomic.replace_directory(directory, files)
    return [directory / name for name in files]


TSV = {
    "train.txt": ("train", "graph"),
    "valid.txt": ("valid", "targets"),
    "msg.txt": ("test", "graph"),
    "test.txt": ("test", "targets"),
    "valid_known.txt": ("valid", "known"),
    "test_known.txt": ("test", "known"),
}
"""File names of the release; ``msg.txt`` is the observable test graph, along which messages are passed.

A training graph, and what is known besides, have files only where there is any: an empty one is no graph to import."""


def tsv(dataset: Dataset) -> dict[str, bytes]:
    """Return the parts of a dataset as files of lines ``head TAB relation TAB tail LF``.

    Rows keep the dataset's order, so that a release comes out byte for byte. Raises `DatasetError` for names that hold
    a tab or a line break.
    """
    files = {name: encode(dataset.split(split), part) for name, (split, part) in TSV.items()}
    return {name: data for name, data in files.items() if data or TSV[name][1] == "targets"}


def encode(split: Split, part: str) -> bytes:
    """Return the ``graph``, the ``targets`` or the ``known`` triples of a split as tab-separated UTF-8 lines."""
    rows = split.named(getattr(split, part))
    text = "".join(f"{head}\t{relation}\t{tail}\n" for head, relation, tail in rows)
    # Counting marks in the whole text takes no time; which name is to blame is searched for only if they do not add up.
    if text.count("\t") != 2 * len(rows) or text.count("\n") != len(rows) or "\r" in text:
        broken = next(name for row in rows for name in row if any(mark in name for mark in "\t\n\r"))
        raise DatasetError(
            f"{split.dataset} {split.name}: {broken!r} holds a tab or a line break, which a tab-separated file cannot"
        )
    return text.encode()


def npz(dataset: Dataset) -> dict[str, bytes]:
    """Return a dataset as a NumPy archive, nothing pickled; see `arrays` for what is in it."""
    page = io.BytesIO()
    columns: dict[str, Any] = dict(arrays(dataset))
    np.savez_compressed(page, **columns)
    return {"dataset.npz": page.getvalue()}


def arrays(dataset: Dataset) -> dict[str, NDArray[np.int64] | NameArray]:
    """Return the arrays of a dataset by name.

    ``train_graph``, ``valid_targets``, ``test_graph`` and ``test_targets``, and ``valid_known`` and ``test_known``
    where there are any, are int64 ``(n, 3)`` in the order head, relation, tail. For ``train`` (whose vocabulary
    validation shares) and ``test`` there are ``*_entities`` and ``*_relations``, the names by id, ``*_relation_slots``,
    and ``*_tasks``, the task of each relation, empty text where it is not known.
    """
    by_name: dict[str, NDArray[np.int64] | NameArray] = {
        "train_graph": dataset.train.graph,
        "valid_targets": dataset.valid.targets,
        "test_graph": dataset.test.graph,
        "test_targets": dataset.test.targets,
    }
    for split in (dataset.valid, dataset.test):
        if len(split.known):
            by_name[f"{split.name}_known"] = split.known
    for split in (dataset.train, dataset.test):
        by_name[f"{split.name}_entities"] = split.entities
        by_name[f"{split.name}_relations"] = split.relations
        by_name[f"{split.name}_relation_slots"] = np.array(split.relation_slots, dtype=np.int64)
        tasks = [split.tasks.get(name, "") for name in split.relations.tolist()]
        by_name[f"{split.name}_tasks"] = np.array(tasks, dtype=np.str_)
    return by_name


PUBLISHED_SEEDS = (0, 1, 2)
"""The seeds of which a record publishes the candidates."""


def record(dataset: Dataset) -> dict[str, bytes]:
    """Return the tables ``[graphs]``, ``[parts]``, ``[candidates]`` and ``[baselines]`` of a dataset's record as TOML.

    They are the counts, the content hash of every part, the hash of every published list of candidates, and what
    the heuristic baselines reach on those of the test targets with seed 0: all of a record that need not be written by
    hand. A dataset whose record has empty tables is made by `mtbench.data.loading.derive`.
    """
    made = dataset.measured()
    lines = ["[graphs]"]
    for name, graph in made.graphs.items():
        counts = f"entities = {graph.entities}, relations = {graph.relations}"
        lines.append(f"{name} = {{ {counts}, relation_slots = {graph.relation_slots} }}")
    lines += ["", "[parts]"]
    for name, part in made.parts.items():
        lines.append(f'"{name}" = {{ triples = {part.triples}, content_sha256 = "{part.content_sha256}" }}')
    lines += ["", "[candidates]"]
    for split in (split for split in (dataset.valid, dataset.test) if len(split.targets)):
        for protocol, vocabulary in product(RECORDED, sorted(VOCABULARIES, reverse=True)):
            setting = setting_of(protocol, vocabulary)
            for seed in (
                (0,) if setting.full else PUBLISHED_SEEDS
            ):  # a full setting draws nothing, so its seeds do not differ
                lines.append(f'"{setting.key(split.name, seed)}" = "{draw(split, setting, seed).sha256}"')
    tasks = [Task.of(dataset.test, setting_of(*names)) for names in product(RECORDED, sorted(VOCABULARIES))]
    figures = {name: measure(name, tasks) for name in BASELINES}
    lines += ["", "[baselines]"]
    for number, task in enumerate(tasks):
        reached = (
            f"{name} = [{', '.join(f'{of_task[number][key]:.6g}' for key in METRICS)}]"
            for name, of_task in figures.items()
        )
        lines.append(f'"{task.setting.key("test", 0)}" = {{ {", ".join(reached)} }}')
    return {"record.toml": "\n".join([*lines, ""]).encode()}
