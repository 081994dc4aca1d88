"""One attempt at one run, and the engines that make attempts: in turn in this process, or on Ray, a task each."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from leaderboard.grid import state
from leaderboard.grid.jobs import Job
from mtbench.data.loading import load
from mtbench.errors import AtWorkError, MissingExtraError, MtbenchError, UsageError
from mtbench.evaluation.tasks import Task
from mtbench.runs.origin import RunInfo
from mtbench.runs.result import MtbenchWarning
from mtbench.training import costs, learned
from mtbench.training.costs import LONGEST
from mtbench.training.models import Progress, silent

if TYPE_CHECKING:
    import ray

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
        """Be told how far a run has got; not every engine knows."""

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
            directory, results = attempt.job.run(stopping)
            learned.draw(directory, f"{results[0].run.model} on {results[0].dataset}")
    except BudgetOverError:
        return ended("stopped")
    except AtWorkError:
        return ended("elsewhere")
    except MtbenchError as error:
        # Another process may have finished it after `_cleared` and before `run` held its directory.
        with suppress(MtbenchError):
            if (found := state.kept(attempt.job)) is not None and not state.lacks(attempt.job, found):
                return ended("found")
        partial = attempt.job.directory.partial.path
        anew = f" (to begin this run anew, remove {partial})" if partial.exists() else ""
        return ended("blocked", f"{error}{anew}")
    failed = [result for result in results if result.run.status != "ok"]
    return ended(state.status(results), failed[0].warnings[0] if failed else "")


def _cleared(attempt: Attempt) -> bool:
    """Make way for a run and return True, or return False where there is one already.

    A failed run that is to be repeated becomes an unfinished one, which goes on from its checkpoints. This is done
    alone: of two processes that find it failed, the second finds what the first made of it.
    """
    job = attempt.job
    with job.directory.alone():
        found = state.kept(job)
        if found is None or state.lacks(job, found):
            return True
        if not attempt.retry or state.status(found) != "failed":
            return False
        job.directory.reopen()
    return True


def record_death(outcome: Outcome) -> None:
    """Write the run of a process that died as a failed one; its checkpoints stay where they are.

    A process that is killed cannot record anything itself, and a table should show the failure, not a gap.
    """
    job, plan = outcome.attempt.job, outcome.attempt.job.plan
    data = load(job.test.source)
    info = RunInfo(
        model=plan.model,
        seed=plan.seed,
        hyperparameters=plan.settings,
        pretraining_graphs=(f"{job.train.name}/train",),
        device=plan.device,
        wall_seconds=outcome.seconds,
        status="failed",
    )
    with job.directory.alone():
        if state.kept(job) is not None:
            return
        unscored = [
            Task.of(data.test, setting, plan.candidate_seed, data.version).unfinished("failed")
            for setting in plan.tasks
        ]
        results = [replace(one, warnings=(outcome.error,), run=info) for one in unscored]
        job.directory.keep(results, failure=outcome.error)


def in_this_process(queue: deque[Attempt], deadline: float | None, watch: Watch) -> Iterator[Outcome]:
    """Do the attempts of a queue in turn; an `Engine`."""
    while queue and not over(deadline):
        attempt = queue.popleft()
        watch.started(attempt)
        costs.fresh()
        yield do(attempt, deadline, partial(watch.progressed, attempt))


STORE_BYTES = 100 * 2**20
"""Memory Ray shares between processes: tasks hand over paths and sentences, what a run makes goes into files."""

POLL_SECONDS = 1.0
PASSED_ON = ("MTBENCH_", "MALLOC_", "OMP_NUM_THREADS")
"""Beginnings of the environment variables a run sees as if it were in this process."""


@dataclass(frozen=True)
class Share:
    """What of a machine one run has to itself."""

    cpus: float
    gpus: float


def on_ray(cpus: float = 1, gpus: float | None = None) -> Engine:
    """Return the engine that gives every run ``cpus`` and ``gpus`` of a Ray cluster.

    Without ``RAY_ADDRESS`` in the environment Ray is started on this machine and stopped at the end. ``gpus`` is
    None for one if the cluster has any. A run whose process dies is told as failed, and Ray never repeats one
    on its own account. All machines must see the folder of the runs under the same name. Raises `MissingExtraError`
    where Ray is not installed; the engine raises `UsageError` if no machine has room for a run, and `MtbenchError`
    for a cluster that does not answer.
    """
    if find_spec("ray") is None:
        raise MissingExtraError("--engine ray (ray is not installed)", "cluster")

    def engine(queue: deque[Attempt], deadline: float | None, watch: Watch) -> Iterator[Outcome]:
        with _connected():
            yield from _work(_share(cpus, gpus), queue, deadline, watch)

    return engine


def _work(share: Share, queue: deque[Attempt], deadline: float | None, watch: Watch) -> Iterator[Outcome]:
    """Keep as many tasks going as there is room for, so that those waiting can be left when the time is up."""
    import ray

    passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    # A process per run: its peak of memory is its own, and so is its end. Only the grid repeats a run.
    options = {"max_calls": 1, "max_retries": 0, "runtime_env": {"env_vars": passed_on}}
    task = ray.remote(num_cpus=share.cpus, num_gpus=share.gpus, **options)(_do_there)
    running: dict[ray.ObjectRef, tuple[Attempt, float]] = {}
    try:
        while True:
            while queue and not over(deadline) and len(running) < max(_room(share), 1):
                attempt = queue.popleft()
                running[task.remote(attempt, deadline, sys.path)] = (attempt, time.time())
                watch.started(attempt)
            if not running:
                return
            ready, _ = ray.wait(list(running), timeout=POLL_SECONDS)
            for reference in ready:
                yield _outcome(reference, *running.pop(reference))
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _do_there(attempt: Attempt, deadline: float | None, paths: Sequence[str]) -> Outcome:
    """Carry out an attempt in a worker, where a model beside whoever started the grid can be imported, too."""
    sys.path.extend(path for path in paths if path not in sys.path)
    return do(attempt, deadline)


def _outcome(reference: ray.ObjectRef, attempt: Attempt, begun: float) -> Outcome:
    """Return what a task returned, or a failure if its process died."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        outcome: Outcome = ray.get(reference)
    except RayTaskError as error:
        cause = _sentence(error.cause if isinstance(error.cause, BaseException) else error)
        raise MtbenchError(
            f"{attempt.job} could not begin on Ray ({cause}): every machine needs the same mtbench-kg, and the "
            "libraries of the models"
        ) from error
    except RayError as error:
        started = datetime.fromtimestamp(begun, UTC).isoformat(timespec="seconds")
        seconds = round(time.time() - begun, 3)
        return Outcome(attempt, started, seconds, "failed", f"the process of the run died ({_sentence(error)})")
    return outcome


