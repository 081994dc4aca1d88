"""From jobs to outcomes: what is done is left alone, what fails is tried once more, what is learned is learned once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from leaderboard.grid import state
from leaderboard.grid.engines import Attempt, Ending, Engine, Outcome, Watch, record_death
from leaderboard.grid.jobs import Job, trainings
from leaderboard.grid.state import ATTEMPTS, PENDING, Line, Look, State, kept, look, status
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
    at work on is looked at again at the end. Of jobs that learn the same, one trains and the others begin with its
    checkpoints once it is done. ``deadline`` is in seconds since the epoch.
    """
    failures = Counter({each.job.key: 0 if retry_failed else each.failures for each in looks})
    attempts = Counter({each.job.key: each.attempts for each in looks})
    ended = {each.job.key: Ended(each.job, _BECAME.get(each.state, "left"), each.error) for each in looks}
    queue, shared = deque[Attempt](), Shared()
    for each, training in shared.ordered(looks):
        attempt = Attempt(each.job, each.attempts + 1, retry=each.state == "retries")
        queue += shared.begun(attempt, training)
    postponed = set[tuple[str, str, int]]()
    for outcome in engine(queue, deadline, watch):
        job, again = outcome.attempt.job, None
        if outcome.ending in _LOGGED:
            number, begun = outcome.attempt.number, outcome.started
            state.append(directory, Line(*job.key, number, begun, outcome.seconds, outcome.ending, outcome.error))
            attempts[job.key] += 1
        if outcome.ending == "failed":
            failures[job.key] += 1
            if failures[job.key] < ATTEMPTS:
                again = Attempt(job, attempts[job.key] + 1, retry=True)
            elif not job.directory.path.exists():
                # A table should show that the process died, not a gap.
                try:
                    record_death(outcome)
                except MtbenchError as error:
                    outcome = replace(outcome, error=f"{outcome.error}, and has no run: {error}")
        elif outcome.ending == "elsewhere" and job.key not in postponed:
            postponed.add(job.key)
            again = outcome.attempt
        ended[job.key] = _after(outcome, again=again is not None)
        if again is not None:
            queue.append(again)
        elif ended[job.key].state == "elsewhere":
            ended |= {other.key: Ended(other, "elsewhere") for other in shared.waiting_for(job)}
        elif outcome.ending != "stopped":
            queue.extendleft(reversed(shared.after(job, done=ended[job.key].state == "done")))
        watch.finished(outcome)
    return list(ended.values())


class Shared:
    """Which jobs wait for another one that learns the same, and begin with its checkpoints once it is done."""

    def __init__(self) -> None:
        self._teachers: dict[str, Job] = {}
        self._done = set[tuple[str, str, int]]()
        self._waiting: dict[tuple[str, str, int], list[Attempt]] = {}

    def ordered(self, looks: Sequence[Look]) -> list[tuple[Look, str]]:
        """Return the pending jobs, each with what it learns; those that are done, or the first begun, teach others."""
        found = list(zip(looks, trainings([each.job for each in looks]), strict=True))
        done = [one for one in found if one[0].state == "done" and one[0].job.directory.kept_checkpoints]
        self._done = {each.job.key for each, _ in done}
        for each, training in (*done, *(one for one in found if one[0].state == "resumes")):
            self._teachers.setdefault(training, each.job)
        return [(each, training) for each, training in found if each.state in PENDING]

    def begun(self, attempt: Attempt, training: str) -> list[Attempt]:
        """Return the attempt if it can begin, none if it has to wait for another job to train."""
        job = attempt.job
        teacher = self._teachers.setdefault(training, job) if training else job
        if teacher == job or job.directory.partial.checkpoints.exists():
            return [attempt]
        if teacher.key in self._done:
            return [_taught(attempt, teacher)]
        self._waiting.setdefault(teacher.key, []).append(attempt)
        return []

    def waiting_for(self, job: Job) -> list[Job]:
        """Return the jobs that wait for another."""
        return [attempt.job for attempt in self._waiting.get(job.key, ())]

    def after(self, job: Job, *, done: bool) -> list[Attempt]:
        """Return the attempts that can begin after a job has ended: all that waited, or one to train in its place."""
        waiting = self._waiting.pop(job.key, [])
        if done:  # a model that keeps no checkpoints trains for each
            return [_taught(attempt, job) if job.directory.kept_checkpoints else attempt for attempt in waiting]
        first, rest = waiting[:1], waiting[1:]
        if rest:
            self._waiting[first[0].job.key] = rest
        return first


def _taught(attempt: Attempt, teacher: Job) -> Attempt:
    job = attempt.job
    return replace(attempt, job=replace(job, plan=replace(job.plan, start=teacher.directory.path)))


def _after(outcome: Outcome, *, again: bool) -> Ended:
    """Return what became of a job after an attempt, for now where there is to be another."""
    state: Final = "left" if again else _BECAME[outcome.ending]
    if outcome.ending == "found" and (found := kept(outcome.attempt.job)):
        state = _BECAME[status(found)]
    return Ended(outcome.attempt.job, state, outcome.error)
