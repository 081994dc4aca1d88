"""From jobs to outcomes: finished jobs are kept, failed ones tried once more, and equal trainings are done once."""

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
    """A job, what became of it, and if it is not done the error in one sentence."""

    job: Job
    state: Final
    error: str = ""


def survey(jobs: Sequence[Job], directory: Path, *, retry_failed: bool = False) -> list[Look]:
    """Return the state of every job; raises the errors of `look` for the first one that does not fit."""
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

    A run that fails, or whose process dies, is tried once more after all others; one that another process is working
    on is looked at again at the end. Of jobs that learn the same, one trains, and the others begin with its checkpoints
    when it is done. ``deadline`` is in seconds since the epoch.
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
                # A run of a dead process is recorded as failed, so that tables show it.
                try:
                    record_death(outcome)
                except MtbenchError as error:
                    outcome = replace(outcome, error=f"{outcome.error}, and has no run: {error}")
        # Once more at the end: the other process may then be done.
        elif outcome.ending == "elsewhere" and job.key not in postponed:
            postponed.add(job.key)
            again = outcome.attempt
        ended[job.key] = _after(outcome, again=again is not None)
        if again is not None:
            queue.append(again)
        elif ended[job.key].state == "elsewhere":
            ended |= {waiting.key: Ended(waiting, "elsewhere") for waiting in shared.waiting_for(job)}
        elif outcome.ending != "stopped":
            queue.extendleft(reversed(shared.after(job, done=ended[job.key].state == "done")))
        watch.finished(outcome)
    return list(ended.values())


class Shared:
    """Jobs that wait for another one that learns the same, to begin with its checkpoints."""

    def __init__(self) -> None:
        self._teachers: dict[str, Job] = {}
        self._done = set[tuple[str, str, int]]()
        self._waiting: dict[tuple[str, str, int], list[Attempt]] = {}

    def ordered(self, looks: Sequence[Look]) -> list[tuple[Look, str]]:
        """Return the pending jobs, each with what it learns; finished jobs, else those begun, teach the others."""
        learned = list(zip(looks, trainings([each.job for each in looks]), strict=True))
        done = [(each.job, training) for each, training in learned if each.state == "done"]
        done = [(job, training) for job, training in done if job.directory.kept_checkpoints]
        self._done = {job.key for job, _ in done}
        for job, training in (*done, *((each.job, training) for each, training in learned if each.state == "resumes")):
            self._teachers.setdefault(training, job)
        # What is completed goes on from its own run, and begins with no other's checkpoints.
        return [
            (each, "" if each.state == "completes" else training) for each, training in learned if each.state in PENDING
        ]

    def begun(self, attempt: Attempt, training: str) -> list[Attempt]:
        """Return the attempt if it can begin, nothing if it has to wait for another job to train."""
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
        """Return the attempts that can begin when a job has ended: all that waited, or one that trains in its place."""
        waiting = self._waiting.pop(job.key, [])
        if done:  # without checkpoints to begin with, each job trains by itself
            return [_taught(attempt, job) if job.directory.kept_checkpoints else attempt for attempt in waiting]
        first, rest = waiting[:1], waiting[1:]
        if rest:
            self._waiting[first[0].job.key] = rest
        return first


def _taught(attempt: Attempt, teacher: Job) -> Attempt:
    job = attempt.job
    return replace(attempt, job=replace(job, plan=replace(job.plan, start=teacher.directory.path)))


def _after(outcome: Outcome, *, again: bool) -> Ended:
    """Return what became of a job after an attempt; it is ``left`` for now if there is another one."""
    state: Final = "left" if again else _BECAME[outcome.ending]
    if outcome.ending == "found" and (found := kept(outcome.attempt.job)):
        state = _BECAME[status(found)]
    return Ended(outcome.attempt.job, state, outcome.error)
