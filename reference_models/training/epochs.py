"""Mini-batch training with the dual-sampling loss: one epoch of training or of test-time adaptation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from mtbench.names import IntArray
from reference_models.equivariant.network import TripleNetwork
from reference_models.training.batches import Batch, Stage, prepare, task_loss
from reference_models.training.loop import State, Tell, Work, mean_loss
from reference_models.training.negatives import Negatives, concentration_penalty, one_hot_penalty
from reference_models.training.recipe import Recipe


def epoch_of(state: State[TripleNetwork], stage: Stage, recipe: Recipe) -> Work:
    """Return the work of one epoch: a step on every batch of the stage's positives, then `reassign` if asked for."""
    negatives = Negatives(stage.graph)

    def work(epoch: int, rng: np.random.Generator, tell: Tell) -> dict[str, float]:
        state.network.train(not stage.frozen)

        def one(numbers: IntArray) -> float:
            return step(state, prepare(stage, recipe, numbers, negatives, rng), recipe, epoch)

        record: dict[str, float] = {"epoch": epoch}
        record["loss"] = mean_loss(batches_of(len(stage.positives), recipe.batch, rng), one, tell)
        if recipe.reassign and state.attention is not None:
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
