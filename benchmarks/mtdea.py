"""How fast and how large MTDEA's layers are, side by side with a literal loop over relations and tasks.

    python benchmarks/mtdea.py speed [--graphs mt1 mt3] [--tasks 2 6] [--repeats 3] [--recompute]
    python benchmarks/mtdea.py memory [--tasks 6] [--recompute]
    python benchmarks/mtdea.py readings [--tasks 2 6] [--repeats 3]
    python benchmarks/mtdea.py evaluate [--tasks 2]

The graphs are the training graphs of wikitopics-mt1 and -mt3 (99 relation slots) without inverses, read from
the store or fetched once. A step is forward and backward of the loss of a batch of 256 positives. All sides
take turns in one process; the literal loop takes one turn, and its loss and gradients are compared with ours.
Times are of the clock and of the processor, all cores added up: trust the clock on a quiet machine only. The
peak memory of each side is measured in a process of its own. "evaluate" scores a network on the test
graph of wikitopics-mt3/art under the three standard protocols.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import torch
from mtdea_literal import LiteralLoop
from torch import Tensor

import mtbench
from mtbench.cli.app import SETTINGS, restart_with_settings
from mtbench.ranking.candidates import STANDARD
from reference_models.double_equivariant import triple_scores
from reference_models.equivariant.network import attention_logits
from reference_models.graphs.graph import typed_graph
from reference_models.mtdea import MTDEA
from reference_models.training import recipe
from reference_models.training.batches import Batch, graph_stage, prepare, task_loss
from reference_models.training.negatives import Negatives
from reference_models.training.recipe import Recipe

DATASETS = {"mt1": "wikitopics-mt1/health", "mt3": "wikitopics-mt3/art"}
RATIO, TASKS_RATIO, MEMORY_GB, CHECKPOINTED_GB, EVALUATION = 10, 1.3, 3.0, 1.5, 10.0
TOLERANCE = 1e-3
LEAN = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 24)}
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Took:
    """Seconds of the clock, and of the processor, all cores added up."""

    clock: float
    processor: float


class Step:
    """One batch on a training graph, the network and task logits, and what a step of training computes of them."""

    def __init__(self, graph: str, settings: dict[str, object]) -> None:
        self.recipe = replace(recipe.load("mtdea", DATASETS[graph], {}), inverses=False, **settings)
        self.batch = _batch(graph, self.recipe)
        torch.manual_seed(0)
        self.network = MTDEA(self.recipe.architecture()).train()
        self.logits = attention_logits(self.batch.graph.num_slots, self.recipe.tasks, CPU)

    def literal(self, *, recompute: bool) -> Step:
        """Make the step go through the literal loop."""
        loop = LiteralLoop(self.network, self.batch.graph, recompute=recompute)
        self.network.represent = loop.represent
        return self

    def __call__(self) -> tuple[Tensor, list[Tensor]]:
        """Return the loss and its gradients."""
        trained = [*self.network.parameters(), self.logits]
        loss = task_loss(self.network, self.logits, self.batch, self.recipe)
        return loss.detach(), list(torch.autograd.grad(loss, trained))


def _batch(graph: str, chosen: Recipe) -> Batch:
    stage = graph_stage("train", typed_graph(mtbench.load(DATASETS[graph]).train, inverses=False, device=CPU))
    rng = np.random.default_rng(0)
    numbers = rng.permutation(len(stage.positives))[: chosen.batch]
    return prepare(stage, chosen, numbers, Negatives(stage.graph), rng)


def main() -> None:
    """Run what the command line names, with the allocator settings of ``mtbench run``; exit with 1 below a goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "memory", "readings", "evaluate"])
    parser.add_argument("--graphs", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    parser.add_argument("--tasks", nargs="+", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--recompute", action="store_true", help="checkpoint the literal loop per relation")
    parser.add_argument("--side", help="only the peak memory of this one, as JSON")
    options = parser.parse_args()
    if not options.side:
        restart_with_settings()
    warnings.simplefilter("ignore")
    if options.side:
        print(json.dumps(peak(options.side, (options.tasks or [6])[0], options.recompute)))
        return
    print(f"{os.cpu_count()} CPUs, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    if options.what == "speed":
        met = speed(options.graphs, options.tasks or [2, 6], options.repeats, recompute=options.recompute)
    elif options.what == "memory":
        met = memory(options.tasks or [6], recompute=options.recompute)
    elif options.what == "readings":
        met = readings(options.tasks or [2, 6], options.repeats)
    else:
        met = evaluate((options.tasks or [2])[0])
    sys.exit(not met)


def speed(graphs: list[str], tasks: list[int], repeats: int, *, recompute: bool) -> bool:
    """Time both sides on every graph and number of tasks."""
    met = True
    for graph in graphs:
        ours = {number: Step(graph, {"tasks": number}) for number in tasks}
        times = _in_turns({str(number): side for number, side in ours.items()}, repeats)
        for number in tasks:
            literal = Step(graph, {"tasks": number}).literal(recompute=recompute)
            expected, took = ours[number](), times[str(number)]
            found, loop = _timed(literal)
            difference = _difference(expected, found)
            if difference > TOLERANCE:
                sys.exit(f"{graph} K = {number}: the literal loop differs from ours by {difference:.1e}")
            ratio = loop.clock / took.clock
            met = met and (number < 6 or ratio >= RATIO)
            print(
                f"{graph} K = {number}: ours {took.clock:6.2f} s, literal {loop.clock:7.2f} s, ratio {ratio:5.1f} "
                f"(goal at K = 6: {RATIO}); of the processor {took.processor:6.2f} s, {loop.processor:7.2f} s, "
                f"{loop.processor / took.processor:5.1f}; loss and gradients differ by {difference:.0e}"
            )
        if len(tasks) > 1:
            growth = times[str(tasks[-1])].clock / times[str(tasks[0])].clock
            met = met and growth <= TASKS_RATIO
            print(f"{graph} K = {tasks[-1]} against K = {tasks[0]}: {growth:.2f} times (goal: {TASKS_RATIO})")
    return met


def readings(tasks: list[int], repeats: int) -> bool:
    """Time the readings of the adjacency against each other on the larger graph."""
    for number in tasks:
        sides = {
            adjacency: Step("mt3", {"tasks": number, "adjacency": adjacency})
            for adjacency in ("others", "tasks", "pairwise")
        }
        times = _in_turns(sides, repeats)
        print(
            f"mt3 K = {number}: "
            + ", ".join(
                f"{name} {took.processor:.2f} s ({took.processor / times['others'].processor:.2f})"
                for name, took in times.items()
            )
        )
    return True


def memory(tasks: list[int], *, recompute: bool) -> bool:
    """Print the peak resident size of every side, each in its own process, on the larger graph.

    What tensors take is one thing and what the allocator of ``mtbench run`` keeps around them, to save time,
    another: each side is measured under its settings and under `LEAN`.
    """
    met = True
    for number in tasks:
        for side, limit in (("ours", MEMORY_GB), ("checkpointing", CHECKPOINTED_GB), ("tasks", 0.0), ("literal", 0.0)):
            command = [sys.executable, __file__, "memory", "--side", side, "--tasks", str(number)]
            command += ["--recompute"] if recompute else []
            bare = {name: value for name, value in os.environ.items() if name not in SETTINGS}
            found = [
                json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=settings).stdout)
                for settings in (bare | LEAN, bare | SETTINGS)
            ]
            peaks, before = [one["peak"] for one in found], found[0]["before"]
            goal = f" (goal: {limit} GB)" if limit else ""
            met = met and (not limit or peaks[0] < limit)
            print(
                f"mt3 K = {number} {side:13}: peak {peaks[0]:.2f} GB{goal}, {peaks[1]:.2f} GB under the settings of "
                f"mtbench run, {before:.2f} GB before the first step"
            )
    return met


def peak(side: str, tasks: int, recompute: bool) -> dict[str, float]:
    """Return the peak memory of two steps of one side, in gigabytes, and that before the first."""
    settings: dict[str, object] = {"tasks": tasks, "checkpointing": side == "checkpointing"}
    step = Step("mt3", settings | ({"adjacency": "tasks"} if side == "tasks" else {}))
    if side == "literal":
        step.literal(recompute=recompute)
    before = peak_gb()
    for _ in range(1 if side == "literal" else 2):
        step()
    return {"peak": peak_gb(), "before": before}


def evaluate(tasks: int) -> bool:
    """Time a network's evaluation on a test graph under the three standard protocols, candidates included."""
    split = mtbench.load(DATASETS["mt3"]).test
    chosen = replace(recipe.load("mtdea", DATASETS["mt3"], {}), tasks=tasks)
    torch.manual_seed(0)
    network = MTDEA(chosen.architecture())
    start = time.perf_counter()
    graph = typed_graph(split, inverses=chosen.inverses, device=CPU)
    scorer = triple_scores(network, graph, attention_logits(graph.num_slots, tasks, CPU), lambda triples: None)
    represented = time.perf_counter() - start
    for protocol in STANDARD:
        mtbench.task(DATASETS["mt3"], protocol=protocol).run(lambda triples: scorer(triples).numpy())
    took = time.perf_counter() - start
    print(
        f"{split.num_entities:,} nodes, {graph.num_slots} slots, K = {tasks}: {took:.1f} s of wall time "
        f"(goal: {EVALUATION:.0f} s), of them {represented:.1f} s for the representations"
    )
    return took < EVALUATION


def _in_turns(sides: dict[str, Step], repeats: int) -> dict[str, Took]:
    """Return the median times of every side; all take turns."""
    times: dict[str, list[Took]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            times[name].append(_timed(side)[1])
    return {
        name: Took(median(one.clock for one in values), median(one.processor for one in values))
        for name, values in times.items()
    }


def _timed(side: Step) -> tuple[tuple[Tensor, list[Tensor]], Took]:
    """Return what a step found and how long it took."""
    clock, processor = time.perf_counter(), time.process_time()
    found = side()
    return found, Took(time.perf_counter() - clock, time.process_time() - processor)


def _difference(ours: tuple[Tensor, list[Tensor]], other: tuple[Tensor, list[Tensor]]) -> float:
    """Return the largest relative difference of the loss and of the gradients taken together."""
    left, right = (torch.cat([part.flatten() for part in side[1]]) for side in (ours, other))
    loss = abs(float(ours[0] - other[0])) / abs(float(other[0]))
    return max(loss, float((left - right).norm() / right.norm()))


def peak_gb() -> float:
    """Return the largest resident size this process ever had, in gigabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


if __name__ == "__main__":
    main()
