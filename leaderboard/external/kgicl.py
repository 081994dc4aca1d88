"""KG-ICL (Cui et al. 2024) zero-shot: ``mtbench run leaderboard.external.kgicl:build --set checkout=DIR``.

``checkout`` is a folder with the authors' repository. A relation is represented by prompts: five of its triples in the
inference graph with their surroundings, drawn once by the seed of the run. A query (h, r, ?) begins at h and is passed
on along all edges, six times; nodes that it does not reach score 0. A head is asked for by the inverse of r. The
authors' code draws a slope at random in every call; here it is the mean, as in their other activations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, relu

from leaderboard.external.propagation import Start, Theirs, Whole, scatter_add, sums, twins
from leaderboard.external.queries import Answers, Kinds, Published, Queries, commit, imported, load
from mtbench.data.ragged import spread
from mtbench.data.splits import Split, unique
from mtbench.files.hashing import file_hash
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.training.models import Context, ModelInfo

ADDRESS = "https://github.com/nju-websoft/KG-ICL"
CHECKPOINTS = ("KG-ICL-6L", "KG-ICL-5L", "KG-ICL-4L")
WIDTH, ATTENTION = 32, 5
SLOPE = (1 / 8 + 1 / 3) / 2
"""The mean of the bounds between which the authors draw the slope of an activation."""

SHOTS = 5
"""The number of examples of a relation."""

HOPS = 3
"""The most steps from both ends of an example to the nodes in it."""

OPEN = 50
"""The most nodes of an example that are on no path of `HOPS` steps between its ends; of more, some are drawn."""

AT_ONCE = 16
"""Queries from one start that are computed together."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """An example: a graph of triples ``(e, 3)`` and their inverses in which node 0 is the head and node 1 the tail.

    ``labels`` ``(n, 2)`` are the steps from each node to the head and to the tail.
    """

    triples: IntArray
    labels: IntArray


class Prompts:
    """The prompts of every relation type of a graph, drawn once by a seed.

    An example is a triple of the type, but no self-loop, with nodes at most `HOPS` steps from both its ends: all on a
    path of so many steps between them, and `OPEN` of the others. Fewer than `SHOTS` triples are repeated; a type
    without any has the bare triple.
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

    def encoded(self, encoder: Theirs, asked: int) -> Tensor:
        """Return the states ``(kinds + 1, d)`` of all types and of staying at a node, by one type's prompts."""
        half, offset = self.kinds.half, 0
        edges, types, labels, places = [], [], [], []
        for number, prompt in enumerate(self[asked]):
            edges.append(prompt.triples[:, [HEAD, TAIL]] + offset)
            types.append(prompt.triples[:, RELATION] + number * 2 * half)
            labels.append(prompt.labels)
            places.append((offset, offset + 1) if asked < half else (offset + 1, offset))
            offset += len(prompt.labels)
        by_edge = np.concatenate([np.full(len(kinds), asked + number * 2 * half) for number, kinds in enumerate(types)])
        begun, ended = torch.tensor(places).T
        states: Tensor = encoder(
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
        )[0]
        return states[0]

    def _around(self, head: int, tail: int, random: np.random.Generator) -> Prompt:
        steps = np.stack((self._steps(head), self._steps(tail)), axis=1)
        between, within = steps.sum(axis=1) <= HOPS, steps.max(axis=1) <= HOPS
        others = np.flatnonzero(within & ~between)
        drawn = random.choice(others, OPEN, replace=False) if len(others) > OPEN else others
        between[[head, tail]] = False  # they come first, as nodes 0 and 1
        nodes = np.concatenate(([head, tail], np.flatnonzero(between), drawn))
        place = np.full(self.nodes, -1)
        place[nodes] = np.arange(len(nodes))
        inside = (place[self.triples[:, HEAD]] >= 0) & (place[self.triples[:, TAIL]] >= 0)
        (heads, tails), kind = place[self.triples[inside]][:, [HEAD, TAIL]].T, self.triples[inside, RELATION]
        there, back = (heads, kind, tails), (tails, kind + self.kinds.half, heads)
        return Prompt(np.concatenate((there, back), axis=1).T, steps[nodes])

    def _steps(self, node: int) -> IntArray:
        """Return the steps from a node to every node, ``(n,)``; more than `HOPS` are `HOPS` + 1."""
        steps, rows = np.full(self.nodes, HOPS + 1), np.array([node])
        steps[node] = 0
        for number in range(1, HOPS + 1):
            places, _ = spread(self.begin[rows], self.begin[rows + 1])
            rows = unique(self.near[places])
            rows = rows[steps[rows] > HOPS]
            steps[rows] = number
        return steps


