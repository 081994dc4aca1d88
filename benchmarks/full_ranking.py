"""Time and peak memory of ranking 3,000 targets against every one of 10,000 entities, each case in its own process.

    python benchmarks/full_ranking.py [--entities 10000] [--targets 3000]

The scorer is a bilinear model of 32 dimensions, asked for whole rows and asked for triples; the time the
scorer itself takes is shown apart, because it is the model's and not the evaluator's.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

from mtbench.data.splits import Split
from mtbench.evaluation.tasks import task
from mtbench.names import IntArray
from mtbench.ranking.candidates import PROTOCOLS

LIMIT_MB = 1000
RELATIONS, OBSERVABLE, DIMENSIONS = 100, 60_000, 32
CASES = [(name, kind) for name, declared in PROTOCOLS.items() if declared.full for kind in ("rows", "triples")]


class Bilinear:
    """Scores a triple by the product of three random vectors and keeps the time it takes."""

    def __init__(self, entities: int) -> None:
        rng = np.random.default_rng(1)
        self.seconds = 0.0
        self.nodes = rng.normal(size=(entities, DIMENSIONS)).astype(np.float32)
        self.relations = rng.normal(size=(RELATIONS, DIMENSIONS)).astype(np.float32)

    def timed(self, scores: np.ndarray, start: float) -> np.ndarray:
        """Return the scores, and count the time since ``start``."""
        self.seconds += time.perf_counter() - start
        return scores


class Triples(Bilinear):
    """Asked triple by triple."""

    def score(self, triples: IntArray) -> np.ndarray:
        """Return one score per triple."""
        start = time.perf_counter()
        pairs = self.nodes[triples[:, 0]] * self.relations[triples[:, 1]]
        return self.timed(np.einsum("ij,ij->i", pairs, self.nodes[triples[:, 2]]), start)


class Rows(Bilinear):
    """Asked for whole rows."""

    def score_tails(self, heads: IntArray, relations: IntArray) -> np.ndarray:
        """Return the scores of all tails."""
        start = time.perf_counter()
        return self.timed((self.nodes[heads] * self.relations[relations]) @ self.nodes.T, start)

    def score_heads(self, relations: IntArray, tails: IntArray) -> np.ndarray:
        """Return the scores of all heads."""
        return self.score_tails(tails, relations)

    def score_relations(self, heads: IntArray, tails: IntArray) -> np.ndarray:
        """Return the scores of all relations."""
        start = time.perf_counter()
        return self.timed((self.nodes[heads] * self.nodes[tails]) @ self.relations.T, start)


def main() -> None:
    """Run every case and print one line each; exit with 1 if a case takes more memory than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--targets", type=int, default=3_000)
    parser.add_argument("--case", nargs=2, metavar=("PROTOCOL", "KIND"), help="only this one, as JSON")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(*options.case, options.entities, options.targets)))
        return
    sizes = ["--entities", str(options.entities), "--targets", str(options.targets)]
    worst = 0.0
    for protocol, kind in CASES:
        command = [sys.executable, __file__, *sizes, "--case", protocol, kind]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        worst = max(worst, found["peak_mb"])
        print(
            f"{protocol:14} {kind:8} {found['triples']:>12,} triples in {found['seconds']:6.2f} s "
            f"(scorer {found['scorer']:6.2f} s), peak {found['peak_mb']:6.1f} MB, {found['before_mb']:.1f} MB before"
        )
    print(f"the largest peak is {worst:.1f} MB, allowed are {LIMIT_MB} MB")
    sys.exit(worst > LIMIT_MB)


def measure(protocol: str, kind: str, entities: int, targets: int) -> dict[str, float]:
    """Rank one scorer under one protocol and return what it took; baselines are part of the result and the time."""
    warnings.simplefilter("ignore")
    chosen = task(random_split(entities, targets), protocol)
    scorer = {"rows": Rows, "triples": Triples}[kind](entities)
    before, start = peak_mb(), time.perf_counter()
    chosen.run(scorer)
    return {
        "triples": int(chosen.candidates.lengths.sum()),
        "seconds": time.perf_counter() - start,
        "scorer": scorer.seconds,
        "peak_mb": peak_mb(),
        "before_mb": before,
    }


def random_split(entities: int, targets: int) -> Split:
    """Return a split of distinct random triples."""
    rng = np.random.default_rng(0)
    size = OBSERVABLE + targets
    columns = [rng.integers(0, limit, 2 * size) for limit in (entities, RELATIONS, entities)]
    triples = np.unique(np.stack(columns, axis=1), axis=0)
    rng.shuffle(triples)
    return Split(
        dataset="random",
        name="test",
        graph=triples[targets:size],
        targets=triples[:targets],
        entities=np.array([f"entity {number:07d}" for number in range(entities)]),
        relations=np.array([f"relation {number:03d}" for number in range(RELATIONS)]),
        relation_slots=RELATIONS,
    )


def peak_mb() -> float:
    """Return the largest resident size this process ever had, in megabytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main()
