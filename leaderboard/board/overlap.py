"""What the models of a leaderboard may have seen: test targets among the triples of the graphs they learned from."""

from __future__ import annotations

from functools import cache

from leaderboard.board.board import Overlap
from leaderboard.entries.cards import TRAIN
from mtbench.data import catalog
from mtbench.data.load import load
from mtbench.errors import MtbenchError
from mtbench.leakage.contamination import contamination


@cache
def overlap(dataset: str, graph: str) -> Overlap:
    """Return how many test targets of a dataset a graph has shown, exactly as they stand.

    Graphs are named as in results: ``NAME/train`` is the training graph of a released dataset with its
    validation targets, ``NAME`` the whole of it. Of any other graph nothing is known here (`mtbench contamination`
    measures it for whoever has it), nor of a dataset that can neither be loaded nor fetched.
    """
    record = catalog.record(dataset)
    targets = record.parts["test/targets"].triples
    name = graph.removesuffix(TRAIN)
    if name not in catalog.names():
        return Overlap(graph, None, targets)
    try:
        other = load(name)
        found = contamination(load(dataset).test, other.valid if graph.endswith(TRAIN) else other)
    except MtbenchError:
        return Overlap(graph, None, targets)
    return Overlap(graph, found.targets.exact.seen, found.targets.exact.of)
