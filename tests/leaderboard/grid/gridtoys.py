"""Models that need no PyTorch, keep checkpoints, write a diary, and misbehave in one way each."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np

from leaderboard.grid.jobs import Chosen, Grid
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
            if epoch == 2:
                self.misbehave()
            self.context.workdir.mkdir(parents=True, exist_ok=True)
            state.write_text(str(epoch))
            self.context.report(Progress("train", epoch, self.epochs, 1, 1, 0.5, 0.25))

    def misbehave(self):
        pass

    def scorer(self, observable):
        self.note("scored")
        factors = np.array([7919.0, 104729.0, 1299709.0]) + self.context.seed
        return lambda triples: np.sin(triples @ factors)


class FailsOnce(Counting):
    def misbehave(self):
        if self.context.seed == 1 and self.first_time():
            raise ZeroDivisionError("by zero")


class Fails(Counting):
    def misbehave(self):
        if self.context.seed == 1:
            raise ZeroDivisionError("by zero")


class Greedy(Counting):
    def misbehave(self):
        if self.context.seed == 1:
            raise MemoryError("no room")


class DiesOnce(Counting):
    def misbehave(self):
        if self.context.seed == 1 and self.first_time():
            os.kill(os.getpid(), signal.SIGKILL)


class Dies(Counting):
    def misbehave(self):
        if self.context.seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class Waits(Counting):
    def misbehave(self):
        if self.context.seed == 1:
            threading.Event().wait()


class Picky(Counting):
    def misbehave(self):
        if self.context.seed == 1:
            raise UsageError("not these options")


class Interrupted(Counting):
    def misbehave(self):
        if self.context.seed == 1 and self.first_time():
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

    misbehave = FailsOnce.misbehave


class SharingFails(Sharing):
    """Fails whenever seed 1 is trained on the first of two datasets."""

    def fit(self, train, valid):
        if self.context.seed == 1 and self.context.dataset.endswith("test_trees=1]"):
            raise ZeroDivisionError("by zero")
        super().fit(train, valid)


class SharingDies(Sharing):
    """Is killed in the first training of seed 1, at its second epoch."""

    misbehave = DiesOnce.misbehave


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
