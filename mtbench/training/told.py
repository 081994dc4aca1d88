"""How well two groupings of the same things agree: the adjusted Rand index and normalised mutual information."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mtbench.data.splits import Dataset, Split
from mtbench.files import pictures
from mtbench.files.atomic import replace_file
from mtbench.names import FloatArray, IntArray
from mtbench.training.models import Assignment, Model, TellsAssignments, TellsHistory

_NOTHING = 1e-12


def adjusted_rand(truth: IntArray, shares: FloatArray) -> float:
    """Return the adjusted Rand index of groups ``(n,)`` and of shares ``(n, K)`` whose rows sum to 1.

    1 means the same groups, 0 what a random grouping of the same sizes gives in expectation. Hard groups are
    rows of zeros and a one. For soft ones the numbers of pairs are expectations over drawing each thing's
    group from its row, independently. Two groupings that both put everything together, or everything
    apart, agree by definition. Source: Hubert and Arabie 1985.
    """
    table = _table(truth, shares)
    own = np.square(shares).sum(axis=1)
    both = (np.square(table).sum() - own.sum()) / 2
    one = (np.square(table.sum(axis=1)).sum() - len(truth)) / 2
    other = (np.square(table.sum(axis=0)).sum() - own.sum()) / 2
    pairs = len(truth) * (len(truth) - 1) / 2
    expected = one * other / pairs if pairs else 0.0
    most = (one + other) / 2
    return 1.0 if abs(most - expected) < _NOTHING else float((both - expected) / (most - expected))


def normalised_mutual_information(truth: IntArray, shares: FloatArray) -> float:
    """Return the mutual information of groups ``(n,)`` and of shares ``(n, K)`` over the mean of their entropies.

    1 means the same groups and 0 independent ones; unlike the adjusted Rand index it is not corrected for chance, so
    that many small groups get some of it for nothing. Soft shares count as fractions of a thing. Two groupings of
    a single group agree by definition.
    """
    joint = _table(truth, shares) / len(truth)
    first, second, together = (_entropy(part) for part in (joint.sum(axis=1), joint.sum(axis=0), joint.ravel()))
    mean = (first + second) / 2
    return 1.0 if mean < _NOTHING else max(0.0, float((first + second - together) / mean))


def _table(truth: IntArray, shares: FloatArray) -> FloatArray:
    """Return how much of each true group ``(T,)`` every other group ``(K,)`` holds, ``(T, K)``."""
    names, group = np.unique(truth, return_inverse=True)
    table = np.zeros((len(names), shares.shape[1]))
    np.add.at(table, group, shares)
    return table


def _entropy(shares: FloatArray) -> float:
    held = shares[shares > 0]
    return float(-(held * np.log(held)).sum())


HISTORY_FILE, TASKS_FILE = "history.json", "tasks.json"
TRAINING_PICTURE, ALPHA_PICTURE = "training.png", "alpha.png"
FILES = (HISTORY_FILE, TASKS_FILE, TRAINING_PICTURE, ALPHA_PICTURE)

Report: TypeAlias = dict[str, object]


def write(model: Model, data: Dataset, directory: Path, *, with_names: bool = True) -> None:
    """Write what the model tells into a run directory, as JSON and, where matplotlib is installed, as pictures.

    A model that tells nothing leaves nothing, and without names there are no tasks of relations either.
    Raises `MtbenchError` for a place that cannot be written.
    """
    history = model.history() if isinstance(model, TellsHistory) else {}
    assignments = model.assignments() if isinstance(model, TellsAssignments) and with_names else {}
    title = f"{model.name} on {data.name}"
    splits = {"train": data.train, "test": data.test}
    draws = pictures.available()
    if history:
        _write(directory / HISTORY_FILE, {stage: list(records) for stage, records in history.items()})
        if draws:
            from mtbench.training.plots import draw_training

            draw_training(history, title, directory / TRAINING_PICTURE)
    if assignments:
        told = {name: agreement(found, splits[name]) for name, found in assignments.items()}
        _write(directory / TASKS_FILE, {"dataset": data.name, "model": model.name, "graphs": told})
        if draws:
            from mtbench.training.plots import draw_assignments

            draw_assignments(assignments, splits, title, directory / ALPHA_PICTURE)


def agreement(assignment: Assignment, split: Split) -> Report:
    """Return an assignment of relations to tasks, and how well it agrees with the ground truth of a split.

    ``hard`` is the task with the largest share of each relation, ``soft`` the shares themselves; both are null
    where no ground truth is known. Relations without ground truth (empty slots and inverses have none) are left
    out of the figures and listed in ``without_truth``.
    """
    alpha = np.asarray(assignment.alpha, dtype=np.float64)
    hard = alpha.argmax(axis=1)
    known = [row for row, name in enumerate(assignment.relations) if name in split.tasks]
    report: Report = {
        "tasks": alpha.shape[1],
        "tasks_used": len(np.unique(hard)),
        "patterns": len({split.tasks[assignment.relations[row]] for row in known}),
        "compared": len(known),
        "without_truth": [name for name in assignment.relations if name not in split.tasks],
        "hard": None,
        "soft": None,
    }
    if known:
        truth = np.unique([split.tasks[assignment.relations[row]] for row in known], return_inverse=True)[1]
        one_hot = np.eye(alpha.shape[1])[hard]
        for kind, shares in (("hard", one_hot[known]), ("soft", alpha[known])):
            report[kind] = {
                "ari": adjusted_rand(truth, shares),
                "nmi": normalised_mutual_information(truth, shares),
            }
    report["relations"] = {
        name: {"truth": split.tasks.get(name), "task": int(task), "alpha": [round(share, 6) for share in row]}
        for name, task, row in zip(assignment.relations, hard, alpha.tolist(), strict=True)
    }
    return report


def summarise(directory: Path) -> list[str]:
    """Return one line per graph on how the tasks in a run directory agree with the ground truth; none without any."""
    path = directory / TASKS_FILE
    if not path.exists():
        return []
    graphs = json.loads(path.read_text(encoding="utf-8"))["graphs"]
    return [
        f"{name} graph: {told['tasks_used']} of {told['tasks']} tasks used, {told['patterns']} patterns in the ground "
        f"truth; ARI {told['hard']['ari']:.3f} (soft {told['soft']['ari']:.3f}), NMI {told['hard']['nmi']:.3f} "
        f"(soft {told['soft']['nmi']:.3f}) over {told['compared']} relations; "
        f"{len(told['without_truth'])} without ground truth left out"
        for name, told in graphs.items()
        if told["hard"] is not None
    ]


def _write(path: Path, payload: Mapping[str, object]) -> None:
    replace_file(path, f"{json.dumps(payload, ensure_ascii=False, indent=1)}\n".encode())
