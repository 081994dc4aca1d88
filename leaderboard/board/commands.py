"""What is not run, and how: the command, and about how long it takes by what the same model took elsewhere."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Sequence
from functools import cache

from leaderboard.board.board import Line
from mtbench.data import catalog
from mtbench.training import models


def command(model: str, datasets: Iterable[str]) -> str:
    """Return what runs a model on some datasets as the leaderboard wants it; MODULE:MODEL stands for one of others."""
    where = " ".join(f"--dataset {name}" for name in datasets)
    name, tasks = installed(model)
    chosen = f"{name}:tasks={tasks}" if tasks else name
    if name not in _known():
        chosen = "MODULE:MODEL"
    return f"mtbench grid {shlex.quote(chosen)} {where} --seeds 0-2 --protocol all --vocabulary all --paper"


def installed(model: str) -> tuple[str, str]:
    """Return what ``mtbench run`` knows a model of an entry by, and how many tasks it then has if its name says so."""
    name, _, tasks = model.partition("-k")
    return (name, tasks) if tasks.isdigit() else (model, "")


@cache
def _known() -> frozenset[str]:
    return frozenset(models.names())


def estimate(lines: Sequence[Line], datasets: Iterable[str]) -> float | None:
    """Return about how many seconds a seed takes on some datasets, None where nothing is recorded of the model.

    That is what a run took there before, else the median of the seconds per triple of the training graph, times the
    triples.
    """
    took = {line.dataset: line.seconds for line in lines if line.seconds is not None and line.seeds}
    if not took:
        return None
    rate = statistics.median(seconds / _triples(name) for name, seconds in took.items())
    return sum(took.get(name, rate * _triples(name)) for name in datasets)


def _triples(dataset: str) -> int:
    return catalog.record(dataset).part("train", "graph").triples
