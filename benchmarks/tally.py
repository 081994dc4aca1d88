"""Time and peak memory of tally's statistics on large graphs, each size in its own process.

    python benchmarks/tally.py [--triples 1000000 20000000]

A graph has as many entities and relations per triple as Wikidata5M (4.6 million and 822 for 20.6 million); heads,
relations and tails are drawn independently, by laws as uneven as there: a few tails have a large share of all triples.
Counted are the tables that every score needs, made once, then the statistics of lists as training draws them, 51 tails,
heads and relations of a triple, and of whole rows of candidates as a full ranking asks for, all entities as tails.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from measuring import alone, peak_mb

from mtbench.data.splits import Split
from mtbench.names import IntArray
from reference_models.tally.statistics import Statistics

ENTITIES, RELATIONS = 4_594_485 / 20_614_279, 822
TAIL_LAW, HEAD_LAW, RELATION_LAW = 0.9, 0.3, 1.1
"""Exponents of the share of an entity or relation against its place in order of shares."""

LIST = 75
"""The triples of a list: one, with 24 random tails, 24 random heads and 26 random relations."""

ROWS = 4
"""The whole rows of candidates that are measured, after one that makes their tables."""


def drawn(number: int, size: int, law: float, rng: np.random.Generator) -> IntArray:
    """Return ids ``(number,)`` below ``size``, in which the k-th has a share in proportion to (k + 10) ** -law."""
    shares = np.cumsum((np.arange(size) + 10.0) ** -law)
    return np.searchsorted(shares, rng.random(number) * shares[-1])


def graph(triples: int) -> Split:
    """Return a graph of so many triples, less those drawn twice."""
    rng, entities = np.random.default_rng(0), round(triples * ENTITIES)
    heads = rng.permutation(entities)[drawn(triples, entities, HEAD_LAW, rng)]
    rows = np.stack(
        (heads, drawn(triples, RELATIONS, RELATION_LAW, rng), drawn(triples, entities, TAIL_LAW, rng)), axis=1
    )
    names = np.arange(entities).astype(str), np.arange(RELATIONS).astype(str)
    return Split("synthetic", "train", rows, rows[:0], *names, RELATIONS)


def lists(split: Split, number: int) -> IntArray:
    """Return some triples with 24 random tails, 24 random heads and 26 random relations each, one after the other."""
    rng = np.random.default_rng(1)
    own = split.graph[rng.integers(len(split.graph), size=number)]
    triples = np.repeat(own[:, None], LIST, axis=1)
    triples[:, 1:25, 2] = rng.integers(split.num_entities, size=(number, 24))
    triples[:, 25:49, 0] = rng.integers(split.num_entities, size=(number, 24))
    triples[:, 49:, 1] = rng.integers(RELATIONS, size=(number, 26))
    return triples.reshape(-1, 3)


def row(split: Split, number: int) -> IntArray:
    """Return the head and the relation of a triple with every entity as the tail."""
    whole = np.repeat(split.graph[number : number + 1], split.num_entities, axis=0)
    whole[:, 2] = np.arange(split.num_entities)
    return whole


def measure(triples: int, number: int) -> dict[str, float]:
    """Return what a graph of so many triples takes."""
    split = graph(triples)
    asked = lists(split, number)
    before = peak_mb()
    start = time.process_time()
    statistics = Statistics(split)
    for first in (asked[:1], asked[:LIST]):  # one question counts less: all is counted for those after it
        statistics.of(first)
    tables = time.process_time() - start
    start = time.process_time()
    statistics.of(asked)
    scored = time.process_time() - start
    statistics.of(row(split, 0))
    start = time.process_time()
    for place in range(1, ROWS + 1):
        statistics.of(row(split, place))
    ranked = time.process_time() - start
    return {
        "triples": triples,
        "seconds per million triples": tables / triples * 1e6,
        "bytes per triple": (peak_mb() - before) * 1e6 / triples,
        "peak MB": peak_mb(),
        "lists": number,
        "ms per list": scored / number * 1e3,
        "seconds per row": ranked / ROWS,
    }


def main() -> None:
    """Measure every size in a process of its own, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, nargs="+", default=[1_000_000, 20_000_000])
    parser.add_argument("--lists", type=int, default=200)
    asked = parser.parse_args()
    for size in asked.triples:
        measured = alone(measure, size, asked.lists)
        print("  ".join(f"{name} {value:,.1f}" for name, value in measured.items()), flush=True)


if __name__ == "__main__":
    main()
