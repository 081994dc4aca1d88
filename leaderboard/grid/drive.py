"""From jobs to outcomes: what is done is left alone, what fails is tried once more, every attempt is logged."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from leaderboard.grid import state
from leaderboard.grid.jobs import Job
from leaderboard.grid.state import ATTEMPTS, PENDING, Line, Look, State, kept, look, status
from leaderboard.grid.work import Attempt, Ending, Engine, Outcome, Watch, record_death
from mtbench.errors import MtbenchError

Final: TypeAlias = Literal["done", "oom", "failed", "blocked", "elsewhere", "left"]
"""What became of a job: ``left`` has not been begun, or was stopped by the budget."""

_LOGGED = ("ok", "oom", "failed", "stopped", "blocked")
_BECAME: Mapping[State | Ending, Final] = {
    "done": "done",
    "ok": "done",
    "oom": "oom",
    "failed": "failed",
    "stopped": "left",
    "blocked": "blocked",
    "elsewhere": "elsewhere",
    "found": "elsewhere",
}


@dataclass(frozen=True)
class Ended:
    """A job, what became of it, and for one that is not done the error in one sentence."""

    job: Job
    state: Final
    error: str = ""


def survey(jobs: Sequence[Job], directory: Path, *, retry_failed: bool = False) -> list[Look]:
    """Return what there is of every job; raises what `look` raises for the first one that does not fit."""
    lines: dict[tuple[str, str, int], list[Line]] = {job.key: [] for job in jobs}
    for line in state.read(directory):
        if line.key in lines:
            lines[line.key].append(line)
    return [look(job, lines[job.key], retry_failed=retry_failed) for job in jobs]


def drive(
    looks: Sequence[Look],
    directory: Path,
    engine: Engine,
    watch: Watch,
    *,
    retry_failed: bool = False,
    deadline: float | None = None,
) -> list[Ended]:
    """Do every pending job of a survey and return what became of each, in the same order.

    A run that fails, or whose process dies, is tried again once, after all others; one that another process is
    at work on is looked at again at the end. ``deadline`` is in seconds since the epoch.
    """
    failures = Counter({each.job.key: 0 if retry_failed else each.failures for each in looks})
    attempts = Counter({each.job.key: each.attempts for each in looks})
    ended = {each.job.key: Ended(each.job, _BECAME.get(each.state, "left"), each.error) for each in looks}
    queue = deque(
        Attempt(each.job, each.attempts + 1, retry=each.state == "retries") for each in looks if each.state in PENDING
    )
    postponed = set[tuple[str, str, int]]()
    for outcome in engine(queue, deadline, watch):
        job, again = outcome.attempt.job, None
        if outcome.ending in _LOGGED:
            state.append(directory, _line(outcome))
            attempts[job.key] += 1
        if outcome.ending == "failed":
            failures[job.key] += 1
            if failures[job.key] < ATTEMPTS:
                again = Attempt(job, attempts[job.key] + 1, retry=True)
            elif not job.directory.exists():
                outcome = replace(outcome, error=_recorded(outcome))
        elif outcome.ending == "elsewhere" and job.key not in postponed:
            postponed.add(job.key)
            again = outcome.attempt
        if again is not None:
            queue.append(again)
        ended[job.key] = _after(outcome, again=again is not None)
        watch.finished(outcome)
    return list(ended.values())


def _after(outcome: Outcome, *, again: bool) -> Ended:
    """Return what became of a job after an attempt, for now where there is to be another."""
    state: Final = "left" if again else _BECAME[outcome.ending]
    if outcome.ending == "found" and (found := kept(outcome.attempt.job)):
        state = _BECAME[status(found)]
    return Ended(outcome.attempt.job, state, outcome.error)


def _recorded(outcome: Outcome) -> str:
    """Record the death of a process as a failed run, and return its error, with what kept it from being recorded."""
    try:
        record_death(outcome)
    except MtbenchError as error:
        return f"{outcome.error}, and has no run: {error}"
    return outcome.error


def _line(outcome: Outcome) -> Line:
    job, number = outcome.attempt.job, outcome.attempt.number
    line = Line(*job.key, number, outcome.started, outcome.seconds, outcome.ending, outcome.error)
    return replace(line, model=job.plan.model, settings=dict(job.plan.settings))
