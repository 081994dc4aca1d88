"""Leave-out lists: some observable triples are hidden, and ranked among candidates by statistics of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from mtbench.data.doubled import Doubled
from mtbench.data.splits import Split
from mtbench.errors import DatasetError
from mtbench.names import COLUMN, RELATION, BoolArray, FloatArray, IntArray, Side
from mtbench.ranking.candidates import draw, is_known
from mtbench.ranking.lists import Layout
from mtbench.settings.table import HEADLINE
from reference_models.tally.statistics import Statistics

ENDS: tuple[Side, ...] = ("tail", "head")


@dataclass(frozen=True, eq=False)
class Lists:
    """m positives, each with candidate tails, heads and relations: ``features`` float32 ``(k, F)`` of all k triples.

    ``rows`` int64 ``(m, 1 + c)`` are the positive of each list and then its candidates, as rows of the features. Each
    of g softmaxes is over some of them: ``offsets`` float32 ``(g, m, 1 + c)`` are added to the logits, -inf to others'.
    """

    features: Tensor
    rows: Tensor
    offsets: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Return the lists of several graphs as one."""
        starts = np.cumsum([0, *(len(part.features) for part in parts)]).tolist()
        return cls(
            torch.cat([part.features for part in parts]),
            torch.cat([part.rows + start for part, start in zip(parts, starts, strict=False)]),
            torch.cat([part.offsets for part in parts], dim=1),
        )


def leave_out(graph: Split, share: float, most: int, typed: int, seed: int) -> Lists:
    """Return lists of at most ``most`` of the triples of a graph that are hidden, a ``share`` of all.

    Candidates are those of the protocol ``dual``, so that no hidden triple is a candidate. The statistics are of the
    graph without the hidden triples, which has neither a positive nor its corruptions. One softmax is over the
    positive's tails and relations, one over its heads and relations.

    With ``typed``, up to so many entities that the rest of the graph has at that end of the relation are candidates
    too. A third softmax is then over all tails and a fourth over all heads. Their candidates are weighted by one over
    the probability of being drawn, which estimates the softmax over every entity.
    Raises `DatasetError` for a graph of fewer than two triples.
    """
    order = np.random.default_rng([seed, *b"leave out"]).permutation(len(graph.graph))
    if len(order) < 2:
        raise DatasetError(f"{graph.dataset} {graph.name}: {len(order)} triples are too few to hide some and learn")
    # At least one triple is hidden, and one is left.
    number = min(max(1, round(share * len(order))), len(order) - 1)
    split = replace(graph, graph=graph.graph[order[number:]], targets=graph.graph[order[:number]])
    drawn = draw(split, HEADLINE, seed)
    chosen = {}
    for side in HEADLINE.sides:
        ids, there = drawn.side(side)
        chosen[side] = ids[:most], there[:most]
    layout = Layout(replace(split, targets=split.targets[:most]), HEADLINE.parts, chosen)
    own = layout.targets[:, None]
    columns = {"own": (own, np.ones(own.shape, dtype=np.bool_))}
    for side, (_, there) in chosen.items():
        # As many columns for every graph, so that lists of several graphs can be joined.
        padding = ((0, 0), (0, HEADLINE.number(side) - there.shape[1]))
        columns[side] = np.pad(layout.rows[side], padding), np.pad(there, padding)
    triples, statistics = layout.triples, Statistics(split.observable())
    softmaxes = [dict.fromkeys(("own", end, "relation"), np.zeros(1)) for end in ENDS]
    if typed:
        by_type = _Typed(split, statistics.graph, most, typed, seed)
        for end in ENDS:
            more, there = by_type.drawn(end)
            columns[f"typed {end}"] = len(triples) + np.arange(there.size).reshape(there.shape), there
            triples = np.concatenate((triples, more.reshape(-1, 3)))
            both = {kind: -np.log(by_type.chance(end, triples[columns[kind][0]])) for kind in (end, f"typed {end}")}
            softmaxes.append({"own": np.zeros(1), **both})
    return Lists(
        torch.from_numpy(np.ascontiguousarray(statistics.of(triples))),
        torch.from_numpy(np.concatenate([rows for rows, _ in columns.values()], axis=1)),
        torch.from_numpy(np.stack([_offsets(columns, softmax) for softmax in softmaxes])),
    )


class _Typed:
    """Candidates by type: entities that a graph has at the same end of a target's relation."""

    def __init__(self, split: Split, graph: Doubled, most: int, number: int, seed: int) -> None:
        self.split, self.targets, self.number = split, split.targets[:most], number
        self._rng = np.random.default_rng([seed, *b"typed"])
        self._graph = graph
        entities, slots, _ = graph.half_links
        order = np.argsort(slots, kind="stable")
        self._entities = entities[order]
        self._starts = np.searchsorted(slots[order], np.arange(graph.num_slots + 1))

    def _slots(self, end: Side) -> IntArray:
        relation = self.targets[:, RELATION]
        return relation + self._graph.relations if end == "tail" else relation

    def drawn(self, end: Side) -> tuple[IntArray, BoolArray]:
        """Return triples ``(m, n, 3)`` with other entities at an end, and which of them are there and not known.

        Entities are taken at equal distances from a random start, so that all are as likely and none comes twice.
        """
        first, last = (self._starts[self._slots(end) + step][:, None] for step in (0, 1))
        size = last - first
        place, few = np.arange(self.number), size <= self.number
        spaced = ((place + self._rng.random(size.shape)) * size / self.number).astype(np.int64)
        ids = self._entities[np.minimum(first + np.where(few, place, spaced), len(self._entities) - 1)]
        corrupted = np.repeat(self.targets[:, None], self.number, axis=1)
        corrupted[..., COLUMN[end]] = ids
        there = (place < size) & ~is_known(self.split, corrupted.reshape(-1, 3)).reshape(ids.shape)
        return corrupted, there

    def chance(self, end: Side, triples: IntArray) -> FloatArray:
        """Return how often triples ``(m, n, 3)`` are expected to be drawn, from all entities and by type together."""
        slots = self._slots(end)
        size = (self._starts[slots + 1] - self._starts[slots])[:, None]
        ids = triples[..., COLUMN[end]]
        has = self._graph.count(ids, np.broadcast_to(slots[:, None], ids.shape)) > 0
        by_type = np.where(has, np.minimum(1, self.number / np.maximum(size, 1)), 0)
        expected: FloatArray = min(1, HEADLINE.number(end) / self.split.num_entities) + by_type
        return expected


def _offsets(columns: Mapping[str, tuple[IntArray, BoolArray]], softmax: Mapping[str, FloatArray]) -> FloatArray:
    """Return the offsets of the logits of all columns in one softmax, float32 ``(m, 1 + c)``."""
    parts = [np.where(there, softmax.get(kind, -np.inf), -np.inf) for kind, (_, there) in columns.items()]
    return np.concatenate(parts, axis=1).astype(np.float32)
