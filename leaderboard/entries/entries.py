"""The entries of a leaderboard: folders with a card and runs, and the files that they may hold.

Files are checked by name, kind and size before any of them is opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from leaderboard.entries.cards import CARD_FILE, SLUG, Card, Problem, SubmissionError, read
from mtbench.errors import UnknownNameError
from mtbench.files.reading import LIMITS, MIB
from mtbench.runs.directory import (
    CHECKPOINTS,
    CONVENTIONS_FILE,
    HISTORY_FILE,
    TASK_FOLDERS,
    TASKS_FILE,
    Run,
    RunDirectory,
)
from mtbench.runs.files import RANKS_FILE, RESULT_FILE


@dataclass(frozen=True, eq=False)
class Entry:
    """One model of the leaderboard: its folder, its card and its runs, by dataset and in the order of seeds."""

    directory: Path
    card: Card
    runs: Mapping[str, tuple[Run, ...]]

    @property
    def slug(self) -> str:
        """The name of the folder, which identifies the entry."""
        return self.directory.name


Item = TypeVar("Item")


class Watch(Protocol):
    """Gives the items one after the other, and shows how far it is."""

    def __call__(self, items: Sequence[Item], doing: str, /) -> Iterable[Item]: ...


def unwatched(items: Sequence[Item], doing: str) -> Iterable[Item]:
    """Show nothing."""
    return items


def load(directory: Path) -> Entry:
    """Read one entry.

    Raises `SubmissionError` for a card that does not hold, a name that is no slug, or an entry without runs, and
    `ResultError` for a run that cannot be read. `leaderboard.entries.checks` says whether the figures hold.
    """
    if not SLUG.fullmatch(directory.resolve().name):
        raise SubmissionError(
            f"{directory}: an entry is named with small letters, digits, dots, hyphens and underscores, 64 at most"
        )
    card = read(directory / CARD_FILE)
    runs = [RunDirectory(path.parent).read() for path in sorted(directory.glob(f"*/*/{RESULT_FILE}"))]
    if not runs:
        raise SubmissionError(f"{directory}: no run directories in it")
    return of_runs(directory, card, runs)


def of_runs(directory: Path, card: Card, runs: Iterable[Run]) -> Entry:
    """Return the entry of some runs, by dataset and in the order of seeds."""
    by_dataset: dict[str, tuple[Run, ...]] = {}
    for run in sorted(runs, key=lambda run: (run.headline.dataset, run.headline.run.seed)):
        by_dataset[run.headline.dataset] = (*by_dataset.get(run.headline.dataset, ()), run)
    return Entry(directory, card, by_dataset)


def folders(root: Path) -> list[Path]:
    """Return every folder below ``root`` that is or should be an entry, sorted; raises `SubmissionError` for none."""
    below = _below(root)
    if not below:
        raise SubmissionError(
            f"{root} holds no entries (a folder with {CARD_FILE} each): name the folder of a leaderboard with "
            "--entries DIR, or make an entry with mtbench submit RUN... --to DIR"
        )
    return below


def _below(root: Path) -> list[Path]:
    # Hidden folders are what a killed process left half-written.
    return sorted(path for path in root.iterdir() if path.is_dir() and path.name[0] != ".") if root.is_dir() else []


def siblings(directory: Path, root: Path) -> list[Path]:
    """Return the other entries below ``root``."""
    own = directory.resolve()
    return [path for path in _below(root) if path.resolve() != own]


def named(root: Path, name: str) -> Path:
    """Return the folder of an entry by slug or path.

    Raises `UnknownNameError` for one that is not there, and `SubmissionError` for a folder that is no entry.
    """
    # The slug of an entry comes before a folder of that name here, unless that is an entry, too.
    folder = Path(name)
    known = {path.name: path for path in folders(root)} if root.is_dir() else {}
    if name in known and not (folder / CARD_FILE).exists():
        return known[name]
    if not folder.is_dir():
        raise UnknownNameError("entry", name, known)
    if not (folder / CARD_FILE).exists():
        raise SubmissionError(
            f"{name} is no entry, there is no {CARD_FILE} in it: mtbench submit RUN... --to DIR makes one"
        )
    return folder


def holds_entries(folder: Path) -> bool:
    """Tell whether a folder is none of an entry but one of a leaderboard: it holds entries."""
    return not (folder / CARD_FILE).exists() and any(folder.glob(f"*/{CARD_FILE}"))


MOST_BYTES = 64 * MIB
MOST_FILES = 5_000
SIZES = {**LIMITS, RANKS_FILE: 8 * MIB, TASKS_FILE: 4 * MIB}
"""The most bytes of every file an entry may hold: of what a stranger made, less than of one's own."""

