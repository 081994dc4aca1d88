"""Mini-batch training with the dual-sampling loss: one loop for training and for test-time adaptation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from mtbench.errors import UsageError
from mtbench.models import Progress
from mtbench.names import IntArray
from reference_models.batches import Batch, Stage, prepare, task_loss
from reference_models.divergence import expect_finite
from reference_models.losses import concentration_penalty, one_hot_penalty
from reference_models.negatives import Negatives
from reference_models.network import TripleNetwork
from reference_models.recipe import Recipe


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

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Give all parameters by name, the task logits last."""
        yield from self.network.named_parameters()
        if self.attention is not None:
            yield "the task logits", self.attention

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
        for done, numbers in enumerate(batches):
            report(Progress(stage.name, epoch, epochs, done, len(batches), total / max(seen, 1), valid_mrr))
            total += step(state, prepare(stage, recipe, numbers, negatives, rng), recipe, epoch) * len(numbers)
            seen += len(numbers)
        record: dict[str, float] = {"epoch": epoch, "loss": total / seen}
        if recipe.reassign and state.attention is not None:
            numbers = rng.permutation(len(stage.positives))[: 2 * recipe.batch]
            batch = prepare(stage, recipe, numbers, negatives, rng)
            record["moves"] = reassign(state.network, state.attention, batch, recipe)
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


def step(state: State, batch: Batch, recipe: Recipe, epoch: int) -> float:
    """Take one optimiser step on a batch and return its task loss.

    Raises `DivergenceError`, the weights being what they were, for a loss or gradient that is not finite.
    """
    loss = task_loss(state.network, state.attention, batch, recipe)
    terms = {"task loss": loss}
    if state.attention is not None:
        scale = recipe.penalty_scale(epoch)
        terms["one_hot penalty"] = scale * recipe.one_hot * one_hot_penalty(state.attention)
        terms["concentration penalty"] = scale * recipe.concentration * concentration_penalty(state.attention)
    state.optimizer.zero_grad()
    sum(terms.values(), torch.zeros_like(loss)).backward()  # type: ignore[no-untyped-call]
    parameters = [parameter for group in state.optimizer.param_groups for parameter in group["params"]]
    norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    expect_finite(terms, norm, state.parameters(), state.optimizer, epoch, recipe.learning_rate)
    nn.utils.clip_grads_with_norm_(parameters, recipe.clip, norm)
    state.optimizer.step()
    return float(loss.detach())


def reassign(network: TripleNetwork, logits: nn.Parameter, batch: Batch, recipe: Recipe) -> int:
    """Move relations to other tasks wherever that lowers the loss of a batch; return how many moved.

    The task a relation belongs to, argmax_k w[r, k], is a hard choice that no gradient changes
    (`docs/models.md`, Assignment), and an optimiser step rarely turns it: without this search a run keeps the
    assignment it drew. Each relation in turn is tried in every other task by swapping two of its logits.
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


def torch_device(name: str) -> torch.device:
    """Return the device meant by ``auto``, ``cpu`` or ``cuda``; raises `UsageError` where there is none."""
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"--device must be auto, cpu or cuda, not {name!r}")
    found = torch.cuda.is_available()
    if name == "cuda" and not found:
        raise UsageError("--device cuda: PyTorch sees no CUDA device here; use --device cpu or auto")
    return torch.device("cuda" if found and name != "cpu" else "cpu")
