"""Which pairs of a node and a slot can differ from the node's other slots, layer by layer: few, and found once.

Where relations have no task of their own, a slot of which no edge reaches a node, directly or through as many
neighbours as there are layers, is represented there like any other such slot. Features are then a row per node,
its *default*, and a row for every pair that is reached. Which pairs those are follows from a graph before anything is
hidden from it; a batch that hides edges only changes how often what is counted, so that nothing is sorted in a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reference_models.graphs.graph import TypedGraph
from reference_models.graphs.operators import Operator, Pattern


@dataclass(frozen=True, eq=False)
class Reached:
    """The P pairs ``keys`` ``(P,)``, v * R + r in increasing order, that have a row of their own.

    ``nodes`` is ``(P,)``, ``usual`` ``(N,)`` how many slots of each node share its default row, and ``of_nodes``
    ``(N, P)`` sums the pairs of every node.
    """

    keys: Tensor
    nodes: Tensor
    usual: Tensor
    of_nodes: Operator
    num_slots: int

    @classmethod
    def index(cls, keys: Tensor, num_nodes: int, num_slots: int, dtype: torch.dtype) -> Reached:
        """Index pairs, which are in increasing order."""
        nodes = keys // num_slots
        pairs = torch.arange(len(keys), device=keys.device)
        matrix = Pattern.of(nodes, pairs, pairs, (num_nodes, len(keys))).operator(None, dtype)
        usual = num_slots - torch.bincount(nodes, minlength=num_nodes).to(dtype)
        return cls(keys, nodes, usual, matrix, num_slots)

    @property
    def counts(self) -> Tensor:
        """How many pairs of a node and a slot each row stands for: defaults, then pairs, ``(N + P,)``."""
        return torch.cat([self.usual, torch.ones(len(self.keys), dtype=self.usual.dtype, device=self.keys.device)])

    @property
    def shape(self) -> tuple[int, int]:
        """How many nodes and slots there are."""
        return len(self.usual), self.num_slots

    def sums(self, table: Tensor) -> Tensor:
        """Return the sum of a table ``(N + P, d)`` over all slots of every node, ``(N, d)``."""
        usual, pairs = table.tensor_split([len(self.usual)])
        return self.usual[:, None] * usual + self.of_nodes @ pairs

    def of(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the place of every node ``(i,)`` as often as it has pairs, and the numbers of those pairs."""
        starts = torch.searchsorted(self.nodes, torch.arange(len(self.usual) + 1, device=nodes.device))
        counts = starts.diff()[nodes]
        place = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        first = starts[nodes] - (counts.cumsum(0) - counts)
        return place, first[place] + torch.arange(len(place), device=nodes.device)

    def rows(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the rows of nodes and slots ``(*,)``: N plus the number of the pair, or the node's default."""
        keys = nodes * self.num_slots + slots
        place = torch.searchsorted(self.keys, keys)
        if not len(self.keys):
            return nodes
        own = self.keys[place.clamp(max=len(self.keys) - 1)] == keys
        return torch.where(own, place + len(self.usual), nodes)


@dataclass(frozen=True, eq=False)
class Links:
    """What a layer sums that maps features of the pairs ``before`` to those of the pairs ``after``, Q in number.

    ``union`` is A ``(N, N)``, ``own`` ``(Q, N + P)`` sums rows over the edges of a pair's own slot and ``own_nodes``
    ``(Q, N)`` rows of nodes over the same edges; ``others`` ``(Q, P)`` sums, under the pair's slot, over edges of any
    type, the pairs among their heads. ``rows`` ``(Q,)`` is each pair's own row before.
    """

    before: Reached
    after: Reached
    rows: Tensor
    union: Operator
    own: Operator
    own_nodes: Operator
    others: Operator


@dataclass(frozen=True, eq=False)
class Reach:
    """The pairs that matter to each of several layers in a row, and what links a layer's to the next one's.

    ``degrees`` ``(N,)`` and ``own_degrees`` ``(P,)`` count the edges into the nodes, and of its slot into each pair of
    the first layer. See `Patterns`.
    """

    layers: tuple[Reached, ...]
    degrees: Tensor
    own_degrees: Tensor
    links: tuple[Links, ...]


@dataclass(frozen=True, eq=False)
class Patterns:
    """All of a graph's `Reach` that does not change where edges are hidden."""

    layers: tuple[Reached, ...]
    places: Tensor
    tails: Tensor
    dtype: torch.dtype
    linked: tuple[tuple[Tensor, Pattern, Pattern, Pattern], ...]

    @classmethod
    def of(cls, graph: TypedGraph, layers: int) -> Patterns:
        """Find the pairs that edges reach directly, then those that are reached through ever more neighbours."""
        nodes, slots, device = graph.num_nodes, graph.num_slots, graph.heads.device
        edges = torch.arange(len(graph.heads), device=device)
        first, places = torch.unique(graph.tails * slots + graph.slots, return_inverse=True)
        reached = [Reached.index(first, nodes, slots, graph.dtype)]
        linked = []
        for _ in range(1, layers):
            before = reached[-1]
            edge, pair = before.of(graph.heads)
            keys = graph.tails[edge] * slots + before.keys[pair] % slots
            after = Reached.index(torch.unique(torch.cat([before.keys, keys])), nodes, slots, graph.dtype)
            own = torch.searchsorted(after.keys, graph.tails * slots + graph.slots)
            linked.append(
                (
                    before.rows(after.nodes, after.keys % slots),
                    Pattern.of(
                        own, before.rows(graph.heads, graph.slots), edges, (len(after.keys), nodes + len(before.keys))
                    ),
                    Pattern.of(own, graph.heads, edges, (len(after.keys), nodes)),
                    Pattern.of(torch.searchsorted(after.keys, keys), pair, edge, (len(after.keys), len(before.keys))),
                )
            )
            reached.append(after)
        return cls(tuple(reached), places, graph.tails, graph.dtype, tuple(linked))

    def reach(self, union: Operator, kept: Tensor | None = None) -> Reach:
        """Return the reach of the edges marked in ``kept`` ``(E,)``, of all if None; ``union`` is their A."""
        there = torch.ones_like(self.tails, dtype=self.dtype) if kept is None else kept.to(self.dtype)
        degrees, own = (
            torch.zeros(number, dtype=self.dtype, device=there.device).index_add_(0, places, there)
            for number, places in ((len(self.layers[0].usual), self.tails), (len(self.layers[0].keys), self.places))
        )
        links = (
            Links(before, after, rows, union, *(pattern.operator(kept, self.dtype) for pattern in patterns))
            for before, after, (rows, *patterns) in zip(self.layers, self.layers[1:], self.linked, strict=False)
        )
        return Reach(self.layers, degrees, own, tuple(links))


def reach(graph: TypedGraph, layers: int) -> Reach:
    """Return the reach of a graph for a number of layers, by the patterns of the graph before edges were hidden."""
    whole, kept = graph.part or (graph, None)
    patterns = whole.remembered((Patterns, layers), lambda: Patterns.of(whole, layers))
    return patterns.reach(graph.union, kept)
