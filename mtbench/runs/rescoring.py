"""Old runs under a corrected evaluator: figures recomputed from the rank counts, without the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mtbench.errors import ResultError
from mtbench.metrics import closed, summary
from mtbench.runs import result, runs
from mtbench.runs.result import EVALUATOR_VERSION, TOLERANCE
from mtbench.runs.runs import RANKS_FILE, RESULT_FILE

REPLACED = "rescored"
"""The key of ``result.json`` that lists what earlier evaluators had reported, oldest first."""

FIGURES = ("metrics", "optimistic", "pessimistic", "chance", "tie_rate")
FORGIVEN = ("evaluator_version", *FIGURES)
"""What `verify` may find in a run that can be rescored: exactly what rescoring puts right."""


@dataclass(frozen=True)
class Rescored:
    """What became of a run: both evaluator versions, and the figures that are now others, with old and new values."""

    directory: Path
    old_version: str
    new_version: str
    changed: Mapping[str, tuple[float, float]]

    def __str__(self) -> str:
        if self.old_version == self.new_version and not self.changed:
            return f"{self.directory}: nothing to change, all metrics match the ranks"
        figures = [f"{name} {old:.4f} -> {new:.4f}" for name, (old, new) in self.changed.items()]
        moved = "; ".join(figures) or "no figure changed"
        return f"{self.directory}: evaluator {self.old_version} -> {self.new_version}: {moved}"


def rescore(directory: Path | str) -> Rescored:
    """Recompute the figures of a run from ``ranks.parquet`` and put a new ``result.json`` in place of the old.

    Metrics, both tie bounds, chance and the tie rate are written with the version of this evaluator, and
    what stood there before is kept under the key ``rescored``. Baselines and warnings stay as they were,
    because they need the scores or the split. A run whose metrics match its ranks already is not
    touched, and one that failed has nothing to rescore. Raises `ResultError` for a run that is damaged
    otherwise, or newer than this package, and `MtbenchError` for a place that cannot be written; the old
    file is then as it was.
    """
    from mtbench.runs.saved import read_ranks

    directory = Path(directory)
    path = directory / RESULT_FILE
    verification = result.verify(directory)
    if others := [problem.message for problem in verification.problems if problem.name not in FORGIVEN]:
        raise ResultError(f"{directory} cannot be rescored: {'; '.join(others)}")
    payload = runs.read_payload(path)
    old = payload["evaluator_version"]
    if not (isinstance(old, str) and old.isdecimal() and int(old) <= int(EVALUATOR_VERSION)):
        raise ResultError(
            f"{path}: evaluator version {old!r} is not one that {EVALUATOR_VERSION} follows: update mtbench-kg"
        )
    if verification.ok:
        return Rescored(directory, old, EVALUATOR_VERSION, {})
    if payload["ranks_sha256"] is None:
        raise ResultError(f"{directory} cannot be rescored: the run is {payload['status']} and has no ranks")
    ranks = read_ranks(directory / RANKS_FILE)
    new = {
        **summary.figures(ranks),
        "tie_rate": closed.tie_rate(ranks.equal),
    }
    record = {"evaluator_version": old} | {name: payload[name] for name in new}
    runs.replace_payload(
        directory,
        payload | new | {"evaluator_version": EVALUATOR_VERSION, REPLACED: [*payload.get(REPLACED, ()), record]},
    )
    return Rescored(directory, old, EVALUATOR_VERSION, _changed(record, new))


def _changed(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, tuple[float, float]]:
    before, after = _flat(old), _flat(new)
    return {
        name: (before[name], value)
        for name, value in after.items()
        if name in before and not math.isclose(before[name], value, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    }


def _flat(figures: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers of figures under names such as ``mrr`` and ``optimistic mrr``."""
    found: dict[str, float] = {}
    for kind, values in figures.items():
        if isinstance(values, Mapping):
            prefix = "" if kind == "metrics" else f"{kind} "
            found |= {f"{prefix}{name}": value for name, value in values.items() if isinstance(value, int | float)}
        elif isinstance(values, int | float):
            found[kind] = values
    return found
