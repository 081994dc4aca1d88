"""Who besides its authors says that an entry's ranks are those of the model on its card: no check of files can tell."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

from leaderboard.entries.entries import Entry
from mtbench.files.hashing import file_hash
from mtbench.runs.files import RANKS_FILE

Verifier: TypeAlias = Literal["maintainers", "weights", ""]

OURS = (
    "deq-ingram",
    "ingram",
    "isdea",
    "isdea-homo",
    "kg-icl-4l",
    "kg-icl-5l",
    "kg-icl-6l",
    "motif",
    "mtdea-k2",
    "mtdea-k4",
    "mtdea-k6",
    "mtdea-search-k2",
    "nbfnet-homo",
    "tally",
    "tally-3g",
    "tally-adapted",
    "tally-foundation",
    "tally-open",
    "trix",
    "ultra-3g",
    "ultra-4g",
    "ultra-50g",
)
"""The entries whose runs the maintainers made; a line for another one is a change that they see in its pull request."""


def verified_by(entry: Entry, dataset: str) -> Verifier:
    """Return who stands for an entry's ranks on a dataset; nobody, an empty text, for *unverified by us*.

    ``maintainers`` made the runs themselves; ``weights``: they scored all finished runs on the dataset again from
    weights beside them, and got these very ranks (``rescored.toml``). Counts can be made up so that every figure
    follows from them, so that an entry for which nobody stands never takes first place.
    """
    if entry.slug in OURS:
        return "maintainers"
    known = rescored_ranks().get(entry.slug, {})
    finished = [run for run in entry.runs.get(dataset, ()) if run.headline.run.status == "ok"]
    same = [
        known.get(f"{dataset} seed {run.headline.run.seed}") == file_hash(run.directory.path / RANKS_FILE)
        for run in finished
    ]
    return "weights" if same and all(same) else ""


@cache
def rescored_ranks() -> Mapping[str, Mapping[str, str]]:
    """Return by entry and run, as ``DATASET seed 0``, the hash of the ranks that its weights gave the maintainers."""
    return tomllib.loads((resources.files("leaderboard.entries") / "rescored.toml").read_text(encoding="utf-8"))
