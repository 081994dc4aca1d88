"""Mini-batches: positives with their corruptions, and the graph that may be looked at while scoring them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mtbench.data.splits import inverted, unique
from mtbench.names import HEAD, TAIL, IntArray
from reference_models.equivariant.network import TripleNetwork
from reference_models.graphs.distances import adjacency, pair_distances
from reference_models.graphs.graph import TypedGraph
from reference_models.training.negatives import Negatives, dual_sampling
from reference_models.training.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Stage:
    """What one loop trains on: a graph and the positives ``(p, 3)`` in it.

    ``masked`` says whether the positives are edges of the graph and have to be hidden from it while they
    are scored, or missing from it anyway. The network of a ``frozen`` stage is left as it is: only the
    attention is trained.
    """

    name: str
    graph: TypedGraph
    positives: IntArray
    masked: bool
    frozen: bool = False


def graph_stage(name: str, graph: TypedGraph, *, frozen: bool = False) -> Stage:
    """Return the stage whose positives are all edges of the graph, inverses included."""
    triples = torch.stack([graph.heads, graph.slots, graph.tails], dim=1).cpu().numpy()
    return Stage(name, graph, triples, masked=True, frozen=frozen)


@dataclass(frozen=True, eq=False)
class Batch:
    """Triples ``(b, 1 + n + m, 3)``: per positive itself, n tail and m relation corruptions; the masked graph."""

    graph: TypedGraph
    triples: Tensor
    distances: Tensor | None


def prepare(stage: Stage, recipe: Recipe, numbers: IntArray, negatives: Negatives, rng: np.random.Generator) -> Batch:
    """Return the batch of the positives numbered ``numbers``, corrupted with draws from ``rng``."""
    positives = stage.positives[numbers]
    corrupted = negatives.draw(positives, recipe.tail_negatives, recipe.relation_negatives, rng)
    triples = np.concatenate([positives[:, None, :], corrupted], axis=1)
    graph = stage.graph
    if stage.masked and recipe.mask != "none":
        graph = graph.without(_hidden(graph, triples, recipe))
    return Batch(graph, torch.tensor(triples).to(graph.heads.device), pair_features(graph, triples, recipe.hops))


def task_loss(network: TripleNetwork, logits: Tensor | None, batch: Batch, recipe: Recipe) -> Tensor:
    """Return the dual-sampling loss of a batch under the task logits w ``(R, K)``."""
    attention = None if logits is None else torch.softmax(logits, dim=1)
    everywhere = network.training and recipe.statistics == "graph"
    nodes = None if everywhere else torch.unique(batch.triples[..., [HEAD, TAIL]])
    scores = network.score(network.represent(batch.graph, attention, nodes), batch.triples, batch.distances)
    tails, relations = scores[:, 1 : 1 + recipe.tail_negatives], scores[:, 1 + recipe.tail_negatives :]
    return dual_sampling(scores[:, 0], tails, relations, recipe.loss)


def pair_features(graph: TypedGraph, triples: IntArray, hops: int) -> Tensor | None:
    """Return the distances ``(*, 2)`` from head to tail and back for triples ``(*, 3)``, None for no hops."""
    if not hops:
        return None
    heads, tails = triples[..., HEAD].ravel(), triples[..., TAIL].ravel()
    both = pair_distances(adjacency(graph), np.concatenate([heads, tails]), np.concatenate([tails, heads]), hops)
    return torch.from_numpy(both.reshape(2, -1).T.reshape(*triples.shape[:-1], 2)).to(graph.heads.device)


def _hidden(graph: TypedGraph, triples: IntArray, recipe: Recipe) -> Tensor:
    """Return which edges a batch hides, bool ``(E,)``: its positives and their inverses, or whole pairs."""
    nodes = graph.num_nodes
    if recipe.mask == "pair":
        pairs = unique(triples[..., HEAD] * nodes + triples[..., TAIL])
        return torch.isin(graph.heads * nodes + graph.tails, torch.from_numpy(pairs).to(graph.heads.device))
    return edges_of(graph, triples[:, 0], inverses=recipe.inverses)


def edges_of(graph: TypedGraph, triples: IntArray, *, inverses: bool) -> Tensor:
    """Return which edges of a graph are among triples ``(m, 3)``, or among their inverses too: bool ``(E,)``."""
    if inverses:
        triples = np.concatenate([triples, inverted(triples, graph.num_slots // 2)])
    heads, slots, tails = triples.T
    keys = (heads * graph.num_nodes + tails) * graph.num_slots + slots
    edges = (graph.heads * graph.num_nodes + graph.tails) * graph.num_slots + graph.slots
    return torch.isin(edges, torch.from_numpy(keys).to(edges.device))
