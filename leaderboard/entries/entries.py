"""The entries of a leaderboard: folders with a card and run directories, read and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from leaderboard.entries.cards import CARD_FILE, SLUG, Card, SubmissionError, read
from mtbench.runs.directory import Run, RunDirectory
from mtbench.runs.files import RESULT_FILE


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


Some = TypeVar("Some")


class Watch(Protocol):
    """Gives what it is given, one after the other, and shows whoever waits how far it is."""

    def __call__(self, some: Sequence[Some], doing: str, /) -> Iterable[Some]: ...


def unwatched(some: Sequence[Some], doing: str) -> Iterable[Some]:
    """Show nothing."""
    return some


def load(directory: Path) -> Entry:
    """Read one entry.

    Raises `SubmissionError` for a card that does not hold, a name that is no slug or an entry without runs, and
    `ResultError` for a run that cannot be read. Whether the figures hold is for `leaderboard.entries.checks` to say.
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
    found: dict[str, tuple[Run, ...]] = {}
    for run in sorted(runs, key=lambda run: (run.headline.dataset, run.headline.run.seed)):
        found[run.headline.dataset] = (*found.get(run.headline.dataset, ()), run)
    return Entry(directory, card, found)