@dataclass(frozen=True, eq=False)
class Query:
    """The common part of all queries by a relation: the first state ``(d,)``, and two tables for each layer.

    ``states`` ``(kinds + 1, d)`` are those of all types and of staying, ``parts`` ``(kinds + 1, a)`` their and the
    relation's summands in the attention.
    """

    own: Tensor
    states: Sequence[Tensor]
    parts: Sequence[Tensor]


class Step:
    """The edges ``(e,)`` of a step from some rows of a graph to others, ordered by where they lead.

    Those into a node begin at ``begin`` ``(n,)``. ``source`` is a place among the rows before, ``kind`` the type (the
    last one for staying), and ``times`` the multiplicity of an edge. Of the rows after, those at ``stays`` were among
    the rows before, at ``was``.
    """

    def __init__(self, view: Start, half: int, before: IntArray, after: IntArray) -> None:
        place = np.full(len(view.of), -1)
        place[before] = np.arange(len(before))
        stays = np.flatnonzero(place[after] >= 0)
        into, kind, source, times = view.edges(after)
        near = place[source] >= 0
        into = np.append(into[near], stays)
        order = np.argsort(into, kind="stable")
        kind = (kind + half) % (2 * half)  # types of the view lead from tail to head
        self.begin = torch.from_numpy(np.searchsorted(into[order], np.arange(len(after))))
        self.stays, self.was = torch.from_numpy(stays), torch.from_numpy(place[after[stays]])
        self.source = torch.from_numpy(np.append(place[source[near]], place[after[stays]])[order])
        self.kind = torch.from_numpy(np.append(kind[near], np.full_like(stays, 2 * half))[order])
        self.times = torch.from_numpy(np.append(times[near], np.ones_like(stays))[order].astype(np.float32))


def attention(layer: Theirs, state: Tensor, source: Tensor, parts: Tensor) -> Tensor:
    """Return how much each edge counts, ``(q, e)``, by the state it comes from and the ``parts`` of its type."""
    felt = layer.Ws_attn(state)[:, source] + parts
    counts: Tensor = torch.sigmoid(layer.w_alpha(leaky_relu(felt, SLOPE))).squeeze(-1)
    return counts


def passed(model: Theirs, number: int, counts: Tensor, begin: Tensor, *tables: tuple[Tensor, Tensor]) -> Tensor:
    """Return what a layer hands to nodes, ``(q * n, d)``: the sum over edges of rows of ``tables`` of each query.

    Edges into a node begin at ``begin`` and count ``counts`` ``(q, e)``.
    """
    layer, shift = model.gnn_layers[number], torch.arange(len(counts), device=counts.device)[:, None]
    # One sum for all queries, whose edges and states follow each other.
    begin = (begin + shift * counts.shape[1]).flatten()
    added = sum(
        sums((rows + shift * values.shape[1]).flatten(), begin, values.flatten(0, 1), counts.flatten())
        for rows, values in tables
    )
    now: Tensor = model.layer_norms[number](layer.act(layer.W_h(added)))
    return now


