"""How fast the WikiTopics-MT graphs are rebuilt from a dump, and the same recipe in plain pandas and networkx.

    python benchmarks/rebuild.py full FOLDER [--scale 1.0]      all twelve graphs, synthetic dump of Wikidata5M's size
    python benchmarks/rebuild.py peer DUMP --entities 9000      the first million triples, both ways

The synthetic dump is written to FOLDER once (about 200 MB); use one that is not in the repository.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtbench.builders import wikitopics
from mtbench.builders.dumps.dump import read_dump
from mtbench.builders.wikitopics import Sample

if TYPE_CHECKING:
    import pandas as pd

TRIPLES, ENTITIES, PROPERTIES = 20_600_000, 4_600_000, 822
SCENARIOS = wikitopics.plans("wikitopics-mt")
SAMPLES = list(dict.fromkeys(part for plan in SCENARIOS for part in (plan.train, plan.test)))


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["full", "peer", "ours", "plain"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="share of Wikidata5M's size")
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--entities", type=int, default=10_000, help="sample size; excerpts may need a smaller one")
    options = parser.parse_args()
    if options.what == "full":
        dump = synthesize(options.path, options.scale)
        found = measured("ours", dump, options.entities)
        print(f"{found['graphs']} graphs, {found['triples']:,} triples read from {dump}: ", end="")
        print(f"{found['seconds']:.1f} s (reading {found['reading']:.1f} s), ", end="")
        print(f"cpu {found['cpu']:.1f} s, peak {found['peak_mb']:,.0f} MB")
    elif options.what == "peer":
        excerpt = first_triples(options.path, options.triples)
        ours = min((measured("ours", excerpt, options.entities) for _ in range(3)), key=lambda found: found["seconds"])
        plain = measured("plain", excerpt, options.entities)
        for name, found in (("mtbench", ours), ("pandas + networkx", plain)):
            print(
                f"{name}: {found['graphs']} graphs of {options.triples:,} triples in {found['seconds']:.2f} s, ", end=""
            )
            print(
                f"of which reading {found['reading']:.2f} s, cpu {found['cpu']:.2f} s, peak {found['peak_mb']:,.0f} MB"
            )
        print(f"{plain['seconds'] / ours['seconds']:.1f} times faster by the clock, ", end="")
        print(f"{plain['cpu'] / ours['cpu']:.1f} times by processor time")
    else:
        print(json.dumps({"ours": ours_on, "plain": plain_on}[options.what](options.path, options.entities)))


def measured(what: str, path: Path, entities: int) -> dict[str, float]:
    """Run one side in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, __file__, what, str(path), "--entities", str(entities)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def ours_on(path: Path, entities: int) -> dict[str, float]:
    """Make all twelve graphs with this package."""
    start, cpu = time.perf_counter(), time.process_time()
    dump = read_dump([path], wikitopics.properties(SCENARIOS))
    reading = time.perf_counter() - start
    for sample in SAMPLES:
        drawn = wikitopics.draw(dump, sample, seed=0, entities=entities, share=0.1)
        wikitopics.as_split(dump, drawn, sample)
    return figures(start, cpu, reading, dump.lines)


def plain_on(path: Path, entities: int) -> dict[str, float]:
    """The same recipe as one would write it with the usual libraries."""
    import pandas as pd

    start, cpu = time.perf_counter(), time.process_time()
    table = pd.read_csv(path, sep="\t", header=None, names=["head", "relation", "tail"], quoting=3)
    reading = time.perf_counter() - start
    for sample in SAMPLES:
        plain_graph(table, sample, entities)
    return figures(start, cpu, reading, len(table))


def plain_graph(table: pd.DataFrame, sample: Sample, entities: int, share: float = 0.1) -> list[np.ndarray]:
    """Make one graph; returns observable and hidden triples as ids."""
    import networkx as nx

    rng = random.Random(0)
    rows = table[table["relation"].isin(sample.relations)].drop_duplicates()
    graph = nx.from_pandas_edgelist(rows, "head", "tail", edge_attr="relation", create_using=nx.MultiDiGraph)
    component = max(nx.weakly_connected_components(graph), key=len)
    undirected = nx.Graph(graph.subgraph(component))
    nodes = list(component)
    burnt: set[str] = set()
    passed: deque[str] = deque(maxlen=100)
    fire: deque[str] = deque()
    while len(burnt) < entities:
        if not fire:
            fire.extend(passed.popleft() for _ in range(min(10, len(passed))))
        if not fire:
            fire.append(rng.choice(nodes))
        entity = fire.popleft()
        if entity in burnt:
            continue
        burnt.add(entity)
        unburnt = [other for other in undirected.neighbors(entity) if other not in burnt]
        spread = int(np.random.default_rng(len(burnt)).geometric(0.8))
        drawn = rng.sample(unburnt, min(len(unburnt), spread + 100))
        fire.extend(drawn[:spread])
        passed.extendleft(drawn[spread:])
    induced = graph.subgraph(burnt).copy()
    triples = [(head, data["relation"], tail) for head, tail, data in induced.edges(data=True)]
    targets = []
    for head, relation, tail in rng.sample(triples, len(triples)):
        if len(targets) == int(share * len(triples)):
            break
        if induced.degree(head) > 1 and induced.degree(tail) > 1 and head != tail:
            key = next(key for key, data in induced[head][tail].items() if data["relation"] == relation)
            induced.remove_edge(head, tail, key)
            targets.append((head, relation, tail))
    entity_ids = {name: index for index, name in enumerate(sorted(induced.nodes))}
    relation_ids = {name: index for index, name in enumerate(sorted({row[1] for row in triples}))}
    hidden = set(targets)
    observable = [row for row in triples if row not in hidden]
    return [
        np.array([(entity_ids[h], relation_ids[r], entity_ids[t]) for h, r, t in part])
        for part in (observable, targets)
    ]


def figures(start: float, cpu: float, reading: float, triples: int) -> dict[str, float]:
    """Return what is reported of a run that began at ``start``."""
    return {
        "graphs": len(SAMPLES),
        "triples": triples,
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "reading": reading,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def first_triples(path: Path, count: int) -> Path:
    """Write the first triples of a dump to a file of their own beside the interpreter's temporary files."""
    import tempfile

    place = Path(tempfile.gettempdir()) / f"mtbench-first-{count}.txt.gz"
    with gzip.open(path, "rb") as source, gzip.open(place, "wb", compresslevel=6) as out:
        out.writelines(line for line, _ in zip(source, range(count), strict=False))
    return place


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
