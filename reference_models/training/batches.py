"""Mini-batch training with the dual-sampling loss: epochs, corruptions, distances, and the edges that a batch hides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import softplus

from mtbench.data.splits import inverted, unique
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from reference_models.equivariant.network import TripleNetwork
from reference_models.graphs.graph import TypedGraph
from reference_models.training.loop import State, Tell, Work, mean_loss
from reference_models.training.recipe import Recipe


def epoch_of(state: State[TripleNetwork], stage: Stage, recipe: Recipe) -> Work:
    """Return the work of one epoch: a step on every batch of the stage's positives, then `reassign` if asked for."""
    negatives = Negatives(stage.graph)

    def work(epoch: int, rng: np.random.Generator, tell: Tell) -> dict[str, float]:
        state.network.train(not stage.frozen)

        def train_batch(numbers: IntArray) -> float:
            return step(state, prepare(stage, recipe, numbers, negatives, rng), recipe, epoch)

        record: dict[str, float] = {"epoch": epoch}
        record["loss"] = mean_loss(batches_of(len(stage.positives), recipe.batch, rng), train_batch, tell)
        if recipe.reassign and state.attention is not None:
            # A sample of the positives, because every move of every relation is scored on it.
            numbers = rng.permutation(len(stage.positives))[: 2 * recipe.batch]
            batch = prepare(stage, recipe, numbers, negatives, rng)
            record["moves"] = reassign(state.network, state.attention, batch, recipe)
        return record

    return work