class Passing:
    """The network on a graph, computed where messages from a start can still reach an end that is asked for."""

    def __init__(self, model: Theirs, prompts: Prompts, kinds: Kinds, nodes: int) -> None:
        self.model, self.prompts, self.half = model, prompts, kinds.half
        self.twins = twins(kinds.triples, nodes, 2 * kinds.half)
        self.known: dict[int, Query] = {}

    def scores(self, start: int, asked: IntArray, ends: IntArray) -> Tensor:
        """Return the scores ``(e, q)`` of some ends for queries from a start by the types ``asked`` ``(q,)``."""
        queries, view = [self.query(kind) for kind in asked.tolist()], Start(self.twins, start)
        rows, place = np.unique(np.where(ends == start, view.row, self.twins.of[ends]), return_inverse=True)
        there, *within = view.between(rows, len(self.model.gnn_layers))
        scores = torch.zeros(len(queries), len(rows))
        if len(there):
            state = torch.stack([query.own for query in queries])[:, None]
            for number, nodes in enumerate(within):
                state = self._passed(number, queries, state, Step(view, self.half, there, nodes))
                there = nodes
            scores[:, torch.from_numpy(np.searchsorted(rows, there))] = self.model.W_final(state).squeeze(-1)
        return scores[:, torch.from_numpy(place)].T

    def _passed(self, number: int, queries: Sequence[Query], state: Tensor, step: Step) -> Tensor:
        """Return the states ``(q, n, d)`` of the nodes after a step by those of the nodes before it."""
        parts, types = (
            torch.stack([getattr(query, name)[number] for query in queries]) for name in ("parts", "states")
        )
        counts = step.times * attention(self.model.gnn_layers[number], state, step.source, parts[:, step.kind])
        now = passed(self.model, number, counts, step.begin, (step.source, state), (step.kind, types))
        before = torch.zeros_like(now).view(len(queries), -1, now.shape[-1])
        if number:
            before[:, step.stays] = state[:, step.was]
        after: Tensor = self.model.gate(now[None], before.view(1, *now.shape))[0]
        return after.view_as(before)

    def query(self, asked: int) -> Query:
        """Return the common part of all queries by a type."""
        if asked not in self.known:
            model, states, parts = self.model, list[Tensor](), list[Tensor]()
            types = self.prompts.encoded(model.relation_encoder, asked)
            own = types[asked]
            for layer, transfer, norm in zip(model.gnn_layers, model.rel_transfer, model.layer_norms_rel, strict=True):
                types = norm(types + relu(transfer(types)))
                states.append(types)
                parts.append(layer.Wr_attn(types) + layer.Wqr_attn(types[asked]))
                types = norm(types)
            self.known[asked] = Query(own, states, parts)
        return self.known[asked]


class EveryEnd:
    """The network on a graph, for all ends of queries from different starts at once."""

    def __init__(self, model: Theirs, passing: Passing, nodes: int, device: torch.device) -> None:
        self.model, self.passing, self.device, self.nodes = model, passing, device, nodes
        self.whole, half = Whole(passing.twins, 2 * passing.half, device), passing.half
        into, kind, source, times = self.whole.edges
        staying = np.arange(nodes)
        into, source = np.append(into, staying), np.append(source, staying)
        kind = np.append((kind + half) % (2 * half), np.full_like(staying, 2 * half))  # as in `Step`
        times = np.append(times, np.ones_like(staying))
        order = np.argsort(into, kind="stable")
        begin = np.searchsorted(into[order], staying)
        rows = begin, source[order], kind[order], times[order].astype(np.float32)
        self.begin, self.source, self.kind, self.times = (torch.from_numpy(values).to(device) for values in rows)
        self.width = 4 * (ATTENTION + 1) * len(order) + 8 * WIDTH * nodes

    @torch.inference_mode()
    def rows(self, starts: IntArray, asked: IntArray) -> Tensor:
        """Return the scores ``(q, n)`` of all ends of queries ``(q,)``; ends that are not reached have 0."""
        queries, begun = [self.passing.query(kind) for kind in asked.tolist()], torch.tensor(starts, device=self.device)
        column = torch.arange(len(queries), device=self.device)
        own = torch.stack([query.own for query in queries]).to(self.device)
        state = own.new_zeros(len(queries), self.nodes, own.shape[-1])
        state[column, begun] = own
        reached = own.new_zeros(len(queries), self.nodes)
        reached[column, begun] = 1
        for number in range(len(self.model.gnn_layers)):
            parts, types = (
                torch.stack([getattr(query, name)[number] for query in queries]).to(self.device)
                for name in ("parts", "states")
            )
            here = reached[:, self.source]
            counts = attention(self.model.gnn_layers[number], state, self.source, parts[:, self.kind])
            counts *= self.times * here
            now = passed(self.model, number, counts, self.begin, (self.source, state), (self.kind, types))
            before = state if number else torch.zeros_like(state)
            # A step of the gate: cuDNN refuses as many rows as these.
            state = torch.gru_cell(now, before.flatten(0, 1), *self.model.gate.all_weights[0]).view_as(before)
            reached = (sums(self.source, self.begin, reached.T.contiguous()) > 0).T.float()
            state = state * reached[..., None]
        scores = self.model.W_final(state).squeeze(-1) * reached
        return self.whole.alike(scores, begun)


