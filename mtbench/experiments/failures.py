"""Runs that end without a result: which errors are recorded as one, and what to try next."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mtbench.data.catalog import Parameter
from mtbench.errors import CorruptedFileError, UsageError
from mtbench.results.runs import RunInfo, Status

FAILURE_FILE = "failure.txt"

LONGEST = 300
"""Characters of an error's message that a result keeps; `FAILURE_FILE` has all of it."""

_OUT_OF_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
)
"""What PyTorch's allocators and libraries say, in lower case, in a plain RuntimeError."""


@dataclass(frozen=True)
class Failure:
    """Why a run has no ranks: the status of its result, one sentence, and the whole traceback."""

    status: Status
    sentence: str
    trace: str


def of(error: Exception, *, keep: bool) -> Failure | None:
    """Return the failure an error of a model is to be recorded as, or None where it is to be raised.

    Running out of memory, on the processor or another device, is a finding about a model and always
    recorded: a grid of runs goes on and its table says so. Any other error is only recorded with
    ``keep``, and never when the options or the files of the run are to blame, so that another command
    mends it.
    """
    if is_out_of_memory(error):
        status: Status = "oom"
    elif keep and not isinstance(error, UsageError | CorruptedFileError):
        status = "failed"
    else:
        return None
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}..."
    return Failure(status, text, "".join(traceback.format_exception(error)))


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out: Python's and NumPy's `MemoryError`, or what PyTorch raises on any device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(part in str(error).lower() for part in _OUT_OF_MEMORY)


def explain(run: RunInfo, dataset: str, sentence: str, directory: Path) -> str:
    """Return what a person is told about a run that did not finish: what happened, what to try, where it is."""
    if run.status == "oom":
        peak = "" if run.peak_memory_bytes is None else f", peak {run.peak_memory_bytes / 2**30:.2f} GiB"
        what = f"{run.model} ran out of memory on {dataset} (device {run.device}{peak}): {_relief(run.hyperparameters)}"
    else:
        what = f"{run.model} failed on {dataset}: {sentence} ({directory / FAILURE_FILE} has the whole traceback)"
    return f"{what}; {directory} holds the result with the status {run.status}, --force replaces it"


def _relief(settings: Mapping[str, Parameter]) -> str:
    """Return the settings of a model that make it smaller, as they are typed."""
    tries = []
    if settings.get("checkpointing") is False:
        tries.append("--set checkpointing=true")
    batch = settings.get("batch")
    if isinstance(batch, int) and batch > 1:
        tries.append(f"--set batch={batch // 2}")
    return f"try {' or '.join(tries)}" if tries else "try a smaller model, or a machine with more memory"
