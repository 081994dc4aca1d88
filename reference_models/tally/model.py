"""Tally: a small network that learns to rank (h, r, t) by its structural statistics, on any graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mtbench.data.splits import Split
from mtbench.names import HEAD, RELATION, TAIL, IntArray, Scorer
from mtbench.runs.result import Result
from mtbench.training.models import Context
from reference_models.layers.blocks import one_thread
from reference_models.tally import explanation
from reference_models.tally.lists import Lists, leave_out
from reference_models.tally.statistics import FAMILIES, FAMILY, WIDTH, Statistics
from reference_models.training.batches import batches_of
from reference_models.training.checkpoint import ADAPTATION
from reference_models.training.fitting import ReferenceModel, seeded
from reference_models.training.loop import State, Tell, Work, mean_loss
from reference_models.training.recipe import Hyperparameters, read

UNSEEN = -1e9
"""The score of a triple whose relation has no observable triple: nothing is known of it, so it ranks last. Without the
recipe's ``loops``, also that of a triple (h, r, h) whose relation has no such triple: walks return to where they began,
so that by its statistics h is near to itself."""

AT_ONCE = 4096
"""Triples that the network scores together: few enough that all intermediate results stay in the cache."""

WARM_UP, BEGIN, END = 0.3, 1 / 25, 1e-4
"""The share of steps in which the learning rate rises, and its shares of the highest rate at the beginning and end."""


@dataclass(frozen=True)
class Recipe(Hyperparameters):
    """All hyper-parameters of tally.

    ``masks`` leave-out masks of a graph hide shares of its triples from ``least`` to ``most`` and give ``lists`` lists
    together, each with ``typed`` tails and heads by type beside random ones. Standardised statistics are clamped to
    +-``outliers``. To adapt, ``adaptation_epochs`` are trained on lists of both graphs; 0 is zero-shot. Without
    ``loops``, loops of relation types that have none in the graph rank last (`UNSEEN`).
    """

    masks: int
    least: float
    most: float
    lists: int
    typed: int
    width: int
    dropout: float
    family_dropout: float
    outliers: float
    batch: int
    learning_rate: float
    weight_decay: float
    epochs: int
    adaptation_epochs: int
    loops: bool = field(default=True, kw_only=True)


class Ranker(nn.Module):
    """A perceptron of two hidden layers over standardised statistics."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int, dropout: float, outliers: float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("deviation", torch.ones(WIDTH))
        self.outliers = outliers
        hidden = [nn.Linear(WIDTH, width), nn.ReLU(), nn.Dropout(dropout)]
        hidden += [nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*hidden, nn.Linear(width, 1))

    def standardise(self, features: Tensor) -> None:
        """Standardise by the mean and the deviation of features ``(k, F)`` from now on."""
        self.mean.copy_(features.mean(dim=0))
        self.deviation.copy_(features.std(dim=0) + 1e-6)  # a statistic that never varies is 0 then

    def forward(self, features: Tensor, shown: Tensor | None = None) -> Tensor:
        """Return the logits ``(..., m)`` of features ``(..., m, F)``, of their means unless ``shown`` ``(..., F)``."""
        scaled = ((features - self.mean) / self.deviation).clamp(-self.outliers, self.outliers)
        if shown is not None:
            scaled = scaled * shown.unsqueeze(-2)
        return self.layers(scaled).squeeze(-1)  # type: ignore[no-any-return]


class TallyModel(ReferenceModel[Recipe]):
    """Tally with its recipe: trained on leave-out lists of one graph, applied to another."""

    def __init__(self, name: str, context: Context, recipe: Recipe) -> None:
        super().__init__(name, context, recipe, adapts=recipe.adaptation_epochs > 0)
        self._graphs: list[Split] = []
        self.network = self._built(lambda: Ranker(recipe.width, recipe.dropout, recipe.outliers))

    def fit(self, train: Split, valid: Split) -> None:
        """Train on leave-out lists of the training graph; ``valid`` is not used."""
        self.learn("train", [train], self.recipe.epochs)

    def scorer(self, observable: Split) -> TallyScores:
        """Return a scorer of triples of ``observable``, after training on lists of both graphs if it adapts."""
        if self.recipe.adaptation_epochs:
            self.learn(ADAPTATION, [observable], self.recipe.adaptation_epochs)
        return TallyScores(self.network, observable, self._device, self.recipe.loops)

    def explain(
        self, scorer: Scorer, test: Split, result: Result, rows: Sequence[int]
    ) -> explanation.StatisticsExplanation:
        """Return which counts and rules ranked some targets as they are."""
        assert isinstance(scorer, TallyScores)
        return explanation.explain(scorer, test, result, rows)

    def learn(self, stage: str, graphs: Sequence[Split], epochs: int) -> None:
        """Train on equally many lists of each graph, those of earlier stages included.

        Checkpoints are named after the first of ``graphs``.
        """
        self._graphs += graphs
        recipe, parameters = self.recipe, self.network.parameters()
        state = State(
            self.network, None, torch.optim.AdamW(parameters, recipe.learning_rate, weight_decay=recipe.weight_decay)
        )
        with one_thread(), seeded(self.context.seed, stage):
            work = epoch_of(state, self.lists, recipe, epochs)
            self._train(stage, state, graphs[0], work, epochs=epochs, patience=epochs, validate=None)

    def lists(self) -> Lists:
        """Return lists of all graphs that were learned from so far."""
        recipe = self.recipe
        shares = np.linspace(recipe.least, recipe.most, recipe.masks)
        number = math.ceil(recipe.lists / recipe.masks)
        seeds = [self.context.seed * recipe.masks + mask for mask in range(recipe.masks)]
        masks = list(zip(shares, seeds, strict=True))
        parts = [leave_out(graph, share, number, recipe.typed, seed) for graph in self._graphs for share, seed in masks]
        return Lists.together(parts)


