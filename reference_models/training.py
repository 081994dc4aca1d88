"""Mini-batch training with the dual-sampling loss: one loop for training and for test-time adaptation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from mtbench.errors import UsageError
from mtbench.models import Progress
from mtbench.names import HEAD, TAIL, IntArray
from reference_models.distances import adjacency, pair_distances
from reference_models.graph import TypedGraph
from reference_models.losses import concentration_penalty, dual_sampling, one_hot_penalty
from reference_models.negatives import Negatives
from reference_models.network import TripleNetwork
from reference_models.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Stage:
    """What one loop trains on: a graph and the positives ``(p, 3)`` in it.

    ``edges`` gives for every positive the edge of the graph it is, where the positives are the graph's
    own edges and have to be hidden; it is None where they are missing from the graph anyway. A ``frozen``
    network keeps its batch statistics: only the attention is trained.
    """

    name: str
    graph: TypedGraph
    positives: IntArray
    edges: IntArray | None
    frozen: bool = False


def graph_stage(name: str, graph: TypedGraph, *, frozen: bool = False) -> Stage:
    """Return the stage whose positives are all edges of the graph, inverses included."""
    triples = torch.stack([graph.heads, graph.slots, graph.tails], dim=1).cpu().numpy()
    return Stage(name, graph, triples, np.arange(len(triples)), frozen)


@dataclass(eq=False)
class State:
    """Everything that changes while training and that a checkpoint therefore holds."""

    network: TripleNetwork
    attention: nn.Parameter | None
    optimizer: torch.optim.Adam
    epoch: int = 0
    best_epoch: int = 0
    best_value: float = -1.0
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of all weights and running statistics by name."""
        found = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        if self.attention is not None:
            found["attention"] = self.attention.detach().clone()
        return found

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Set all weights from what `weights` returned."""
        self.network.load_state_dict({name: value for name, value in weights.items() if name != "attention"})
        if self.attention is not None:
            with torch.no_grad():
                self.attention.copy_(weights["attention"])


def fit(
    state: State,
    stage: Stage,
    recipe: Recipe,
    *,
    seed: int,
    epochs: int,
    validate: Callable[[], float] | None,
    report: Callable[[Progress], None],
    save: Callable[[State], None] | None,
) -> None:
    """Train until ``epochs`` or, with a validation function, until ``patience`` epochs brought nothing better.

    Continues after ``state.epoch``: random draws depend on the seed, the stage and the epoch alone, so a
    resumed run equals an uninterrupted one. ``save`` is called after every epoch. With ``validate`` the best
    epoch's weights are in place at the end, else the last one's.
    """
    negatives = Negatives(stage.graph)
    valid_mrr = state.history[-1].get("valid_mrr") if state.history else None
    while state.epoch < epochs and (validate is None or state.epoch - state.best_epoch < recipe.patience):
        epoch = state.epoch + 1
        rng = np.random.default_rng([seed, *stage.name.encode(), epoch])
        total, seen = 0.0, 0
        state.network.train(not stage.frozen)
        batches = list(_batches(len(stage.positives), recipe.batch, rng))
        for number, batch in enumerate(batches, start=1):
            report(Progress(stage.name, epoch, epochs, number - 1, len(batches), total / max(seen, 1), valid_mrr))
            total += step(state, stage, recipe, batch, negatives, epoch, rng) * len(batch)
            seen += len(batch)
        record = {"epoch": epoch, "loss": total / seen}
        if validate is not None:
            valid_mrr = record["valid_mrr"] = validate()
            if valid_mrr > state.best_value:
                state.best_value, state.best_epoch, state.best = valid_mrr, epoch, state.weights()
        state.epoch = epoch
        state.history.append(record)
        report(Progress(stage.name, epoch, epochs, len(batches), len(batches), total / seen, valid_mrr))
        if save is not None:
            save(state)
    if validate is not None:
        state.restore(state.best)


def _batches(count: int, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    order = rng.permutation(count)
    for start in range(0, count, size):
        yield order[start : start + size]


def step(
    state: State,
    stage: Stage,
    recipe: Recipe,
    batch: IntArray,
    negatives: Negatives,
    epoch: int,
    rng: np.random.Generator,
) -> float:
    """Take one optimiser step on the positives numbered ``batch`` and return the task loss."""
    positives = stage.positives[batch]
    corrupted = negatives.draw(positives, recipe.tail_negatives, recipe.relation_negatives, rng)
    triples = np.concatenate([positives[:, None, :], corrupted], axis=1)
    graph = stage.graph
    if stage.edges is not None and recipe.mask != "none":
        graph = graph.without(_hidden(graph, stage.edges[batch], triples, recipe))

    attention = None if state.attention is None else torch.softmax(state.attention, dim=1)
    features = state.network.represent(graph, attention)
    device = features.device
    logits = state.network.score(
        features, torch.from_numpy(triples).to(device), pair_features(state.network, graph, triples)
    )
    tails, relations = logits[:, 1 : 1 + recipe.tail_negatives], logits[:, 1 + recipe.tail_negatives :]
    loss = dual_sampling(logits[:, 0], tails, relations, recipe.loss)
    objective = loss
    if state.attention is not None:
        scale = recipe.penalty_scale(epoch)
        objective = objective + scale * recipe.one_hot * one_hot_penalty(state.attention)
        objective = objective + scale * recipe.concentration * concentration_penalty(state.attention)
    state.optimizer.zero_grad()
    objective.backward()  # type: ignore[no-untyped-call]
    parameters = [parameter for group in state.optimizer.param_groups for parameter in group["params"]]
    nn.utils.clip_grad_norm_(parameters, recipe.clip)
    state.optimizer.step()
    return float(loss.detach())


def pair_features(network: TripleNetwork, graph: TypedGraph, triples: IntArray) -> Tensor | None:
    """Return the distances ``(*, 2)`` from head to tail and back for triples ``(*, 3)``, None if not used."""
    hops = network.architecture.hops
    if not hops:
        return None
    heads, tails = triples[..., HEAD].ravel(), triples[..., TAIL].ravel()
    both = pair_distances(adjacency(graph), np.concatenate([heads, tails]), np.concatenate([tails, heads]), hops)
    return torch.from_numpy(both.reshape(2, -1).T.reshape(*triples.shape[:-1], 2)).to(graph.heads.device)


def _hidden(graph: TypedGraph, edges: IntArray, triples: IntArray, recipe: Recipe) -> Tensor:
    """Return which edges a batch hides, bool ``(E,)``: its positives and their inverses, or whole pairs."""
    hidden = torch.zeros(len(graph.heads), dtype=torch.bool, device=graph.heads.device)
    if recipe.mask == "pair":
        scored = np.unique(triples[..., HEAD] * graph.num_nodes + triples[..., TAIL])
        pairs = graph.heads * graph.num_nodes + graph.tails
        return torch.isin(pairs, torch.from_numpy(scored).to(hidden.device))
    positions = torch.from_numpy(edges).to(hidden.device)
    hidden[positions] = True
    if recipe.inverses:
        half = len(hidden) // 2
        hidden[(positions + half) % len(hidden)] = True
    return hidden


def torch_device(name: str) -> torch.device:
    """Return the device meant by ``auto``, ``cpu`` or ``cuda``; raises `UsageError` where there is none."""
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device must be auto, cpu or cuda, not {name!r}")
    found = torch.cuda.is_available()
    if name == "cuda" and not found:
        raise UsageError("--device cuda: PyTorch sees no CUDA device here; use --device cpu or auto")
    return torch.device("cuda" if found and name != "cpu" else "cpu")
