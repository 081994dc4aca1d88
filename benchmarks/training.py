"""What an epoch of every reference model takes on every training graph of the paper: seconds and memory.

    python benchmarks/training.py [--models isdea mtdea ...] [--datasets fbnell ...] [--steps 5] [--set KEY=VALUE ...]

Each model is trained by its recipe in a process of its own until some steps are done; the median of their
seconds of the processor, times the steps of an epoch, is what an epoch takes without its validation. InGram's
epochs are the steps between two validations. A graph that two test graphs share stands once.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from itertools import pairwise
from statistics import median

from measuring import alone, peak_mb

import mtbench
from mtbench.cli.app import restart_with_settings
from mtbench.training.models import Context, Progress, factory

MODELS = ("isdea", "mtdea", "isdea-homo", "nbfnet-homo", "ingram")
DATASETS = ("metafam", "fbnell", *(f"wikitopics-mt{name}" for name in ("1/health", "2/science", "3/art", "4/health")))


class Enough(Exception):  # noqa: N818
    """As many steps are done as were asked for."""


def measure(model: str, dataset: str, steps: int, settings: dict[str, str]) -> dict[str, float]:
    """Train until ``steps`` steps are done, the first one not counted."""
    marks: list[float] = []
    batches = 0

    def report(progress: Progress) -> None:
        nonlocal batches
        batches = progress.batches
        marks.append(time.process_time())
        if len(marks) > steps:
            raise Enough

    made = factory(model)(Context(dataset, device="cpu", settings=settings, report=report))
    data = mtbench.load(dataset)
    with suppress(Enough):
        made.fit(data.train, data.valid)
    step = median(after - before for before, after in pairwise(marks))
    return {"step": step, "batches": batches, "epoch": step * batches, "peak": peak_mb() / 1000}


def main() -> None:
    """Measure what was asked for, and print a row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args()
    restart_with_settings()
    settings = dict(pair.split("=", 1) for pair in asked.set)
    print("| model | training graph | steps an epoch | s a step | s an epoch | peak, GB |\n|---|---|---|---|---|---|")
    for model in asked.models:
        for dataset in asked.datasets:
            measured = alone(measure, model, dataset, asked.steps, settings)
            cells = f"{measured['batches']} | {measured['step']:.2f} | {measured['epoch']:.0f} | {measured['peak']:.1f}"
            print(f"| {model} | {dataset} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
