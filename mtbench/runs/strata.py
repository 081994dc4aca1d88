"""Metrics of parts of the targets: which kind of target a model gets right, and which it gets for free.

A single number hides that a model remembers half-links, or copies visible inverses. Everything here follows
from the rank counts of a run and the split it was made on; no model is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mtbench.data import catalog, graphs
from mtbench.data.graphs import HALF_LINKS, degrees, half_links, keys
from mtbench.data.splits import Dataset, Split, encode
from mtbench.errors import ResultError, UnknownNameError, UsageError
from mtbench.files import tables
from mtbench.metrics import summary
from mtbench.names import HEAD, METRICS, QUESTIONS, RELATION, TAIL, BoolArray, FloatArray, IntArray
from mtbench.runs.origin import Evaluated, splits_of

if TYPE_CHECKING:
    import pandas as pd

FARTHEST = 6
"""Longer paths share a stratum: few targets have them, and no model of the field looks further."""

RANGES = 10
"""The most ranges of degrees."""

WHOLE = "all"
DIRECTION, QUERY = "direction", "query_half_link"
QUERIES = ("both", "asked half only", "answer's half only", "none")
"""Of (h, r, ?): is the asked half (h, r, .) observable, is the answer's, (., r, t)? Of (?, r, t): the reverse."""

TURNED = np.array([0, 2, 1, 3])
"""The cases of `HALF_LINKS` as those of `QUERIES` when the head is asked for; in tail prediction they are the same."""

KINDS = ("metrics", "optimistic", "pessimistic", "chance")


@dataclass(frozen=True, eq=False)
class Labels:
    """A stratum for every target: ``case`` int64 ``(m,)`` indexes ``names``, which are in the table's order."""

    names: Sequence[str]
    case: IntArray


Labelling: TypeAlias = Callable[[Split, Split | None], Labels]
"""From a split, whose targets are those of the run in its order, and the training split where it is known."""


def _relation(split: Split, train: Split | None) -> Labels:
    ids, case, counts = np.unique(split.targets[:, RELATION], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    # The place of each relation in that order is the inverse of the permutation.
    return Labels([split.relation_name(number) for number in ids[order].tolist()], np.argsort(order)[case])


def _relation_seen(split: Split, train: Split | None) -> Labels:
    # By name: ids of the training and the test graph are different.
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
    steps = graphs.distances(split.graph, heads, tails, split.num_entities, FARTHEST)
    names = [*map(str, range(FARTHEST + 1)), f"more than {FARTHEST}", "unreachable"]
    return Labels(names, np.where(steps == graphs.UNREACHABLE, len(names) - 1, steps))


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
        "half_link": lambda split, train: Labels(HALF_LINKS, half_links(split)),
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
"""Every way to divide targets; a new way is a function and an entry here.

``half_link``: is (h, r, .) observable, is (., r, t); ``relation``: its relation type, most targets first;
``relation_seen``: does the training graph have a relation of that name; ``inverse_visible``: is some
triple from tail to head observable; ``degree``: observable triples at the end that has fewer, because the
poorer end limits what a model can know (``head_degree`` and ``tail_degree`` look at one end), in up to ten
parts with as equal numbers of targets as whole degrees allow; ``distance``: the length of the shortest
observable path from head to tail in either direction; ``task``: the ground-truth pattern of the relation,
known for synthetic datasets.
"""


def _yes_no(yes: str, no: str, held: BoolArray) -> Labels:
    return Labels((yes, no), np.where(held, 0, 1))


def _deciles(values: IntArray) -> Labels:
    """Divide integers into up to ten ranges that hold as equal numbers of them as ties allow."""
    # Deciles that are values themselves, not means of two; equal ones merge, so that no value is in two ranges.
    last = np.unique(np.quantile(values, np.arange(1, RANGES + 1) / RANGES, method="inverted_cdf"))
    case = np.searchsorted(last, values)
    first = [int(values[case == number].min()) for number in range(len(last))]
    names = [f"{low} to {high}" if low < high else f"{low}" for low, high in zip(first, map(int, last), strict=True)]
    return Labels(names, case)


@dataclass(frozen=True)
class Stratum:
    """A part of the targets: its ``share`` of all, metrics with ties averaged, both tie bounds, and chance."""

    label: str
    targets: int
    share: float
    metrics: Mapping[str, float]
    optimistic: Mapping[str, float]
    pessimistic: Mapping[str, float]
    chance: Mapping[str, float]


@dataclass(frozen=True)
class Strata:
    """The strata of a run by a name of `STRATA`, in a fixed order, without those that hold no target.

    ``whole`` is the run itself: the mean of the rows weighted by ``targets``. Iterating gives the rows.
    """

    name: str
    model: str
    seed: int
    task: str
    rows: tuple[Stratum, ...]
    whole: Stratum

    def __iter__(self) -> Iterator[Stratum]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, label: str) -> Stratum:
        """Return a row by its label; an unknown one raises `UnknownNameError`."""
        by_label = {row.label: row for row in self.rows}
        if label not in by_label:
            raise UnknownNameError(f"stratum of {self.name}", label, by_label)
        return by_label[label]

    def __str__(self) -> str:
        return f"{self.model} on {self.task}, by {self.name}\n\n{self.table()}"

    def table(self, format: str = "text", decimals: int = 4) -> str:  # noqa: A002
        """Return the rows and the whole in ``text``, ``markdown``, ``latex`` or ``csv``.

        Of the bounds and chance only the MRR is shown; ``csv`` holds every figure with all its digits.
        """
        if format == "csv":
            frame = self.to_frame()
            return tables.lay_out(list(frame.columns), frame.to_numpy(dtype=object).tolist(), format)
        of = "Queries" if self.name in (DIRECTION, QUERY) else "Triples"
        headings = [self.name, of, "Share", *map(tables.heading, METRICS), "MRR by ties", "MRR by chance"]
        rows = [
            [
                row.label,
                f"{row.targets:,}",
                f"{row.share:.1%}",
                *(tables.number(name, row.metrics[name], decimals) for name in METRICS),
                tables.bounds(row.optimistic, row.pessimistic, decimals),
                tables.number("mrr", row.chance["mrr"], decimals),
            ]
            for row in (*self.rows, self.whole)
        ]
        return tables.lay_out(headings, rows, format)

    def to_frame(self) -> pd.DataFrame:
        """Return a row per stratum and a last row for the whole: label, targets, share, and every metric four times.

        ``mrr`` is realistic (ties averaged); ``mrr_optimistic``, ``mrr_pessimistic`` and ``mrr_chance`` follow it.
        """
        import pandas as pd

        return pd.DataFrame(
            [
                {"stratum": row.label, "targets": row.targets, "share": row.share}
                | {
                    name if kind == "metrics" else f"{name}_{kind}": getattr(row, kind)[name]
                    for name in METRICS
                    for kind in KINDS
                }
                for row in (*self.rows, self.whole)
            ]
        )


