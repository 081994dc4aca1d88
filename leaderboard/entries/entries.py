"""The entries of a leaderboard: folders with a card and run directories, read and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from leaderboard.entries.cards import CARD_FILE, SLUG, Card, SubmissionError, read
from mtbench.runs import result
from mtbench.runs.result import Result
from mtbench.runs.runs import RESULT_FILE
from mtbench.settings import table

HEADLINE = (table.HEADLINE.protocol, table.HEADLINE.vocabulary)
TASKS = tuple((one.protocol, one.vocabulary) for one in table.settings_of([table.ALL], [table.ALL]))
"""What a complete run has been scored on."""


@dataclass(frozen=True, eq=False)
class Run:
    """One training of a model on a dataset, as `mtbench run` left it: a result per task, and the folder it lies in."""

    directory: Path
    results: Mapping[tuple[str, str], Result]
    folders: Mapping[tuple[str, str], Path] = field(default_factory=dict)

    @property
    def headline(self) -> Result:
        """The result that stands for the run: that of `HEADLINE`, or the first there is."""
        return self.results.get(HEADLINE) or next(iter(self.results.values()))

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """The tasks of a complete run that this one was not scored on."""
        return tuple(task for task in TASKS if task not in self.results)


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
    runs: list[Run] = []
    for folder in sorted(path.parent for path in directory.glob(f"*/*/{RESULT_FILE}")):
        found = {(one.protocol, one.vocabulary): (one, place) for one, place in _results(folder)}
        results = {task: one for task, (one, _) in found.items()}
        runs.append(Run(folder, results, {task: place for task, (_, place) in found.items()}))
    if not runs:
        raise SubmissionError(f"{directory}: no run directories in it")
    return of_runs(directory, card, runs)


def of_runs(directory: Path, card: Card, runs: Iterable[Run]) -> Entry:
    """Return the entry of some runs, by dataset and in the order of seeds."""
    found: dict[str, tuple[Run, ...]] = {}
    for run in sorted(runs, key=lambda run: (run.headline.dataset, run.headline.run.seed)):
        found[run.headline.dataset] = (*found.get(run.headline.dataset, ()), run)
    return Entry(directory, card, found)


def _results(folder: Path) -> Iterator[tuple[Result, Path]]:
    for path in [folder / RESULT_FILE, *sorted(folder.glob(f"*/{RESULT_FILE}"))]:
        yield result.load(path.parent), path.parent
