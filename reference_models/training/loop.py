"""The training loop of all models: epochs, validation, early stopping, divergence, and the state for a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from mtbench.errors import DivergenceError
from mtbench.training.models import Progress

Network = TypeVar("Network", bound=nn.Module)
Item = TypeVar("Item", bound=Sized)

Tell: TypeAlias = Callable[[int, int, float], None]
"""Called before every batch with how many batches are done, how many there are, and the mean loss so far."""

Work: TypeAlias = Callable[[int, np.random.Generator, Tell], dict[str, float]]
"""Trains for one epoch, counted from 1, with draws from a generator; returns a record of it with its ``loss``."""

Validation: TypeAlias = Callable[[], tuple[float, float]]
"""Returns what an epoch is chosen by, the larger the better, and the validation MRR, which is recorded."""


@dataclass(eq=False)
class State(Generic[Network]):
    """All that changes in training: what a checkpoint holds."""

    network: Network
    attention: nn.Parameter | None
    optimizer: torch.optim.Adam
    epoch: int = 0
    best_epoch: int = 0
    best_value: float = -1.0  # below any criterion
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of all weights and running statistics by name."""
        copies = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        if self.attention is not None:
            copies["attention"] = self.attention.detach().clone()
        return copies

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Set all weights from what `weights` returned."""
        self.network.load_state_dict({name: value for name, value in weights.items() if name != "attention"})
        if self.attention is not None:
            with torch.no_grad():
                self.attention.copy_(weights["attention"])

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Give all parameters by name, the task logits last."""
        yield from self.network.named_parameters()
        if self.attention is not None:
            yield "the task logits", self.attention

    def descend(self, terms: Mapping[str, Tensor], clip: float | None) -> dict[str, float]:
        """Take an optimiser step down the sum of named terms, with the gradient clipped to the norm ``clip``, if any.

        Returns the terms as numbers. Raises `DivergenceError`, without a step, for a term or gradient that is not
        finite.
        """
        self.optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()  # type: ignore[no-untyped-call]
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        norm = nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
        rate = self.optimizer.param_groups[0]["lr"]
        values = expect_finite(terms, norm, self.parameters(), self.optimizer, self.epoch + 1, rate)
        if clip is not None:
            nn.utils.clip_grads_with_norm_(parameters, clip, norm)
        self.optimizer.step()
        return values


def train(
    state: State[Network],
    work: Work,
    *,
    stage: str,
    seed: int,
    epochs: int,
    patience: int,
    validate: Validation | None,
    report: Callable[[Progress], None],
    save: Callable[[State[Network]], None] | None,
    from_start: bool = False,
) -> None:
    """Train for ``epochs`` or, with a validation function, until ``patience`` epochs brought nothing better.

    Continues after ``state.epoch``: random draws depend on the seed, the stage and the epoch alone, so that a resumed
    run equals an uninterrupted one. ``save`` is called after every epoch. The final weights are those of the best epoch
    with ``validate``, the untrained ones among them with ``from_start``, else those of the last.
    """
    if validate is not None and from_start and not state.epoch:
        state.best_value, state.best = validate()[0], state.weights()
    valid_mrr = state.history[-1].get("valid_mrr") if state.history else None
    while state.epoch < epochs and (validate is None or state.epoch - state.best_epoch < patience):
        epoch = state.epoch + 1
        last = Progress(stage, epoch, epochs, 0, 1, 0.0, valid_mrr)

        def tell(batch: int, batches: int, loss: float, before: Progress = last) -> None:
            nonlocal last
            last = replace(before, batch=batch, batches=batches, loss=loss)
            report(last)

        record = work(epoch, np.random.default_rng([seed, *stage.encode(), epoch]), tell)
        if validate is not None:
            value, valid_mrr = validate()
            record["valid_mrr"] = valid_mrr
            if value > state.best_value:
                state.best_value, state.best_epoch, state.best = value, epoch, state.weights()
        state.epoch = epoch
        state.history.append(record)
        report(replace(last, batch=last.batches, loss=record["loss"], valid_mrr=valid_mrr))
        if save is not None:
            save(state)
    if validate is not None:
        state.restore(state.best)


def mean_loss(batches: Iterable[Item], step: Callable[[Item], float], tell: Tell) -> float:
    """Take a step on every batch and return the mean loss per item."""
    total, seen, items = 0.0, 0, list(batches)
    for done, item in enumerate(items):
        tell(done, len(items), total / max(seen, 1))
        total += step(item) * len(item)
        seen += len(item)
    return total / seen


Named = tuple[str, nn.Parameter]


def expect_finite(
    terms: Mapping[str, Tensor],
    norm: Tensor,
    parameters: Iterable[Named],
    optimizer: torch.optim.Adam,
    epoch: int,
    learning_rate: float,
) -> dict[str, float]:
    """Raise `DivergenceError` for an objective or a gradient that is not finite; call it before the step.

    ``terms`` are the parts of the objective by name, ``norm`` the length of the gradient before it is clipped. Returns
    the terms as numbers. The error names the first term that is not finite, else the first parameter whose gradient is
    not.
    """
    # One transfer for all of them: each one waits for the device.
    *values, length = torch.stack([*(term.detach() for term in terms.values()), norm]).tolist()
    numbers = dict(zip(terms, values, strict=True))
    if all(map(math.isfinite, (*values, length))):
        return numbers
    step = 1 + max((int(moments["step"]) for moments in optimizer.state.values()), default=0)
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise _diverged(f"in step {step}, epoch {epoch}, the {name} is {value}", learning_rate)
    for name, parameter in parameters:
        if parameter.grad is not None and not bool(torch.isfinite(parameter.grad).all()):
            raise _diverged(f"in step {step}, epoch {epoch}, the gradient of {name} is not finite", learning_rate)
    raise _diverged(f"in step {step}, epoch {epoch}, the gradient is too long for its type", learning_rate)


def expect_finite_scores(scores: Tensor, task: str, learning_rate: float) -> None:
    """Raise `DivergenceError` for validation scores that are not finite."""
    if not bool(torch.isfinite(scores).all()):
        raise _diverged(f"on {task} the network's scores are not finite", learning_rate)


def _diverged(what: str, learning_rate: float) -> DivergenceError:
    return DivergenceError(
        f"training diverged: {what}; try a smaller learning rate: --set learning_rate={learning_rate / 10:g}"
    )
