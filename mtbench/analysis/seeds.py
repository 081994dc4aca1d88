"""The runs of a comparison: read, refused unless they are of one task, and gathered as seeds of models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from mtbench.analysis.overview import labelled, varying
from mtbench.errors import ResultError, UsageError
from mtbench.names import FloatArray, IntArray
from mtbench.ranking.ranks import Ranks
from mtbench.runs.result import Result, load
from mtbench.runs.runs import find

IDENTITY: Mapping[str, str] = {
    "dataset": "dataset",
    "dataset_version": "dataset version",
    "split": "split",
    "content_sha256": "content hash",
    "protocol": "protocol",
    "vocabulary": "vocabulary",
    "candidate_seed": "candidate seed",
    "candidates_sha256": "candidates hash",
    "evaluator_version": "evaluator version",
}
"""The fields of a result that must be the same for figures to be comparable, and how they read."""

TASK = ("dataset", "split", "protocol", "vocabulary", "candidate_seed")
"""Those that are the parts of a task's name."""

SHORT = 12


@dataclass(frozen=True, eq=False)
class Entry:
    """One run: where it came from and its result."""

    source: str
    result: Result


@dataclass(frozen=True, eq=False)
class Model:
    """The finished runs of one model, by seed; ``values`` is ``(seeds, m)`` for the targets of `ordered`."""

    label: str
    entries: tuple[Entry, ...]
    values: FloatArray

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(entry.result.run.seed for entry in self.entries)


def read(runs: Sequence[Path | str | Result | Entry]) -> list[Entry]:
    """Return the results of run directories, or those that were read; raises the errors of `runs.find` and `load`."""
    found = []
    for number, run in enumerate(runs, 1):
        if isinstance(run, Entry):
            found.append(run)
        elif isinstance(run, Result):
            found.append(Entry(f"result {number}", run))
        else:
            found.append(Entry(str(place := find(Path(run))), load(place)))
    return found


def same_task(entries: Sequence[Entry]) -> None:
    """Raise `UsageError` naming the first run of another task than the first run, and all that differs."""
    first = entries[0]
    for entry in entries[1:]:
        differing = [
            f"{name} ({_shown(theirs)}, not {_shown(ours)})"
            for field, name in IDENTITY.items()
            if (theirs := getattr(entry.result, field)) != (ours := getattr(first.result, field))
        ]
        if differing:
            raise UsageError(
                f"{entry.source} cannot be compared with {first.source}: different {', '.join(differing)}; "
                f"compare runs of one task, or evaluate again"
            )


def ordered(ranks: Ranks) -> tuple[Ranks, IntArray]:
    """Return the targets without counts, sorted by name, and the position of each in the ranks."""
    order = np.lexsort((ranks.tails, ranks.relations, ranks.heads))
    return Ranks(ranks.heads[order], ranks.relations[order], ranks.tails[order], {}), order


def models(entries: Sequence[Entry], metric: str, targets: Ranks) -> list[Model]:
    """Gather finished runs as seeds of models: same name, settings other than the seed, regime and graphs.

    Models are in the order of their labels and runs in that of their seeds, so that nothing depends on
    the order runs are given in. Raises `UsageError` for two runs of one model and seed, and `ResultError`
    for ranks of other targets.
    """
    gathered: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.result.run.seed):
        gathered.setdefault(json.dumps(_identity(entry.result), sort_keys=True, default=str), []).append(entry)
    labels = _labels({key: _identity(members[0].result) for key, members in gathered.items()})
    found = []
    for key in sorted(gathered, key=lambda key: (labels[key], key)):
        members = gathered[key]
        for earlier, later in pairwise(members):
            if earlier.result.run.seed == later.result.run.seed:
                raise UsageError(
                    f"{earlier.source} and {later.source} are both {labels[key]} with seed {later.result.run.seed}: "
                    f"name each run once, and give models that differ different names or hyper-parameters"
                )
        values = np.stack([_values(entry, metric, targets) for entry in members])
        found.append(Model(labels[key], tuple(members), values))
    return found


def _values(entry: Entry, metric: str, targets: Ranks) -> FloatArray:
    own, order = ordered(entry.result.ranks)
    same = all(np.array_equal(getattr(own, name), getattr(targets, name)) for name in ("heads", "relations", "tails"))
    if not same:
        raise ResultError(f"{entry.source}: its ranks are of other triples than those of the other runs: verify it")
    return entry.result.per_target()[metric][order]


def _identity(result: Result) -> dict[str, object]:
    run = result.run
    settings: dict[str, object] = {name: value for name, value in run.hyperparameters.items() if name != "seed"}
    return settings | {
        "model": run.model,
        "regime": run.regime,
        "pre-trained on": " + ".join(sorted(run.pretraining_graphs)) or "nothing",
    }


def _labels(identities: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return a name per model, with whatever tells it from others of the same name in brackets."""
    return {
        key: labelled(
            str(identity["model"]),
            varying(identity, [one for one in identities.values() if one["model"] == identity["model"]]),
        )
        for key, identity in identities.items()
    }


def _shown(value: object) -> str:
    text = str(value)
    return text[:SHORT] if len(text) == 64 else text
