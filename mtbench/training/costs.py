"""What a run has cost over all the processes that worked on it, and which errors end one without a result."""

from __future__ import annotations

import ctypes
import gc
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mtbench.data.catalog import Parameter
from mtbench.errors import CorruptedFileError, ResultError, UsageError
from mtbench.files.atomic import replace_file
from mtbench.files.reading import read_json
from mtbench.runs.directory import COST_FILE, FAILURE_FILE
from mtbench.runs.origin import RunInfo, Status, environment
from mtbench.training.models import Progress

OFTEN = 10.0
"""After how many seconds a cost is written down again."""


@dataclass(frozen=True)
class Cost:
    """The cost of a run: that of the processes before, and that of this one since ``started``.

    ``started`` is a reading of `time.perf_counter`. What earlier processes took stands beside the checkpoints
    in ``folder``, where `keep` brings it up to date: a run without checkpoints begins anew, and so does its
    cost. A process that is killed loses what it took since the last `keep`. ``threads`` are the numbers of threads
    that each stage was computed with, in the order of the processes.
    """

    folder: Path
    started: float
    seconds_before: float = 0.0
    peak_before: int | None = None
    threads: dict[str, list[str]] = field(default_factory=dict)

    def seconds(self) -> float:
        """Return the seconds of wall time so far, all processes together."""
        return round(self.seconds_before + time.perf_counter() - self.started, 3)

    def peak(self) -> int | None:
        """Return the largest resident size of any of the processes in bytes; None where nobody tells."""
        known = [size for size in (self.peak_before, peak_memory()) if size is not None]
        return max(known, default=None)

    def environment(self) -> dict[str, str]:
        """Return `mtbench.runs.origin.environment`; ``threads`` are told by stage where they were not the same in all.

        What is not a stage, scoring above all, was computed with those of this process.
        """
        found = environment()
        if (now := found.get("threads")) and any(some != [now] for some in self.threads.values()):
            stages = {**self.threads, "scoring": [now]}
            found["threads"] = "; ".join(f"{stage} {' and '.join(some)}" for stage, some in stages.items())
        return found

    def keep(self) -> None:
        """Write the cost down for the process that goes on, if there are checkpoints it can go on from.

        Raises `MtbenchError` for a full or read-only disk.
        """
        if not self.folder.is_dir():
            return
        kept = json.dumps({"seconds": self.seconds(), "peak": self.peak(), "threads": self.threads})
        replace_file(self.folder / COST_FILE, f"{kept}\n".encode())

    def keeping(self, report: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Return the function with threads of training written down, and a `keep` around every epoch and as `OFTEN`.

        Before an epoch's first batch the checkpoint of the one before has just been written; a run's first checkpoint
        makes the place for the cost.
        """
        own, kept = environment().get("threads"), self.started

        def reported(progress: Progress) -> None:
            nonlocal kept
            report(progress)
            if own and progress.loss is not None and own not in (known := self.threads.setdefault(progress.stage, [])):
                known.append(own)
            if progress.batch in (0, progress.batches) or time.perf_counter() > kept + OFTEN:
                self.keep()
                kept = time.perf_counter()

        return reported


def resumed(folder: Path, started: float) -> Cost:
    """Return the cost that goes on from a folder of checkpoints, or from nothing where there are none.

    Raises `CorruptedFileError` for a cost that somebody edited.
    """
    file = folder / COST_FILE
    if not file.exists():
        return Cost(folder, started)
    try:
        kept = read_json(file)
        seconds, peak = float(kept["seconds"]), kept["peak"]
        threads = {stage: [str(int(one)) for one in some] for stage, some in kept.get("threads", {}).items()}
        return Cost(folder, started, seconds, None if peak is None else int(peak), threads)
    except (ResultError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptedFileError(
            f"{file}: not the cost of a run ({error!r}); begin the run anew with --restart"
        ) from error


def peak_memory() -> int | None:
    """Return the largest resident size this process ever had, in bytes; None where the platform does not tell."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def fresh() -> None:
    """Return freed memory to the system and begin a new peak, of the process and of every CUDA device in use.

    `mtbench.training.run` records the largest size its process ever had: after a large model a small one would
    look as large. Only Linux lets a process begin again; elsewhere the peak of a run is the largest so far, unless
    every run has a process of its own, as on Ray.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
        for device in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(device)
    if platform.libc_ver()[0] == "glibc":
        # The allocator's settings of the command line keep all freed memory for the next tensors.
        ctypes.CDLL(None).malloc_trim(0)
    # A container may forbid it.
    with suppress(OSError):
        peak = Path("/proc/self/clear_refs")
        if peak.exists():
            peak.write_text("5", encoding="ascii")


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


def attempt(work: Callable[[], None], *, keep: bool) -> Failure | None:
    """Let a model work; return the failure it ends in if that is to be recorded, and raise any other error.

    Running out of memory, on the processor or another device, is a finding about a model and always
    recorded: a grid of runs goes on and its table says so. Any other error is only recorded with
    ``keep``, and never when the options or the files of the run are to blame, so that another command
    mends it.
    """
    try:
        work()
        return None
    except Exception as error:
        oom = is_out_of_memory(error)
        if not oom and (not keep or isinstance(error, UsageError | CorruptedFileError)):
            raise
        text = " ".join(f"{type(error).__name__}: {error}".split())
        sentence = f"{text[:LONGEST]}..." if len(text) > LONGEST else text
        failure = Failure("oom" if oom else "failed", sentence, "".join(traceback.format_exception(error)))
    # The frames of the error held the model's tensors: what is written next must not want for memory.
    gc.collect()
    return failure


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
