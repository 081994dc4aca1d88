"""What to do with a GPU that is lent: compare it with the processor, measure it, fill the cells that are missing.

    PYTHONPATH=. python benchmarks/gpu.py --out results --minutes 9
    PYTHONPATH=. python benchmarks/gpu.py --self-test

The same command goes on where the last one stopped. It needs a copy of the repository and a cache of the datasets
(MTBENCH_CACHE), but no internet and no installed mtbench; all it found is in results.tar.gz, from which it also goes on
where the folder is gone. In turn:

checks  the first step of every model on the processor and on the device: loss and gradients
steps   milliseconds a step on the largest graphs with two, four and six tasks; the operations, bytes, products and
        synchronisations of one; the time the bytes and products take at the speed of a copy and of a product here, as
        a share of it; the peak of memory
cells   the runs that the leaderboard lacks, those most asked for first, in results/cells as `mtbench grid` leaves them

The self-test does all of this on a device that is only pretended, with a graph of a few families.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from pretend import Counting, pretended
from torch import Tensor

import mtbench
from leaderboard.grid.drive import drive, survey
from leaderboard.grid.engines import in_this_process
from leaderboard.grid.jobs import Chosen, Grid, Job, jobs
from leaderboard.grid.work import Outcome, Watch
from mtbench.data.splits import Dataset
from mtbench.training.models import Context, Progress, factory
from reference_models.training.loop import State

TOLERANCE = 1e-3
"""How far the loss, and all gradients together, may be from the processor's, as a share of their own length."""

MODELS = {
    "mtdea": "reference_models.mtdea:build",
    "isdea": "reference_models.isdea:build",
    "isdea-homo": "reference_models.isdea_homo:build",
    "nbfnet-homo": "reference_models.nbfnet:build",
    "ingram": "reference_models.ingram:build",
    "deq-ingram": "reference_models.ingram:build_deq",
    "tally": "reference_models.tally:build",
    "tally-adapted": "reference_models.tally:build_adapted",
}
"""By module, so that nothing has to be installed."""

EXACT = {"dropout": "1e-9", "family_dropout": "0", "lists": "512", "masks": "1"}
"""What devices draw differs, so that nothing may be drawn there; few lists, which are drawn on the processor."""

DATASETS = ("metafam", "fbnell", *(f"wikitopics-mt1/{topic}" for topic in ("health", "taxonomy")))
DATASETS += tuple(f"wikitopics-mt2/{topic}" for topic in ("location", "science"))
DATASETS += tuple(f"wikitopics-mt3/{topic}" for topic in ("art", "infrastructure"))
DATASETS += tuple(f"wikitopics-mt4/{topic}" for topic in ("health", "science"))

TWO_WAYS = {"inverses": "true"}
CELLS = {
    "mtdea-k2": ("mtdea", {"tasks": "2", "reassign": "false", **TWO_WAYS}),
    "isdea": ("isdea", TWO_WAYS),
    "mtdea-k4": ("mtdea", {"tasks": "4", "reassign": "false", **TWO_WAYS}),
    "mtdea-k6": ("mtdea", {"tasks": "6", "reassign": "false", **TWO_WAYS}),
    "isdea-homo": ("isdea-homo", TWO_WAYS),
    "nbfnet-homo": ("nbfnet-homo", {}),
    "ingram": ("ingram", {}),
    "deq-ingram": ("deq-ingram", {}),
}
ORDER = ((2, (0,)), (4, (0,)), (len(CELLS), (0, 1, 2)))
"""So many of the entries with these seeds, then so many: what is there already is left out."""

BOARD = Path(__file__).resolve().parents[1] / "leaderboard" / "results"
WARM_UP, TIMED = 3, 10


class Enough(Exception):  # noqa: N818
    """A model has been watched for long enough."""


@dataclass
class Work:
    """What to do, on which graphs, and where the results are kept.

    ``settings`` are those of measured steps beside the recipe's; the speed of a copy is that of so many ``numbers``.
    """

    out: Path
    minutes: float
    checked: str = "metafam"
    graphs: Sequence[str] = DATASETS[2::2]
    tasks: Sequence[int] = (2, 4, 6)
    datasets: Sequence[str] = DATASETS
    settings: Mapping[str, str] = field(default_factory=dict)
    cells: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=lambda: CELLS)
    order: Sequence[tuple[int, Sequence[int]]] = ORDER
    numbers: int = 1 << 28

    def kept(self, name: str) -> dict[str, Any]:
        """Return what a part found so far."""
        path = self.out / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def keep(self, name: str, found: Mapping[str, Any]) -> None:
        """Write what a part found so far."""
        path = self.out / f"{name}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Do what the command line asks for; exit with 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--minutes", type=float, default=9, help="begin nothing, and stop what runs, after so many")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.exit(not (self_test() if options.self_test else everything(Work(options.out.resolve(), options.minutes))))


