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
from mtbench.runs.directory import find
from mtbench.runs.result import Result, load

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
"""The fields that make the name of a task."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run: where it came from and its result."""

    source: str
    result: Result


@dataclass(frozen=True, eq=False)
class Model:
    """The finished runs of a model, by seed; ``values`` is ``(seeds, m)`` for the targets of `ordered`."""

    label: str
    runs: tuple[Run, ...]
    values: FloatArray

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(run.result.run.seed for run in self.runs)


def read(runs: Sequence[Path | str | Result | Run]) -> list[Run]:
    """Return the results of run directories, or those that were read; raises the errors of `runs.find` and `load`."""
    loaded = []
    for number, run in enumerate(runs, 1):
        if isinstance(run, Run):
            loaded.append(run)
        elif isinstance(run, Result):
            loaded.append(Run(f"result {number}", run))
        elif not isinstance(run, str | Path):
            raise UsageError(f"{type(run).__name__} is no run: pass run directories, or what evaluate returned")
        else:
            loaded.append(Run(str(place := find(Path(run))), load(place)))
    return loaded


def same_task(runs: Sequence[Run]) -> None:
    """Raise `UsageError` naming the first run of another task than the first run, and all that differs."""
    first = runs[0]
    for run in runs[1:]:
        differing = []
        for field, name in IDENTITY.items():
            theirs, ours = getattr(run.result, field), getattr(first.result, field)
            end = 12 if "hash" in name else None  # the beginning of a hash shows that it is another
            if theirs != ours:
                differing.append(f"{name} ({str(theirs)[:end]}, not {str(ours)[:end]})")
        if differing:
            raise UsageError(
                f"{run.source} cannot be compared with {first.source}: different {', '.join(differing)}; "
                f"compare runs of one task, or evaluate again"
            )


def ordered(ranks: Ranks) -> tuple[Ranks, IntArray]:
    """Return the targets without counts, sorted by name, and the position of each in the ranks."""
    order = np.lexsort((ranks.tails, ranks.relations, ranks.heads))
    return Ranks(ranks.heads[order], ranks.relations[order], ranks.tails[order], {}), order


def models(runs: Sequence[Run], metric: str, targets: Ranks) -> list[Model]:
    """Gather finished runs as seeds of models: same name, settings other than the seed, regime and graphs.

    Models are sorted by label and their runs by seed, so that nothing depends on the order of the runs. Raises
    `UsageError` for two runs of the same model and seed, and `ResultError` for ranks of different targets.
    """
    gathered: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.result.run.seed):
        gathered.setdefault(json.dumps(identity(run.result), sort_keys=True, default=str), []).append(run)
    identities = {key: identity(members[0].result) for key, members in gathered.items()}
    labels = {}
    for key, settings in identities.items():
        namesakes = [namesake for namesake in identities.values() if namesake["model"] == settings["model"]]
        labels[key] = labelled(str(settings["model"]), varying(settings, namesakes))
    compared = []
    for key in sorted(gathered, key=lambda key: (labels[key], key)):
        members = gathered[key]
        # Counted twice, a seed would make intervals too short. Members are sorted, so that equal seeds are neighbours.
        for earlier, later in pairwise(members):
            if earlier.result.run.seed == later.result.run.seed:
                raise UsageError(
                    f"{earlier.source} and {later.source} are both {labels[key]} with seed {later.result.run.seed}: "
                    f"name each run once, and give models that differ different names or hyper-parameters"
                )
        values = []
        for run in members:
            own, order = ordered(run.result.ranks)
            if any(
                not np.array_equal(getattr(own, name), getattr(targets, name))
                for name in ("heads", "relations", "tails")
            ):
                raise ResultError(
                    f"{run.source}: its ranks are of other triples than those of the other runs: verify it"
                )
            values.append(run.result.per_target()[metric][order])
        compared.append(Model(labels[key], tuple(members), np.stack(values)))
    return compared


def identity(result: Result) -> dict[str, object]:
    """Return what two runs have in common that are seeds of one model: name, settings, regime and graphs."""
    run = result.run
    # Some models report their seed among the hyper-parameters, and it is what their runs differ in.
    settings: dict[str, object] = {name: value for name, value in run.hyperparameters.items() if name != "seed"}
    return settings | {
        "model": run.model,
        "regime": run.regime,
        "pre-trained on": " + ".join(sorted(run.pretraining_graphs)) or "nothing",
    }
