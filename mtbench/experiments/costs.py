"""What a run has cost so far, added up over all the processes that worked on it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mtbench.errors import CorruptedFileError
from mtbench.experiments.models import Progress
from mtbench.files.atomic import storage_errors

COST_FILE = "cost.json"


@dataclass(frozen=True)
class Meter:
    """The cost of a run: that of the processes before, and that of this one since ``started``.

    ``started`` is a reading of `time.perf_counter`. What earlier processes took stands beside the checkpoints
    in ``folder``, where `keep` brings it up to date: a run without checkpoints begins anew, and so does its
    cost. A process that is killed loses what it took since the last `keep`.
    """

    folder: Path
    started: float
    seconds_before: float = 0.0
    peak_before: int | None = None

    def seconds(self) -> float:
        """Return the seconds of wall time so far, all processes together."""
        return round(self.seconds_before + time.perf_counter() - self.started, 3)

    def peak(self) -> int | None:
        """Return the largest resident size of any of the processes in bytes; None where nobody tells."""
        known = [size for size in (self.peak_before, peak_memory()) if size is not None]
        return max(known, default=None)

    def keep(self) -> None:
        """Write the cost down for the process that goes on, if there are checkpoints it can go on from.

        Raises `MtbenchError` for a full or read-only disk.
        """
        if not self.folder.is_dir():
            return
        new = self.folder / f"{COST_FILE}.new"
        with storage_errors(self.folder):
            new.write_text(json.dumps({"seconds": self.seconds(), "peak": self.peak()}) + "\n", encoding="utf-8")
            new.replace(self.folder / COST_FILE)

    def keeping(self, report: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """Return the function with a `keep` after the last batch of every epoch."""

        def reported(progress: Progress) -> None:
            report(progress)
            if progress.batch == progress.batches:
                self.keep()

        return reported


def resumed(folder: Path, started: float) -> Meter:
    """Return the meter that goes on from a folder of checkpoints, or from nothing where there are none.

    Raises `CorruptedFileError` for a cost that somebody edited.
    """
    file = folder / COST_FILE
    if not file.exists():
        return Meter(folder, started)
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        seconds, peak = float(kept["seconds"]), kept["peak"]
        return Meter(folder, started, seconds, None if peak is None else int(peak))
    except (ValueError, KeyError, TypeError) as error:
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
