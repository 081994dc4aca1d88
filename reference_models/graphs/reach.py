"""Which pairs of a node and a slot can differ from the node's other slots, layer by layer: few, and found once.

Where relations have no task of their own, all slots that do not reach a node, directly or over as many steps as there
are layers, have the same features there. So a node has one *default* row for all of them, and a row for every slot that
reaches it. Which pairs these are is found once, on the graph before edges are hidden: a batch only changes the counts.

The same index gives the kinds of pairs that a layer fed with constants can tell apart, and where nodes meet them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.graphs.operators import Operator, Pattern

ROWS = {"cpu": 1 << 14, "cuda": 1 << 20}
"""About how many rows of a table are held at once, by the kind of device."""


@dataclass(frozen=True, eq=False)
class Reached:
    """The P pairs of a node and a slot with a row of their own: ``keys`` ``(P,)`` are v * R + r in increasing order.

    ``nodes`` ``(P,)`` has the node of each. A table of features has M = N + P rows: ``starts[v]``, ``(N + 1,)``, is the
    default row of node v, and the rows of its pairs follow. Row i belongs to node ``owners[i]`` and stands for
    ``counts[i]`` pairs, both ``(M,)``.
    """

    keys: Tensor
    nodes: Tensor
    starts: Tensor
    owners: Tensor
    counts: Tensor
    num_slots: int

    @classmethod
    def index(cls, keys: Tensor, num_nodes: int, num_slots: int, dtype: torch.dtype) -> Reached:
        """Index pairs given in increasing order of their keys."""
        nodes, everyone = keys // num_slots, torch.arange(num_nodes + 1, device=keys.device)
        starts = torch.searchsorted(nodes, everyone) + everyone
        rows = starts.diff()
        owners = torch.repeat_interleave(everyone[:-1], rows)
        counts = torch.ones(len(owners), dtype=dtype, device=keys.device)
        # A default row stands for all slots but those with a row of their own.
        counts[starts[:-1]] = num_slots + 1 - rows.to(dtype)
        return cls(keys, nodes, starts, owners, counts, num_slots)

    @property
    def shape(self) -> tuple[int, int]:
        """How many nodes and slots there are."""
        return len(self.starts) - 1, self.num_slots

    @cached_property
    def slots(self) -> Tensor:
        """The slot of every pair, ``(P,)``."""
        return self.keys % self.num_slots

    @property
    def everything(self) -> list[Tensor]:
        """The nodes and the slots of all pairs, two ``(N, R)``."""
        each = (torch.arange(number, device=self.keys.device) for number in self.shape)
        return list(torch.meshgrid(*each, indexing="ij"))

    @property
    def defaults(self) -> Tensor:
        """The default row of every node, ``(N,)``."""
        return self.starts[:-1]

    @cached_property
    def pairs(self) -> Tensor:
        """The row of every pair, ``(P,)``."""
        return torch.arange(1, len(self.keys) + 1, device=self.keys.device) + self.nodes

    @cached_property
    def total(self) -> Operator:
        """The operator ``(N, M)`` that sums the rows of a table over all slots of each node."""
        return Operator.choosing(self.owners, self.shape[0], self.counts).back

    @cached_property
    def spread(self) -> Operator:
        """The operator ``(M, N)`` that copies the row of a node to all its rows of a table."""
        return Operator.choosing(self.owners, self.shape[0], torch.ones_like(self.counts))

    def of(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return all pairs of ``nodes`` ``(i,)``: for each pair the place of its node, and the number of the pair."""
        counts = self.starts.diff()[nodes] - 1
        place = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        # Row numbers less one default row per node before are the numbers of pairs.
        first = self.starts[nodes] - nodes - (counts.cumsum(0) - counts)
        return place, first[place] + torch.arange(len(place), device=nodes.device)

    def find(self, nodes: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number of the pair of each node and slot ``(*,)``, and whether there is one; else any number."""
        keys = nodes * self.num_slots + slots
        place = torch.searchsorted(self.keys, keys)
        # A key beyond the last has its place there: it meets a -1, which is no key.
        padded = torch.cat([self.keys, self.keys.new_full((1,), -1)])
        return place, padded[place] == keys

    def rows(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the rows of nodes and slots ``(*,)``."""
        place, own = self.find(nodes, slots)
        return torch.where(own, place + nodes + 1, self.starts[nodes])

    @cached_property
    def blocks(self) -> list[slice]:
        """Slices of nodes with about `ROWS` rows each."""
        borders = torch.unique_consecutive(self.owners[:: ROWS[self.keys.device.type]]).tolist()
        return [slice(*ends) for ends in pairwise([*borders, self.shape[0]])]

    def rows_of(self, blocks: Sequence[slice]) -> list[slice]:
        """Return the rows of consecutive slices of nodes."""
        borders = self.starts[[0, *(block.stop for block in blocks)]].tolist()
        return [slice(*ends) for ends in pairwise(borders)]

    @cached_property
    def parts(self) -> list[Part]:
        """The table by `blocks` of nodes."""
        parts = []
        for nodes, rows in zip(self.blocks, self.rows_of(self.blocks), strict=True):
            owners, counts = self.owners[rows] - nodes.start, self.counts[rows]
            spread, total = (
                Operator.choosing(owners, nodes.stop - nodes.start, weights)
                for weights in (torch.ones_like(counts), counts)
            )
            parts.append(Part(rows, spread, total.back))
        return parts


@dataclass(frozen=True, eq=False)
class Part:
    """The m ``rows`` of n nodes in a row; ``spread`` ``(m, n)`` and ``total`` ``(n, m)`` are as in `Reached`."""

    rows: slice
    spread: Operator
    total: Operator


@dataclass(frozen=True, eq=False)
class Links:
    """The sums of a layer that maps the M rows of the pairs ``before`` to the M' rows of the pairs ``after``.

    ``union`` is A ``(N, N)``. ``own`` ``(M, M)`` sums rows over the edges of a pair's own slot; a pair with such edges
    has a row before. ``others`` ``(M', M)`` sums the pairs with the same slot over edges of any type. ``blocks`` are
    slices of the rows after and before, m' and m, of the same nodes; ``rows`` are the operators ``(m', m)`` that pick
    the row before of every row after.
    """

    before: Reached
    after: Reached
    blocks: list[tuple[slice, slice]]
    rows: list[Operator]
    union: Operator
    own: Operator
    others: Operator


@dataclass(frozen=True, eq=False)
class Reach:
    """The pairs with a row of their own in each layer, and the links from every layer to the next.

    ``degrees`` ``(N,)`` count the edges into each node, ``own_degrees`` ``(P,)`` those of its slot into each pair of
    the first layer. See `Patterns`.
    """

    layers: tuple[Reached, ...]
    degrees: Tensor
    own_degrees: Tensor
    links: tuple[Links, ...]


@dataclass(frozen=True, eq=False)
class Patterns:
    """The part of a graph's `Reach` that stays the same when edges are hidden."""

    layers: tuple[Reached, ...]
    places: Tensor
    tails: Tensor
    dtype: torch.dtype
    linked: tuple[tuple[list[tuple[slice, slice]], list[Operator], Pattern, Pattern], ...]

    @classmethod
    def of(cls, graph: TypedGraph, layers: int) -> Patterns:
        """Find the pairs that edges reach directly, then those reached over one more step per layer."""
        nodes, slots, device = graph.num_nodes, graph.num_slots, graph.heads.device
        edges = torch.arange(len(graph.heads), device=device)
        first, places = torch.unique(graph.tails * slots + graph.slots, return_inverse=True)
        reached = [Reached.index(first, nodes, slots, graph.dtype)]
        linked = []
        for _ in range(1, layers):
            before = reached[-1]
            edge, pair = before.of(graph.heads)
            keys = graph.tails[edge] * slots + before.slots[pair]
            after = Reached.index(torch.unique(torch.cat([before.keys, keys])), nodes, slots, graph.dtype)
            # The row before of every row after: the default of its node, or that of the same pair.
            chosen = before.starts[after.owners]
            chosen[after.pairs] = before.rows(after.nodes, after.slots)
            blocks = list(zip(after.rows_of(after.blocks), before.rows_of(after.blocks), strict=True))
            rows = [
                Operator.choosing(
                    chosen[here] - there.start, there.stop - there.start, after.counts.new_ones(here.stop - here.start)
                )
                for here, there in blocks
            ]
            own = before.rows(graph.tails, graph.slots), before.rows(graph.heads, graph.slots)
            number = len(before.owners)
            into = after.rows(keys // slots, keys % slots)
            linked.append(
                (
                    blocks,
                    rows,
                    Pattern.of(*own, edges, (number, number)),
                    Pattern.of(into, before.pairs[pair], edge, (len(after.owners), number)),
                )
            )
            reached.append(after)
        return cls(tuple(reached), places, graph.tails, graph.dtype, tuple(linked))

    def reach(self, graph: TypedGraph) -> Reach:
        """Return the reach of the graph, or of a graph that hides some of its edges."""
        _, kept = graph.part or (graph, None)
        there = torch.ones_like(self.tails, dtype=self.dtype) if kept is None else kept.to(self.dtype)
        degrees, own = (
            torch.zeros(number, dtype=self.dtype, device=there.device).index_add_(0, places, there)
            for number, places in ((self.layers[0].shape[0], self.tails), (len(self.layers[0].keys), self.places))
        )
        links = (
            Links(
                before, after, blocks, rows, graph.union, *(pattern.operator(kept, self.dtype) for pattern in patterns)
            )
            for before, after, (blocks, rows, *patterns) in zip(self.layers, self.layers[1:], self.linked, strict=False)
        )
        return Reach(self.layers, degrees, own, tuple(links))


def reach(graph: TypedGraph, layers: int) -> Reach:
    """Return the reach of a graph for a number of layers; its patterns are found once, before edges are hidden."""
    whole, _ = graph.part or (graph, None)
    return whole.remembered((Patterns, layers), lambda: Patterns.of(whole, layers)).reach(graph)


@dataclass(frozen=True, eq=False)
class Kinds:
    """The D kinds of a node v and a slot r that a layer fed with constants can tell apart.

    Such a layer sees how many edges reach v and how many of them have type r. A level is a number of in-edges that
    occurs; there are L. The first L * R kinds, one per level and slot, have no in-edge of the slot. The U others are
    those of the P ``pairs`` that edges reach, or did before some were hidden. ``level`` ``(N,)`` is that of each node,
    ``of_pairs`` ``(P,)`` says which of the U each pair is, and ``pairs_of_nodes`` ``(N, U)`` sums them over each node.
    ``places`` ``(U,)`` is the kind that each would be without its in-edges. ``slots``, ``degrees``, ``own`` (in-edges
    of the slot) and ``counts`` (pairs of a node and a slot of this kind) are ``(D,)``.
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
        direct = reach(graph, 1)
        (pairs,), slots = direct.layers, graph.num_slots
        values, level = torch.unique(direct.degrees, return_inverse=True)
        base = len(graph.heads) + 1  # more than any number of edges
        keys = (level[pairs.nodes] * slots + pairs.slots) * base + direct.own_degrees.long()
        keys, of_pairs, numbers = torch.unique(keys, return_inverse=True, return_counts=True)
        places, own = keys // base, (keys % base).to(graph.dtype)
        special = numbers.to(graph.dtype)
        # Pairs per level and slot as if no edge reached any; those of the U kinds are taken off below.
        usual = torch.zeros(len(values), dtype=graph.dtype, device=level.device)
        usual = usual.index_add(0, level, torch.ones_like(direct.degrees)).repeat_interleave(slots)
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
        """The number of levels, L."""
        return (len(self.slots) - len(self.places)) // self.pairs.num_slots

    @cached_property
    def of_level(self) -> Operator:
        """The operator ``(L, N)`` that sums the nodes of every level."""
        nodes = torch.arange(len(self.level), device=self.level.device)
        return Operator.from_edges(self.level, nodes, (self.levels, len(nodes)), self.pairs.counts.dtype)

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Split rows ``(D, d)`` into those of levels ``(L, R, d)`` and how the U other kinds differ from theirs."""
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
    """The kinds that M receivers meet at their neighbours and at themselves: what a second layer sums.

    ``levels`` ``(e,)`` is the level at the start of each edge into ``tails``; every receiver has an edge to itself.
    ``keys`` ``(Q,)`` are pairs j * R + r of a receiver j and the slot of a pair at the start of one of its edges;
    ``extras`` ``(Q, U)`` sums those pairs by kind. Of the receivers' own pairs, which an edge of the slot reaches,
    ``kinds`` ``(O,)`` are the kinds, and ``sources`` ``(S,)`` the kinds that the edges start from.
    """

    tails: Tensor
    levels: Tensor
    keys: Tensor
    extras: Operator
    kinds: Tensor
    sources: Tensor

    @classmethod
    def by(cls, onto: Receivers, kinds: Kinds) -> Met:
        """Find the kinds of a graph that receivers meet."""
        slots, device, pairs, own = onto.num_slots, onto.heads.device, kinds.pairs, onto.pairs
        themselves = torch.arange(onto.num_nodes, device=device) if onto.nodes is None else onto.nodes
        receivers = torch.arange(len(themselves), device=device)
        heads, tails = torch.cat([onto.heads, themselves]), torch.cat([onto.tails, receivers])
        edge, pair = pairs.of(heads)
        there = (tails * slots)[edge] + pairs.slots[pair]
        # A mask and its running sum number the distinct pairs without sorting them.
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
