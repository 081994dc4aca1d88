"""What to do with a GPU that is lent: compare it with the processor, measure it, fill the cells that are missing.

    PYTHONPATH=. python benchmarks/gpu.py --out results --minutes 9

The same command goes on where the last one stopped. It needs a copy of the repository and a cache of the datasets
(MTBENCH_CACHE), but no internet and no installed mtbench; all it found is in results.tar.gz, from which it also goes on
where the folder is gone. In turn:

checks  the first step of every model on the processor and on the device: loss and gradients
steps   milliseconds a step on the largest graphs with two, four and six tasks; the operations, bytes, products and
        synchronisations of one; the time the bytes and products take at the speed of a copy and of a product here, as
        a share of it; the peak of memory
cells   the runs that the leaderboard lacks, those most asked for first, in results/cells as `mtbench grid` leaves them
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tarfile
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import mtbench
from leaderboard.grid.drive import drive, survey
from leaderboard.grid.engines import Outcome, Watch, in_this_process
from leaderboard.grid.jobs import Chosen, Grid, Job, jobs
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
    "tally": "reference_models.tally.model:build",
    "tally-adapted": "reference_models.tally.model:build_adapted",
}
"""By module, so that nothing has to be installed."""

EXACT = {"dropout": "1e-9", "family_dropout": "0", "lists": "512", "masks": "1"}
"""What devices draw differs, so that nothing may be drawn there; few lists, which are drawn on the processor."""

CHECKED = "metafam"
GRAPHS = [f"wikitopics-mt{pair}" for pair in ("1/health", "2/location", "3/art", "4/health")]
SECOND = [f"wikitopics-mt{pair}" for pair in ("1/taxonomy", "2/science", "3/infrastructure", "4/science")]
DATASETS = ["metafam", "fbnell", *(name for pair in zip(GRAPHS, SECOND, strict=True) for name in pair)]
TASKS = (2, 4, 6)
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

MEASURED = {"reassign": "false", **TWO_WAYS}
"""The settings of a measured step beside the recipe's."""

BOARD = Path(__file__).resolve().parents[1] / "leaderboard" / "results"
WARM_UP, TIMED, NUMBERS = 3, 10, 1 << 28

FREE = {"detach", "empty", "empty_like", "empty_strided", "lift_fresh", "new_empty", "_unsafe_view"}
FREE |= {"_local_scalar_dense", "sparse_compressed_tensor", "_sparse_compressed_tensor_unsafe"}
"""Operations that launch nothing; views launch nothing either."""

WAITS = {"_local_scalar_dense": 1, "nonzero": 1, "_unique2": 1, "unique_dim": 1, "unique_consecutive": 1, "isin": 1}
WAITS |= {"masked_select": 1, "repeat_interleave": 1, "equal": 1, "bincount": 2}
"""How often the processor waits for CUDA in operations whose result has a size, or a value, that it has to know."""

INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
PICKS = {"index", "index_select", "gather", "embedding"}
ADDS = {"index_put_", "_index_put_impl_", "index_add_", "scatter_add_"}


class Enough(Exception):  # noqa: N818
    """A model has been watched for long enough."""


