"""A typed multigraph as sparse operators, for the sums of the double-equivariant layers, and which slots it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from mtbench.data.splits import Split, unique
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from reference_models.graphs.operators import Operator, Pattern

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """Directed typed edges on ``num_nodes`` nodes and ``num_slots`` relation slots.

    ``heads``, ``slots`` and ``tails`` are int64 of shape ``(E,)``. With inverses every triple
    ``(u, r, v)`` stands twice, as itself and as ``(v, r + R, u)``, in the two halves of the arrays, and
    ``num_slots`` is ``2 R``. Messages go from head to tail; edges count with multiplicity.
    """

    heads: Tensor
    slots: Tensor
    tails: Tensor
    num_nodes: int
    num_slots: int
    dtype: torch.dtype = torch.float32
    part: tuple[TypedGraph, Tensor] | None = None
    """The graph before edges were hidden, and which of its edges are left, bool ``(E,)``."""
    memory: dict[object, Any] = field(default_factory=dict, repr=False)
    """What `remembered` has made of the graph, by key."""

    def without(self, dropped: Tensor) -> TypedGraph:
        """Return the graph without the edges marked in ``dropped``, bool of shape ``(E,)``."""
        kept = ~dropped
        left = kept.nonzero().squeeze(1)
        edges = (self.heads[left], self.slots[left], self.tails[left])
        return TypedGraph(*edges, self.num_nodes, self.num_slots, self.dtype, (self, kept))

    def remembered(self, key: object, make: Callable[[], Made]) -> Made:
        """Return ``make()``, called once in the life of the graph for each key."""
        if key not in self.memory:
            self.memory[key] = make()
        return self.memory[key]  # type: ignore[no-any-return]

    @cached_property
    def union(self) -> Operator:
        """The operator A ``(N, N)``: all edges, whatever their type."""
        # Hiding edges only changes counts: a batch does not sort the edges again.
        graph, kept = self.part or (self, None)
        return graph._union.operator(kept, self.dtype)

    @cached_property
    def _union(self) -> Pattern:
        edges = torch.arange(len(self.heads), device=self.heads.device)
        return Pattern.of(self.tails, self.heads, edges, (self.num_nodes, self.num_nodes))

    @cached_property
    def everyone(self) -> Receivers:
        """What reaches each node of the graph."""
        return self._reaching(None, self.heads, self.slots, self.tails)

    def onto(self, nodes: Tensor) -> Receivers:
        """Return what reaches ``nodes``, int64 ``(M,)`` in increasing order."""
        place = torch.full((self.num_nodes,), -1, device=nodes.device)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        tails = place[self.tails]
        kept = (tails >= 0).nonzero().squeeze(1)
        return self._reaching(nodes, self.heads[kept], self.slots[kept], tails[kept])

    def _reaching(self, nodes: Tensor | None, heads: Tensor, slots: Tensor, tails: Tensor) -> Receivers:
        return Receivers(nodes, heads, slots, tails, self.num_nodes, self.num_slots, self.dtype)


@dataclass(frozen=True, eq=False)
class Receivers:
    """The edges into M of a graph's N nodes: all of them, or those in ``nodes``. Operators are made when asked for.

    ``heads``, ``slots`` and ``tails`` ``(E',)`` are these edges; tails are numbered by their place among the receivers.
    """

    nodes: Tensor | None
    heads: Tensor
    slots: Tensor
    tails: Tensor
    num_nodes: int
    num_slots: int
    dtype: torch.dtype

    @property
    def number(self) -> int:
        """The number of receivers, M."""
        return self.num_nodes if self.nodes is None else len(self.nodes)

    @cached_property
    def union(self) -> Operator:
        """The operator A ``(M, N)``: all edges, whatever their type."""
        return Operator.from_edges(self.tails, self.heads, (self.number, self.num_nodes), self.dtype)

    @cached_property
    def degrees(self) -> Tensor:
        """The number of edges that reach each receiver, ``(M,)``."""
        return torch.bincount(self.tails, minlength=self.number).to(self.dtype)

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs of a receiver and a slot that edges of the slot reach."""
        into, row = torch.unique(self.tails * self.num_slots + self.slots, return_inverse=True)
        source, column = torch.unique(self.heads * self.num_slots + self.slots, return_inverse=True)
        return Pairs(
            keys=into,
            nodes=into // self.num_slots,
            slots=into % self.num_slots,
            degrees=torch.bincount(row, minlength=len(into)).to(self.dtype),
            sources=source,
            from_sources=Operator.from_edges(row, column, (len(into), len(source)), self.dtype),
            from_nodes=Operator.from_edges(row, self.heads, (len(into), self.num_nodes), self.dtype),
        )

    @cached_property
    def of_pairs(self) -> Operator:
        """The operator ``(M, P)`` that sums over the pairs of each receiver."""
        keys = self.pairs.keys
        columns = torch.arange(len(keys), device=keys.device)
        return Operator.from_edges(self.pairs.nodes, columns, (self.number, len(keys)), self.dtype)

    def of(self, features: Tensor) -> Tensor:
        """Return the receivers' own rows of features ``(N, *)``."""
        return features if self.nodes is None else features.index_select(0, self.nodes)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The P pairs (v, r) of a receiver and a slot with an in-edge of type r, in increasing order of ``v * R + r``.

    A_r is zero everywhere else, which is nearly everywhere, because a node has in-edges of a few types only. ``keys``
    are ``v * R + r``, ``degrees`` the numbers of in-edges. ``from_nodes`` ``(P, N)`` sums node features over the
    in-edges of each pair; ``from_sources`` ``(P, S)`` does the same for features of ``sources``, the S distinct
    ``u * R + r`` that edges start from.
    """

    keys: Tensor
    nodes: Tensor
    slots: Tensor
    degrees: Tensor
    sources: Tensor
    from_sources: Operator
    from_nodes: Operator


def typed_graph(split: Split, *, inverses: bool, device: torch.device) -> TypedGraph:
    """Return the observable triples of a split as a graph over all its relation slots, empty ones included."""
    return TypedGraph(
        *doubled(split.graph, split.relation_slots, inverses=inverses, device=device),
        num_nodes=split.num_entities,
        num_slots=split.relation_slots * (2 if inverses else 1),
    )


def doubled(triples: IntArray, slots: int, *, inverses: bool, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return heads, slots and tails of triples ``(m, 3)``, followed by their inverses if asked for."""
    columns = torch.tensor(triples).to(device).unbind(dim=1)
    if not inverses:
        return columns[HEAD], columns[RELATION], columns[TAIL]
    return (
        torch.cat([columns[HEAD], columns[TAIL]]),
        torch.cat([columns[RELATION], columns[RELATION] + slots]),
        torch.cat([columns[TAIL], columns[HEAD]]),
    )


@dataclass(frozen=True, eq=False)
class Slots:
    """The network's slot of each relation id of a dictionary, ``places`` ``(R,)``, and the ``number`` of its slots."""

    places: IntArray
    number: int

    @classmethod
    def of(cls, split: Split, which: str) -> Slots:
        """Keep every relation id of a split (``all``), or let one slot stand for all without a triple (``present``).

        A network cannot tell empty slots apart. A dictionary without empty slots is not changed.
        """
        total = split.relation_slots
        present = unique(split.graph[:, RELATION])
        if which == "all" or len(present) >= total - 1:  # a single empty slot stands for itself, wherever it is
            return cls(np.arange(total), total)
        places = np.full(total, len(present))
        places[present] = np.arange(len(present))
        return cls(places, len(present) + 1)

    def split(self, split: Split) -> Split:
        """Return a split over these slots; the slot of all empty ones has the name of the first of them."""
        if self.number == split.relation_slots:
            return split
        first = np.unique(self.places, return_index=True)[1]
        names = np.array([split.relation_name(slot) for slot in first], dtype=np.str_)
        graph, targets, known = map(self, (split.graph, split.targets, split.known))
        return replace(split, graph=graph, targets=targets, known=known, relations=names, relation_slots=self.number)

    def __call__(self, triples: IntArray) -> IntArray:
        """Return triples ``(*, 3)`` over these slots; relations are ids of the dictionary, inverses R further on."""
        renumbered = triples.copy()
        renumbered[..., RELATION] = np.concatenate([self.places, self.places + self.number])[triples[..., RELATION]]
        return renumbered
