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
    then comes one for each of the P ``pairs`` that edges reach (or did before some were hidden). ``level`` is
    ``(N,)``; ``places`` ``(P,)`` is the kind each pair would have without its in-edges; ``slots``, ``degrees``, ``own``
    (in-edges of the slot) and ``counts`` (how many pairs of a node and a slot are of the kind) are ``(D,)``.
    """

    pairs: Reached
    level: Tensor
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
        of_pairs = pairs.keys % slots
        places = level[pairs.nodes] * slots + of_pairs
        usual = torch.zeros(len(values), dtype=graph.dtype, device=level.device)
        usual = usual.index_add(0, level, torch.ones_like(found.degrees)).repeat_interleave(slots)
        every_slot = torch.arange(slots, device=level.device).repeat(len(values))
        return cls(
            pairs=pairs,
            level=level,
            places=places,
            slots=torch.cat([every_slot, of_pairs]),
            degrees=torch.cat([values.repeat_interleave(slots), found.degrees[pairs.nodes]]),
            own=torch.cat([torch.zeros_like(usual), found.own_degrees]),
            counts=torch.cat(
                [usual.index_add(0, places, torch.full_like(found.own_degrees, -1)), torch.ones_like(found.own_degrees)]
            ),
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
        """Return rows ``(D, d)`` as those of levels ``(L, R, d)``, and what pairs add to theirs ``(P, d)``."""
        base, apart = rows.tensor_split([len(rows) - len(self.places)])
        return base.view(self.levels, self.pairs.num_slots, -1), apart - base.index_select(0, self.places)

    def find(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the kinds of nodes and slots ``(*,)``."""
        pair, own = self.pairs.find(nodes, slots)
        usual = self.level[nodes] * self.pairs.num_slots + slots
        return torch.where(own, len(self.slots) - len(self.places) + pair, usual)


def kinds(graph: TypedGraph) -> Kinds:
    """Return the kinds of a graph, found once for all layers."""
    return graph.remembered(Kinds, lambda: Kinds.of(graph))


@dataclass(frozen=True, eq=False)
class Met:
    """How the kinds of a graph's nodes are met by M receivers: what a second layer sums.

    ``levels`` ``(e,)`` is the level each edge into ``tails`` comes from, every receiver's own among them. ``keys``
    ``(Q,)`` are the pairs j * R + r of a receiver j that a pair of the graph reaches, by an edge of any type or being
    the receiver's own, and ``extras`` ``(Q, P)`` sums those. Of the receivers' own pairs, which an edge of the slot
    reaches, ``kinds`` are the kinds ``(O,)`` and ``sources`` ``(S,)`` those of what the edges start from.
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
        keys, row = torch.unique(tails[edge] * slots + pairs.keys[pair] % slots, return_inverse=True)
        return cls(
            tails=tails,
            levels=kinds.level[heads],
            keys=keys,
            extras=Operator.from_edges(row, pair, (len(keys), len(pairs.keys)), onto.dtype),
            kinds=kinds.find(themselves[own.nodes], own.slots),
            sources=kinds.find(own.sources // slots, own.sources % slots),
        )
