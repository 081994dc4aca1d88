"""What the adapters share: libraries that must be there, models that must not learn while they score."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from mtbench.data.splits import Split
from mtbench.errors import MissingExtraError, UsageError
from mtbench.names import RELATION, IntArray

if TYPE_CHECKING:
    from torch import Tensor

EXTRA = "adapters"


def expect(what: str, *modules: str) -> None:
    """Raise `MissingExtraError` with the command that installs them unless every module can be imported."""
    # Looked for, not imported: PyTorch takes seconds, and may not be needed after all.
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError(what, EXTRA)


@contextmanager
def scoring(model: object) -> Iterator[None]:
    """Score without gradients and, where ``model`` is a PyTorch module, in evaluation mode; restore its mode after."""
    import torch

    # Part by part: somebody may have frozen some of them, as batch statistics, and train() would wake them all.
    before = [(part, part.training) for part in model.modules()] if isinstance(model, torch.nn.Module) else []
    try:
        if isinstance(model, torch.nn.Module):
            model.eval()
        with torch.no_grad():
            yield
    finally:
        for part, training in before:
            part.training = training


def batches(ids: IntArray, size: int) -> Iterator[Tensor]:
    """Yield rows of ids ``(n, c)`` as int64 tensors ``(b, c)`` on the CPU, ``size`` at a time."""
    import torch

    for start in range(0, len(ids), size):
        yield torch.from_numpy(np.array(ids[start : start + size], dtype=np.int64))


def refuse_empty_slots(triples: IntArray, known: int, split: Split, remedy: str) -> None:
    """Raise `UsageError` for triples of empty slots, whose ids would mean something else to a model, or nothing."""
    beyond = triples[:, RELATION] >= known
    if beyond.any():
        raise UsageError(
            f"{split.dataset} {split.name}: {int(beyond.sum())} of {len(triples)} triples have a relation from an "
            f"empty slot (ids {known} to {split.relation_slots - 1}), which the model does not have: {remedy}"
        )