def main() -> None:
    """Do what the command line asks for; exit with 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--minutes", type=float, default=9, help="begin nothing, and stop what runs, after so many")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.exit(not everything(options.out.resolve(), options.minutes))


def everything(out: Path, minutes: float) -> bool:
    """Do all parts, as far as they are not done and there is time; returns whether every check passed.

    A model that fails its check gets no runs.
    """
    deadline = time.time() + 60 * minutes
    archive = out.with_name(f"{out.name}.tar.gz")
    if archive.exists() and not out.exists():
        with tarfile.open(archive) as kept:
            kept.extractall(out.parent, filter="data")
    out.mkdir(parents=True, exist_ok=True)
    try:
        failed = checks(out)
        steps(out, deadline)
        cells(out, deadline, without=failed)
    finally:
        with tarfile.open(archive, "w:gz") as kept:
            kept.add(out, out.name)
    return not failed


def checks(out: Path) -> set[str]:
    """Compare the first step of every model, of training and where it adapts of adaptation, on both devices.

    Returns the models that differ, or cannot do it.
    """
    data, differences = mtbench.load(CHECKED), kept(out, "checks")
    for name in MODELS:
        for stage in ("train", "adapt") if name in ("mtdea", "tally-adapted") else ("train",):
            key = f"{name} {stage}"
            if differences.get(key, math.inf) < TOLERANCE:
                continue
            differences[key] = math.inf
            try:
                here, there = (first_step(name, data, device, stage) for device in ("cpu", "cuda"))
                differences[key] = difference(there, here)
            except RuntimeError:  # one part must not keep the others from a lent device
                print(f"{key}: {traceback.format_exc()}")
            keep(out, "checks", differences)
            print(f"{key}: loss and gradients differ by {differences[key]:.0e}")
    return {key.split()[0] for key, value in differences.items() if not value < TOLERANCE}


def first_step(name: str, data: Dataset, device: str, stage: str) -> list[Tensor]:
    """Return the objective and all gradients of a model's first step of a stage, on the processor."""
    parts: list[Tensor] = []

    def descend(state: State[Any], terms: Mapping[str, Tensor], clip: float | None) -> None:
        objective = torch.stack(list(terms.values())).sum()
        objective.backward()
        gradients = [parameter.grad for _, parameter in state.parameters() if parameter.grad is not None]
        parts.extend(part.detach().cpu() for part in (objective, *gradients))
        raise Enough

    settings = EXACT if name.startswith("tally") else {}
    model = factory(MODELS[name])(Context(data.name, device=device, settings=settings))
    with patch.object(State, "descend", descend), suppress(Enough):
        if stage == "train":
            model.fit(data.train, data.valid)
        else:
            model.scorer(data.test.observable())
    return parts