def by(result: Evaluated, name: str, split: Split | Dataset | None = None) -> Strata:
    """Return the metrics of a run for every stratum of its targets; ``name`` is a key of `STRATA`.

    Two names divide the ranks and not the targets. ``direction``, which needs no split: by what was asked of them.
    ``query_half_link``: by which halves of the query and of its answer are observable, as in `QUERIES`.
    ``split`` is the split the run was made on, or its dataset; left out, it is loaded by the name and
    version the run has. Raises `UnknownNameError` for another name, `UsageError` for a run without ranks,
    a dataset that is not released or lacks what the strata need, and `ResultError` when the split is not
    the run's, since the figures would be sorted by another graph.
    """
    if name not in (DIRECTION, QUERY, *STRATA):
        raise UnknownNameError("stratum", name, [DIRECTION, QUERY, *STRATA])
    if not len(result.ranks):
        raise UsageError(f"{result.run.model} on {result.dataset}: the run is {result.run.status} and has no ranks")
    if name == DIRECTION:
        ways = result.setting.directions
        rows, whole = _of_ranks(
            result,
            [f"{way}s, {QUESTIONS[way]}" for way in ways],
            [np.full(len(result.ranks), number) for number in range(len(ways))],
        )
    elif name == QUERY:
        rows, whole = _of_ranks(result, QUERIES, _queries(result, splits_of(result, split)[0]))
    else:
        made_on, train = splits_of(result, split)
        labels = STRATA[name](made_on, train)
        values = by_target(result, made_on)
        chosen = ((label, labels.case == number) for number, label in enumerate(labels.names))
        rows = tuple(_stratum(label, part, values) for label, part in chosen if part.any())
        whole = _stratum(WHOLE, np.ones(len(result.ranks), dtype=np.bool_), values)
    return Strata(
        name=name,
        model=result.run.model,
        seed=result.run.seed,
        task=f"{result.dataset} {result.split}, protocol {result.protocol}, {result.vocabulary} relations"
        + (f", candidate seed {result.candidate_seed}" if result.candidate_seed else ""),
        rows=rows,
        whole=whole,
    )


