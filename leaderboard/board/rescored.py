"""Which runs the maintainers scored again from the weights they ship: ``rescored.toml``, outside all entries."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from leaderboard.board.commands import installed
from leaderboard.entries.entries import Entry
from mtbench.files.hashing import file_hash
from mtbench.runs.directory import Run
from mtbench.runs.files import RANKS_FILE
from mtbench.training.again import from_weights


def rescored(entry: Entry) -> list[str]:
    """Return the runs of an entry, as ``DATASET seed 0``, whose ranks are those that its weights gave."""
    known = _known().get(entry.slug, {})
    return [_name(run) for run in _shipping(entry) if known.get(_name(run)) == _ranks(run)]


def rescore(entry: Entry) -> Iterator[tuple[str, str, list[str]]]:
    """Score every run of an entry that ships weights again: give its name, the hash of its ranks, and what is wrong.

    Raises `UsageError` for a run whose model cannot be remade.
    """
    for run in _shipping(entry):
        model, _ = installed(entry.card.model)
        wrong = [f"{run.directory}: {one}" for one in from_weights(run.directory.path, model) if not one.ok]
        yield _name(run), _ranks(run), wrong


def _shipping(entry: Entry) -> list[Run]:
    # A run that was out of memory may have weights, but no ranks that they could give.
    runs = [run for some in entry.runs.values() for run in some if run.headline.run.status == "ok"]
    return [run for run in runs if run.directory.checkpoints.is_dir()]


def _name(run: Run) -> str:
    return f"{run.headline.dataset} seed {run.headline.run.seed}"


def _ranks(run: Run) -> str:
    return file_hash(run.directory.path / RANKS_FILE)


@cache
def _known() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((resources.files("leaderboard.board") / "rescored.toml").read_text(encoding="utf-8"))
