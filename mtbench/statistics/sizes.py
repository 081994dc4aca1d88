"""How large a relation is and how many ends it has; how many triples and slots an entity has."""

from __future__ import annotations

import numpy as np

from mtbench.data.doubled import Doubled
from mtbench.names import FloatArray, IntArray

RELATION_NAMES = ("share", "heads", "tails", "triples", "head entities", "tail entities")
DEGREE_NAMES = ("out of head", "into head", "out of tail", "into tail", "slots of head", "slots of tail")


def relation_sizes(graph: Doubled, triples: IntArray) -> FloatArray:
    """Return of the relation of each triple, ``(m, 6)``: log of its share of all triples, distinct heads and tails
    per triple (its functionality), and logs of the triples and of the shares of entities that are a head or a tail.
    """
    relation = triples[:, 1]
    edges, entities = graph.slot_edges, graph.slot_entities
    size, heads, tails = edges[relation], entities[relation], entities[relation + graph.relations]
    everyone = np.log(max(1, graph.num_entities))
    return np.stack(
        (
            np.log1p(size) - np.log(max(1, graph.triples)),
            heads / np.maximum(size, 1),
            tails / np.maximum(size, 1),
            np.log1p(size),
            np.log1p(heads) - everyone,
            np.log1p(tails) - everyone,
        ),
        axis=1,
    )


def degrees(graph: Doubled, triples: IntArray) -> FloatArray:
    """Return log1p of the out-degree, in-degree and number of slots of head and tail of each triple, ``(m, 6)``."""
    head, tail = triples[:, 0], triples[:, 2]
    out, into = graph.degrees
    slots = np.diff(graph.slot_starts)
    found: FloatArray = np.log1p(
        np.stack((out[head], into[head], out[tail], into[tail], slots[head], slots[tail]), axis=1)
    )
    return found