def _of_ranks(
    result: Evaluated, names: Sequence[str], cases: Sequence[IntArray]
) -> tuple[tuple[Stratum, ...], Stratum]:
    """Return the strata of ranks, and all of them: ``cases`` index ``names``, ``(m,)`` for each list of the targets."""
    kinds = {kind: summary.per_list(changed) for kind, changed in summary.kinds(result.ranks).items()}
    values = {
        kind: {name: np.concatenate([metrics[name] for metrics in lists.values()]) for name in METRICS}
        for kind, lists in kinds.items()
    }
    case = np.concatenate(cases)
    chosen = ((name, case == number) for number, name in enumerate(names))
    rows = tuple(_stratum(name, part, values) for name, part in chosen if part.any())
    return rows, _stratum(WHOLE, np.ones(len(case), dtype=np.bool_), values)


def _queries(result: Evaluated, split: Split) -> list[IntArray]:
    """Return the case of `QUERIES` of each target, in the order of the ranks, in each of its lists."""
    if result.setting.sides == ("relation",):
        raise UsageError(f"protocol {result.protocol} asks for relations: it has no query of a half-link")
    case = np.empty(len(result.ranks), dtype=np.int64)
    case[_places(result, split)] = half_links(split)
    return [TURNED[case] if way == "head" else case for way in result.setting.directions]


def side_by_side(runs: Sequence[Strata], metric: str = "mrr", format: str = "text", decimals: int = 4) -> str:  # noqa: A002
    """Return a metric of several runs of the same task as a table: a row per stratum, a column per run.

    Raises `UsageError` for runs of different tasks or strata, whose rows would not hold the same targets.
    """
    first = runs[0]
    for run in runs[1:]:
        # Equal names are not enough: a dataset outside the catalogue may have changed between two runs.
        sizes = [[(row.label, row.targets) for row in strata] for strata in (run, first)]
        if (run.name, run.task) != (first.name, first.task) or sizes[0] != sizes[1]:
            raise UsageError(f"runs of different tasks have no strata in common: {first.task}; {run.task}")
    models = [run.model for run in runs]
    labels = [run.model if models.count(run.model) == 1 else f"{run.model} (seed {run.seed})" for run in runs]
    exact = format == "csv"
    cells: list[list[tables.Cell]] = []
    for rows in zip(*((*run.rows, run.whole) for run in runs), strict=True):
        row = rows[0]
        values = [*(stratum.metrics[metric] for stratum in rows), row.chance[metric]]
        numbers = values if exact else [tables.number(metric, value, decimals) for value in values]
        size: list[tables.Cell] = [row.targets, row.share] if exact else [f"{row.targets:,}", f"{row.share:.1%}"]
        cells.append([row.label, *size, *numbers])
    heading = metric if exact else tables.heading(metric)
    names = ["stratum", "targets", "share"] if exact else [first.name, "Triples", "Share"]
    return tables.lay_out([*names, *(f"{heading}, {label}" for label in (*labels, "chance"))], cells, format)


def by_target(result: Evaluated, split: Split, kinds: Collection[str] = KINDS) -> dict[str, dict[str, FloatArray]]:
    """Return per kind of figure every metric ``(m,)`` of the targets of the run's split, in the order of that split.

    The kinds, of `KINDS`, are ties averaged, both bounds, and chance, under the rules of the run's
    protocol. Raises `ResultError` for ranks of other targets.
    """
    place = _places(result, split)
    return {
        kind: {name: values[place] for name, values in summary.per_target(changed).items()}
        for kind, changed in summary.kinds(result.ranks).items()
        if kind in kinds
    }


def _places(result: Evaluated, split: Split) -> IntArray:
    """Return the row of every target of a split in the ranks, ``(m,)``; `ResultError` for ranks of other targets."""
    ranks = result.ranks
    if len(ranks) != len(split.targets):
        raise ResultError(
            f"{result.dataset} {result.split}: {len(ranks)} ranks, the split has {len(split.targets)} triples to rank; "
            "evaluate again"
        )
    if not ranks.named:  # they are in the order of the split
        return np.arange(len(ranks))
    names = list(zip(ranks.heads.tolist(), ranks.relations.tolist(), ranks.tails.tolist(), strict=True))
    rows = encode(names, split.entities, split.relations, f"ranks of {result.run.model} on {result.dataset}")
    # Both hold the same triples, so the n-th in sorted order is the same triple in both.
    places = np.empty(len(rows), dtype=np.int64)
    places[np.lexsort(split.targets.T)] = np.lexsort(rows.T)
    return places


def _stratum(label: str, rows: BoolArray, values: Mapping[str, Mapping[str, FloatArray]]) -> Stratum:
    targets = int(rows.sum())
    # fsum rounds once, so the same targets in another order have the same mean.
    means = {
        kind: {name: math.fsum(per_target[rows].tolist()) / targets for name, per_target in of_kind.items()}
        for kind, of_kind in values.items()
    }
    return Stratum(label, targets, targets / len(rows), **means)
