"""Prompts (KG-ICL, Cui et al. 2024): what a relation is known by, a few of its triples with the graph around them."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from leaderboard.external.queries import Kinds
from mtbench.data.ragged import spread
from mtbench.data.splits import unique
from mtbench.names import HEAD, RELATION, TAIL, IntArray

SHOTS = 5
"""Examples of a relation."""

HOPS = 3
"""Steps from both ends of an example: nodes that are further from one of them are no part of it."""

OPEN = 50
"""Nodes of an example that no path of `HOPS` steps between its ends has, at most: more are drawn from."""


class Encoder(Protocol):
    """The authors' encoder of prompts."""

    def __call__(
        self,
        edges: Tensor,
        kinds: Tensor,
        heads: Tensor,
        tails: Tensor,
        asked: Tensor,
        asked_by_edge: Tensor,
        labels: Tensor,
        nodes: int,
        loader: object,
        shot: int,
        /,
    ) -> tuple[Tensor, object, object]:
        """Return the states ``(1, kinds + 1, d)`` of all types and of staying, by a batch of ``shot`` graphs."""
        ...


@dataclass(frozen=True, eq=False)
class Prompt:
    """An example: its head is node 0 and its tail node 1 of a graph of triples ``(e, 3)`` and their inverses.

    ``labels`` ``(n, 2)`` are how many steps a node is from the head and from the tail.
    """

    triples: IntArray
    labels: IntArray


class Prompts:
    """The prompts of every relation type of a graph, drawn once by a seed.

    An example is a triple of the type, no loop, with the nodes from which it is at most `HOPS` steps to both its ends:
    all that are on a path of so many steps between them, and `OPEN` of the others. Where a type has fewer than `SHOTS`
    triples they are repeated; one without any has the bare triple.
    """

    def __init__(self, kinds: Kinds, nodes: int, seed: int) -> None:
        self.kinds, self.triples, self.nodes = kinds, kinds.triples, nodes
        ends = np.concatenate((self.triples[:, [HEAD, TAIL]], self.triples[:, [TAIL, HEAD]]))
        self.near = ends[np.argsort(ends[:, 0], kind="stable"), 1]
        self.begin = np.searchsorted(np.sort(ends[:, 0]), np.arange(nodes + 1))
        random, loop = np.random.default_rng(seed), self.triples[:, HEAD] == self.triples[:, TAIL]
        self.drawn: list[list[Prompt]] = []
        for kind in range(kinds.half):
            rows = random.permutation(np.flatnonzero((self.triples[:, RELATION] == kind) & ~loop))[:SHOTS]
            self.drawn.append([self._around(head, tail, random) for head, _, tail in self.triples[rows].tolist()])

    def __getitem__(self, asked: int) -> list[Prompt]:
        """Return the examples of a type, which are those of its inverse too."""
        bare = Prompt(np.array([[0, asked, 1]]), np.array([[0, 1], [1, 0]]))
        drawn = self.drawn[asked % self.kinds.half] or [bare]
        return [drawn[number % len(drawn)] for number in range(SHOTS)]

    def encoded(self, encoder: Encoder, asked: int) -> Tensor:
        """Return the states ``(kinds + 1, d)`` of all types and of staying at a node, by the prompts of one type."""
        half, offset = self.kinds.half, 0
        edges, types, labels, places = [], [], [], []
        for number, prompt in enumerate(self[asked]):
            edges.append(prompt.triples[:, [HEAD, TAIL]] + offset)
            types.append(prompt.triples[:, RELATION] + number * 2 * half)
            labels.append(prompt.labels)
            places.append((offset, offset + 1) if asked < half else (offset + 1, offset))
            offset += len(prompt.labels)
        by_edge = np.concatenate([np.full(len(one), asked + number * 2 * half) for number, one in enumerate(types)])
        begun, ended = torch.tensor(places).T
        states, _, _ = encoder(
            torch.from_numpy(np.concatenate(edges)).T,
            torch.from_numpy(np.concatenate(types)),
            begun,
            ended,
            torch.full((SHOTS,), asked),
            torch.from_numpy(by_edge),
            torch.from_numpy(np.concatenate(labels)),
            offset,
            SimpleNamespace(kg=SimpleNamespace(relation_num=2 * half)),
            SHOTS,
        )
        return states[0]

    def _around(self, head: int, tail: int, random: np.random.Generator) -> Prompt:
        steps = np.stack((self._steps(head), self._steps(tail)), axis=1)
        between, within = steps.sum(axis=1) <= HOPS, steps.max(axis=1) <= HOPS
        others = np.flatnonzero(within & ~between)
        some = random.choice(others, OPEN, replace=False) if len(others) > OPEN else others
        between[[head, tail]] = False
        nodes = np.concatenate(([head, tail], np.flatnonzero(between), some))
        place = np.full(self.nodes, -1)
        place[nodes] = np.arange(len(nodes))
        inside = (place[self.triples[:, HEAD]] >= 0) & (place[self.triples[:, TAIL]] >= 0)
        (heads, tails), kind = place[self.triples[inside]][:, [HEAD, TAIL]].T, self.triples[inside, RELATION]
        there, back = (heads, kind, tails), (tails, kind + self.kinds.half, heads)
        return Prompt(np.concatenate((there, back), axis=1).T, steps[nodes])

    def _steps(self, node: int) -> IntArray:
        """Return how many steps it is from a node to each, at most one more than `HOPS`."""
        steps, rows = np.full(self.nodes, HOPS + 1), np.array([node])
        steps[node] = 0
        for number in range(1, HOPS + 1):
            found, _ = spread(self.begin[rows], self.begin[rows + 1])
            rows = unique(self.near[found])
            rows = rows[steps[rows] > HOPS]
            steps[rows] = number
        return steps
