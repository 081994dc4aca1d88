"""A run scored again: its model remade from its checkpoints, its tasks ranked anew, beside what was recorded."""

from __future__ import annotations

import shlex
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtbench.data import catalog
from mtbench.data.loading import load
from mtbench.errors import UnknownNameError, UsageError
from mtbench.evaluation.tasks import task
from mtbench.runs.directory import CHECKPOINTS, RunDirectory
from mtbench.runs.origin import RunInfo
from mtbench.runs.result import MtbenchWarning, Result
from mtbench.training import models
from mtbench.training.models import remade, remaking

MOST_APART = 0.001
"""The most that an MRR may differ from the recorded one: where scores are near, another machine's rounding decides."""


@dataclass(frozen=True)
class Again:
    """One task of a run, scored again: both MRRs, and the share of test triples that rank as they did."""

    protocol: str
    vocabulary: str
    recorded: float
    found: float
    same: float

    @property
    def ok(self) -> bool:
        """Whether the weights give what was recorded, up to rounding."""
        return abs(self.recorded - self.found) <= MOST_APART

    def __str__(self) -> str:
        task = f"{self.protocol}-{self.vocabulary}"
        return f"{task}: its weights give an MRR of {self.found:.4f}, not {self.recorded:.4f}"


def from_weights(run: Path, model: str | None = None, device: str = "cpu") -> list[Again]:
    """Remake the model of a run from its checkpoints, without training, and rank every task of the run again.

    ``model`` is what ``mtbench run`` knows the model by where the run carries another name and its recorded command
    names no installed model. A checkpoint shows that these weights give these ranks, not how the weights were made.
    Nothing is written. Raises `UsageError` for a run without ranks or checkpoints, or on a dataset that is not
    released, and for checkpoints of an unfinished training or of other settings.
    """
    recorded = list(RunDirectory(run).read().results.values())
    first = recorded[0]
    for one in recorded:
        if not len(one.ranks):
            raise UsageError(
                f"{run}: {one.protocol}-{one.vocabulary} is {one.run.status} and has no ranks to compare with"
            )
    if catalog.find(first.dataset) is None:
        raise UsageError(f"{run}: {first.dataset} is no released dataset, so that nobody can score the run again")
    try:
        make = models.factory(model or _begun_as(first.run))
    except UnknownNameError as error:
        raise UsageError(f"{error} Say what made the run: --model NAME or --model package.module:factory") from error
    data = load(first.dataset)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / CHECKPOINTS
        RunDirectory(run).copy_checkpoints(place)
        with remaking(first.run, first.dataset, run), warnings.catch_warnings():
            warnings.simplefilter("ignore", MtbenchWarning)  # of ties, which the run has told of
            score = remade(make, first.run, data, device, place).scorer(data.test.observable())
            return [
                _compared(one, task(data.test, one.protocol, one.vocabulary, one.candidate_seed).run(score))
                for one in recorded
            ]


def _begun_as(run: RunInfo) -> str:
    """Return what a run's model is installed as; a command that somebody else recorded is looked up, never followed."""
    words = shlex.split(run.environment.get("command", ""))[:3]
    return words[2] if run.model not in models.names() and words[2:] and words[2] in models.names() else run.model


def _compared(recorded: Result, found: Result) -> Again:
    """Lay what the weights give beside what is recorded; a target is the same if all its counts are."""
    apart = [counts.differs(found.ranks.parts[part]) for part, counts in recorded.ranks.parts.items()]
    same = 1 - float(np.mean(np.logical_or.reduce(apart)))
    return Again(recorded.protocol, recorded.vocabulary, recorded.metrics["mrr"], found.metrics["mrr"], same)
