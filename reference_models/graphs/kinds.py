"""The kinds of a node and a slot that a layer fed with constants can tell apart, and how nodes meet them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.graphs.operators import Operator
from reference_models.graphs.reach import Reached, reach


@dataclass(frozen=True, eq=False)
class Kinds:
    """The D kinds of a node v and a slot r that a layer fed with constants can tell apart.

    Such a layer sees how many edges reach v and how many of them have type r. The first L * R kinds,
    one per level (a number of in-edges that occurs) and slot, are those without an in-edge of the slot;
    then come the U that the P ``pairs`` are of, which edges reach (or did before some were hidden). ``level`` is
    ``(N,)``, ``of_pairs`` ``(P,)`` says which of the U each pair is of, and ``pairs_of_nodes`` ``(N, U)`` sums those of
    every node; ``places`` ``(U,)`` is the kind each would be without its in-edges; ``slots``, ``degrees``, ``own``
    (in-edges of the slot) and ``counts`` (how many pairs of a node and a slot are of the kind) are ``(D,)``.
    """

    pairs: Reached
    level: Tensor
    of_pairs: Tensor
    pairs_of_nodes: Operator
    places: Tensor
    slots: Tensor
    degrees: Tensor
    own: Tensor
    counts: Tensor

    @classmethod
    def of(cls, graph: TypedGraph) -> Kinds:
        """Find the kinds of a graph."""
        found = reach(graph, 1)
        (pairs,), slots = found.layers, graph.num_slots
        values, level = torch.unique(found.degrees, return_inverse=True)
        base = len(graph.heads) + 1  # more than any number of edges
        keys = (level[pairs.nodes] * slots + pairs.slots) * base + found.own_degrees.long()
        keys, of_pairs, numbers = torch.unique(keys, return_inverse=True, return_counts=True)
        places, own = keys // base, (keys % base).to(graph.dtype)
        special = numbers.to(graph.dtype)
        usual = torch.zeros(len(values), dtype=graph.dtype, device=level.device)
        usual = usual.index_add(0, level, torch.ones_like(found.degrees)).repeat_interleave(slots)
        every_slot = torch.arange(slots, device=level.device).repeat(len(values))
        return cls(
            pairs=pairs,
            level=level,
            of_pairs=of_pairs,
            pairs_of_nodes=Operator.from_edges(pairs.nodes, of_pairs, (len(level), len(keys)), graph.dtype),
            places=places,
            slots=torch.cat([every_slot, places % slots]),
            degrees=torch.cat([values.repeat_interleave(slots), values[places // slots]]),
            own=torch.cat([torch.zeros_like(usual), own]),
            counts=torch.cat([usual.index_add(0, places, -special), special]),
        )

    @property
    def levels(self) -> int:
        """How many levels there are, L."""
        return (len(self.slots) - len(self.places)) // self.pairs.num_slots

    @cached_property
    def of_level(self) -> Operator:
        """The operator ``(L, N)`` that sums the nodes of every level."""
        nodes = torch.arange(len(self.level), device=self.level.device)
        return Operator.from_edges(self.level, nodes, (self.levels, len(nodes)), self.pairs.counts.dtype)

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows ``(D, d)`` as those of levels ``(L, R, d)``, and what kinds of pairs add to theirs ``(U, d)``."""
        base, apart = rows.tensor_split([len(rows) - len(self.places)])
        return base.view(self.levels, self.pairs.num_slots, -1), apart - base.index_select(0, self.places)

    def find(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the kinds of nodes and slots ``(*,)``."""
        pair, own = self.pairs.find(nodes, slots)
        usual = self.level[nodes] * self.pairs.num_slots + slots
        padded = torch.cat([self.of_pairs, self.of_pairs.new_zeros(1)])
        return torch.where(own, len(self.slots) - len(self.places) + padded[pair], usual)


def kinds(graph: TypedGraph) -> Kinds:
    """Return the kinds of a graph, found once for all layers."""
    return graph.remembered(Kinds, lambda: Kinds.of(graph))


@dataclass(frozen=True, eq=False)
class Met:
    """How the kinds of a graph's nodes are met by M receivers: what a second layer sums.

    ``levels`` ``(e,)`` is the level each edge into ``tails`` comes from, every receiver's own among them. ``keys``
    ``(Q,)`` are the pairs j * R + r of a receiver j that a pair of the graph reaches, by an edge of any type or being
    the receiver's own; ``extras`` ``(Q, U)`` sums those by kind. Of the receivers' own pairs, which an edge of the
    slot reaches, ``kinds`` are the kinds ``(O,)`` and ``sources`` ``(S,)`` those of what the edges start from.
    """

    tails: Tensor
    levels: Tensor
    keys: Tensor
    extras: Operator
    kinds: Tensor
    sources: Tensor

    @classmethod
    def by(cls, onto: Receivers, kinds: Kinds) -> Met:
        """Find how receivers of a graph meet its kinds."""
        slots, device, pairs, own = onto.num_slots, onto.heads.device, kinds.pairs, onto.pairs
        themselves = torch.arange(onto.num_nodes, device=device) if onto.nodes is None else onto.nodes
        receivers = torch.arange(len(themselves), device=device)
        heads, tails = torch.cat([onto.heads, themselves]), torch.cat([onto.tails, receivers])
        edge, pair = pairs.of(heads)
        there = (tails * slots)[edge] + pairs.slots[pair]
        marked = torch.zeros(len(themselves) * slots, dtype=torch.bool, device=device)
        marked[there] = True
        row = (marked.cumsum(0) - 1)[there]
        keys = marked.nonzero().squeeze(1)
        return cls(
            tails=tails,
            levels=kinds.level[heads],
            keys=keys,
            extras=Operator.from_edges(row, kinds.of_pairs[pair], (len(keys), len(kinds.places)), onto.dtype),
            kinds=kinds.find(themselves[own.nodes], own.slots),
            sources=kinds.find(own.sources // slots, own.sources % slots),
        )