def scatter_max(values: Tensor, index: Tensor, dim: int, dim_size: int) -> tuple[Tensor, None]:
    """Return the greatest of values ``(n, d)`` by index, 0 where there are none, as that function of torch_scatter."""
    none = values.new_zeros(dim_size, *values.shape[1:])
    return none.scatter_reduce_(dim, index[:, None].expand_as(values), values, "amax", include_self=False), None


def network(module: Theirs, layers: int) -> Theirs:
    """Return the authors' network with so many layers, and the options that their checkpoints have."""
    options = {"attn_type": "Sigmoid", "AGG": "max", "AGG_rel": "max", "MSG": "concat", "act": "idd"}
    sizes = {"hidden_dim": WIDTH, "attn_dim": ATTENTION, "n_layer": layers, "n_relation_encoder_layer": 3}
    use = {"use_attn": True, "use_token_set": True, "use_prompt_graph": True, "use_augment": False}
    rest = {"use_rspmm": False, "dropout": 0.0, "shot": SHOTS, "path_hop": HOPS, "device": "cpu"}
    return module.EntityEncoder(SimpleNamespace(**options, **sizes, **use, **rest))


class KgIcl(Published):
    """A checkpoint of KG-ICL."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "KG-ICL", {"checkpoint": CHECKPOINTS})
        checkout, chosen = self.checkout, self.settings["checkpoint"]
        scatter = {"scatter_add": scatter_add, "scatter_max": scatter_max, "scatter_mean": None}
        module = imported(checkout / "src", ADDRESS, "encoder.EntityEncoder", {"torch_scatter": scatter})
        file = checkout / "checkpoint" / chosen / "model_best.tar"
        self.model = network(module, int(chosen[-2]))
        # Left out: maps of their other way to add up messages, by a compiled kernel.
        load(self.model, file, ADDRESS, "state_dict", lambda name: "" if ".conv." in name else name)
        self.info = ModelInfo(
            chosen.lower(),
            hyperparameters={"checkpoint": chosen, "checkpoint_sha256": file_hash(file)},
            device=self.device.type,
            pretraining_graphs=("FB15k-237-inductive-v1", "NELL-995-inductive-v1", "CoDEx-Small"),
            url=ADDRESS,
            commit=commit(checkout),
        )

    def scorer(self, observable: Split) -> Answers:
        """Return what asks KG-ICL for each answer on a graph once."""
        kinds, nodes = Kinds(observable), observable.num_entities
        passing = Passing(self.model, Prompts(kinds, nodes, self.seed), kinds, nodes)
        rows = EveryEnd(self.placed(self.model), passing, nodes, self.device)
        return Answers(Queries(passing, AT_ONCE), rows, observable, self.workdir, f"{self.made_of} {self.seed}")


build = KgIcl
