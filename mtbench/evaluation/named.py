"""Tasks by name: load a dataset and freeze its candidates in one call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mtbench.builders import folders
from mtbench.data import catalog, store
from mtbench.data.loading import load
from mtbench.data.splits import SPLIT_NAMES, Split
from mtbench.errors import UnknownNameError, UsageError
from mtbench.evaluation.tasks import Task
from mtbench.evaluation.tasks import task as task_of
from mtbench.ranking.candidates import PROTOCOLS, VOCABULARIES, seed_of


def task(
    source: str | Path | Split, protocol: str = "dual", vocabulary: str = "present", seed: int = 0, split: str = "test"
) -> Task:
    """Return the task of a dataset, or of a split that is loaded already.

    ``source`` is what `load` takes, and ``split`` then says which of its splits is meant, or a `Split`
    itself. The other arguments are those of `mtbench.evaluation.tasks.task`. Raises `UnknownNameError` for a
    dataset, split, protocol or vocabulary that does not exist, and `UsageError` for a split without
    targets.
    """
    if isinstance(source, Split):
        return task_of(source, protocol, vocabulary, seed)
    data = load(source)
    return task_of(data.split(split), protocol, vocabulary, seed, dataset_version=data.version)


PARTS: Mapping[str, tuple[str, ...]] = {
    "split": SPLIT_NAMES,
    "protocol": tuple(PROTOCOLS),
    "vocabulary": tuple(VOCABULARIES),
}
DEFAULTS = {"split": "test", "protocol": "dual", "vocabulary": "present", "candidate seed": "0"}


def named(name: str, **chosen: str | None) -> Task:
    """Return the task of a name: a dataset or its directory, then any of split, protocol, vocabulary and seed.

    The parts are separated by slashes and come in this order, as in ``Task.name``; each may be left out.
    ``chosen`` are the same parts given apart from the name (``split``, ``protocol``, ``vocabulary``,
    ``candidate_seed``). Raises `UnknownNameError` for a part that does not exist and `UsageError` for
    one that is given twice or out of order.
    """
    dataset, parts = _dataset_of(name)
    found: dict[str, str] = {}
    kinds = [*PARTS, "candidate seed"]
    for part in parts:
        kind = _kind_of(part)
        if kind not in kinds:
            raise UsageError(f"task {name!r}: {part!r} is out of order; write DATASET/SPLIT/PROTOCOL/VOCABULARY/SEED")
        kinds = kinds[kinds.index(kind) + 1 :]
        found[kind] = part
    for key, value in chosen.items():
        kind = key.replace("_", " ")
        if value is not None and found.setdefault(kind, value) != value:
            raise UsageError(
                f"the {kind} is {found[kind]} in the task {name!r} and {value} apart from it: give it once"
            )
    full = DEFAULTS | found
    number = full["candidate seed"]
    seed = seed_of(int(number) if number.isdecimal() and len(number) <= LONGEST else number, "the candidate seed")
    return task(dataset, full["protocol"], full["vocabulary"], seed, full["split"])


LONGEST = 100
"""Digits of a number that are read."""


def _kind_of(part: str) -> str:
    if part.isdecimal():
        return "candidate seed"
    for kind, known in PARTS.items():
        if part in known:
            return kind
    raise UnknownNameError("part of a task's name", part, [choice for known in PARTS.values() for choice in known])


def _dataset_of(name: str) -> tuple[str, list[str]]:
    """Return the longest leading part of a task's name that is a dataset or the directory of one, and the rest."""
    parts = name.rstrip("/").split("/")
    for length in range(len(parts), 0, -1):
        candidate = "/".join(parts[:length])
        if candidate and _is_dataset(candidate):
            return candidate, parts[length:]
    while len(parts) > 1 and (parts[-1].isdecimal() or any(parts[-1] in known for known in PARTS.values())):
        parts.pop()
    raise UnknownNameError("dataset or directory", "/".join(parts), catalog.choices("/".join(parts)))


def _is_dataset(name: str) -> bool:
    try:
        catalog.record(name)
    except UnknownNameError:
        directory = Path(name).expanduser()
        return (directory / store.MANIFEST).is_file() or folders.is_dataset(directory)
    return True
