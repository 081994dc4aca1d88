"""InGram and DEq-InGram: attention over relations and entities that start from random features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor, nn
from torch.nn.functional import relu

from mtbench.data.splits import Split
from mtbench.errors import DatasetError, UsageError
from mtbench.names import HEAD, RELATION, TAIL, BoolArray, IntArray
from mtbench.training.models import Context
from reference_models.layers.attention import EntityAttention, Messages, RelationAttention, XavierLinear, messages_of
from reference_models.training.fitting import ReferenceModel, chosen_by_tails
from reference_models.training.loop import State, Tell, Work
from reference_models.training.recipe import Hyperparameters, read

SCORING_BATCH = 65_536
DEQ_DRAWS = "10"
"""The default number of draws of DEq-InGram; that of its authors is not published."""


@dataclass(frozen=True)
class Recipe(Hyperparameters):
    """All hyper-parameters of InGram and DEq-InGram.

    The hidden widths are ``relation_scale`` and ``entity_scale`` times ``width``. Training takes at most ``steps``
    steps on the whole graph and is validated after ``every`` of them, on the MRR of the protocol ``selection``;
    it ends after ``patience`` validations that brought nothing better, with ``none`` after all steps. ``messages`` is
    the share of triples shown in a step; a test score is the mean over ``draws`` initial features.
    """

    width: int
    relation_scale: int
    entity_scale: int
    relation_layers: int
    entity_layers: int
    heads: int
    bins: int
    messages: float
    negatives: int
    margin: float
    learning_rate: float
    clip: float
    selection: str
    steps: int
    every: int
    patience: int
    draws: int

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("relation_scale", "entity_scale"):
            hidden = getattr(self, name) * self.width
            if hidden % self.heads:
                raise UsageError(f"heads must divide {name} * width = {hidden}, which {self.heads} does not")


class InGram(nn.Module):
    """Relations attend to relations with shared entities, then entities to entities through them (Lee et al. 2023)."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        width, heads = recipe.width, recipe.heads
        of_relations, of_entities = recipe.relation_scale * width, recipe.entity_scale * width
        self.relations_in, self.relations_out = XavierLinear(width, of_relations), XavierLinear(of_relations, width)
        self.entities_in, self.entities_out = XavierLinear(width, of_entities), XavierLinear(of_entities, width)
        self.relation_layers = nn.ModuleList(
            RelationAttention(of_relations, heads, recipe.bins) for _ in range(recipe.relation_layers)
        )
        self.entity_layers = nn.ModuleList(
            EntityAttention(of_entities, of_relations, heads) for _ in range(recipe.entity_layers)
        )
        self.weighting = XavierLinear(width, width)

    def forward(self, messages: Messages, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return entities ``(N, d)`` and relations as weights ``(slots, d)``, from initial features of these shapes."""
        z, e = self.relations_in(relations), entities
        for layer in self.relation_layers:
            z = layer(z, messages.near, messages.bins)
        for number, layer in enumerate(self.entity_layers):
            e = layer(e, z, messages, None if number else self.entities_in)
        return self.entities_out(e), self.weighting(self.relations_out(z))


def score(entities: Tensor, relations: Tensor, triples: Tensor) -> Tensor:
    """Return the scores ``(*,)`` of triples ``(*, 3)``: the sum of head, relation and tail multiplied elementwise."""
    heads, slots, tails = triples.reshape(-1, 3).unbind(dim=1)
    product = entities.index_select(0, heads) * relations.index_select(0, slots) * entities.index_select(0, tails)
    return product.sum(dim=1).view(triples.shape[:-1])


class InGramModel(ReferenceModel[Recipe]):
    """InGram with its recipe. Features are random on every graph, so that the network carries over to new names.

    DEq-InGram only differs in the draws of a test score, so that each continues from checkpoints of the other.
    """

    def __init__(self, name: str, context: Context, recipe: Recipe) -> None:
        super().__init__(name, context, recipe)
        self.info = replace(self.info, trained_as={"model": "ingram", "draws": 1})
        self.network = self._built(lambda: InGram(recipe))

    def fit(self, train: Split, valid: Split) -> None:
        """Train until early stopping on the validation MRR; continues from a checkpoint if there is one.

        Raises `DatasetError` if no triple can be hidden without disconnecting the training graph.
        """
        recipe = self.recipe
        state = State(self.network, None, torch.optim.Adam(self.network.parameters(), lr=recipe.learning_rate))
        messages = self._messages(train, train.graph)

        def scores(triples: IntArray) -> Tensor:
            rng = np.random.default_rng([self.context.seed, *b"valid", state.epoch])
            return mean_score([self._embedded(messages, rng)], triples)

        validate = chosen_by_tails(valid, recipe.selection, scores, recipe.learning_rate)
        epochs, work = -(-recipe.steps // recipe.every), self._work(state, train)
        self._train("train", state, valid, work, epochs=epochs, patience=recipe.patience, validate=validate)

    def scorer(self, observable: Split) -> Callable[[IntArray], Tensor]:
        """Return a function that scores triples of ``observable``: the mean score over the recipe's draws."""
        messages = self._messages(observable, observable.graph)
        rngs = [np.random.default_rng([self.context.seed, *b"test", draw]) for draw in range(self.recipe.draws)]
        embedded = [self._embedded(messages, rng) for rng in rngs]
        return lambda triples: mean_score(embedded, triples)

    def _messages(self, split: Split, triples: IntArray) -> Messages:
        return messages_of(triples, split.num_entities, split.relation_slots, self.recipe.bins, self._device)

    def _drawn(self, messages: Messages, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return fresh initial features of entities and relations."""
        entities, relations = (
            features(rows, self.recipe.width, rng) for rows in (messages.num_nodes, messages.num_slots)
        )
        return entities.to(self._device), relations.to(self._device)

    def _embedded(self, messages: Messages, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        self.network.eval()
        with torch.no_grad():
            return self.network(messages, *self._drawn(messages, rng))  # type: ignore[no-any-return]

    def _work(self, state: State[InGram], train: Split) -> Work:
        """Return the work between two validations: ``every`` steps, each on another split of the training graph."""
        recipe = self.recipe
        splitter = Splitter(train, recipe.messages, np.random.default_rng([self.context.seed, *b"forest"]))

        def step(rng: np.random.Generator) -> float:
            shown, targets = splitter.draw(rng)
            messages = self._messages(train, shown)
            negatives = corrupted(targets, recipe.negatives, train.num_entities, rng)
            triples = torch.from_numpy(np.concatenate([targets[:, None], negatives], axis=1)).to(self._device)
            entities, relations = self.network(messages, *self._drawn(messages, rng))
            scores = score(entities, relations, triples)
            loss = margin_loss(scores, recipe.margin)
            return state.descend({"task loss": loss}, recipe.clip)["task loss"]

        def work(epoch: int, rng: np.random.Generator, tell: Tell) -> dict[str, float]:
            self.network.train()
            count, total = min(recipe.every, recipe.steps - (epoch - 1) * recipe.every), 0.0
            for done in range(count):
                tell(done, count, total / max(done, 1))
                total += step(rng)
            return {"epoch": epoch, "loss": total / count}

        return work


def mean_score(embedded: list[tuple[Tensor, Tensor]], triples: IntArray) -> Tensor:
    """Return the scores ``(m,)`` of triples ``(m, 3)`` on the CPU, averaged over draws of the features."""
    means = []
    for start in range(0, len(triples), SCORING_BATCH):
        batch = torch.tensor(triples[start : start + SCORING_BATCH]).to(embedded[0][0].device)
        means.append(
            torch.stack([score(entities, relations, batch) for entities, relations in embedded]).mean(dim=0).cpu()
        )
    return torch.cat(means)


def build(context: Context) -> InGramModel:
    """Return InGram for a run, with the recipe of the run's dataset."""
    recipe = read(Recipe, "ingram", context.dataset, context.settings)
    if recipe.draws != 1:
        raise UsageError(f"ingram has one draw, not {recipe.draws}: run deq-ingram with --set draws={recipe.draws}")
    return InGramModel("ingram", context, recipe)


def build_deq(context: Context) -> InGramModel:
    """Return DEq-InGram for a run: InGram, the same seed the same weights, its test scores averaged over draws."""
    recipe = read(Recipe, "ingram", context.dataset, {"draws": DEQ_DRAWS, **context.settings})
    return InGramModel("deq-ingram", context, recipe)


def features(rows: int, width: int, rng: np.random.Generator) -> Tensor:
    """Draw initial features ``(rows, width)``: Xavier normal with gain sqrt(2), so their scale depends on ``rows``."""
    scale = math.sqrt(2) * math.sqrt(2 / (rows + width))
    return torch.from_numpy(scale * rng.standard_normal((rows, width), dtype=np.float32))


def always_shown(triples: IntArray, num_nodes: int, rng: np.random.Generator) -> BoolArray:
    """Return which triples ``(m, 3)`` are in every step's messages: a spanning forest drawn from ``rng``, and one
    triple of each relation that is not in it.

    So every step shows something of each entity and relation that it asks about.
    """
    order = rng.permutation(len(triples))
    shuffled = triples[order]
    low, high = np.sort(shuffled[:, [HEAD, TAIL]], axis=1).T
    apart = np.flatnonzero(low != high)
    _, first = np.unique(low[apart] * num_nodes + high[apart], return_index=True)
    links = apart[first]
    shape = (num_nodes, num_nodes)
    # The order is the weight, from 1 on: a sparse matrix takes 0 for no edge.
    numbered = sparse.coo_array((links + 1.0, (low[links], high[links])), shape=shape).tocsr()
    shown = np.zeros(len(triples), dtype=bool)
    shown[minimum_spanning_tree(numbered).data.astype(np.int64) - 1] = True
    missing = np.flatnonzero(~np.isin(shuffled[:, RELATION], shuffled[shown, RELATION]))
    _, first = np.unique(shuffled[missing, RELATION], return_index=True)
    shown[missing[first]] = True
    kept = np.empty_like(shown)
    kept[order] = shown
    return kept


class Splitter:
    """Splits the triples of a graph for each step, at random: messages, and targets hidden from them."""

    def __init__(self, train: Split, share: float, rng: np.random.Generator) -> None:
        shown = always_shown(train.graph, train.num_entities, rng)
        self.fixed, self.others = train.graph[shown], train.graph[~shown]
        self.added = max(round(share * len(train.graph)) - len(self.fixed), 0)
        if self.added >= len(self.others):
            total = len(train.graph)
            raise DatasetError(
                f"{train.dataset} {train.name}: {len(self.fixed)} of {total} triples hold the graph together, "
                f"and a share of {share} as messages leaves none to predict; try a smaller one: --set messages=0.5"
            )

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return the messages and the targets of one step, ``(*, 3)`` each."""
        order = rng.permutation(len(self.others))
        return np.concatenate([self.fixed, self.others[order[: self.added]]]), self.others[order[self.added :]]


def corrupted(targets: IntArray, count: int, num_nodes: int, rng: np.random.Generator) -> IntArray:
    """Return ``(b, count, 3)``: targets whose head or tail, each with probability 1/2, is replaced by another entity.

    The entity is uniform over all others; true triples may be drawn. Relations are never replaced.
    """
    negatives = np.repeat(targets[:, None], count, axis=1)
    column = np.where(rng.random(negatives.shape[:2]) < 0.5, HEAD, TAIL)[..., None]
    own = np.take_along_axis(negatives, column, axis=2)
    # A shift by 1 to N - 1 gives every entity but its own, all with the same probability.
    shift = rng.integers(1, num_nodes, size=own.shape)
    np.put_along_axis(negatives, column, (own + shift) % num_nodes, axis=2)
    return negatives


def margin_loss(scores: Tensor, margin: float) -> Tensor:
    """Return the mean of max(0, margin - positive + negative) over scores ``(b, 1 + n)``, the positive first."""
    # In two steps: PyTorch splits one sum of very many numbers among threads, and their number changes its rounding.
    return relu(margin - scores[:, :1] + scores[:, 1:]).mean(dim=1).mean()
