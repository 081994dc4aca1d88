"""How fast ranks and metrics come from scores, side by side with OGB and PyKEEN, and how fast candidates are drawn.

    python benchmarks/evaluator.py scores [--targets 1000000] [--candidates 50] [--repeats 7]
    python benchmarks/evaluator.py candidates [--repeats 3]

The first needs the extra "benchmarks"; the second reads the datasets from the store, or fetches them once. All sides
take turns in one process on the same arrays, so that what else the machine does slows all of them.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

import mtbench
from mtbench.data import catalog
from mtbench.metrics import closed as metrics
from mtbench.ranking import candidates, ranks

LIMITS = {"OGB": 5, "PyKEEN": 10}
READINGS, MEGABYTES, SECONDS = 8, 64, 1.5
SINGLE = ("fbnell", "metafam")
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scores", "candidates"])
    parser.add_argument("--targets", type=int, default=1_000_000)
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if options.what == "scores":
        scores(options.targets, options.candidates, options.repeats)
    else:
        drawing(options.repeats)


def scores(targets: int, number: int, repeats: int) -> None:
    """Time every side on one array of float32 scores and print times, ratios and peak memory."""
    rng = np.random.default_rng(0)
    others = rng.standard_normal((targets, number), dtype=np.float32)
    own = rng.standard_normal(targets, dtype=np.float32)
    print(f"{targets:,} targets x {number} float32 candidates, {others.nbytes / 1e6:.0f} MB, {os.cpu_count()} CPUs")
    sides: dict[str, Callable[[], object]] = {
        "reading the array once": others.sum,
        "mtbench": lambda: ours(own, others),
        "OGB": ogb(own, others),
        "PyKEEN": pykeen(own, others),
    }
    # Memory first: what an earlier call gave back to the allocator would hide what a later one takes.
    peaks = {name: peak_memory(side) for name, side in sides.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - start)
    us = times["mtbench"]
    for name, found in times.items():
        peak = "not measured" if peaks[name] is None else f"{peaks[name]:.0f} MB"
        print(
            f"{name:24} median {median(found) * 1000:7.1f} ms, best {min(found) * 1000:7.1f} ms, extra memory {peak}, "
            f"{median(other / own for other, own in zip(found, us, strict=True)):.2f} times mtbench"
        )
    read = median(own / other for own, other in zip(us, times["reading the array once"], strict=True))
    print(f"mtbench takes {read:.1f} readings of the array (at most {READINGS})")
    for name, limit in LIMITS.items():
        ratio = median(other / own for other, own in zip(times[name], us, strict=True))
        print(f"mtbench is {ratio:.1f} times faster than {name} (at least {limit})")
    if peaks["mtbench"] is not None:
        print(f"mtbench takes {peaks['mtbench']:.0f} MB on top of the scores (at most {MEGABYTES})")


def ours(own: np.ndarray, others: np.ndarray) -> object:
    """Ranks and all metrics with both bounds, chance and tie rate, checks included."""
    counts = ranks.compare(own, others)
    return metrics.figures(counts.greater, counts.equal, counts.count), metrics.tie_rate(counts.equal)


def ogb(own: np.ndarray, others: np.ndarray) -> Callable[[], object]:
    """The evaluator of ogbl-wikikg2 with tensors, which it documents, and the means it leaves to its user."""
    import torch
    from ogb.linkproppred import Evaluator

    evaluator = Evaluator("ogbl-wikikg2")
    given = {"y_pred_pos": torch.from_numpy(own), "y_pred_neg": torch.from_numpy(others)}
    return lambda: {name: float(values.mean()) for name, values in evaluator.eval(given).items()}


def pykeen(own: np.ndarray, others: np.ndarray) -> Callable[[], object]:
    """The rank-based evaluator with our six metrics only; the target among the candidates is put there untimed."""
    import torch
    from pykeen.evaluation import RankBasedEvaluator

    hits = [{"k": k} for k in metrics.HITS]
    evaluator = RankBasedEvaluator(
        metrics=["arithmetic_mean_rank", "inverse_harmonic_mean_rank", *["hits_at_k"] * len(hits)],
        metrics_kwargs=[None, None, *hits],
        add_defaults=False,
    )
    true = torch.from_numpy(own[:, None])
    every = torch.cat((true, torch.from_numpy(others)), dim=1)
    triples = torch.zeros((len(own), 3), dtype=torch.long)

    def evaluate() -> object:
        evaluator.process_scores_(triples, "tail", every, true_scores=true)
        return evaluator.finalize().to_flat_dict()

    return evaluate


def peak_memory(call: Callable[[], object]) -> float | None:
    """Return by how many megabytes a call raises the resident memory at its highest, where Linux counts it."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        CLEAR.write_text("5")
    except OSError:
        return None
    before = resident("VmRSS")
    call()
    return (resident("VmHWM") - before) / 1000


def resident(field: str) -> float:
    """Return a field of the process's status in kilobytes."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return float(line.split()[1]) * 1.024


def drawing(repeats: int) -> None:
    """Time the frozen candidates of every benchmark dataset, each protocol and vocabulary, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    names = [name for name in catalog.names() if name in SINGLE or name.startswith("wikitopics-mt")]
    splits = [mtbench.load(name).test for name in names]
    asked = [(protocol, vocabulary) for protocol in candidates.STANDARD for vocabulary in candidates.VOCABULARIES]
    for split in splits:
        _ = split.content_sha256
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for split in splits:
            for protocol, vocabulary in asked:
                candidates.draw(split, protocol, vocabulary)
        times.append(time.perf_counter() - start)
    print(
        f"{len(splits)} datasets, {sum(len(split.targets) for split in splits):,} targets, {len(asked)} sets of "
        f"candidates each: median {median(times):.2f} s, best {min(times):.2f} s on one core (at most {SECONDS} s)"
    )


if __name__ == "__main__":
    main()