def everything(work: Work) -> bool:
    """Do all parts, as far as they are not done and there is time; returns whether every check passed.

    A model that fails its check gets no runs.
    """
    deadline = time.time() + 60 * work.minutes
    archive = work.out.with_name(f"{work.out.name}.tar.gz")
    if archive.exists() and not work.out.exists():
        with tarfile.open(archive) as kept:
            kept.extractall(work.out.parent, filter="data")
    work.out.mkdir(parents=True, exist_ok=True)
    try:
        failed = checks(work)
        steps(work, deadline)
        cells(work, deadline, without=failed)
    finally:
        with tarfile.open(archive, "w:gz") as kept:
            kept.add(work.out, work.out.name)
    return not failed


def checks(work: Work) -> set[str]:
    """Compare the first step of every model, of training and where it adapts of adaptation, on both devices.

    Returns the models that differ, or cannot do it.
    """
    data, found = mtbench.load(work.checked), work.kept("checks")
    for name in MODELS:
        for stage in ("train", "adapt") if name in ("mtdea", "tally-adapted") else ("train",):
            key = f"{name} {stage}"
            if found.get(key, math.inf) < TOLERANCE:
                continue
            settings = EXACT if name.startswith("tally") else {}
            found[key] = math.inf
            with told(key):
                here, there = (first_step(name, settings, data, device, stage) for device in ("cpu", "cuda"))
                found[key] = difference(there, here)
            work.keep("checks", found)
            print(f"{key}: loss and gradients differ by {found[key]:.0e}")
    return {key.split()[0] for key, value in found.items() if not value < TOLERANCE}


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print an error of the library instead of raising it: one part must not keep the others from a lent device."""
    try:
        yield
    except RuntimeError:
        print(f"{what}: {traceback.format_exc()}")


def first_step(name: str, settings: Mapping[str, str], data: Dataset, device: str, stage: str) -> list[Tensor]:
    """Return the objective and all gradients of a model's first step of a stage, on the processor."""
    found: list[Tensor] = []

    def descend(state: State[Any], terms: Mapping[str, Tensor], clip: float | None) -> None:
        objective = torch.stack(list(terms.values())).sum()
        objective.backward()
        gradients = [parameter.grad for _, parameter in state.parameters() if parameter.grad is not None]
        found.extend(part.detach().cpu() for part in (objective, *gradients))
        raise Enough

    model = factory(MODELS[name])(Context(data.name, device=device, settings=settings))
    with patch.object(State, "descend", descend), suppress(Enough):
        if stage == "train":
            model.fit(data.train, data.valid)
        else:
            model.scorer(data.test.observable())
    return found


