"""The entries of a leaderboard: folders with a card and run directories, read and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leaderboard.entries.cards import CARD_FILE, SLUG, Card, SubmissionError, read
from mtbench.ranking.candidates import STANDARD, VOCABULARIES
from mtbench.results import result
from mtbench.results.result import Result
from mtbench.results.runs import RESULT_FILE

HEADLINE = ("dual", "present")
TASKS = tuple((protocol, vocabulary) for protocol in STANDARD for vocabulary in VOCABULARIES)
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
    runs: dict[str, list[Run]] = {}
    for folder in sorted(path.parent for path in directory.glob(f"*/*/{RESULT_FILE}")):
        found = {(one.protocol, one.vocabulary): (one, place) for one, place in _results(folder)}
        run = Run(
            folder, {task: one for task, (one, _) in found.items()}, {task: at for task, (_, at) in found.items()}
        )
        runs.setdefault(run.headline.dataset, []).append(run)
    if not runs:
        raise SubmissionError(f"{directory}: no run directories in it")
    by_seed = {name: sorted(some, key=lambda run: run.headline.run.seed) for name, some in sorted(runs.items())}
    return Entry(directory, card, {name: tuple(some) for name, some in by_seed.items()})


def _results(folder: Path) -> Iterator[tuple[Result, Path]]:
    for path in [folder / RESULT_FILE, *sorted(folder.glob(f"*/{RESULT_FILE}"))]:
        yield result.load(path.parent), path.parent
