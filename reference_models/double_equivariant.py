"""Double-equivariant networks as models that ``mtbench run`` trains, adapts and scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from mtbench import metrics
from mtbench.catalog import Parameter
from mtbench.errors import DatasetError, MtbenchError
from mtbench.evaluate import Task, task
from mtbench.models import Context
from mtbench.names import HEAD, TAIL, BoolArray, IntArray
from mtbench.runs import Regime
from mtbench.splits import Split
from reference_models.batches import Stage, graph_stage, pair_features
from reference_models.checkpoint import Checkpoints
from reference_models.graph import TypedGraph, doubled, typed_graph
from reference_models.layers.soft import Input
from reference_models.network import Architecture, TripleNetwork, attention_logits
from reference_models.recipe import Recipe
from reference_models.training import State, fit, torch_device

SCORING_BATCH = 16_384


class DoubleEquivariantModel:
    """A double-equivariant network with its recipe: fitted on one graph, applied to another.

    Everything random follows from ``context.seed``: on the CPU the same seed gives the same metrics, and
    a run continued from a checkpoint equals an uninterrupted one. Raises `UsageError` for a device that
    is not there.
    """

    regime: Regime

    def __init__(
        self, name: str, context: Context, recipe: Recipe, make: Callable[[Architecture], TripleNetwork]
    ) -> None:
        self.name = name
        self.context = context
        self.recipe = recipe
        self.hyperparameters: Mapping[str, Parameter] = recipe.as_parameters()
        self._device = torch_device(context.device)
        self.device = torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else "cpu"
        with _seeded(context.seed, "network"):
            self.network = make(recipe.architecture())
        self.network.to(self._device)
        adapts = self.network.uses_attention and recipe.adaptation_epochs > 0
        self.regime = "test-time-adaptation" if adapts else "zero-shot"

    def fit(self, train: Split, valid: Split) -> None:
        """Train to early stopping on the validation dual MRR; continues from a checkpoint if there is one.

        Raises `DatasetError` if ``valid`` has too few targets for the recipe.
        """
        recipe = self.recipe
        graph = typed_graph(train, inverses=recipe.inverses, device=self._device)
        if recipe.positives == "targets":
            held_out = hold_out(valid, recipe.holdout, self.context.seed)
            positives = doubled(
                valid.targets[~held_out], valid.relation_slots, inverses=recipe.inverses, device=self._device
            )
            stage = Stage("train", graph, torch.stack(positives, dim=1).cpu().numpy(), masked=False)
        else:
            held_out = np.ones(len(valid.targets), dtype=bool)
            stage = graph_stage("train", graph)
        attention = self._attention(graph, "train")
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        state = self._state(attention, trained if attention is None else [*trained, attention])
        validate = _validation(task(valid, "dual", "slots"), held_out, graph, state, recipe)
        self._run(stage, state, valid, recipe.epochs, validate)

    def scorer(self, observable: Split) -> Callable[[IntArray], Tensor]:
        """Return a function that scores triples of ``observable``, after adapting to its observable triples.

        Adaptation freezes every weight, batch statistics included, draws fresh task logits for this
        graph's relations and trains those alone with the loss and mask of training, for a fixed
        number of epochs: a test graph has no validation set (`docs/models.md`, Adaptation).
        """
        graph = typed_graph(observable, inverses=self.recipe.inverses, device=self._device)
        attention = self._attention(graph, "adapt")
        if attention is not None and self.recipe.adaptation_epochs:
            stage = graph_stage("adapt", graph, frozen=True)
            self.network.requires_grad_(False)
            state = self._state(attention, [attention])
            self._run(stage, state, observable, self.recipe.adaptation_epochs, None)
        features = representations(self.network, graph, attention)
        return lambda triples: score(self.network, features, triples, pair_features(graph, triples, self.recipe.hops))

    def _attention(self, graph: TypedGraph, stage: str) -> nn.Parameter | None:
        if not self.network.uses_attention:
            return None
        with _seeded(self.context.seed, stage):
            return attention_logits(graph.num_slots, self.recipe.tasks, self._device)

    def _state(self, attention: nn.Parameter | None, trained: list[nn.Parameter]) -> State:
        rate, decay = self.recipe.learning_rate, self.recipe.weight_decay
        free = [parameter for parameter in trained if parameter is attention and not self.recipe.decay_attention]
        rest = [parameter for parameter in trained if not (free and parameter is attention)]
        decays = [(rest, decay), (free, 0.0)]
        groups = [{"params": some, "weight_decay": weight} for some, weight in decays if some]
        return State(self.network, attention, torch.optim.Adam(groups, lr=rate))

    def _run(self, stage: Stage, state: State, split: Split, epochs: int, validate: Callable[[], float] | None) -> None:
        identity = {
            "model": self.name,
            "seed": self.context.seed,
            "content_sha256": split.content_sha256,
            **self.hyperparameters,
        }
        checkpoints = Checkpoints(self.context.workdir, identity) if self.context.workdir else None
        if checkpoints:
            checkpoints.restore(stage.name, state)
        fit(
            state,
            stage,
            self.recipe,
            seed=self.context.seed,
            epochs=epochs,
            validate=validate,
            report=self.context.report,
            save=partial(checkpoints.save, stage.name) if checkpoints else None,
        )


def hold_out(valid: Split, share: float, seed: int) -> BoolArray:
    """Return which targets are kept for early stopping, bool ``(m,)``: those of a share of the components.

    Whole connected components of the graph (on MetaFam: family trees) are held out, so that a validation
    target never shares a neighbourhood with a training positive. Raises `DatasetError` if either
    side would be empty.
    """
    nodes = valid.num_entities
    links = (np.ones(len(valid.graph), dtype=np.int8), (valid.graph[:, HEAD], valid.graph[:, TAIL]))
    _, component = connected_components(sparse.coo_array(links, shape=(nodes, nodes)), directed=False)
    of_target = component[valid.targets[:, HEAD]]
    components = np.random.default_rng([seed, *b"hold out"]).permutation(np.unique(of_target))
    held_out = np.isin(of_target, components[: round(share * len(components))])
    if not held_out.any() or held_out.all():
        raise DatasetError(
            f"{valid.dataset} {valid.name}: {len(valid.targets)} targets in {len(components)} components cannot be "
            f"split into training positives and a share of {share} for early stopping; try --set positives=graph"
        )
    return held_out


def representations(network: TripleNetwork, graph: TypedGraph, attention: Tensor | None) -> Input:
    """Return those of all nodes and slots, ``(N, R, d)``, without gradients, given the task logits ``(R, K)``."""
    network.eval()
    with torch.no_grad():
        return network.represent(graph, None if attention is None else torch.softmax(attention, dim=1))


def score(network: TripleNetwork, features: Input, triples: IntArray, distances: Tensor | None) -> Tensor:
    """Return the logits ``(m,)`` of triples ``(m, 3)`` on the CPU, without gradients, in bounded batches."""
    found = []
    with torch.no_grad():
        for start in range(0, len(triples), SCORING_BATCH):
            rows = slice(start, start + SCORING_BATCH)
            batch = torch.from_numpy(triples[rows]).to(features.values.device)
            found.append(network.score(features, batch, None if distances is None else distances[rows]).cpu())
    return torch.cat(found)


def _validation(
    task: Task, held_out: BoolArray, graph: TypedGraph, state: State, recipe: Recipe
) -> Callable[[], float]:
    """Return the early-stopping criterion: the expected dual MRR over the held-out targets."""
    triples = task.triples
    distances = pair_features(graph, triples, recipe.hops)

    def mrr() -> float:
        scores = score(state.network, representations(state.network, graph, state.attention), triples, distances)
        if not torch.isfinite(scores).all():
            raise MtbenchError(
                f"{task.name}: training diverged, the network's scores are not finite; "
                f"try a smaller learning rate: --set learning_rate={recipe.learning_rate / 10:g}"
            )
        ranks = task.rank(scores.numpy())
        return metrics.expected(ranks.greater[held_out], ranks.equal[held_out])["mrr"]

    return mrr


@contextmanager
def _seeded(seed: int, purpose: str) -> Iterator[None]:
    """Seed PyTorch's CPU generator inside the block and leave the caller's generators as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0]))
        yield
