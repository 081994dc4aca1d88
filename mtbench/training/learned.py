"""What a model tells of its training, kept beside its results: how it went, which tasks relations were sorted into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtbench.data.splits import Dataset, Split
from mtbench.files import pictures
from mtbench.files.pictures import COLOURS, GREY
from mtbench.files.reading import read_json
from mtbench.names import FloatArray, IntArray
from mtbench.runs.directory import ALPHA_PICTURE, HISTORY_FILE, TASKS_FILE, TRAINING_PICTURE
from mtbench.training.models import Assignment, Model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

PANELS = {"loss": "Training loss", "valid_mrr": "Validation MRR", "moves": "Relations moved to another task"}
NAMED = 120
"""The most relations whose names are written beside the picture; more would be too small to read."""

_NOTHING = 1e-12


def told(model: Model, data: Dataset, *, with_names: bool = True) -> dict[str, object]:
    """Return what `RunDirectory.write_beside` keeps of what a model tells of its training on a dataset.

    A model that tells nothing leaves nothing, and without names there are no tasks of relations either.
    """
    files: dict[str, object] = {}
    if history := model.history():
        files[HISTORY_FILE] = {stage: list(records) for stage, records in history.items()}
    if with_names and (assignments := model.assignments()):
        splits = {"train": data.train, "test": data.test}
        graphs = {name: agreement(assignment, splits[name]) for name, assignment in assignments.items()}
        files[TASKS_FILE] = {"dataset": data.name, "model": model.info.name, "graphs": graphs}
    return files


def draw(directory: Path, title: str) -> None:
    """Draw what `told` left in a run directory, as far as there is any, where matplotlib is installed."""
    if not pictures.available():
        return
    if (history := directory / HISTORY_FILE).exists():
        draw_training(read_json(history), title, directory / TRAINING_PICTURE)
    if (tasks := directory / TASKS_FILE).exists():
        draw_assignments(read_json(tasks)["graphs"], title, directory / ALPHA_PICTURE)


def agreement(assignment: Assignment, split: Split) -> dict[str, object]:
    """Return an assignment of relations to tasks, and how well it agrees with the ground truth of a split.

    ``hard`` is the task with the largest share of each relation, ``soft`` the shares themselves; both are null
    where no ground truth is known. Relations without ground truth (empty slots and inverses have none) are left
    out of the figures and listed in ``without_truth``.
    """
    alpha = np.asarray(assignment.alpha, dtype=np.float64)
    hard = alpha.argmax(axis=1)
    known = [row for row, name in enumerate(assignment.relations) if name in split.tasks]
    report: dict[str, object] = {
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
            report[kind] = {"ari": adjusted_rand(truth, shares), "nmi": normalised_mutual_information(truth, shares)}
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
    graphs = read_json(path)["graphs"]
    return [
        f"{name} graph: {graph['tasks_used']} of {graph['tasks']} tasks used, {graph['patterns']} patterns in the "
        f"ground truth; ARI {graph['hard']['ari']:.3f} (soft {graph['soft']['ari']:.3f}), "
        f"NMI {graph['hard']['nmi']:.3f} (soft {graph['soft']['nmi']:.3f}) over {graph['compared']} relations; "
        f"{len(graph['without_truth'])} without ground truth left out"
        for name, graph in graphs.items()
        if graph["hard"] is not None
    ]


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


def draw_training(history: Mapping[str, Sequence[Mapping[str, float]]], title: str, path: Path) -> None:
    """Draw the loss, the validation MRR and the moved relations per epoch, a line per stage, as far as they are told.

    The epoch with the best validation MRR, whose weights are kept, is marked. Raises the errors of
    `mtbench.files.pictures.page`.
    """
    panels = [name for name in PANELS if any(name in record for records in history.values() for record in records)]
    with pictures.page(path, 0.6 + 3.6 * len(panels), 3.3) as figure:
        for axes, name in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw_curves(axes, history, name)
            pictures.plain(axes, PANELS[name], "Epoch", "")
        figure.suptitle(pictures.literal(title), fontsize=11, fontweight="bold")


def _draw_curves(axes: Axes, history: Mapping[str, Sequence[Mapping[str, float]]], name: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for (stage, records), colour in zip(history.items(), COLOURS, strict=False):
        drawn = [record for record in records if name in record]
        if not drawn:
            continue
        epochs, values = ([record[key] for record in drawn] for key in ("epoch", name))
        marker = "o" if len(drawn) <= 30 else None
        axes.plot(epochs, values, color=colour, linewidth=1.5, marker=marker, markersize=3.5, label=stage)
        if name == "valid_mrr":
            best = int(np.argmax(values))
            axes.axvline(epochs[best], color=GREY, linestyle="--", linewidth=1)
            axes.plot(epochs[best], values[best], "D", color=COLOURS[1], markersize=6)
            label = f"{values[best]:.3f} in epoch {epochs[best]:.0f}"
            late = best > len(values) / 2
            axes.annotate(
                label,
                (epochs[best], values[best]),
                xytext=(-7 if late else 7, 7),
                textcoords="offset points",
                ha="right" if late else "left",
                fontsize=9,
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.12)
    if name != "loss":
        # Room for what is written above the best epoch.
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
    if name == "moves":
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    if name != "valid_mrr" and len(history) > 1:
        axes.legend(frameon=False, fontsize=9)


def draw_assignments(graphs: Mapping[str, Mapping[str, Any]], title: str, path: Path) -> None:
    """Draw the shares of every relation in every task, a panel per graph, darker for more, a dot at the largest.

    ``graphs`` are what `agreement` returned, by graph. Relations stand in the order of their ground-truth pattern where
    there is one, else of their task. Raises the errors of `mtbench.files.pictures.page`.
    """
    most_tasks = max(graph["tasks"] for graph in graphs.values())
    longest = max(len(graph["relations"]) for graph in graphs.values())
    height = 1.5 + (0.17 * longest if longest <= NAMED else 9)
    with pictures.page(path, len(graphs) * (3.6 + 0.4 * most_tasks), height) as figure:
        panels = figure.subplots(1, len(graphs), squeeze=False)[0]
        for axes, (name, graph) in zip(panels, graphs.items(), strict=True):
            shares = _draw_shares(axes, graph["relations"])
            axes.set_title(f"{name} graph", fontsize=11)
        figure.colorbar(shares, ax=list(panels), shrink=min(1.0, 4 / height), pad=0.02, label="Share of the relation")
        figure.suptitle(pictures.literal(f"{title}: relations in tasks"), fontsize=11, fontweight="bold")


def _draw_shares(axes: Axes, relations: Mapping[str, Mapping[str, Any]]) -> AxesImage:
    known = any(relation["truth"] is not None for relation in relations.values())

    def group(name: str) -> str:
        # Relations without ground truth come last.
        return (relations[name]["truth"] or "~") if known else str(relations[name]["task"])

    # The same order for every graph of a dataset whose relations keep their names.
    names = sorted(relations, key=lambda name: (group(name), name))
    alpha = np.array([relations[name]["alpha"] for name in names])
    image = axes.imshow(alpha, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for place, name in enumerate(names if len(names) <= NAMED else ()):
        task = relations[name]["task"]
        axes.plot(task, place, ".", color="white" if alpha[place, task] > 0.5 else "black", markersize=4)
    for place in range(1, len(names)):
        if group(names[place]) != group(names[place - 1]):
            axes.axhline(place - 0.5, color=GREY, linewidth=0.6)
    if len(names) <= NAMED:
        labels = pictures.shorten(names, 34)
        axes.set_yticks(range(len(names)), [pictures.literal(label) for label in labels], fontsize=7)
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(names)} relation ids")
    axes.set_xticks(range(alpha.shape[1]), [str(task + 1) for task in range(alpha.shape[1])])
    axes.set_xlabel("Task")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image
