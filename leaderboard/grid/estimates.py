"""How long a run will take, from those of the same model that are finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leaderboard.grid.jobs import Job
from mtbench.errors import ResultError
from mtbench.results import runs


@dataclass(frozen=True)
class Estimates:
    """Seconds that finished runs took, per label and dataset's folder, in one grid's directory."""

    seconds: Mapping[tuple[str, str], Sequence[float]]

    def of(self, job: Job) -> float | None:
        """Return the mean over runs of the same model on the same dataset, else on any, else None."""
        same = self.seconds.get((job.label, job.folder), ())
        found = same or [one for (label, _), some in self.seconds.items() if label == job.label for one in some]
        return sum(found) / len(found) if found else None


def estimates(directory: Path) -> Estimates:
    """Return what the finished runs below a grid's directory took."""
    found = defaultdict[tuple[str, str], list[float]](list)
    for path in directory.glob(f"*/*/seed*/{runs.RESULT_FILE}"):
        try:
            payload = runs.read_payload(path)
        except ResultError:
            # Whoever asks for this run is told; an estimate does without it.
            continue
        seconds = payload.get("wall_seconds")
        if payload.get("status") == "ok" and isinstance(seconds, int | float):
            found[path.parts[-4], path.parts[-3]].append(float(seconds))
    return Estimates(found)
