"""One run: load a dataset, train a model on it, score it with the standard evaluator, keep all of it."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock, Timeout

from mtbench import candidates, models
from mtbench.atomic import is_free, storage_errors
from mtbench.datasets import load
from mtbench.errors import UsageError
from mtbench.evaluate import task
from mtbench.models import Context, Progress
from mtbench.results import Result
from mtbench.runs import RunInfo

CHECKPOINTS = "checkpoints"
ALL = "all"


@dataclass(frozen=True)
class Plan:
    """What to run: a model by name or ``package.module:factory``, a dataset, and the tasks to score it on.

    The first protocol and vocabulary are the headline, whose result lies in the run directory itself;
    every further combination lies below it in ``PROTOCOL-VOCABULARY``. ``candidate_seed`` numbers the
    frozen candidates, ``seed`` the model's own randomness.
    """

    model: str
    dataset: str
    protocols: Sequence[str] = ("dual",)
    vocabularies: Sequence[str] = ("present",)
    seed: int = 0
    candidate_seed: int = 0
    device: str = "auto"
    settings: Mapping[str, str] = field(default_factory=dict)
    out: Path | None = None
    restart: bool = False
    force: bool = False

    def tasks(self) -> list[tuple[str, str]]:
        """Return the protocols and vocabularies to score, the headline first."""
        protocols = _expand(self.protocols, candidates.PROTOCOLS)
        vocabularies = _expand(self.vocabularies, candidates.VOCABULARIES)
        for protocol in protocols:
            candidates.protocol_named(protocol)
        for vocabulary in vocabularies:
            candidates.vocabulary_named(vocabulary)
        return [(protocol, vocabulary) for protocol in protocols for vocabulary in vocabularies]

    def directory(self) -> Path:
        """Return the run directory: ``out``, or a name made of everything that was chosen, below ``runs``."""
        settings = [f"{key}={value}" for key, value in sorted(self.settings.items())]
        name = "-".join([self.model, Path(self.dataset).name, *settings, f"seed{self.seed}"])
        return self.out or Path("runs") / re.sub(r"[^\w.,=+-]+", "-", name)


def run(plan: Plan, report: Callable[[Progress], None] = models.silent) -> tuple[Path, list[Result]]:
    """Carry out a plan and return the run directory and its results, the headline first.

    Checkpoints are kept in a hidden directory beside the run directory until everything is scored;
    then it is renamed to the run directory. An interrupted run therefore leaves no run directory, and
    the same plan continues it. Raises `UsageError` if the run directory exists, if another process is
    at work on it, or if the checkpoints there belong to other options.
    """
    started = time.perf_counter()
    tasks = plan.tasks()
    make = models.factory(plan.model)
    directory = plan.directory()
    if directory.exists() and not (plan.force or is_free(directory)):
        raise UsageError(f"{directory} exists already: name another with --out DIR, or replace it with --force")
    data = load(plan.dataset)
    with _alone(directory):
        partial = directory.parent / f".{directory.name}.partial"
        if plan.restart and partial.exists():
            shutil.rmtree(partial)
        model = make(Context(data.name, plan.seed, plan.device, partial / CHECKPOINTS, plan.settings, report))
        model.fit(data.train, data.valid)
        score = model.scorer(data.test.observable())
        results = []
        for index, (protocol, vocabulary) in enumerate(tasks):
            chosen = task(data.test, protocol, vocabulary, plan.candidate_seed, dataset_version=data.version)
            info = RunInfo(
                model=model.name,
                seed=plan.seed,
                regime=model.regime,
                hyperparameters=model.hyperparameters,
                pretraining_graphs=(f"{data.name}/train",),
                device=model.device,
                wall_seconds=round(time.perf_counter() - started, 3),
                peak_memory_bytes=peak_memory(),
            )
            result = replace(chosen.run(score), run=info)
            result.save(partial / (f"{protocol}-{vocabulary}" if index else "."), force=True)
            results.append(result)
        _put_in_place(partial, directory)
    return directory, results


def peak_memory() -> int | None:
    """Return the largest resident size this process ever had, in bytes; None where the platform does not tell."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _expand(chosen: Sequence[str], known: Mapping[str, object] | Sequence[str]) -> list[str]:
    return list(known) if ALL in chosen else list(dict.fromkeys(chosen))


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    lock = FileLock(directory.parent / f".{directory.name}.lock")
    with storage_errors(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise UsageError(
                f"another process is at work on {directory}: wait for it, or name another with --out DIR"
            ) from error
    try:
        yield
    finally:
        lock.release()


def _put_in_place(partial: Path, directory: Path) -> None:
    old = directory.parent / f".{directory.name}.old"
    if directory.exists():
        directory.rename(old)
    partial.rename(directory)
    if old.exists():
        shutil.rmtree(old)
