"""Models that need no PyTorch, keep checkpoints, write a diary, and misbehave in one way each."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np

from leaderboard.grid.drive import drive, survey
from leaderboard.grid.engines import in_this_process
from leaderboard.grid.jobs import Chosen, Grid, jobs
from mtbench.errors import UnknownNameError, UsageError
from mtbench.training.models import Model, ModelInfo, Progress, silent

HERE = __name__
EPOCHS = 3


def diary():
    """Return what the models wrote, a line each: ``SEED epoch N`` and ``SEED scored``."""
    path = Path(os.environ["MTBENCH_TOY_DIARY"])
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def chosen(model="Counting", label=None, **settings):
    return Chosen(label or model.lower(), f"{HERE}:{model}", {key: str(value) for key, value in settings.items()})


def grid(data, *models, **options):
    return Grid([chosen(model) if isinstance(model, str) else model for model in models], [str(data)], **options)


class Counting(Model):
    """Counts epochs, keeps the number of those finished, and scores by a hash of it."""

    once = False

    def __init__(self, context):
        for key in context.settings:
            if key not in ("epochs", "colour"):
                raise UnknownNameError("hyper-parameter", key, ["epochs", "colour"])
        self.context = context
        self.epochs = int(context.settings.get("epochs", EPOCHS))
        self.info = ModelInfo("counting", hyperparameters={"epochs": self.epochs}, device="abacus")

    def note(self, text):
        with Path(os.environ["MTBENCH_TOY_DIARY"]).open("a", encoding="utf-8") as stream:
            stream.write(f"{self.context.seed} {text}\n")

    def first_time(self):
        """Tell whether nobody asked this before, of the same seed."""
        marker = Path(f"{os.environ['MTBENCH_TOY_DIARY']}-{self.context.seed}")
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def fit(self, train, valid):
        state = self.context.workdir / "epoch"
        begun = int(state.read_text()) if state.exists() else 0
        for epoch in range(begun + 1, self.epochs + 1):
            self.note(f"epoch {epoch}")
            if epoch == 2 and self.context.seed == 1 and (not self.once or self.first_time()):
                self.misbehave()
            self.context.workdir.mkdir(parents=True, exist_ok=True)
            state.write_text(str(epoch))
            self.context.report(Progress("train", epoch, self.epochs, 1, 1, 0.5, 0.25))

    def misbehave(self):
        """Do in the second epoch of seed 1, each time or ``once``, what the model is for."""

    def scorer(self, observable):
        self.note("scored")
        factors = np.array([7919.0, 104729.0, 1299709.0]) + self.context.seed
        return lambda triples: np.sin(triples @ factors)


class Fails(Counting):
    def misbehave(self):
        raise ZeroDivisionError("by zero")


class FailsOnce(Fails):
    once = True


class Greedy(Counting):
    def misbehave(self):
        raise MemoryError("no room")


class Dies(Counting):
    def misbehave(self):
        os.kill(os.getpid(), signal.SIGKILL)


class DiesOnce(Dies):
    once = True


class Waits(Counting):
    def misbehave(self):
        threading.Event().wait()


class Picky(Counting):
    def misbehave(self):
        raise UsageError("not these options")


class Interrupted(Counting):
    once = True

    def misbehave(self):
        raise KeyboardInterrupt


class Sharing(Counting):
    """Knows that what it learned serves other test graphs, and its twin, which scores otherwise."""

    def __init__(self, context):
        super().__init__(context)
        known = {"epochs": self.epochs, "colour": context.settings.get("colour", "")}
        alike = {"model": "sharing", "colour": ""}
        self.info = ModelInfo("sharing", hyperparameters=known, device="abacus", trained_as=alike)


class SharingFailsOnce(Sharing):
    """Fails in the first training of seed 1, at its second epoch."""

    once, misbehave = True, Fails.misbehave


class SharingFails(Sharing):
    """Fails whenever seed 1 is trained on the first of two datasets."""

    def fit(self, train, valid):
        if self.context.seed == 1 and self.context.dataset.endswith("test_trees=1]"):
            raise ZeroDivisionError("by zero")
        super().fit(train, valid)


class SharingDies(Sharing):
    """Is killed in the first training of seed 1, at its second epoch."""

    once, misbehave = True, Dies.misbehave


class Watcher:
    """Keeps what it is told."""

    def __init__(self, on_progress=silent):
        self.outcomes, self.begun, self.on_progress = [], [], on_progress

    def started(self, attempt):
        self.begun.append(str(attempt.job))

    def progressed(self, attempt, progress):
        self.on_progress(progress)

    def finished(self, outcome):
        self.outcomes.append((str(outcome.attempt.job), outcome.attempt.number, outcome.ending))


def go(grid, out, watch=None, engine=in_this_process, *, retry_failed=False, **options):
    """Drive a grid to its end; returns the states of its runs."""
    looks = survey(jobs(grid, out), out, retry_failed=retry_failed)
    return [each.state for each in drive(looks, out, engine, watch or Watcher(), **options)]