CHECKPOINT_SIZES = {".safetensors": 8 * MIB, ".json": MIB}
TASK_FILES = (RESULT_FILE, RANKS_FILE)
RUN_FILES = (*TASK_FILES, CONVENTIONS_FILE, HISTORY_FILE, TASKS_FILE)
DATASET_FOLDER = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
SEED_FOLDER = re.compile(r"seed(0|[1-9][0-9]{0,17})")
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".joblib", ".npy", ".npz", ".dill")
"""Endings of files that may run code when they are opened."""


@dataclass(frozen=True)
class Account:
    """The files of an entry that may be read, and the problems of the others."""

    files: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()


@dataclass
class _Walk:
    """The state of a walk through an entry, which stops after too many files or bytes."""

    directory: Path
    files: list[str] = field(default_factory=list)
    seen: int = 0
    size: int = 0


def account(directory: Path) -> Account:
    """Walk through an entry without following a link or opening a file, and return the files that may be read.

    Raises `OSError` for an entry that cannot be listed.
    """
    if directory.is_symlink():
        return Account(problems=(Problem("symlink", directory.name, _LINK),))
    walk = _Walk(directory)
    problems = list(_folder(walk, ()))
    return Account(frozenset(walk.files), tuple(problems))


_LINK = "is a link, which may lead out of the entry: put the file itself there"


def _folder(walk: _Walk, parts: tuple[str, ...]) -> Iterator[Problem]:
    # At most one more than allowed is listed: a folder may have millions.
    with os.scandir(walk.directory.joinpath(*parts)) as listing:
        listed = sorted(islice(listing, MOST_FILES + 1), key=lambda item: item.name)
    for item in listed:
        walk.seen += 1
        if walk.seen > MOST_FILES:
            if walk.seen == MOST_FILES + 1:
                message = f"more than {MOST_FILES:,} files and folders: keep the runs alone"
                yield Problem("number", walk.directory.name, message)
            return
        yield from _item(walk, (*parts, item.name), item.stat(follow_symlinks=False))


def _item(walk: _Walk, parts: tuple[str, ...], info: os.stat_result) -> Iterator[Problem]:
    where = "/".join((walk.directory.name, *parts))
    name = parts[-1]
    if stat.S_ISLNK(info.st_mode):
        yield Problem("symlink", where, _LINK)
    elif name.startswith("."):
        yield Problem("hidden", where, "is hidden: delete it, or make the entry with mtbench submit")
    elif stat.S_ISDIR(info.st_mode):
        if _is_folder(parts):
            yield from _folder(walk, parts)
        else:
            yield Problem("unexpected", where, f"no folder of this name belongs here; {_LAYOUT}")
    elif not stat.S_ISREG(info.st_mode):
        yield Problem("special", where, "is neither a file nor a folder: delete it")
    elif name.lower().endswith(PICKLES):
        yield Problem("pickle", where, "may run code when it is opened, and no entry needs it: delete it")
    elif (most := _most_bytes(parts)) is None:
        yield Problem("unexpected", where, f"no file of this name belongs here; {_LAYOUT}")
    elif info.st_size > most:
        yield Problem("size", where, f"has {info.st_size:,} bytes, at most {most:,} are read: is it what a run wrote?")
    else:
        before, walk.size = walk.size, walk.size + info.st_size
        if walk.size <= MOST_BYTES:
            walk.files.append("/".join(parts))
        elif before <= MOST_BYTES:
            message = f"more than {MOST_BYTES // MIB} MiB in all: submit fewer runs, or fewer protocols"
            yield Problem("size", walk.directory.name, message)


_LAYOUT = "an entry is card.toml and DATASET/seedK as mtbench submit lays them out"


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
    """Return the most bytes that a file may have, None for one that does not belong there."""
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
