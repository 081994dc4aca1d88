"""Which files an entry may hold: every one accounted for by name, kind and size before any is opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from leaderboard.entries.cards import CARD_BYTES, CARD_FILE, Problem
from mtbench.runs import files as result_files
from mtbench.runs.directory import CHECKPOINTS, CONVENTIONS_FILE, HISTORY_FILE, TASK_FOLDERS, TASKS_FILE
from mtbench.runs.files import RANKS_FILE, RESULT_FILE

KIB, MIB = 1024, 1024 * 1024
MOST_BYTES = 64 * MIB
MOST_FILES = 5_000
SIZES = {
    CARD_FILE: CARD_BYTES,
    RESULT_FILE: result_files.MOST_BYTES,
    RANKS_FILE: 8 * MIB,
    CONVENTIONS_FILE: 256 * KIB,
    HISTORY_FILE: 4 * MIB,
    TASKS_FILE: 4 * MIB,
}
"""The most bytes of every file an entry may hold."""

CHECKPOINT_SIZES = {".safetensors": 8 * MIB, ".json": MIB}
TASK_FILES = (RESULT_FILE, RANKS_FILE)
RUN_FILES = (*TASK_FILES, CONVENTIONS_FILE, HISTORY_FILE, TASKS_FILE)
DATASET_FOLDER = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
SEED_FOLDER = re.compile(r"seed(0|[1-9][0-9]{0,17})")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".joblib", ".npy", ".npz", ".dill")
"""Endings of files that run code when they are opened, or may."""


@dataclass(frozen=True)
class Account:
    """What lies in an entry: the files that may be read, and what is wrong with the others."""

    files: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


@dataclass
class _Walk:
    """A walk through an entry, which stops where it has seen too much."""

    directory: Path
    files: list[str] = field(default_factory=list)
    seen: int = 0
    size: int = 0


def account(directory: Path) -> Account:
    """Walk through an entry without following a link or opening a file, and return what may be read.

    Raises `OSError` for an entry that cannot be listed.
    """
    if directory.is_symlink():
        return Account(problems=(Problem("symlink", directory.name, _LINK),))
    walk = _Walk(directory)
    problems = list(_folder(walk, ()))
    return Account(frozenset(walk.files), tuple(problems))


_LINK = "is a link, which may lead out of the entry: put the file itself there"


def _folder(walk: _Walk, parts: tuple[str, ...]) -> Iterator[Problem]:
    with os.scandir(walk.directory.joinpath(*parts)) as listing:
        found = sorted(islice(listing, MOST_FILES + 1), key=lambda item: item.name)
    for item in found:
        walk.seen += 1
        if walk.seen > MOST_FILES:
            if walk.seen == MOST_FILES + 1:
                message = f"more than {MOST_FILES:,} files and folders: keep the runs alone"
                yield Problem("number", walk.directory.name, message)
            return
        yield from _item(walk, (*parts, item.name), item.stat(follow_symlinks=False))


def _item(walk: _Walk, parts: tuple[str, ...], found: os.stat_result) -> Iterator[Problem]:
    where = "/".join((walk.directory.name, *parts))
    name = parts[-1]
    if stat.S_ISLNK(found.st_mode):
        yield Problem("symlink", where, _LINK)
    elif name.startswith("."):
        yield Problem("hidden", where, "is hidden: delete it, or make the entry with mtbench leaderboard submit")
    elif stat.S_ISDIR(found.st_mode):
        if _is_folder(parts):
            yield from _folder(walk, parts)
        else:
            yield Problem("unexpected", where, f"no folder of this name belongs here; {_LAYOUT}")
    elif not stat.S_ISREG(found.st_mode):
        yield Problem("special", where, "is neither a file nor a folder: delete it")
    elif name.lower().endswith(PICKLES):
        yield Problem("pickle", where, "may run code when it is opened, and no entry needs it: delete it")
    elif (most := _most_bytes(parts)) is None:
        yield Problem("unexpected", where, f"no file of this name belongs here; {_LAYOUT}")
    elif found.st_size > most:
        yield Problem("size", where, f"has {found.st_size:,} bytes, at most {most:,} are read: is it what a run wrote?")
    else:
        before, walk.size = walk.size, walk.size + found.st_size
        if walk.size <= MOST_BYTES:
            walk.files.append("/".join(parts))
        elif before <= MOST_BYTES:
            message = f"more than {MOST_BYTES // MIB} MiB in all: submit fewer runs, or fewer protocols"
            yield Problem("size", walk.directory.name, message)


_LAYOUT = "an entry is card.toml and DATASET/seedK as mtbench leaderboard submit lays them out"


def _is_folder(parts: tuple[str, ...]) -> bool:
    match parts:
        case (dataset,):
            return dataset != CARD_FILE and bool(DATASET_FOLDER.fullmatch(dataset))
        case (_, seed):
            return bool(SEED_FOLDER.fullmatch(seed))
        case (_, _, name):
            return name in TASK_FOLDERS or name == CHECKPOINTS
    return False


def _most_bytes(parts: tuple[str, ...]) -> int | None:
    """Return how many bytes a file may have, None for one that does not belong there."""
    match parts:
        case (name,) if name == CARD_FILE:
            return SIZES[name]
        case (_, _, name) if name in RUN_FILES:
            return SIZES[name]
        case (_, _, folder, name) if folder == CHECKPOINTS:
            return CHECKPOINT_SIZES.get(Path(name).suffix)
        case (_, _, _, name) if name in TASK_FILES:
            return SIZES[name]
    return None
