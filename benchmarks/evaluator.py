"""How fast ranks and metrics come from scores, side by side with OGB and PyKEEN, and how fast candidates are drawn.

    python benchmarks/evaluator.py scores [--targets 1000000] [--candidates 50] [--repeats 7]
    python benchmarks/evaluator.py candidates [--repeats 3]
    python benchmarks/evaluator.py full [--targets 3000] [--entities 10000]
    python benchmarks/evaluator.py graphs

The first needs the extra "benchmarks"; the second reads the datasets from the store, or fetches them once. The third
ranks test triples against every entity, each case in its own process; its scorer is a bilinear model of 32 dimensions,
asked for whole rows and asked for triples, and the time that the scorer itself takes is shown apart. The fourth ranks
real graphs under `full`, all heuristic baselines in one process and tally-foundation in another.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
from measuring import STATUS, alone, in_turns, peak_mb, resident_mb

import mtbench
from mtbench.data import catalog
from mtbench.data.splits import Split
from mtbench.heuristics.figures import BASELINES
from mtbench.metrics import closed as metrics
from mtbench.names import IntArray
from mtbench.ranking.candidates import draw
from mtbench.ranking.scorers import compare
from mtbench.settings.table import ALL, PROTOCOLS, SAMPLED, settings_of
from mtbench.training.models import Context, factory

LIMITS = {"OGB": 5, "PyKEEN": 10}
READINGS, MEGABYTES, SECONDS, FULL_MEGABYTES = 8, 64, 1.5, 1000
SINGLE = ("fbnell", "metafam")
GRAPHS, MODEL = ("ingram-nl-100", "fbnell", "wikitopics-mt1/health"), "tally-foundation"
RELATIONS, OBSERVABLE, DIMENSIONS = 100, 60_000, 32


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scores", "candidates", "full", "graphs"])
    parser.add_argument("--targets", type=int, help="1,000,000, and 3,000 of full")
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if options.what == "scores":
        scores(options.targets or 1_000_000, options.candidates, options.repeats)
    elif options.what == "candidates":
        drawing(options.repeats)
    elif options.what == "full":
        full(options.entities, options.targets or 3_000)
    else:
        graphs()


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
    peaks = {name: extra_memory(side) for name, side in sides.items()}
    times = in_turns(sides, repeats)
    for name, taken in times.items():
        peak = "not measured" if peaks[name] is None else f"{peaks[name]:.0f} MB"
        print(
            f"{name:24} median {median(taken) * 1000:7.1f} ms, best {min(taken) * 1000:7.1f} ms, extra memory {peak}, "
            f"{ratio(taken, times['mtbench']):.2f} times mtbench"
        )
    readings = ratio(times["mtbench"], times["reading the array once"])
    print(f"mtbench takes {readings:.1f} readings of the array (at most {READINGS})")
    for name, limit in LIMITS.items():
        print(f"mtbench is {ratio(times[name], times['mtbench']):.1f} times faster than {name} (at least {limit})")
    if peaks["mtbench"] is not None:
        print(f"mtbench takes {peaks['mtbench']:.0f} MB on top of the scores (at most {MEGABYTES})")


def ratio(times: list[float], base: list[float]) -> float:
    """Return how many times as long one side took as another in the same turn, the median of all turns."""
    return median(taken / reference for taken, reference in zip(times, base, strict=True))


def ours(own: np.ndarray, others: np.ndarray) -> object:
    """Ranks and all metrics with both bounds, chance and tie rate, checks included."""
    counts = compare(own, others)
    return metrics.figures(counts.greater, counts.equal, counts.count), metrics.tie_rate(counts.equal)


def ogb(own: np.ndarray, others: np.ndarray) -> Callable[[], object]:
    """The evaluator of ogbl-wikikg2 with tensors, which it documents, and the means it leaves to its user."""
    import torch
    from ogb.linkproppred import Evaluator

    evaluator = Evaluator("ogbl-wikikg2")
    tensors = {"y_pred_pos": torch.from_numpy(own), "y_pred_neg": torch.from_numpy(others)}
    return lambda: {name: float(values.mean()) for name, values in evaluator.eval(tensors).items()}


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


def extra_memory(call: Callable[[], object]) -> float | None:
    """Return by how many megabytes a call raises the resident memory at its highest, where Linux counts it."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # begins to count the peak anew
    except OSError:
        return None
    before = resident_mb("VmRSS") if STATUS.exists() else 0.0
    call()
    return peak_mb() - before