class TallyScores:
    """Scores triples of one graph by its statistics, which are computed once; ``loops`` as in the recipe."""

    def __init__(self, network: Ranker, observable: Split, device: torch.device, loops: bool = True) -> None:
        self._network, self._device = network, device
        self.statistics = Statistics(observable)
        graph, slots = observable.graph, observable.relation_slots
        self._seen = np.bincount(graph[:, RELATION], minlength=slots) > 0
        of_loops = graph[graph[:, HEAD] == graph[:, TAIL], RELATION]
        self._loops = self._seen if loops else np.bincount(of_loops, minlength=slots) > 0

    def score(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of triples ``(m, 3)``."""
        return self.score_statistics(self.statistics.of(triples), triples)

    def score_statistics(self, statistics: NDArray[np.float32], triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` that triples ``(m, 3)`` would have with these statistics ``(m, WIDTH)``."""
        self._network.eval()
        with one_thread(), torch.no_grad():
            split = torch.split(torch.from_numpy(statistics), AT_ONCE)
            scores = torch.cat([self._network(part.to(self._device)).cpu() for part in split])
            relation, loop = triples[:, RELATION], triples[:, HEAD] == triples[:, TAIL]
            seen = np.where(loop, self._loops[relation], self._seen[relation])
            return scores.masked_fill(torch.from_numpy(~seen), UNSEEN)


def list_loss(logits: Tensor, lists: Lists, numbers: Tensor) -> Tensor:
    """Return the loss of lists with logits ``(b, 1 + c)``: the mean negative log-likelihood of the positives, summed
    over the softmaxes.
    """
    offsets = lists.offsets[:, numbers].to(logits)
    return -torch.log_softmax(logits + offsets, dim=2)[..., 0].mean(dim=1).sum()


def epoch_of(state: State[Ranker], made: Callable[[], Lists], recipe: Recipe, epochs: int) -> Work:
    """Return the work of one epoch: a step on every batch of lists, the learning rate on one cycle over all epochs.

    The lists are ``made`` when the first epoch begins, because a stage that is finished needs none. The network
    standardises by their statistics.
    """

    @cache
    def prepared() -> tuple[Lists, Tensor]:
        lists = made()
        state.network.standardise(lists.features)
        return lists, lists.features.to(state.network.mean.device)

    def work(epoch: int, rng: np.random.Generator, tell: Tell) -> dict[str, float]:
        lists, features = prepared()
        device, steps = features.device, math.ceil(len(lists) / recipe.batch)
        state.network.train()
        # Dropout draws from PyTorch's generator: seeded by the epoch's, so that a resumed run draws the same.
        torch.manual_seed(int(rng.integers(2**63)))
        done = (epoch - 1) * steps

        def step(numbers: IntArray) -> float:
            nonlocal done
            for group in state.optimizer.param_groups:
                group["lr"] = recipe.learning_rate * one_cycle(done / max(1, epochs * steps - 1))
            done += 1
            chosen = torch.from_numpy(numbers)
            shown = None
            if recipe.family_dropout:
                shown = (torch.rand(len(chosen), len(FAMILIES)) >= recipe.family_dropout)[:, FAMILY].to(device)
            logits = state.network(features[lists.rows[chosen].to(device)], shown)
            loss = list_loss(logits, lists, chosen)
            return state.descend({"list loss": loss}, None)["list loss"]

        return {"epoch": epoch, "loss": mean_loss(batches_of(len(lists), recipe.batch, rng), step, tell)}

    return work


def one_cycle(done: float) -> float:
    """Return the share of the highest learning rate after a share of all steps, with cosines (Smith and Topin 2019)."""
    if done < WARM_UP:
        return BEGIN + (1 - BEGIN) * (1 - math.cos(math.pi * done / WARM_UP)) / 2
    return END + (1 - END) * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))) / 2


def build(context: Context) -> TallyModel:
    """Return tally for a run."""
    return TallyModel("tally", context, read(Recipe, "tally", context.dataset, context.settings))


def build_adapted(context: Context) -> TallyModel:
    """Return tally for a run, also trained on the observable triples of the test graph."""
    return TallyModel("tally-adapted", context, read(Recipe, "tally-adapted", context.dataset, context.settings))
