"""Training that diverges: found before the weights are touched, and told by step, epoch and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from mtbench.errors import DivergenceError

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

    ``terms`` are the parts of the objective by name, ``norm`` the length of the whole gradient before it was
    clipped. They are fetched together, so that a device is waited for once, and the terms returned as numbers. What is
    named is the first term that is not finite, or else the first parameter whose gradient is not.
    """
    *values, length = torch.stack([*(term.detach() for term in terms.values()), norm]).tolist()
    found = dict(zip(terms, values, strict=True))
    if all(map(math.isfinite, (*values, length))):
        return found
    step = 1 + max((int(found["step"]) for found in optimizer.state.values()), default=0)
    for name, value in found.items():
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