def _sentence(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


@contextmanager
def _connected() -> Iterator[None]:
    """Be connected to a cluster: the one this process is connected to, that of ``RAY_ADDRESS``, or one of our own."""
    import ray
    from ray.exceptions import RayError

    if ray.is_initialized():
        yield
        return
    where = os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own = {"include_dashboard": False, "object_store_memory": STORE_BYTES} if where == "local" else {}
    try:
        ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR, **own)
    except Exception as error:  # a node that does not start in time raises a bare one
        raise MtbenchError(
            f"no Ray answers at {where} ({_sentence(error)}): start one with ray start --head, and set RAY_ADDRESS to "
            "the address it prints; one that asks for a token needs RAY_AUTH_MODE=token here, too"
        ) from error
    try:
        yield
    except RayError as error:
        raise MtbenchError(
            f"the Ray at {where} is gone ({_sentence(error)}): finished runs are kept, the same command goes on"
        ) from error
    finally:
        ray.shutdown()


def _share(cpus: float, gpus: float | None) -> Share:
    machines = _machines()
    share = Share(cpus, gpus if gpus is not None else float(any(machine.get("GPU") for machine in machines)))
    if not _room(share):
        most = max((machine.get("CPU", 0) for machine in machines), default=0)
        cards = max((machine.get("GPU", 0) for machine in machines), default=0)
        raise UsageError(
            f"no machine of this Ray has the {share.cpus:g} CPUs and {share.gpus:g} GPUs a run is to have: the largest "
            f"have {most:g} CPUs and {cards:g} GPUs; give less with --cpus and --gpus"
        )
    return share


def _room(share: Share) -> int:
    """Return how many runs the machines that are there now can do at once."""
    return sum(
        int(min(machine.get("CPU", 0) / share.cpus, machine.get("GPU", 0) / share.gpus if share.gpus else float("inf")))
        for machine in _machines()
    )


def _machines() -> list[dict[str, float]]:
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