def difference(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """Return the relative difference of two objectives, or that of their gradients taken together if it is larger."""
    left, right = (torch.cat([part.flatten() for part in side[1:]]) for side in (ours, theirs))
    return max(float((ours[0] - theirs[0]).abs() / theirs[0].abs()), float((left - right).norm() / right.norm()))


def steps(out: Path, deadline: float) -> None:
    """Measure a training step of MTDEA on every graph with every number of tasks."""
    measured_steps = kept(out, "steps")
    if "device" not in measured_steps:
        measured_steps["device"] = {"name": torch.cuda.get_device_name(), "torch": torch.__version__, **speeds()}
    for graph in GRAPHS:
        for tasks in TASKS:
            key = f"{graph} K = {tasks}"
            if key in measured_steps or time.time() > deadline:
                continue
            try:
                measured = Measure().of("mtdea", {**MEASURED, "tasks": str(tasks)}, mtbench.load(graph))
            except RuntimeError:
                print(f"{key}: {traceback.format_exc()}")
                continue
            least = max(measured[what] / measured_steps["device"][what] for what in ("bytes", "flops"))
            measured_steps[key] = measured | {"share": 1000 * least / measured["ms"]}
            keep(out, "steps", measured_steps)
            print(key, " ".join(f"{name} {value:,.3g}" for name, value in measured_steps[key].items()))


def speeds() -> dict[str, float]:
    """Return how many bytes a second a copy moves, and the operations a second of a product."""
    array, side = torch.ones(NUMBERS, device="cuda"), math.isqrt(NUMBERS // 4)
    matrix = array[: side * side].view(side, side)
    return {"bytes": 8 * NUMBERS / _seconds(array.clone), "flops": 2 * side**3 / _seconds(lambda: matrix @ matrix)}


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
        counted = {name: getattr(self.counting, name) for name in ("operations", "bytes", "flops", "waits")}
        return {"ms": 1000 * median(between[WARM_UP:]), **counted, "peak": self.peak}

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


class Counting(TorchDispatchMode):
    """Counts, while it is on, a device's operations, the bytes they read and write, and what they multiply and add.

    An operation reads and writes each of its arrays once; one that picks rows, those alone; a product with a sparse
    matrix reads a row of the dense one for every entry. ``waits`` counts how often the processor waits for the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.bytes, self.flops, self.waits = 0, 0, 0, 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and being asked about it takes longer than the operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do what was asked for, and count it if it is done on a device."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if any(tensor.is_cuda for tensor in tensors_of((args, kwargs, result))):
            self.count(func, args, kwargs, result)
        return result

    def count(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Count one operation."""
        name = func.overloadpacket.__name__
        if name not in INDEXED:
            self.waits += WAITS.get(name, 0)
        elif name == "index" or args[2].numel() != 1:
            self.waits += sum(tensor is not None and tensor.dtype in (torch.bool, torch.uint8) for tensor in args[1])
        if func.is_view or name in FREE:
            return
        self.operations += 1
        reads, writes = tensors_of((args, kwargs)), tensors_of(result)
        if name in PICKS:
            self.bytes += sum(map(size, reads[1:])) + 2 * sum(map(size, writes))
        elif name in ADDS:
            self.bytes += sum(map(size, reads[1:])) + 2 * size(reads[-1])
        else:
            self.bytes += sum(map(size, reads)) + sum(map(size, writes))
        if name in ("mm", "addmm", "bmm", "baddbmm", "addmm_", "baddbmm_"):
            left, right = [tensor for tensor in reads if tensor.dim() > 1][-2:]
            if left.layout is torch.sparse_csr:
                self.bytes += left._nnz() * right.shape[-1] * right.element_size() - size(right)
                self.flops += 2 * left._nnz() * right.shape[-1]
            else:
                self.flops += 2 * left.numel() * right.shape[-1]


def tensors_of(tree: Any) -> list[Tensor]:
    """Return the tensors among the arguments, or the results, of an operation."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def size(tensor: Tensor) -> int:
    """Return the bytes that a tensor's values take, repeated ones once."""
    if tensor.layout is torch.sparse_csr:
        return sum(map(size, (tensor.crow_indices(), tensor.col_indices(), tensor.values())))
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


class Printed(Watch):
    """Prints how every run ended."""

    def finished(self, outcome: Outcome) -> None:
        """Be told how an attempt ended."""
        print(f"{outcome.attempt.job}: {outcome.ending} after {outcome.seconds:.0f} s {outcome.error}", flush=True)


def cells(out: Path, deadline: float, without: Collection[str] = ()) -> None:
    """Make the runs that the leaderboard lacks, or go on with them, until the time is up."""
    place, every = out / "cells", dict[tuple[str, str, int], Job]()
    chosen = [Chosen(label, MODELS[name], settings) for label, (name, settings) in CELLS.items()]
    for number, seeds in ORDER:
        asked = {"protocols": ("all",), "vocabularies": ("all",), "paper": True, "with_names": False}
        grid = Grid(chosen[:number], DATASETS, seeds=seeds, device="cuda", **asked)
        wanted = [job for job in jobs(grid, place) if CELLS[job.label][0] not in without]
        every |= {job.key: job for job in wanted if job.key not in every and not there(job)}
    ended = drive(survey(list(every.values()), place), place, in_this_process, Printed(), deadline=deadline)
    print(f"{sum(one.state == 'done' for one in ended)} of {len(ended)} cells that are missing are done")


def there(job: Job) -> bool:
    """Tell whether the leaderboard has a run with inverse relations, or of a model that always has them."""
    path = BOARD / job.label / job.folder / f"seed{job.plan.seed}" / "result.json"
    if not path.exists():
        return False
    result = json.loads(path.read_text(encoding="utf-8"))
    return result["dataset"] == job.test.name and result["hyperparameters"].get("inverses", True)


def kept(out: Path, name: str) -> dict[str, Any]:
    """Return what a part found so far."""
    path = out / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(out: Path, name: str, values: Mapping[str, Any]) -> None:
    """Write what a part found so far."""
    (out / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