def drawing(repeats: int) -> None:
    """Time the frozen candidates of every benchmark dataset, each protocol and vocabulary, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    published = [record.id for record in catalog.records() if record.candidates]
    names = [name for name in published if name in SINGLE or name.startswith("wikitopics-mt")]
    splits = [mtbench.load(name).test for name in names]
    asked = settings_of([ALL], [ALL])
    for split in splits:
        _ = split.content_sha256

    def every() -> None:
        for split in splits:
            for setting in asked:
                draw(split, setting)

    times = in_turns({"drawing": every}, repeats)["drawing"]
    print(
        f"{len(splits)} datasets, {sum(len(split.targets) for split in splits):,} targets, {len(asked)} sets of "
        f"candidates each: median {median(times):.2f} s, best {min(times):.2f} s on one core (at most {SECONDS} s)"
    )


def full(entities: int, targets: int) -> None:
    """Rank against every entity under each full protocol, one line each; exit with 1 above the memory allowed."""
    worst = 0.0
    for protocol in [name for name in PROTOCOLS if name not in SAMPLED]:
        for kind in ("rows", "triples"):
            case = alone(rank_all, protocol, kind, entities, targets)
            worst = max(worst, case["peak"])
            print(
                f"{protocol:14} {kind:8} {case['triples']:>12,} triples in {case['seconds']:6.2f} s "
                f"(scorer {case['scorer']:6.2f} s), peak {case['peak']:6.1f} MB, {case['before']:.1f} MB before"
            )
    print(f"the largest peak is {worst:.1f} MB, allowed are {FULL_MEGABYTES} MB")
    sys.exit(worst > FULL_MEGABYTES)


def graphs() -> None:
    """Rank the test triples of real graphs among all entities, and print what the baselines and a model take."""
    for name in GRAPHS:
        ours, model = alone(rank_baselines, name), alone(rank_model, name)
        print(
            f"{name:22} {ours['scores']:>12,} scores: {len(BASELINES)} baselines {ours['seconds']:6.2f} s of the "
            f"processor, peak {ours['peak']:.0f} MB; {MODEL} {model['seconds']:6.2f} s, peak {model['peak']:.0f} MB, "
            f"{len(BASELINES) * model['seconds'] / ours['seconds']:.0f} times a baseline"
        )


def rank_baselines(name: str) -> dict[str, float]:
    """Rank every heuristic baseline on a graph under `full` and return what it took."""
    task = mtbench.task(name, "full")
    begin = time.process_time()
    dict(task.baselines)
    seconds = time.process_time() - begin
    return {"scores": int(task.candidates.lengths.sum()), "seconds": seconds, "peak": peak_mb()}


def rank_model(name: str) -> dict[str, float]:
    """Rank a model that is trained already on a graph under `full` and return what it took."""
    warnings.simplefilter("ignore")
    task = mtbench.task(name, "full")
    begin = time.process_time()
    task.run(factory(MODEL)(Context(name, 0, "cpu")).scorer(task.split.observable()))
    return {"seconds": time.process_time() - begin, "peak": peak_mb()}


def bilinear(kind: str, entities: int, seconds: list[float]) -> SimpleNamespace:
    """Return a scorer by the product of three random vectors, of rows or of triples; the time it takes is appended."""
    rng = np.random.default_rng(1)
    nodes = rng.normal(size=(entities, DIMENSIONS)).astype(np.float32)
    relations = rng.normal(size=(RELATIONS, DIMENSIONS)).astype(np.float32)
    rows = {
        "score_tails": lambda heads, kinds: (nodes[heads] * relations[kinds]) @ nodes.T,
        "score_heads": lambda kinds, tails: (nodes[tails] * relations[kinds]) @ nodes.T,
        "score_relations": lambda heads, tails: (nodes[heads] * nodes[tails]) @ relations.T,
    }
    triples = {"score": lambda t: np.einsum("ij,ij->i", nodes[t[:, 0]] * relations[t[:, 1]], nodes[t[:, 2]])}

    def timed(score: Callable[..., np.ndarray], *arguments: IntArray) -> np.ndarray:
        start = time.perf_counter()
        scores = score(*arguments)
        seconds.append(time.perf_counter() - start)
        return scores

    return SimpleNamespace(
        **{name: partial(timed, score) for name, score in {"rows": rows, "triples": triples}[kind].items()}
    )


def rank_all(protocol: str, kind: str, entities: int, targets: int) -> dict[str, float]:
    """Rank one scorer under one protocol and return what it took; baselines are part of the result and the time."""
    warnings.simplefilter("ignore")
    task, scorer_seconds = mtbench.task(random_split(entities, targets), protocol), list[float]()
    scorer = bilinear(kind, entities, scorer_seconds)
    before, start = peak_mb(), time.perf_counter()
    task.run(scorer)
    took = {"seconds": time.perf_counter() - start, "scorer": sum(scorer_seconds), "peak": peak_mb()}
    return {"triples": int(task.candidates.lengths.sum()), "before": before, **took}


def random_split(entities: int, targets: int) -> Split:
    """Return a split of distinct random triples."""
    rng = np.random.default_rng(0)
    size = OBSERVABLE + targets
    columns = [rng.integers(0, limit, 2 * size) for limit in (entities, RELATIONS, entities)]
    triples = np.unique(np.stack(columns, axis=1), axis=0)
    rng.shuffle(triples)
    names = (
        np.array([f"{kind} {n:07d}" for n in range(count)])
        for kind, count in (("entity", entities), ("relation", RELATIONS))
    )
    return Split("random", "test", triples[targets:size], triples[:targets], *names, RELATIONS)


if __name__ == "__main__":
    main()
