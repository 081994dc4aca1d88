"""Many small graphs out of few large ones, as unlike each other as the graphs that a pre-trained model will meet."""

from __future__ import annotations

from collections import deque

import numpy as np

from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray

ENTITIES = (800, 3000)
"""The fewest and the most entities of a part, as likely on the scale of the logarithm."""

DENSITY = (1.2, 6.0)
"""The fewest and the most triples for each entity, likewise; sparse ones are what benchmarks of new relations have."""

NEIGHBOURS = 12
"""New neighbours at most through which a part grows from an entity, so that no hub makes it a star."""

KEPT = (0.3, 0.9)
"""The shares of the relation types that half of the parts with more than `FEW` of them keep."""

FEW = 12
LEAST, TRIPLES = 150, 200
"""Parts of fewer triples are left out; a part has the second number where the graph has them."""


def carve(graph: Split, number: int, seed: int) -> list[Split]:
    """Return at most ``number`` parts of a graph, each around an entity, thinned, and half of them of fewer relations.

    The same graph, number and seed give the same parts. The parts have no targets.
    """
    rng = np.random.default_rng([seed, *b"carve"])
    parts = []
    for _ in range(number):
        entities, density = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in (ENTITIES, DENSITY))
        inside = _around(graph, int(entities), rng)
        triples = graph.graph[inside[graph.graph[:, HEAD]] & inside[graph.graph[:, TAIL]]]
        triples = rng.permutation(triples)[: max(TRIPLES, int(density * entities))]
        relations = np.unique(triples[:, RELATION])
        if len(relations) > FEW and rng.random() < 0.5:
            kept = rng.permutation(relations)[: int(len(relations) * rng.uniform(*KEPT))]
            triples = triples[np.isin(triples[:, RELATION], kept)]
        if len(triples) >= LEAST:
            parts.append(_compact(graph, triples))
    return parts


def _around(graph: Split, number: int, rng: np.random.Generator) -> BoolArray:
    """Return which entities ``(n,)`` are among the first ``number`` in breadth-first order from a random one.

    Where a component ends before, another begins at another entity.
    """
    ends = graph.graph[:, (HEAD, TAIL)]
    both = np.concatenate((ends, ends[:, ::-1]))
    both = both[np.argsort(both[:, 0], kind="stable")]
    starts = np.searchsorted(both[:, 0], np.arange(graph.num_entities + 1))
    inside = np.zeros(graph.num_entities, dtype=np.bool_)
    left, queue = min(number, len(np.unique(ends))), deque[int]()
    while left:
        if not queue:
            begin = int(both[rng.integers(len(both)), 0])
            if inside[begin]:
                continue
            inside[begin], left = True, left - 1
            queue.append(begin)
            continue
        entity = queue.popleft()
        neighbours = rng.permutation(both[starts[entity] : starts[entity + 1], 1])[:NEIGHBOURS]
        new = list(dict.fromkeys(neighbours[~inside[neighbours]].tolist()))[:left]
        inside[new], left = True, left - len(new)
        queue.extend(new)
    return inside


def _compact(graph: Split, triples: IntArray) -> Split:
    """Return a graph of some triples with the entities and relation types that they have."""
    entities, relations = np.unique(triples[:, (HEAD, TAIL)]), np.unique(triples[:, RELATION])
    ids = [np.searchsorted(entities, triples[:, HEAD]), np.searchsorted(relations, triples[:, RELATION])]
    rows = np.stack([*ids, np.searchsorted(entities, triples[:, TAIL])], axis=1)
    none = np.empty((0, 3), dtype=np.int64)
    return Split(
        graph.dataset, graph.name, rows, none, graph.entities[entities], graph.relations[relations], len(relations)
    )
