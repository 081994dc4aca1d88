"""One attempt at one run: the function every engine calls, in this process or another."""

from __future__ import annotations

import shutil
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from leaderboard.grid import state
from leaderboard.grid.jobs import Job
from mtbench.data.loading import load
from mtbench.errors import AtWorkError, MtbenchError
from mtbench.evaluation.tasks import task
from mtbench.files.atomic import storage_errors
from mtbench.runs.result import MtbenchWarning
from mtbench.runs.runs import RunInfo
from mtbench.training.costs import FAILURE_FILE
from mtbench.training.models import Progress, silent
from mtbench.training.run import CHECKPOINTS, alone, run

Ending: TypeAlias = Literal["ok", "oom", "failed", "stopped", "blocked", "elsewhere", "found"]
"""How an attempt ended: as its result says; ``stopped`` by the budget, ``blocked`` by something other than the model,
left to another process (``elsewhere``), or ``found`` finished by one."""


@dataclass(frozen=True)
class Attempt:
    """A job to be done now: the number of the attempt, and whether it repeats a failed run."""

    job: Job
    number: int = 1
    retry: bool = False


@dataclass(frozen=True)
class Outcome:
    """How an attempt went: when it began (UTC), the seconds it took, how it ended, and the error in one sentence."""

    attempt: Attempt
    started: str
    seconds: float
    ending: Ending
    error: str = ""


class Watch:
    """Whoever wants to know how a grid gets on; this one says nothing."""

    def started(self, attempt: Attempt) -> None:
        """Be told of an attempt that begins."""

    def progressed(self, attempt: Attempt, progress: Progress) -> None:
        """Be told what a model reports of its training; not every engine knows."""

    def finished(self, outcome: Outcome) -> None:
        """Be told how an attempt ended."""


Engine: TypeAlias = Callable[[deque[Attempt], float | None, Watch], Iterator[Outcome]]
"""Does the attempts of a queue, which may grow meanwhile, and gives their outcomes; none begins after the deadline,
in seconds since the epoch."""


class BudgetOverError(BaseException):
    """The time is up. Not an `Exception`: no model may take it for a failure of its own."""


def over(deadline: float | None) -> bool:
    """Tell whether a deadline, in seconds since the epoch, has passed."""
    return deadline is not None and time.time() >= deadline


def do(attempt: Attempt, deadline: float | None, report: Callable[[Progress], None] = silent) -> Outcome:
    """Carry out an attempt and tell how it ended; a model's error is recorded in its run, never raised.

    A run that another process finished meanwhile is left alone, and one that is interrupted at the first report after
    the deadline keeps its checkpoints.
    """
    begun, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()

    def ended(ending: Ending, error: str = "") -> Outcome:
        return Outcome(attempt, begun, round(time.perf_counter() - clock, 3), ending, error)

    def stopping(progress: Progress) -> None:
        if over(deadline):
            raise BudgetOverError
        report(progress)

    try:
        if not _cleared(attempt):
            return ended("found")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MtbenchWarning)
            _, results = run(attempt.job.plan, stopping, keep_failures=True)
    except BudgetOverError:
        return ended("stopped")
    except AtWorkError:
        return ended("elsewhere")
    except MtbenchError as error:
        if _finished(attempt.job):
            return ended("found")
        anew = f" (to begin this run anew, remove {attempt.job.partial})" if attempt.job.partial.exists() else ""
        return ended("blocked", f"{error}{anew}")
    failed = [result for result in results if result.run.status != "ok"]
    return ended(state.status(results), failed[0].warnings[0] if failed else "")


def _finished(job: Job) -> bool:
    """Tell whether another process finished a job after `_cleared` and before `run` held its directory."""
    try:
        return state.kept(job) is not None
    except MtbenchError:
        return False


def _cleared(attempt: Attempt) -> bool:
    """Make way for a run and return True, or return False where there is one already.

    A failed run that is to be repeated becomes an unfinished one, which goes on from its checkpoints. This is done
    alone: of two processes that find it failed, the second finds what the first made of it.
    """
    job = attempt.job
    with alone(job.directory):
        found = state.kept(job)
        if found is None:
            return True
        if not attempt.retry or state.status(found) != "failed":
            return False
        with storage_errors(job.directory):
            if (job.partial / CHECKPOINTS).exists():
                shutil.rmtree(job.directory)
            else:
                shutil.rmtree(job.partial, ignore_errors=True)
                job.directory.rename(job.partial)
    return True


def record_death(outcome: Outcome) -> None:
    """Write the run of a process that died as a failed one; its checkpoints stay where they are.

    A process that is killed cannot record anything itself, and a table should show the failure, not a gap.
    """
    job, plan = outcome.attempt.job, outcome.attempt.job.plan
    data = load(plan.dataset)
    info = RunInfo(
        model=plan.model,
        seed=plan.seed,
        hyperparameters=plan.settings,
        pretraining_graphs=(f"{data.name}/train",),
        device=plan.device,
        wall_seconds=outcome.seconds,
        status="failed",
    )
    new = job.directory.parent / f".{job.directory.name}.dead"
    with alone(job.directory), storage_errors(job.directory):
        if state.kept(job) is not None:
            return
        shutil.rmtree(new, ignore_errors=True)
        for number, pair in enumerate(plan.tasks()):
            unscored = task(data.test, *pair, plan.candidate_seed, dataset_version=data.version).unfinished("failed")
            place = new / "-".join(pair) if number else new
            replace(unscored, warnings=(outcome.error,), run=info).save(place)
        (new / FAILURE_FILE).write_text(f"{outcome.error}\n", encoding="utf-8")
        new.rename(job.directory)
