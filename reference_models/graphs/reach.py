"""Which pairs of a node and a slot can differ from the node's other slots, layer by layer: few, and found once.

Where relations have no task of their own, a slot of which no edge reaches a node, directly or through as many
neighbours as there are layers, is represented there like any other such slot. Features are then, node by node, a
*default* row and one for every pair that is reached. Which pairs those are follows from a graph before anything is
hidden from it; a batch that hides edges only changes how often what is counted.

From them follow the kinds of a node and a slot that a layer fed with constants can tell apart, and how nodes meet them.
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
    """The P pairs ``keys`` ``(P,)``, v * R + r in increasing order, that have a row of their own.

    ``nodes`` is ``(P,)``. A table of features has M = N + P rows: ``starts[v]``, ``(N + 1,)``, is the default row of
    node v, and those of its pairs follow. Row i is one of node ``owners[i]`` and stands for ``counts[i]`` pairs of a
    node and a slot, both ``(M,)``.
    """

    keys: Tensor
    nodes: Tensor
    starts: Tensor
    owners: Tensor
    counts: Tensor
    num_slots: int

    @classmethod
    def index(cls, keys: Tensor, num_nodes: int, num_slots: int, dtype: torch.dtype) -> Reached:
        """Index pairs, which are in increasing order."""
        nodes, everyone = keys // num_slots, torch.arange(num_nodes + 1, device=keys.device)
        starts = torch.searchsorted(nodes, everyone) + everyone
        rows = starts.diff()
        owners = torch.repeat_interleave(everyone[:-1], rows)
        counts = torch.ones(len(owners), dtype=dtype, device=keys.device)
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
        """The operator ``(N, M)`` that sums a table over all slots of every node."""
        return Operator.choosing(self.owners, self.shape[0], self.counts).back

    @cached_property
    def spread(self) -> Operator:
        """The operator ``(M, N)`` that gives all rows of a node the node's."""
        return Operator.choosing(self.owners, self.shape[0], torch.ones_like(self.counts))

    def of(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the place of every node ``(i,)`` as often as it has pairs, and the numbers of those pairs."""
        counts = self.starts.diff()[nodes] - 1
        place = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), counts)
        first = self.starts[nodes] - nodes - (counts.cumsum(0) - counts)
        return place, first[place] + torch.arange(len(place), device=nodes.device)

    def find(self, nodes: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers of the pairs of nodes and slots ``(*,)``, any where there is none, and where there is."""
        keys = nodes * self.num_slots + slots
        place = torch.searchsorted(self.keys, keys)
        padded = torch.cat([self.keys, self.keys.new_full((1,), -1)])
        return place, padded[place] == keys

    def rows(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the rows of nodes and slots ``(*,)``."""
        place, own = self.find(nodes, slots)
        return torch.where(own, place + nodes + 1, self.starts[nodes])

    @cached_property
    def blocks(self) -> list[slice]:
        """Slices of nodes with about as many rows each as are held at once."""
        borders = torch.unique_consecutive(self.owners[:: ROWS[self.keys.device.type]]).tolist()
        return [slice(*ends) for ends in pairwise([*borders, self.shape[0]])]

    def rows_of(self, blocks: Sequence[slice]) -> list[slice]:
        """Return the rows of slices of nodes that follow each other."""
        borders = self.starts[[0, *(block.stop for block in blocks)]].tolist()
        return [slice(*ends) for ends in pairwise(borders)]

    @cached_property
    def parts(self) -> list[Part]:
        """The table by `blocks` of nodes."""
        found = []
        for nodes, rows in zip(self.blocks, self.rows_of(self.blocks), strict=True):
            owners, counts = self.owners[rows] - nodes.start, self.counts[rows]
            spread, total = (
                Operator.choosing(owners, nodes.stop - nodes.start, weights)
                for weights in (torch.ones_like(counts), counts)
            )
            found.append(Part(rows, spread, total.back))
        return found


@dataclass(frozen=True, eq=False)
class Part:
    """The ``rows`` of some nodes, m of n: ``spread`` ``(m, n)`` and ``total`` ``(n, m)`` are as in `Reached`."""

    rows: slice
    spread: Operator
    total: Operator


@dataclass(frozen=True, eq=False)
class Links:
    """What a layer sums that maps the M rows of the pairs ``before`` to the M' rows of the pairs ``after``.

    ``union`` is A ``(N, N)``. ``own`` ``(M, M)`` sums rows over the edges of a pair's own slot: it has a row before if
    there are any. ``others`` ``(M', M)`` sums, under a pair's slot, over edges of any type, the pairs among their
    heads. ``blocks`` are slices of the rows after and before of the same nodes, m' and m, and ``rows`` the operators
    ``(m', m)`` that give every row after its own one before.
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
    linked: tuple[tuple[list[tuple[slice, slice]], list[Operator], Pattern, Pattern], ...]

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
            keys = graph.tails[edge] * slots + before.slots[pair]
            after = Reached.index(torch.unique(torch.cat([before.keys, keys])), nodes, slots, graph.dtype)
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
        """Return the reach of the graph itself or of one that hides edges of it."""
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
    """Return the reach of a graph for a number of layers, by the patterns of the graph before edges were hidden."""
    whole, _ = graph.part or (graph, None)
    return whole.remembered((Patterns, layers), lambda: Patterns.of(whole, layers)).reach(graph)


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
