"""NBFNet-homo: paths from the head without their relations; the baseline that sees structure alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from mtbench.data.splits import Split, inverted
from mtbench.errors import UsageError
from mtbench.names import HEAD, TAIL, IntArray
from mtbench.training.models import Context
from reference_models.graphs.graph import TypedGraph, typed_graph
from reference_models.layers.basic import RowLinear
from reference_models.layers.propagation import BoundaryPNA, Neighbours, by_receiver, degree_scales, plan
from reference_models.training.batches import Negatives, batches_of, edges_of
from reference_models.training.fitting import BothWays, PairScores, ReferenceModel, chosen_by_tails
from reference_models.training.loop import State, Tell, Work, mean_loss
from reference_models.training.recipe import Hyperparameters, read

HEADS_AT_ONCE = 32
"""Heads propagated together when scoring: the most rows per node in memory."""


@dataclass(frozen=True)
class Recipe(Hyperparameters):
    """All hyper-parameters of NBFNet-homo.

    ``positives`` are always those of the ``graph``, so that ``holdout`` has no effect. ``temperature`` is that of the
    adversarial weights of the negatives; ``selection`` is the protocol whose validation MRR chooses the epoch, with
    ``none`` it is the last.
    """

    width: int
    layers: int
    positives: str
    holdout: float
    batch: int
    negatives: int
    temperature: float
    learning_rate: float
    selection: str
    epochs: int
    patience: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positives != "graph":
            raise UsageError(f"positives must be graph, not {self.positives!r}")


class NBFNetHomo(nn.Module):
    """The homogeneous NBFNet: one learned query and, per layer, one learned relation for all edges."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(width))
        self.layers = nn.ModuleList(BoundaryPNA(width) for _ in range(layers))
        self.head = nn.Sequential(RowLinear(2 * width, 2 * width), nn.ReLU(), RowLinear(2 * width, 1))

    def forward(self, neighbours: Neighbours, heads: Tensor, tails: Tensor) -> Tensor:
        """Return the logits ``(m,)`` of node pairs, ``heads`` and ``tails`` being int64 ``(m,)``."""
        total = neighbours.num_nodes
        distinct, queries = torch.unique(heads, return_inverse=True)
        wanted, places = torch.unique(queries * total + tails, return_inverse=True)
        planned = plan(neighbours, distinct, wanted, len(self.layers))
        degrees = neighbours.degrees.to(self.query.dtype)
        scales = degree_scales(degrees)
        rows = planned.is_head.unsqueeze(1) * self.query
        for layer, step in zip(self.layers, planned.steps, strict=True):
            rows = layer(rows, step, self.query, degrees, scales)
        logits = self.head(torch.cat([rows, self.query.expand_as(rows)], dim=1)).squeeze(1)
        return logits.index_select(0, places)  # type: ignore[no-any-return]


class NBFNetModel(ReferenceModel[Recipe]):
    """NBFNet-homo with its recipe: trained on one graph, applied to another without adaptation."""

    def __init__(self, context: Context, recipe: Recipe) -> None:
        super().__init__("nbfnet-homo", context, recipe)
        self.network = self._built(lambda: NBFNetHomo(recipe.width, recipe.layers))

    def fit(self, train: Split, valid: Split) -> None:
        """Train until early stopping on the validation MRR; continues from a checkpoint if there is one."""
        recipe = self.recipe
        graph = typed_graph(train, inverses=True, device=self._device)
        state = State(self.network, None, torch.optim.Adam(self.network.parameters(), lr=recipe.learning_rate))
        neighbours = Neighbours.of(graph)
        validate = chosen_by_tails(
            valid,
            recipe.selection,
            lambda triples: pair_scores(self.network, neighbours)(triples),
            recipe.learning_rate,
        )
        work = epoch_of(state, graph, train.graph, recipe)
        self._train("train", state, valid, work, epochs=recipe.epochs, patience=recipe.patience, validate=validate)

    def scorer(self, observable: Split) -> Callable[[IntArray], Tensor]:
        """Return a scorer of triples of ``observable``, whose scores are the same for all relations to the last bit.

        Heads are scored by queries from the tail, of the inverse relation, as in training.
        """
        graph = typed_graph(observable, inverses=True, device=self._device)
        return BothWays(pair_scores(self.network, Neighbours.of(graph)), observable.relation_slots)


