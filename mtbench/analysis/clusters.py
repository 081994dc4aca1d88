"""Which targets stand or fall together: the clusters a bootstrap draws instead of single targets.

Targets that share a head and a relation share a candidate list and most of what a model can know about
them, and all targets of one family tree were masked by one rule. Drawing them one by one would count the
same evidence several times and call differences real that are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from mtbench.data import catalog
from mtbench.data.splits import Split
from mtbench.errors import UnknownNameError, UsageError
from mtbench.names import HEAD, TAIL, IntArray
from mtbench.ranking.ranks import Ranks

CLUSTERS: Mapping[str, str] = MappingProxyType(
    {
        "pair": "(head, relation) pairs",
        "component": "connected components of the graph",
        "none": "single test triples",
    }
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

    Raises `UsageError` when all targets are in one cluster, of which no spread can be learned.
    """
    if kind == "none":
        found = np.arange(len(ranks))
    elif kind == "pair":
        _, pairs = np.unique(np.stack((ranks.heads, ranks.relations)), axis=1, return_inverse=True)
        found = pairs.reshape(-1)
    elif split is not None:
        found = _components(ranks, split)
    else:
        raise UsageError("clusters by component need the graph: give the split, or choose the clusters pair or none")
    if len(found) and found.max() == 0:
        kinds = {"pair": "none"}.get(kind, "pair")
        raise UsageError(
            f"all {len(found)} test triples are in one cluster ({CLUSTERS[kind]}), so their spread is unknown"
            + (f": choose the clusters {kinds}" if len(found) > 1 else "")
        )
    return found.astype(np.int64)


def _components(ranks: Ranks, split: Split) -> IntArray:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    triples = np.concatenate((split.graph, split.targets))
    edges = np.ones(len(triples), dtype=np.int8), (triples[:, HEAD], triples[:, TAIL])
    _, components = connected_components(coo_array(edges, shape=(split.num_entities,) * 2), directed=False)
    order = np.argsort(split.entities)
    position = np.searchsorted(split.entities, ranks.heads, sorter=order)
    _, found = np.unique(components[order[position]], return_inverse=True)
    return found.astype(np.int64)
