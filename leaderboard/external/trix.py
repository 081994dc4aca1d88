"""TRIX (Zhang et al. 2024) zero-shot: ``mtbench run leaderboard.external.trix:build --set checkout=DIR``.

``checkout`` is a folder with the authors' repository, which has a checkpoint for entities, for queries (h, r, ?), and
one for relations, for queries (h, ?, t). Candidate entities are scored by the former and candidate relations by the
latter; with ``relations=entity_prediction.pth`` all by the former. A head is asked for as in the authors' code: the
query starts at t, by the inverse of r, and relations are represented as seen from r.

A layer of relations has an edge between two relations for every entity that is the head of both, the tail of both, or
the head of one and the tail of the other; the type of the edge is that entity. These are as many edges as pairs of
relations at all entities. So nothing is summed over edges: the relations at an entity are added up, and entities with
the same relations are one pattern.

A query for entities begins at one entity. After two layers, only entities within two steps differ from the others with
the same degrees, and a score depends on two steps around its end. A query for relations begins at two entities, and
every state differs; it is computed once for all entities with the same neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

from leaderboard.external.propagation import (
    CPU,
    RelationalSum,
    Start,
    Theirs,
    Twins,
    Whole,
    rspmm,
    scatter_add,
    sums,
    twins,
)
from leaderboard.external.queries import (
    END,
    Answering,
    Answers,
    Kept,
    Kinds,
    Published,
    Queries,
    Scores,
    commit,
    imported,
    load,
    together,
    whole_rows,
)
from mtbench.data.splits import Split, unique
from mtbench.files.hashing import file_hash
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.training.models import Context, ModelInfo

AT_ONCE = 16
"""Queries that are computed together."""

HELD = 2**30
"""The most bytes of relation states that are kept for more ends of a query; others are computed again."""


class Graph:
    """A graph in which entities with the same neighbours are one, and how many edges of each type lead into them.

    ``degrees`` ``(k, kinds)`` are the distinct ones, ``alike`` ``(c,)`` which of them a class has, ``pattern`` ``(k,)``
    which pattern they are, and ``heads`` ``(kinds, p)`` which types those have.
    """

    def __init__(self, twins: Twins, kinds: int, device: torch.device = CPU) -> None:
        self.twins, self.kinds, self.device = twins, kinds, device
        degrees = np.zeros((len(twins.sizes), kinds), dtype=np.float32)
        into = np.repeat(np.arange(len(degrees)), np.diff(twins.begin))
        np.add.at(degrees, (into, twins.kind), twins.number * twins.sizes[twins.source])
        distinct, self.alike = np.unique(degrees, axis=0, return_inverse=True)
        there, self.pattern = np.unique(distinct > 0, axis=0, return_inverse=True)
        self.degrees = torch.from_numpy(distinct).to(device)
        self.heads = torch.from_numpy(there.T.astype(np.float32)).to(device)


def width(model: Theirs) -> int:
    """Return the width of the states of a network."""
    size: int = model.layers_hh[0].linear.out_features
    return size


def changed(layer: Theirs, state: Tensor, summed: Tensor) -> Tensor:
    """Return the change of states ``(n, q, d)`` by a layer, given their sums."""
    change: Tensor = layer.activation(layer.layer_norm(layer.linear(torch.cat((state, summed), dim=-1))))
    return change


class Crossing:
    """Layers of relations on a graph whose entities have some states ``(n, q, d)``.

    A row of these counts so many ``times``, and is of the pattern ``of`` ``(n,)``.
    """

    def __init__(
        self, graph: Graph, model: Theirs, layers: Sequence[int], states: Tensor, times: IntArray, of: IntArray
    ) -> None:
        self.heads = graph.heads
        four = model.layers_hh, model.layers_ht, model.layers_th, model.layers_tt
        self.layers = [[part[number] for part in four] for number in layers]
        first, between, last = zip(*(part.relation_projection for layer in self.layers for part in layer), strict=True)
        weight, bias = torch.cat([affine.weight for affine in first]), torch.cat([affine.bias for affine in first])
        hidden = between[0](linear(states, weight, bias))
        order = np.argsort(of, kind="stable")
        begin = np.searchsorted(of[order], np.arange(graph.heads.shape[1]))
        often = torch.from_numpy(times[order].astype(np.float32)).to(graph.device)
        rows, starts = (torch.from_numpy(places).to(graph.device) for places in (order, begin))
        added = sums(rows, starts, hidden.flatten(1), often).reshape(-1, *hidden.shape[1:])
        number = sums(rows, starts, states.new_ones(len(states), 1), often)[:, None]
        pairs = zip(last, added.chunk(len(last), dim=-1), strict=True)
        self.weights = [linear(part, affine.weight) + affine.bias * number for affine, part in pairs]

    def __call__(self, state: Tensor, begun: Tensor) -> Tensor:
        """Return the last states of relations from the first ones ``(kinds, q, d)``; every layer begins anew."""
        half = len(state) // 2
        for number, layers in enumerate(self.layers):
            by = self.weights[4 * number :][:4]
            at_head, at_tail = self._added(state), self._added(state.roll(half, 0))
            joined = by[0] * at_head, by[1] * at_tail, by[2] * at_head, by[3] * at_tail, by[0], by[3]
            of_head = (self.heads @ torch.cat([part.flatten(1) for part in joined], dim=1)).reshape(half * 2, 6, -1)
            hh, ht, th, tt, h, t = (part.reshape(state.shape) for part in of_head.unbind(1))
            summed = hh - h * state, ht, th.roll(half, 0), tt.roll(half, 0) - t.roll(half, 0) * state
            changes = [changed(layer, state, part_sum + begun) for layer, part_sum in zip(layers, summed, strict=True)]
            state = state + torch.stack(changes).sum(0)
        return state

    def _added(self, states: Tensor) -> Tensor:
        """Return the sum of states ``(kinds, q, d)`` over the types of each pattern."""
        return (self.heads.T @ states.flatten(1)).reshape(-1, *states.shape[1:])


class Around:
    """A graph as queries from one start see it: rows within two steps, and the others, one per kind of degrees.

    Their states are one table, the others first: ``place`` says where in it a row is.
    """

    def __init__(self, graph: Graph, start: int) -> None:
        self.graph, self.start, self.view = graph, start, Start(graph.twins, start)
        _, once, twice = self.view.reached(np.array([self.view.row]), 2)
        self.once, self.twice, elsewhere = np.flatnonzero(once), np.flatnonzero(twice), len(graph.degrees)
        self.alike = graph.alike[self.view.of]
        self.place = self.alike.copy()
        self.place[self.twice] = np.arange(elsewhere, elsewhere + len(self.twice))
        self.begun, self.within = (np.searchsorted(rows, self.view.row) for rows in (self.once, self.twice))
        self.stays = torch.from_numpy(np.searchsorted(self.twice, self.once))
        into, kind, source, times = self.view.edges(self.once)
        near = source == self.view.row
        first = into[near], kind[near], np.zeros_like(into[near]), times[near]
        self.first = RelationalSum(first, graph.kinds, len(self.once))
        into, kind, source, times = self.view.edges(self.twice)
        near = once[source]
        second = into[near], kind[near], np.searchsorted(self.once, source[near]), times[near]
        self.second = RelationalSum(second, graph.kinds, len(self.twice))
        times = self.view.sizes[self.twice]
        every = np.bincount(graph.alike, weights=graph.twins.sizes, minlength=elsewhere)
        without = np.bincount(self.alike[self.twice], weights=times, minlength=elsewhere)
        self.times = np.append(every - without, times)
        self.pattern = graph.pattern[np.append(np.arange(elsewhere), self.alike[self.twice])]

    def states(self, layers: Sequence[Theirs], weights: Sequence[Tensor], own: Tensor) -> Tensor:
        """Return the table of states after two layers, given their weights and the first state of the start."""
        rest = layers[0].activation(layers[0].layer_norm(layers[0].linear.bias))
        state = own.new_zeros(len(self.once), *own.shape)
        state[self.begun] = own
        summed = self.first(weights[0], own[None])
        summed[self.begun] += own
        state += changed(layers[0], state, summed)
        summed = (self.graph.degrees @ weights[1].flatten(1)).reshape(-1, *own.shape).mul_(rest)
        near = summed[self.alike[self.twice]] + self.second(weights[1], state - rest)
        near[self.within] += own
        states = rest.expand(len(summed) + len(near), *own.shape).clone()
        states[len(summed) + self.stays] = state
        later: Tensor = states.add_(changed(layers[1], states, torch.cat((summed, near))))
        return later

    def at(
        self, ends: IntArray, layers: Sequence[Theirs], weights: Sequence[Tensor], own: Tensor, table: Tensor
    ) -> Tensor:
        """Return the states of some ends after two more layers."""
        rows, place = np.unique(
            np.where(ends == self.start, self.view.row, self.graph.twins.of[ends]), return_inverse=True
        )
        near = unique(np.append(rows, self.view.edges(rows)[2]))
        state = self._later(near, layers[0], weights[0], own, table, self.place)
        places = np.zeros_like(self.place)
        places[near] = np.arange(len(near))
        return self._later(rows, layers[1], weights[1], own, state, places)[place]

    def _later(
        self, rows: IntArray, layer: Theirs, weights: Tensor, own: Tensor, states: Tensor, place: IntArray
    ) -> Tensor:
        into, kind, source, times = self.view.edges(rows)
        summed = RelationalSum((into, kind, place[source], times), self.graph.kinds, len(rows))(weights, states)
        summed[rows == self.view.row] += own
        state = states[torch.from_numpy(place[rows])]
        return state.add_(changed(layer, state, summed))


class Entities:
    """A network for (h, r, ?) on a graph; relation states that do not depend on a start are computed once.

    Those of a query are kept for ends that are asked for later.
    """

    def __init__(self, model: Theirs, graph: Graph) -> None:
        self.model, self.graph = model, graph
        self.known: dict[tuple[int, int], Tensor] = {}

    @cached_property
    def first(self) -> Tensor:
        """The states of types ``(kinds, kinds / 2, d)`` after one layer, which no start changes, by what is asked."""
        return first_layer(self.model.relation_model, self.graph)

    def scores(self, start: int, asked: IntArray, ends: IntArray) -> Tensor:
        """Return the scores ``(e, q)`` of some ends for queries from a start by the types ``asked`` ``(q,)``.

        Relations are represented as seen from the relation, also where its inverse is asked.
        """
        network, around = self.model.entity_model_2, Around(self.graph, start)
        new = np.array([kind for kind in asked.tolist() if (start, kind) not in self.known], dtype=np.int64)
        made = dict(zip(new.tolist(), self._relations(around, new).unbind(1), strict=True)) if len(new) else {}
        last = torch.stack([made[kind] if kind in made else self.known[start, kind] for kind in asked.tolist()], dim=1)
        if (len(self.known) + len(made)) * last[:, 0].nbytes <= HELD:
            self.known |= {(start, kind): states for kind, states in made.items()}
        own = last[torch.from_numpy(asked), torch.arange(len(asked))]
        weights = [layer.relation_projection(last) for layer in network.layers]
        table = around.states(network.layers[:2], weights[:2], own)
        state = around.at(ends, network.layers[2:], weights[2:], own, table)
        scores: Tensor = network.mlp(torch.cat((state, own.expand_as(state)), dim=-1)).squeeze(-1)
        return scores

    def _relations(self, around: Around, asked: IntArray) -> Tensor:
        """Return the last states of relations ``(kinds, q, d)`` for queries from a start."""
        network, relations = self.model.entity_model_1, self.model.relation_model
        kinds, column = torch.from_numpy(asked), torch.arange(len(asked))
        seen_from = kinds % (self.graph.kinds // 2)
        first = self.first[:, seen_from]
        own = first[kinds, column]
        table = around.states(network.layers, [layer.relation_projection(first) for layer in network.layers], own)
        table = relations.node_mlp(torch.cat((table, own.expand_as(table)), dim=-1))
        begun = torch.zeros_like(first)
        begun[seen_from, column] = 1
        return Crossing(self.graph, relations, [1, 2], table, around.times, around.pattern)(first, begun)


def first_layer(model: Theirs, graph: Graph) -> Tensor:
    """Return the states of types ``(kinds, kinds / 2, d)`` after a layer of relations that no start changes."""
    kinds, patterns = graph.heads.shape
    sizes = np.bincount(graph.pattern[graph.alike], weights=graph.twins.sizes, minlength=patterns)
    first = list[Tensor]()
    for begin in range(0, kinds // 2, AT_ONCE):
        asked = torch.eye(kinds, kinds // 2, device=graph.device)[:, begin : begin + AT_ONCE, None]
        begun = asked.expand(-1, -1, width(model))
        every = begun.new_ones(patterns, *begun.shape[1:])
        first.append(Crossing(graph, model, [0], every, sizes, np.arange(patterns))(begun, begun))
    return torch.cat(first, dim=1)


class EveryEnd:
    """Either network for all ends, or all relations, of queries at once."""

    def __init__(self, entities: Theirs, relations: Theirs, graph: Graph) -> None:
        self.entities, self.relations, self.graph = entities, relations, graph
        self.whole = Whole(graph.twins, graph.kinds, graph.device)
        self.pattern, self.once = graph.pattern[graph.alike[graph.twins.of]], np.ones_like(graph.twins.of)
        # Four parts of two layers of relations for every entity, and six sums for every pattern.
        size = self.whole.width + 8 * len(self.once) + 12 * graph.heads.shape[1]
        self.width = size * width(entities.relation_model)

    @cached_property
    def first(self) -> Tensor:
        """The states of types after one layer, as in `Entities`."""
        return first_layer(self.entities.relation_model, self.graph)

    @torch.inference_mode()
    def rows(self, starts: IntArray, asked: IntArray) -> Tensor:
        """Return the scores ``(q, n)`` of all ends of queries ``(q,)``."""
        model, graph = self.entities, self.graph
        begin, kinds = (torch.tensor(column, device=graph.device) for column in (starts, asked))
        column, seen_from = torch.arange(len(asked), device=graph.device), kinds % (graph.kinds // 2)
        first = self.first[:, seen_from]
        own = first[kinds, column]
        table = self._states(model.entity_model_1.layers, first, self.whole.begun(own, begin))
        table = model.relation_model.node_mlp(torch.cat((table, own.expand_as(table)), dim=-1))
        begun = torch.zeros_like(first)
        begun[seen_from, column] = 1
        last = Crossing(graph, model.relation_model, [1, 2], table, self.once, self.pattern)(first, begun)
        own = last[kinds, column]
        state = self._states(model.entity_model_2.layers, last, self.whole.begun(own, begin))
        scores = model.entity_model_2.mlp(torch.cat((state, own.expand_as(state)), dim=-1)).squeeze(-1)
        return self.whole.alike(scores.T, begin)

    @torch.inference_mode()
    def between(self, heads: IntArray, tails: IntArray) -> Tensor:
        """Return the scores ``(q, kinds / 2)`` of all types that are no inverses between heads and tails ``(q,)``."""
        model, graph = self.relations, self.graph
        at_head, at_tail = (torch.tensor(column, device=graph.device) for column in (heads, tails))
        ones = torch.ones(graph.kinds, len(heads), width(model.relation_model[0]), device=graph.device)
        begun = self.whole.begun(ones[0], at_head) - self.whole.begun(ones[0], at_tail)
        state, types = begun, ones
        for entities, relations in zip(model.entity_model, model.relation_model, strict=True):
            for layer in entities.layers:
                state = state + changed(
                    layer, state, self.whole.summing(layer.relation_projection(types), state) + begun
                )
            state = entities.mlp(torch.cat((state, torch.ones_like(state)), dim=-1))
            types = Crossing(graph, relations, [0, 1], state, self.once, self.pattern)(types, ones)
        scores: Tensor = model.mlp(types)[: graph.kinds // 2].squeeze(-1).T
        return scores

    def _states(self, layers: Sequence[Theirs], types: Tensor, begun: Tensor) -> Tensor:
        return self.whole.states(layers, [layer.relation_projection(types) for layer in layers], begun)


class Relations:
    """A network for (h, ?, t) on a graph."""

    def __init__(self, model: Theirs, graph: Graph) -> None:
        self.model, self.graph = model, graph

    def scores(self, head: int, tail: int) -> Tensor:
        """Return the scores of all types that are no inverses."""
        view, kinds = Start(self.graph.twins, head, tail), self.graph.kinds
        rows = len(view.of)
        summed = RelationalSum(view.edges(np.arange(rows)), kinds, rows)
        pattern = self.graph.pattern[self.graph.alike[view.of]]
        ones = torch.ones(kinds, 1, width(self.model.relation_model[0]))
        begun = ones.new_zeros(rows, *ones.shape[1:])
        begun[view.rows[head]] += 1
        begun[view.rows[tail]] -= 1
        state, types = begun, ones
        for entities, relations in zip(self.model.entity_model, self.model.relation_model, strict=True):
            for layer in entities.layers:
                state = state + changed(layer, state, summed(layer.relation_projection(types), state) + begun)
            state = entities.mlp(torch.cat((state, torch.ones_like(state)), dim=-1))
            types = Crossing(self.graph, relations, [0, 1], state, view.sizes, pattern)(types, ones)
        scores: Tensor = self.model.mlp(types)[: kinds // 2].flatten()
        return scores


ADDRESS = "https://github.com/yuchengz99/TRIX"
OF_ENTITIES, OF_RELATIONS = "entity_prediction.pth", "relation_prediction.pth"
KIND = {"input_dim": 32, "message_func": "distmult", "aggregate_func": "sum", "short_cut": True, "layer_norm": True}
LAYERS = SimpleNamespace(feature_dim=32, num_layer=3, num_mlp_layer=2)
PAIRS = "relations.npz"
SINCE = {OF_ENTITIES: {"entity_model_mini": "entity_model_1", "entity_model": "entity_model_2"}, OF_RELATIONS: {}}
"""The names in the code of networks that a checkpoint calls otherwise: those of two and of four layers."""


class RelationQueries:
    """The network for relations: a question is a head, a tail and the type to score."""

    def __init__(self, network: Relations) -> None:
        self.network = network

    @torch.inference_mode()
    def answer(self, questions: IntArray) -> Scores:
        """Return the scores of questions."""
        scores = np.empty(len(questions), dtype=np.float32)
        for rows in together(questions, 1):
            head, tail, _ = questions[rows[0]].tolist()
            scores[rows] = self.network.scores(head, tail).numpy()[questions[rows, END]]
        return scores


class WithRelations(Answers):
    """A scorer that asks for a relation from the head and the tail."""

    def __init__(
        self, entities: Answering, relations: Answering, rows: EveryEnd, split: Split, folder: Path | None, made: str
    ) -> None:
        super().__init__(entities, rows, split, folder, made)
        self.every = rows
        sizes = split.num_entities, split.num_entities, self.kinds.half
        self.between = Kept(relations, sizes, folder / PAIRS if folder else None, self.ends.made_of)

    def score_between(self, triples: IntArray) -> Scores:
        """Return the scores of the relations of triples ``(m, 3)``; all relations of a query are scored at once."""
        ends, kinds = triples[:, [HEAD, TAIL]], np.arange(self.kinds.half)
        pairs = np.unique(ends, axis=0).repeat(len(kinds), axis=0)
        self.between(*pairs.T, np.tile(kinds, len(pairs) // len(kinds)))
        return self.between(*ends.T, self.kinds.of_slot[triples[:, RELATION]])

    def score_relations(self, heads: IntArray, tails: IntArray) -> Scores:
        """Return the scores ``(q, r)`` of all relations, empty slots too, between heads and tails ``(q,)``."""
        return whole_rows(self.every.between, self.every.width, heads, tails)[:, self.kinds.of_slot]


class Trix(Published):
    """The checkpoints of TRIX."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "TRIX", {"relations": (OF_RELATIONS, OF_ENTITIES)})
        self.relations, checkout = self.settings["relations"], self.checkout
        stand_ins: dict[str, dict[str, object]] = {
            "torch_scatter": {"scatter": scatter_add, "scatter_add": scatter_add},
            "torch_geometric.utils.degree": {},
            "trix.rspmm": {"generalized_rspmm": rspmm},
        }
        layers = [{**KIND, "hidden_dims": [KIND["input_dim"]] * number} for number in range(5)]
        entities, relations = (
            imported(checkout / "src", ADDRESS, f"trix.models_{kind}", stand_ins) for kind in ("entity", "relation")
        )
        self.models = {
            OF_ENTITIES: entities.TRIX(layers[3], layers[2], layers[4]),
            OF_RELATIONS: relations.TRIX(layers[2], layers[2], LAYERS),
        }
        used = dict.fromkeys((OF_ENTITIES, self.relations))
        for name in used:
            self.load(name)
        self.info = ModelInfo(
            "trix" if len(used) > 1 else "trix-entities",
            hyperparameters={
                "relations": self.relations,
                **{f"{name}_sha256": file_hash(checkout / name) for name in used},
            },
            device=self.device.type,
            pretraining_graphs=("FB15k-237", "WN18RR", "CoDEx-Medium"),
            url=ADDRESS,
            commit=commit(checkout),
        )

    def load(self, name: str) -> None:
        """Give a network the weights of its checkpoint."""

        def called(key: str) -> str:
            model, _, rest = key.partition(".")
            return f"{SINCE[name].get(model, model)}.{rest}"

        load(self.models[name], self.checkout / name, ADDRESS, "model", called)

    def scorer(self, observable: Split) -> Answers:
        """Return what asks TRIX for each answer on a graph once."""
        kinds = Kinds(observable)
        alike = twins(kinds.triples, observable.num_entities, 2 * kinds.half)
        graph = Graph(alike, 2 * kinds.half)
        entities = Queries(Entities(self.models[OF_ENTITIES], graph), AT_ONCE)
        of_entities, of_relations = (self.placed(self.models[name]) for name in (OF_ENTITIES, self.relations))
        on_device = graph if self.device.type == "cpu" else Graph(alike, 2 * kinds.half, self.device)
        rows = EveryEnd(of_entities, of_relations, on_device)
        if self.relations == OF_ENTITIES:
            return Answers(entities, rows, observable, self.workdir, self.made_of)
        relations = RelationQueries(Relations(self.models[OF_RELATIONS], graph))
        return WithRelations(entities, relations, rows, observable, self.workdir, self.made_of)


build = Trix
