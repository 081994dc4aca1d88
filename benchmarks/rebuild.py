"""How fast all twelve WikiTopics-MT graphs are rebuilt from a synthetic dump of Wikidata5M's size.

    python benchmarks/rebuild.py FOLDER [--scale 1.0]

The dump is written to FOLDER once (about 200 MB); use one that is not in the repository.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from measuring import alone, peak_mb

from mtbench.builders import wikitopics
from mtbench.builders.dumps.dump import read_dump

TRIPLES, ENTITIES, PROPERTIES = 20_600_000, 4_600_000, 822
SCENARIOS = wikitopics.plans("wikitopics-mt")
SAMPLES = list(dict.fromkeys(part for plan in SCENARIOS for part in (plan.train, plan.test)))


def main() -> None:
    """Write the dump if it is not there, and measure in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="share of Wikidata5M's size")
    parser.add_argument("--entities", type=int, default=10_000, help="of a graph; a small dump may need fewer")
    options = parser.parse_args()
    dump = synthesize(options.folder, options.scale)
    triples, seconds, reading, processor, peak = alone(rebuild, dump, options.entities)
    print(
        f"{len(SAMPLES)} graphs, {triples:,} triples read from {dump}: {seconds:.1f} s (reading {reading:.1f} s), "
        f"cpu {processor:.1f} s, peak {peak:,.0f} MB"
    )


def rebuild(path: Path, entities: int) -> tuple[int, float, float, float, float]:
    """Make all graphs; returns triples, seconds, those of reading and of the processor, and the peak memory."""
    start, processor = time.perf_counter(), time.process_time()
    dump = read_dump([path], wikitopics.properties(SCENARIOS))
    reading = time.perf_counter() - start
    for sample in SAMPLES:
        wikitopics.draw(dump, sample, seed=0, entities=entities, share=0.1)
    return dump.lines, time.perf_counter() - start, reading, time.process_time() - processor, peak_mb()


def synthesize(folder: Path, scale: float) -> Path:
    """Write a dump of Wikidata5M's size: property and tail frequencies follow power laws, names are like its own."""
    triples, entities = int(TRIPLES * scale), int(ENTITIES * scale)
    path = folder / f"synthetic-{triples}.txt.gz"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(folder).free < 2 << 30:
        raise SystemExit(f"{folder}: less than 2 GB free")
    rng = np.random.default_rng(0)
    listed = sorted({int(name[1:]) for sample in SAMPLES for name in sample.relations})
    others = [number for number in range(1, 5 * PROPERTIES) if number not in set(listed)]
    numbers = np.array(listed + others[: PROPERTIES - len(listed)])
    shares = 1 / np.arange(1, len(numbers) + 1)
    rng.shuffle(shares)
    counts = np.maximum(1, (triples * shares / shares.sum()).astype(np.int64))
    names = np.sort(rng.choice(60_000_000, entities, replace=False)) + 1
    head, relation, tail = [], [], []
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        # A property joins entities of one kind with popular ones of another: windows of the entities.
        size = min(entities, max(20_000, count))
        head.append((rng.integers(entities) + rng.integers(0, size, count)) % entities)
        hubs = max(100, min(entities, count // 4))
        tail.append((rng.integers(entities) + (hubs * rng.random(count) ** 3).astype(np.int64)) % entities)
        relation.append(np.full(count, number))
    order = rng.permutation(int(counts.sum()))
    columns = [np.concatenate(part)[order] for part in (head, relation, tail)]
    partial = path.with_suffix(".part")
    with gzip.open(partial, "wb", compresslevel=1) as out:
        for first in range(0, len(order), 1 << 20):
            part = [column[first : first + (1 << 20)] for column in columns]
            text = [pa.array(column).cast(pa.string()) for column in (names[part[0]], part[1], names[part[2]])]
            lines = pc.binary_join_element_wise("Q", text[0], "\tP", text[1], "\tQ", text[2], "\n", "")
            out.write(lines.buffers()[2].to_pybytes())
    partial.rename(path)
    return path


if __name__ == "__main__":
    main()
