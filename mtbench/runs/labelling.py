"""The ways to divide targets: a function per stratification, from a split to a label for every target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from mtbench.data import catalog, graphs
from mtbench.data.graphs import HALF_LINKS, degrees, half_links, keys
from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray

FARTHEST = 6
"""Paths longer than this are one stratum: beyond it lie few targets, and no model of the field looks as far."""

PARTS = 10


@dataclass(frozen=True, eq=False)
class Labels:
    """A stratum for every target: ``case`` int64 ``(m,)`` indexes ``names``, which are in the order of the table."""

    names: Sequence[str]
    case: IntArray


Labelling: TypeAlias = Callable[[Split, Split | None], Labels]
"""From a split, whose targets are those of the run in its order, and the training split where it is known."""


def _half_link(split: Split, train: Split | None) -> Labels:
    return Labels(HALF_LINKS, half_links(split))


def _relation(split: Split, train: Split | None) -> Labels:
    ids, case, counts = np.unique(split.targets[:, RELATION], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return Labels([split.relation_name(number) for number in ids[order].tolist()], np.argsort(order)[case])


def _relation_seen(split: Split, train: Split | None) -> Labels:
    if train is None:
        raise UsageError(
            f"{split.dataset}: whether training has a relation is not known from a test split alone: pass the dataset "
            f"instead, as in split=mtbench.load(DIR)"
        )
    seen = train.relations[np.unique(train.graph[:, RELATION])]
    return _yes_no("in training", "new", np.isin(split.relations, seen)[split.targets[:, RELATION]])


def _inverse_visible(split: Split, train: Split | None) -> Labels:
    backwards, pairs = keys(split, split.graph, TAIL, HEAD), keys(split, split.targets, HEAD, TAIL)
    return _yes_no("visible", "not visible", np.isin(pairs, backwards))


def _degree(split: Split, train: Split | None, *, ends: tuple[int, ...]) -> Labels:
    return _deciles(degrees(split)[split.targets[:, ends]].min(axis=1))


def _distance(split: Split, train: Split | None) -> Labels:
    heads, tails = split.targets[:, HEAD], split.targets[:, TAIL]
    found = graphs.distances(split.graph, heads, tails, split.num_entities, FARTHEST)
    names = [*map(str, range(FARTHEST + 1)), f"more than {FARTHEST}", "unreachable"]
    return Labels(names, np.where(found == graphs.UNREACHABLE, len(names) - 1, found))


def _task(split: Split, train: Split | None) -> Labels:
    if not split.tasks:
        raise UsageError(
            f"{split.dataset} {split.name}: no ground-truth tasks are known; the synthetic datasets "
            f"({', '.join(catalog.generated())}) have them"
        )
    per_relation = [split.tasks.get(name, "no task") for name in split.relations.tolist()]
    names, case = np.unique(per_relation, return_inverse=True)
    return Labels(names.tolist(), case[split.targets[:, RELATION]])


STRATA: Mapping[str, Labelling] = MappingProxyType(
    {
        "half_link": _half_link,
        "relation": _relation,
        "relation_seen": _relation_seen,
        "inverse_visible": _inverse_visible,
        "degree": partial(_degree, ends=(HEAD, TAIL)),
        "head_degree": partial(_degree, ends=(HEAD,)),
        "tail_degree": partial(_degree, ends=(TAIL,)),
        "distance": _distance,
        "task": _task,
    }
)
"""Every way to divide targets; a new one is a function and an entry here.

``half_link``: is (h, r, .) observable, is (., r, t); ``relation``: its relation type, most targets first;
``relation_seen``: does the training graph have a relation of that name; ``inverse_visible``: is some
triple from tail to head observable; ``degree``: observable triples at the end that has fewer, because the
poorer end limits what a model can know (``head_degree`` and ``tail_degree`` take one end), in up to ten
parts with as equal numbers of targets as whole degrees allow; ``distance``: the length of the shortest
observable path from head to tail in either direction; ``task``: the ground-truth pattern of the relation,
known for synthetic datasets.
"""


def _yes_no(yes: str, no: str, held: BoolArray) -> Labels:
    return Labels((yes, no), np.where(held, 0, 1))


def _deciles(values: IntArray) -> Labels:
    """Divide integers into up to ten ranges that hold as equal numbers of them as ties allow."""
    last = np.unique(np.quantile(values, np.arange(1, PARTS + 1) / PARTS, method="inverted_cdf"))
    case = np.searchsorted(last, values)
    first = [int(values[case == number].min()) for number in range(len(last))]
    names = [f"{low} to {high}" if low < high else f"{low}" for low, high in zip(first, map(int, last), strict=True)]
    return Labels(names, case)
