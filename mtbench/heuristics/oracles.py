"""Oracles: scorers that look at the test triples. They show what a protocol can reach and what it gives away.

A figure they do not reach is one that no model can reach, and what the blind one gets, although it cannot tell
relations apart, is what the protocol gives away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.splits import Split, unique
from mtbench.heuristics.figures import BASELINES
from mtbench.names import HEAD, TAIL, ScoreFunction
from mtbench.ranking.candidates import is_known


def oracle(split: Split) -> ScoreFunction:
    """Score every known triple of the split 1 and any other 0; it looks at the targets."""
    return lambda triples: is_known(split, triples).astype(np.int64)


def blind_oracle(split: Split) -> ScoreFunction:
    """Score every triple between the two entities of a target 1, whatever its relation; it looks at the targets.

    It is the best a homogeneous model can be: all entities right, all relations tied.
    """
    pairs = unique(keys(split, split.targets, HEAD, TAIL))
    return lambda triples: np.isin(keys(split, triples, HEAD, TAIL), pairs).astype(np.int64)


SCORERS: Mapping[str, Callable[[Split], ScoreFunction]] = {
    "oracle": oracle,
    "blind-oracle": blind_oracle,
    "relation-frequency": BASELINES["relation_frequency"],
    "entity-degree": BASELINES["entity_degree"],
}
"""Both oracles and two heuristic baselines, as the page on ties and settings measures them."""