def difference(ours: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """Return the relative difference of two objectives, or that of their gradients taken together if it is larger."""
    left, right = (torch.cat([part.flatten() for part in side[1:]]) for side in (ours, other))
    return max(float((ours[0] - other[0]).abs() / other[0].abs()), float((left - right).norm() / right.norm()))


def steps(work: Work, deadline: float) -> None:
    """Measure a training step on every graph with every number of tasks."""
    found = work.kept("steps")
    if "device" not in found:
        found["device"] = {"name": torch.cuda.get_device_name(), "torch": torch.__version__, **speeds(work.numbers)}
    for graph in work.graphs:
        for tasks in work.tasks:
            key = f"{graph} K = {tasks}"
            if key in found or time.time() > deadline:
                continue
            settings, measured = {**CELLS["mtdea-k2"][1], **work.settings, "tasks": str(tasks)}, dict[str, float]()
            with told(key):
                measured = Measure().of("mtdea", settings, mtbench.load(graph))
            if not measured:
                continue
            found[key] = measured
            least = max(measured[what] / found["device"][what] for what in ("bytes", "flops"))
            measured["share"] = 1000 * least / measured["ms"]
            work.keep("steps", found)
            print(key, " ".join(f"{name} {value:,.3g}" for name, value in measured.items()))


def speeds(numbers: int) -> dict[str, float]:
    """Return how many bytes a second a copy of so many numbers moves, and the operations a second of a product."""
    array, side = torch.ones(numbers, device="cuda"), math.isqrt(numbers // 4)
    matrix = array[: side * side].view(side, side)
    return {"bytes": 8 * numbers / _seconds(array.clone), "flops": 2 * side**3 / _seconds(lambda: matrix @ matrix)}


def _seconds(function: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return median(times)


class Measure:
    """Watches a model's training: some steps to warm up, some to be timed, one to be counted."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.counting = Counting()
        self.peak = 0

    def of(self, name: str, settings: Mapping[str, str], data: Dataset) -> dict[str, float]:
        """Return what a step of a model on a training graph takes."""
        with suppress(Enough):
            model = factory(MODELS[name])(Context(data.name, device="cuda", settings=settings, report=self))
            model.fit(data.train, data.valid)
        between = [later - before for before, later in zip(self.times, self.times[1:], strict=False)]
        counted = {name: getattr(self.counting, name) for name in ("operations", "bytes", "flops")}
        waits = self.counting.waits.total()
        return {"ms": 1000 * median(between[WARM_UP:]), **counted, "waits": waits, "peak": self.peak}

    def __call__(self, progress: Progress) -> None:
        """Be told that a batch begins."""
        torch.cuda.synchronize()
        self.times.append(time.perf_counter())
        if len(self.times) == WARM_UP + TIMED + 1:
            self.peak = torch.cuda.max_memory_allocated()
            self.counting.__enter__()
        elif len(self.times) > WARM_UP + TIMED + 1:
            self.counting.__exit__(None, None, None)
            raise Enough


class Told(Watch):
    """Prints how every run ended."""

    def finished(self, outcome: Outcome) -> None:
        """Be told how an attempt ended."""
        print(f"{outcome.attempt.job}: {outcome.ending} after {outcome.seconds:.0f} s {outcome.error}", flush=True)


def cells(work: Work, deadline: float, without: Collection[str] = ()) -> None:
    """Make the runs that the leaderboard lacks, or go on with them, until the time is up."""
    out, every = work.out / "cells", dict[tuple[str, str, int], Job]()
    chosen = [Chosen(label, MODELS[name], settings) for label, (name, settings) in work.cells.items()]
    for number, seeds in work.order:
        grid = Grid(chosen[:number], work.datasets, seeds, ("all",), ("all",), 0, True, False, "cuda")
        wanted = [job for job in jobs(grid, out) if work.cells[job.label][0] not in without]
        every |= {job.key: job for job in wanted if job.key not in every and not there(job)}
    ended = drive(survey(list(every.values()), out), out, in_this_process, Told(), deadline=deadline)
    print(f"{sum(one.state == 'done' for one in ended)} of {len(ended)} cells that are missing are done")


def there(job: Job) -> bool:
    """Tell whether the leaderboard has a run with inverse relations, or of a model that always has them."""
    path = BOARD / job.label / job.folder / f"seed{job.plan.seed}" / "result.json"
    if not path.exists():
        return False
    result = json.loads(path.read_text(encoding="utf-8"))
    return result["dataset"] == job.dataset and result["hyperparameters"].get("inverses", True)


def self_test(dataset: Path | None = None) -> bool:
    """Do all parts on a pretended device; stop in the middle of the cells, and go on from the archive alone."""
    with tempfile.TemporaryDirectory() as folder, pretended():
        place = dataset or Path(folder) / "families"
        if dataset is None:
            mtbench.build("metafam", seed=3, train_trees=4, test_trees=2, out=place)
        work = Work(Path(folder) / "results", 0, str(place), [str(place)], [2], [str(place)], numbers=1 << 12)
        work.settings = {"positives": "graph", "batch": "120", "width": "4", "hops": "0"}
        work.cells, work.order = {"isdea": ("isdea", {"epochs": "1", "width": "4", **TWO_WAYS})}, [(1, (0,))]
        passed = everything(work)
        shutil.rmtree(work.out)
        passed = everything(replace(work, minutes=60)) and passed
        measured = work.kept("steps")[f"{place} K = 2"]
        made = list(work.out.glob("cells/isdea/*/seed0/conventions.json"))
        return passed and bool(made) and all(measured.values())


if __name__ == "__main__":
    main()
