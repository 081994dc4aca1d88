"""What to type so that runs are made or completed: one ``mtbench grid`` for all that lie in the folder of a grid."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mtbench.errors import typed
from mtbench.runs.directory import Run


def label(name: str, given: Mapping[str, str]) -> str:
    """Return the label of a model with settings, ``mtdea-tasks-4``: a slug, which names the folder of its runs."""
    text = "-".join([name, *(f"{key}={value}" for key, value in given.items())])
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-._")


@dataclass(frozen=True)
class Origin:
    """How a run was begun: its ``command``, its ``model`` as a grid takes it, and the folder of its grid, if any."""

    command: str
    model: str
    grid: Path | None


def origin(run: Run) -> Origin:
    """Return how a run was begun; it is of a grid if it lies where ``mtbench grid`` puts what was typed."""
    info, dataset = run.headline.run, run.headline.dataset
    # Runs of earlier versions do not record their command.
    begun = f"mtbench run {info.model} --dataset {dataset} --seed {info.seed}"
    command = info.environment.get("command", begun)
    words = shlex.split(command)
    settings = dict(word.partition("=")[::2] for option, word in pairwise(words) if option == "--set")
    shown = ",".join(f"{key}={value}" for key, value in settings.items())
    path = run.directory.path
    place = (label(words[2], settings), dataset.replace("/", "-"), f"seed{info.seed}")
    # A setting with a comma cannot be typed in a grid, and the value of one that was hidden, as "...", is not known.
    typeable = words[1] == "run" and not any("," in value or value == "..." for value in settings.values())
    grid = path.parents[2] if typeable and path.parts[-3:] == place and len(path.parts) > 3 else None
    return Origin(command, f"{words[2]}:{shown}" if shown else words[2], grid)


def grid_command(
    models: Iterable[str], datasets: Iterable[str], seeds: Iterable[int], options: Sequence[str], out: Path | None
) -> str:
    """Return the command of a grid, which leaves what is there; without ``out`` it has the default folder."""
    ordered = sorted(set(seeds))
    whole = len(ordered) > 1 and ordered[-1] - ordered[0] == len(ordered) - 1
    typed_seeds = f"{ordered[0]}-{ordered[-1]}" if whole else ",".join(map(str, ordered))
    words = [*dict.fromkeys(models), "--dataset", ",".join(dict.fromkeys(datasets)), "--seeds", typed_seeds, *options]
    return typed("grid", *words, *(["--out", out] if out else []))


def filling(lacking: Sequence[tuple[Origin, str, int, Run | None]], options: Sequence[str]) -> list[str]:
    """Return the commands that score what is lacking: how its model is begun, a dataset, a seed, and the run if any.

    What lies in the folder of a grid, and what is not there at all, is made by one command of a grid for each folder;
    any other run is completed where it lies. ``options`` say in which tasks.
    """
    of_grid = defaultdict[Path | None, list[tuple[str, str, int]]](list)
    alone = []
    for begun, dataset, seed, run in lacking:
        if begun.grid is not None or run is None:
            of_grid[begun.grid].append((begun.model, dataset, seed))
        else:
            alone.append(f"{begun.command} {shlex.join([*options, '--out', str(run.directory)])}")
    made = []
    for out, cells in of_grid.items():
        models, datasets, seeds = zip(*cells, strict=True)
        made.append(grid_command(models, datasets, seeds, options, out))
    return [*made, *alone]