def pair_scores(network: NBFNetHomo, neighbours: Neighbours) -> PairScores:
    """Return a scorer that propagates from each distinct head once, some heads at a time, without gradients."""

    def compute(pairs: IntArray) -> Tensor:
        network.eval()
        device = neighbours.senders.device
        cuts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))[::HEADS_AT_ONCE]
        with torch.no_grad():
            parts = [
                network(neighbours, *torch.from_numpy(part).to(device).unbind(dim=1)).cpu()
                for part in np.split(pairs, cuts[1:])
            ]
        return torch.cat(parts)

    return PairScores(neighbours.num_nodes, compute)


def queries_of(positives: IntArray, slots: int) -> IntArray:
    """Return a batch ``(b, 3)`` as queries for the tail; the second half is inverted, and so asks for the head."""
    half = len(positives) - len(positives) // 2
    turned = inverted(positives[half:], slots)
    return np.concatenate([positives[:half], turned])


def query_loss(logits: Tensor, temperature: float) -> Tensor:
    """Return the mean loss of queries, logits ``(b, 1 + n)`` with the positive first.

    Half the sum of the cross-entropy of the positive and that of its negatives, weighted by a softmax over their own
    logits, without gradient. Source: Sun et al. 2019, as used by Zhu et al. 2021.
    """
    positive, negatives = logits[:, 0], logits[:, 1:]
    weights = torch.softmax(negatives.detach() / temperature, dim=1)
    return ((softplus(-positive) + (weights * softplus(negatives)).sum(dim=1)) / 2).mean()


def epoch_of(state: State[NBFNetHomo], graph: TypedGraph, positives: IntArray, recipe: Recipe) -> Work:
    """Return the work of one epoch: every positive once, its edge and the inverse hidden while it is scored."""
    # Sorted once: hiding edges keeps the order.
    order = by_receiver(graph)
    graph = TypedGraph(
        graph.heads[order], graph.slots[order], graph.tails[order], graph.num_nodes, graph.num_slots, graph.dtype
    )
    negatives = Negatives(graph)

    def work(epoch: int, rng: np.random.Generator, tell: Tell) -> dict[str, float]:
        state.network.train()

        def step(numbers: IntArray) -> float:
            chosen = positives[numbers]
            queries = queries_of(chosen, graph.num_slots // 2)
            triples = np.concatenate([queries[:, None], negatives.draw(queries, recipe.negatives, 0, rng)], axis=1)
            loss = query_loss(logits_of(state.network, graph, chosen, triples), recipe.temperature)
            return state.descend({"task loss": loss}, None)["task loss"]

        return {"epoch": epoch, "loss": mean_loss(batches_of(len(positives), recipe.batch, rng), step, tell)}

    return work


def logits_of(network: NBFNetHomo, graph: TypedGraph, hidden: IntArray, triples: IntArray) -> Tensor:
    """Return the logits ``(b, c)`` of triples ``(b, c, 3)`` on a graph sorted by tails, without some of its triples."""
    shown = graph.without(edges_of(graph, hidden, inverses=True))
    neighbours = Neighbours.sorted_already(shown.heads, shown.tails, graph.num_nodes)
    pairs = torch.tensor(triples.reshape(-1, 3)).to(graph.heads.device)
    return network(neighbours, pairs[:, HEAD], pairs[:, TAIL]).view(triples.shape[:2])  # type: ignore[no-any-return]


def build(context: Context) -> NBFNetModel:
    """Return NBFNet-homo for a run, with the recipe of the run's dataset."""
    return NBFNetModel(context, read(Recipe, "nbfnet-homo", context.dataset, context.settings))
