"""Double-equivariant networks as models that ``mtbench run`` trains, adapts and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from mtbench.data.splits import Split
from mtbench.evaluation.tasks import task
from mtbench.names import RELATION, IntArray
from mtbench.training.models import Assignment, Context
from reference_models.equivariant.network import Architecture, Features, TripleNetwork, attention_logits
from reference_models.graphs.graph import Slots, TypedGraph, doubled, typed_graph
from reference_models.training.batches import Stage, epoch_of, graph_stage, pair_features
from reference_models.training.checkpoint import ADAPTATION
from reference_models.training.fitting import (
    BothWays,
    PairScores,
    ReferenceModel,
    can_stop_early,
    hold_out,
    seeded,
    validation,
)
from reference_models.training.loop import State, Validation
from reference_models.training.recipe import Recipe

SCORING_BATCH = 2048
"""Triples scored at once. Every batch has this size: other shapes are added up in another order, which breaks ties."""


class DoubleEquivariantModel(ReferenceModel[Recipe]):
    """A double-equivariant network with its recipe: fitted on one graph, applied to another."""

    def __init__(
        self, name: str, context: Context, recipe: Recipe, make: Callable[[Architecture], TripleNetwork]
    ) -> None:
        super().__init__(name, context, recipe)
        self.network = self._built(lambda: make(recipe.architecture()))
        self._assignments: dict[str, Assignment] = {}
        if self.network.uses_attention and recipe.adaptation_epochs:
            self.info = replace(self.info, regime="test-time-adaptation")

    def fit(self, train: Split, valid: Split) -> None:
        """Train until early stopping on the validation dual MRR; continues from a checkpoint if there is one.

        Raises `DatasetError` if ``valid`` has too few targets for the recipe.
        """
        recipe = self.recipe
        slots = Slots.of(valid, recipe.slots)
        seen = slots.split(train)
        graph = typed_graph(seen, inverses=recipe.inverses, device=self._device)
        if recipe.positives == "targets":
            held_out = hold_out(valid, recipe.holdout, self.context.seed)
            missing = slots(valid.targets[~held_out])
            positives = doubled(missing, slots.number, inverses=recipe.inverses, device=self._device)
            stage = Stage("train", graph, torch.stack(positives, dim=1).cpu().numpy(), masked=False)
        else:
            held_out = np.ones(len(valid.targets), dtype=bool)
            stage = graph_stage("train", graph)
        attention = self._attention(graph, "train")
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        state = self._state(attention, trained if attention is None else [*trained, attention])
        features_of = remembering(lambda triples: pair_features(graph, triples, recipe.hops))

        def scores(triples: IntArray) -> Tensor:
            return triple_scores(self.network, graph, attention, features_of)(slots(triples))

        validate = None
        if can_stop_early(valid):
            dual = task(valid.with_inverses() if recipe.inverses else valid, "dual-tail", "slots")
            asked = np.resize(held_out, len(dual.split.targets))  # the inverses follow the targets in the same order
            validate = validation(dual, asked, scores, recipe.learning_rate, recipe.chosen_by)
        self._run(stage, state, valid, validate)
        self._remember("train", seen, attention)

    def scorer(self, observable: Split) -> Callable[[IntArray], Tensor]:
        """Return a scorer of triples of ``observable``, after adapting to its observable triples.

        Adaptation freezes all weights and batch statistics, draws new task logits for the relations of this graph, and
        trains only these with the loss and mask of training. The number of epochs is fixed, because a test graph has no
        validation set (`docs/models.md`, Adaptation).
        """
        slots = Slots.of(observable, self.recipe.slots)
        seen = slots.split(observable)
        graph = typed_graph(seen, inverses=self.recipe.inverses, device=self._device)
        attention = self._attention(graph, ADAPTATION)
        if attention is not None and self.recipe.adaptation_epochs:
            stage = graph_stage(ADAPTATION, graph, frozen=True)
            self.network.requires_grad_(False)
            state = self._state(attention, [attention])
            self._run(stage, state, observable, None)
        self._remember("test", seen, attention)
        of_slots = triple_scores(
            self.network, graph, attention, lambda triples: pair_features(graph, triples, self.recipe.hops)
        )

        def scores(triples: IntArray) -> Tensor:
            return of_slots(slots(triples))

        return BothWays(scores, observable.relation_slots) if self.recipe.inverses else scores

    def _attention(self, graph: TypedGraph, stage: str) -> nn.Parameter | None:
        if not self.network.uses_attention:
            return None
        with seeded(self.context.seed, stage):
            return attention_logits(graph.num_slots, self.recipe.tasks, self._device)

    def _state(self, attention: nn.Parameter | None, trained: list[nn.Parameter]) -> State[TripleNetwork]:
        # Weight decay would draw the task logits to equal shares: they have a group without it unless a recipe asks.
        free = [parameter for parameter in trained if parameter is attention and not self.recipe.decay_attention]
        rest = [parameter for parameter in trained if not (free and parameter is attention)]
        decays = [(rest, self.recipe.weight_decay), (free, 0.0)]
        groups = [{"params": members, "weight_decay": decay} for members, decay in decays if members]
        return State(self.network, attention, torch.optim.Adam(groups, lr=self.recipe.learning_rate))

    def _run(self, stage: Stage, state: State[TripleNetwork], split: Split, validate: Validation | None) -> None:
        recipe = self.recipe
        epochs = recipe.adaptation_epochs if stage.name == ADAPTATION else recipe.epochs
        work, hits = epoch_of(state, stage, recipe), recipe.chosen_by == "hits"
        self._train(
            stage.name, state, split, work, epochs=epochs, patience=recipe.patience, validate=validate, from_start=hits
        )

    def assignments(self) -> Mapping[str, Assignment]:
        """Return the attention over tasks at the end of training and after adaptation; empty without tasks."""
        return self._assignments

    def _remember(self, name: str, split: Split, attention: Tensor | None) -> None:
        if attention is None:
            return
        alpha = torch.softmax(attention.detach().double(), dim=1).cpu().numpy()
        slots = [split.relation_name(slot) for slot in range(split.relation_slots)]
        names = [*slots, *(f"{slot} (inverse)" for slot in slots)][: len(alpha)]
        self._assignments[name] = Assignment(names, alpha)


def triple_scores(
    network: TripleNetwork,
    graph: TypedGraph,
    attention: Tensor | None,
    features_of: Callable[[IntArray], Tensor | None],
) -> Callable[[IntArray], Tensor]:
    """Return a function that scores triples ``(m, 3)``; ``features_of`` gives their distances ``(m, 2)``, if any.

    Nodes are represented once; a network that does not tell relations apart also scores each pair once.
    """
    features = representations(network, graph, attention)
    if network.sees_relations:
        return lambda triples: score(network, features, triples, features_of(triples))

    def of_pairs(pairs: IntArray) -> Tensor:
        triples = np.insert(pairs, RELATION, 0, axis=1)
        return score(network, features, triples, features_of(triples))

    return PairScores(graph.num_nodes, of_pairs)


def remembering(features_of: Callable[[IntArray], Tensor | None]) -> Callable[[IntArray], Tensor | None]:
    """Return the function with a memory of its last triples: validation asks for the same in every epoch."""
    last: list[tuple[IntArray, Tensor | None]] = []

    def remembered(triples: IntArray) -> Tensor | None:
        if not last or not np.array_equal(last[0][0], triples):
            last[:] = [(triples, features_of(triples))]
        return last[0][1]

    return remembered


def representations(network: TripleNetwork, graph: TypedGraph, attention: Tensor | None) -> Features:
    """Return the features of all nodes and slots, ``(N, R, d)``, without gradients, by task logits ``(R, K)``."""
    network.eval()
    with torch.no_grad():
        return network.represent(graph, None if attention is None else torch.softmax(attention, dim=1))


def score(network: TripleNetwork, features: Features, triples: IntArray, distances: Tensor | None) -> Tensor:
    """Return the logits ``(m,)`` of triples ``(m, 3)`` on the CPU, without gradients, the same in any batch."""
    logits = [torch.empty(0)]
    with torch.no_grad():
        for start in range(0, len(triples), SCORING_BATCH):
            rows = torch.arange(start, start + SCORING_BATCH).clamp_(max=len(triples) - 1)  # filled up with the last
            batch = torch.from_numpy(triples[rows.numpy()]).to(features.values.device)
            apart = None if distances is None else distances[rows.to(distances.device)]
            logits.append(network.score(features, batch, apart).cpu())
    return torch.cat(logits)[: len(triples)]