def batches_of(count: int, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Return the numbers below ``count`` in a random order, ``size`` at a time."""
    order = rng.permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]


def step(state: State[TripleNetwork], batch: Batch, recipe: Recipe, epoch: int) -> float:
    """Take one optimiser step on a batch and return its task loss."""
    terms = {"task loss": task_loss(state.network, state.attention, batch, recipe)}
    if state.attention is not None:
        scale = recipe.penalty_scale(epoch)
        terms["one_hot penalty"] = scale * recipe.one_hot * one_hot_penalty(state.attention)
        terms["concentration penalty"] = scale * recipe.concentration * concentration_penalty(state.attention)
    return state.descend(terms, recipe.clip)["task loss"]


def reassign(network: TripleNetwork, logits: nn.Parameter, batch: Batch, recipe: Recipe) -> int:
    """Move relations to other tasks wherever that lowers the loss of a batch; return how many moved.

    The task of a relation, argmax_k w[r, k], is a hard choice without a gradient (`docs/models.md`, Assignment) that an
    optimiser step rarely changes: without this search a run keeps the assignment it drew. Each relation in turn is
    tried in every other task by swapping two of its logits.
    """
    moves = 0
    network.eval()
    with torch.no_grad():
        lowest = float(task_loss(network, logits, batch, recipe))
        for slot in range(len(logits)):
            for task in range(logits.shape[1]):
                own = int(logits[slot].argmax())
                if task == own:
                    continue
                swapped = logits.clone()
                swapped[slot, [own, task]] = logits[slot, [task, own]]
                loss = float(task_loss(network, swapped, batch, recipe))
                if loss < lowest:
                    logits.copy_(swapped)
                    lowest, moves = loss, moves + 1
    return moves


@dataclass(frozen=True, eq=False)
class Stage:
    """What one loop trains on: a graph and positives ``(p, 3)``.

    ``masked`` says that the positives are edges of the graph, to be hidden while they are scored; else they are missing
    from it. In a ``frozen`` stage the network stays as it is, and only the attention is trained.
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
    """Triples ``(b, 1 + n + m, 3)``, each positive with n tail and m relation corruptions, and the masked graph."""

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
    # Batch statistics over the graph need the rows of all nodes; otherwise those that are scored suffice.
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
    """Return which edges a batch hides, bool ``(E,)``: its positives and their inverses, or all of scored pairs."""
    if recipe.mask == "pair":
        pairs = unique(triples[..., HEAD] * graph.num_nodes + triples[..., TAIL])
        return torch.isin(graph.heads * graph.num_nodes + graph.tails, torch.from_numpy(pairs).to(graph.heads.device))
    return edges_of(graph, triples[:, 0], inverses=recipe.inverses)


def edges_of(graph: TypedGraph, triples: IntArray, *, inverses: bool) -> Tensor:
    """Return which edges of a graph are among triples ``(m, 3)``, or among their inverses too: bool ``(E,)``."""
    if inverses:
        triples = np.concatenate([triples, inverted(triples, graph.num_slots // 2)])
    heads, slots, tails = triples.T
    keys = (heads * graph.num_nodes + tails) * graph.num_slots + slots
    edges = (graph.heads * graph.num_nodes + graph.tails) * graph.num_slots + graph.slots
    return torch.isin(edges, torch.from_numpy(keys).to(edges.device))


ROUNDS = 100


class Negatives:
    """Draws corruptions of positives against one observable graph.

    A corruption replaces the tail by a node or the relation by a slot, both uniform and with replacement (self-loops
    and empty slots allowed). It is drawn again while it is an edge of the graph or the positive itself, for at most
    `ROUNDS` rounds. Those still invalid then repeat a valid corruption of the same positive; a positive without any
    keeps its last draws. Nothing is compared with other missing triples, which a model must not know. Source:
    `docs/models.md`, Loss.
    """

    def __init__(self, graph: TypedGraph) -> None:
        self.num_nodes = graph.num_nodes
        self.num_slots = graph.num_slots
        keys = self._keys(*(part.cpu().numpy() for part in (graph.heads, graph.slots, graph.tails)))
        # No key is as large as the last entry, so every search ends inside the array, an empty graph's too.
        self.known = np.append(unique(keys), np.iinfo(np.int64).max)

    def _keys(self, heads: IntArray, slots: IntArray, tails: IntArray) -> IntArray:
        return (heads * self.num_slots + slots) * self.num_nodes + tails

    def draw(self, positives: IntArray, tails: int, relations: int, rng: np.random.Generator) -> IntArray:
        """Return ``(b, tails + relations, 3)`` corruptions of positives ``(b, 3)``, the tails first."""
        out = np.repeat(positives[:, None, :], tails + relations, axis=1)
        self._corrupt(out[:, :tails], TAIL, self.num_nodes, rng)
        self._corrupt(out[:, tails:], RELATION, self.num_slots, rng)
        return out

    def _corrupt(self, triples: IntArray, column: int, size: int, rng: np.random.Generator) -> None:
        own = triples[..., column].copy()
        wrong = np.ones(triples.shape[:2], dtype=bool)
        for _ in range(ROUNDS):
            triples[wrong, column] = rng.integers(0, size, size=int(wrong.sum()))
            keys = self._keys(triples[..., HEAD], triples[..., RELATION], triples[..., TAIL])
            wrong = (self.known[np.searchsorted(self.known, keys)] == keys) | (triples[..., column] == own)
            if not wrong.any():
                return
        # argmin finds the first that is not wrong.
        valid = np.take_along_axis(triples[..., column], wrong.argmin(axis=1)[:, None], axis=1)
        triples[..., column] = np.where(wrong & ~wrong.all(axis=1, keepdims=True), valid, triples[..., column])


def dual_sampling(positives: Tensor, tails: Tensor, relations: Tensor, weighting: str) -> Tensor:
    """Return the mean loss per positive of logits ``(b,)``, ``(b, n)`` and ``(b, m)``.

    ``paper`` is equation 5: the positive, the mean over tail corruptions and the mean over relation corruptions weigh
    1 : 1 : 1. ``joint`` is the published code's binary cross-entropy over all logits, weighted so that positives and
    negatives count 1 : 1.
    """
    positive = softplus(-positives)
    if weighting == "paper":
        return (positive + softplus(tails).mean(dim=1) + softplus(relations).mean(dim=1)).mean()
    negatives = torch.cat([tails, relations], dim=1)
    return (negatives.shape[1] * positive + softplus(negatives).sum(dim=1)).mean() / (1 + negatives.shape[1])


def one_hot_penalty(logits: Tensor) -> Tensor:
    """Return the summed entropy of the attention rows ``(R, K)``: zero when every row is one-hot."""
    log_attention = torch.log_softmax(logits, dim=1)
    return -(log_attention.exp() * log_attention).sum()


def concentration_penalty(logits: Tensor) -> Tensor:
    """Return minus the summed log-gamma of the task sizes: lowest when few tasks hold all relations."""
    return -torch.lgamma(1 + torch.softmax(logits, dim=1).sum(dim=0)).sum()


def adjacency(graph: TypedGraph) -> sparse.csr_array:
    """Return which node has an edge to which, without types, repeats and self-loops: float32 ones in ``(N, N)``."""
    heads, tails = graph.heads.cpu().numpy(), graph.tails.cpu().numpy()
    apart = heads != tails
    shape = (graph.num_nodes, graph.num_nodes)
    entries = (np.ones(int(apart.sum()), dtype=np.float32), (heads[apart], tails[apart]))
    matrix = sparse.coo_array(entries, shape=shape).tocsr()
    matrix.data[:] = 1
    return matrix


def pair_distances(edges: sparse.csr_array, heads: IntArray, tails: IntArray, hops: int) -> IntArray:
    """Return per pair the length of the shortest directed path from head to tail, at most ``hops``.

    ``edges`` is the adjacency ``(N, N)``; ``heads``, ``tails`` and the result are ``(m,)``. The distance is 0 from a
    node to itself, and ``hops + 1`` where no path of at most ``hops`` edges exists. For each pair, all edges between
    its two nodes are removed first, so that a distance never tells whether the scored triple (or its inverse) is
    there. A shortest path starts at the head and ends at the tail, so that only a first step straight to the tail could
    use such an edge: skipping that step is the same as removing the edges. Source: `docs/models.md`, Distances.
    """
    # A pair comes several times, with different relations.
    pairs, inverse = np.unique(heads * edges.shape[0] + tails, return_inverse=True)
    starts, ends = np.divmod(pairs, edges.shape[0])
    rows = np.arange(len(pairs))
    ones = np.ones(len(pairs), dtype=np.float32)
    into_end = edges.T.tocsr()[ends]

    distances = np.where(starts == ends, 0, hops + 1)
    visited = sparse.coo_array((ones, (rows, starts)), shape=(len(pairs), edges.shape[0])).tocsr()
    at_end = sparse.coo_array((ones, (rows, ends)), shape=visited.shape).tocsr()
    frontier = _without(edges[starts], at_end)
    # A path of ``length`` edges exists where the frontier, length - 1 steps from the head, has an edge into the tail.
    for length in range(2, hops + 1):
        reached = np.asarray(frontier.multiply(into_end).sum(axis=1)).ravel() > 0
        distances = np.where(reached & (distances > length), length, distances)
        if length < hops:
            visited = visited + frontier
            frontier = _without(frontier @ edges, visited)
    return distances[inverse].astype(np.int64)


def _without(matrix: sparse.csr_array, excluded: sparse.csr_array) -> sparse.csr_array:
    """Return the entries of ``matrix`` that ``excluded`` does not have, each as 1."""
    matrix.data[:] = 1
    excluded = excluded.copy()
    excluded.data[:] = 1
    left = sparse.csr_array(matrix - matrix.multiply(excluded))
    left.eliminate_zeros()
    return left
