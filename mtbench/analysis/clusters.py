"""Clusters of targets that are not independent, and how small a difference a dataset can show with them.

Targets that share a head and a relation share a candidate list and most of what a model can know about
them, and all targets of a family tree were masked by the same rule. Drawing them singly would count the
same evidence several times and call differences real that are not. So a bootstrap draws clusters of targets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mtbench.analysis.significance import multiplier
from mtbench.data import catalog
from mtbench.data.splits import Split
from mtbench.errors import UnknownNameError, UsageError
from mtbench.evaluation.tasks import task as task_of
from mtbench.names import HEAD, METRICS, RELATION, TAIL, IntArray
from mtbench.ranking.ranks import Ranks

CLUSTERS: Mapping[str, str] = MappingProxyType(
    {"pair": "(head, relation) pairs", "component": "connected components of the graph", "none": "single test triples"}
)
"""The kinds of cluster, and how they read in a sentence."""

DEFAULT = "pair"


def choose(dataset: str, asked: str | None = None) -> str:
    """Return the kind of cluster asked for, or the dataset's own; raises `UnknownNameError` for another kind."""
    if asked is not None:
        if asked not in CLUSTERS:
            raise UnknownNameError("kind of cluster", asked, CLUSTERS)
        return asked
    record = catalog.by_id(dataset)
    return record.clusters if record else DEFAULT


def label(ranks: Ranks, kind: str, split: Split | None = None) -> IntArray:
    """Return the number ``(m,)`` of the cluster of each target; ``component`` needs the split for its graph.

    Raises `UsageError` when all targets are in the same cluster: a single cluster has no spread.
    """
    if kind == "none":
        labels = np.arange(len(ranks))
    elif kind == "pair":
        _, pairs = np.unique(np.stack((ranks.heads, ranks.relations)), axis=1, return_inverse=True)
        labels = pairs.reshape(-1)
    elif split is not None:
        labels = _components(ranks, split)
    else:
        raise UsageError("clusters by component need the graph: give the split, or choose the clusters pair or none")
    if len(labels) and labels.max() == 0:
        finer = {"pair": "none"}.get(kind, "pair")
        raise UsageError(
            f"all {len(labels)} test triples are in one cluster ({CLUSTERS[kind]}), so their spread is unknown"
            + (f": choose the clusters {finer}" if len(labels) > 1 else "")
        )
    return labels.astype(np.int64)


def _components(ranks: Ranks, split: Split) -> IntArray:
    # Targets link their ends as observable triples do: they were in the graph before they were masked.
    triples = np.concatenate((split.graph, split.targets))
    edges = np.ones(len(triples), dtype=np.int8), (triples[:, HEAD], triples[:, TAIL])
    _, components = connected_components(coo_array(edges, shape=(split.num_entities,) * 2), directed=False)
    order = np.argsort(split.entities)
    position = np.searchsorted(split.entities, ranks.heads, sorter=order)
    _, labels = np.unique(components[order[position]], return_inverse=True)
    return labels.astype(np.int64)


@dataclass(frozen=True)
class Resolution:
    """The difference between two models that the targets of a task show with a power of 80 %.

    ``independent`` suffices for any two models whose errors are not opposed, if targets are independent;
    ``bound`` suffices even if the targets of a cluster always go right or wrong together. What a given pair needs
    lies below ``bound``; how far below ``independent`` depends on how alike the two are. The spread over training
    seeds comes on top.
    """

    dataset: str
    metric: str
    targets: int
    cluster: str
    clusters: int
    independent: float
    bound: float


def bound(metric: str, counts: IntArray, labels: IntArray, level: float = 0.95) -> float:
    """Return the difference that suffices to tell any two models of unopposed errors apart with a power of 80 %.

    ``counts`` ``(l, m)`` are the candidates of each target in each of its lists and ``labels`` ``(m,)`` its
    cluster; a target's value is the mean over its lists, with the mean of their ranges. A value with
    the range R has a variance of at most R^2 / 4 (Popoviciu 1935), so the difference of two values that are not
    negatively correlated has a variance of at most R^2 / 2; if all values of a cluster vary together, their
    standard deviations add up. With alpha = 1 - ``level`` that gives
    (z(1 - alpha/2) + z(0.8)) sqrt(sum over clusters of (sum of R)^2 / 2) / m.
    """
    slots = (counts + 1).astype(np.float64)
    reach = {"mr": slots - 1, "mrr": 1 - 1 / slots}.get(metric, np.ones_like(slots)).mean(axis=0)
    per_cluster = np.bincount(labels, weights=reach)
    return multiplier(level) * math.sqrt(float((per_cluster**2).sum()) / 2) / len(labels)


def minimum_detectable(
    source: str | Path | Split,
    metric: str = "mrr",
    *,
    protocol: str | None = None,
    vocabulary: str | None = None,
    cluster: str | None = None,
    level: float = 0.95,
) -> Resolution:
    """Return how small a difference the test targets of a dataset, or those of a split, can show.

    It needs no run: compare it with the difference you hope for before you train. For models that have runs,
    ``detectable`` of `mtbench.compare` is the same from their own spread. Arguments and errors are those of
    `mtbench.task` and `mtbench.compare`.
    """
    if metric not in METRICS:
        raise UnknownNameError("metric", metric, METRICS)
    task = task_of(source, protocol, vocabulary)
    split, targets, counts = task.split, task.split.targets, task.candidates.lengths
    kind = choose(split.dataset, cluster)
    heads, tails = (split.entities[targets[:, column]] for column in (HEAD, TAIL))
    labels = label(Ranks(heads, split.relations[targets[:, RELATION]], tails, {}), kind, split)
    return Resolution(
        dataset=split.dataset,
        metric=metric,
        targets=len(labels),
        cluster=kind,
        clusters=int(labels.max()) + 1,
        independent=bound(metric, counts, np.arange(len(labels)), level),
        bound=bound(metric, counts, labels, level),
    )
