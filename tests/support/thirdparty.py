"""A model as somebody else's package would bring it: a few lines, no PyTorch."""

import textwrap

import pytest

NAME = "somebodys_models"
SOURCE = """
    import numpy as np
    from mtbench.training.models import Model, ModelInfo, Progress

    calls = []

    class Hashing(Model):
        told = {"name": "hashing"}

        def __init__(self, context):
            calls.append(("made", context))
            self.context = context
            self.info = ModelInfo(device="abacus", hyperparameters={"width": 3, **context.settings}, **self.told)

        def fit(self, train, valid):
            calls.append(("fitted", train, valid))
            self.context.report(Progress("train", 1, 1, 1, 1, 0.5, 0.25))

        def scorer(self, observable):
            calls.append(("applied", observable))
            factors = np.array([7919.0, 104729.0, 1299709.0]) + self.context.seed
            return lambda triples: np.sin(triples @ factors)

    class Broken(Hashing):
        def scorer(self, observable):
            return lambda triples: np.full(len(triples), np.nan)

    class BothWays(Hashing):
        def scorer(self, observable):
            self.score = super().scorer(observable)
            self.score_inverses = lambda triples: -self.score(triples)
            return self

    class Ready(Hashing):
        told = {
            "name": "ready",
            "pretraining_graphs": ["somewhere else", "metafam/train"],
            "url": "https://example.org/ready",
            "commit": "0a1b2c",
        }

    class Kept(Hashing):
        def fit(self, train, valid):
            self.context.workdir.mkdir(parents=True, exist_ok=True)
            (self.context.workdir / "state").write_text("learned")

    class Interrupted(Hashing):
        def fit(self, train, valid):
            (self.context.workdir / "state").mkdir(parents=True)
            raise KeyboardInterrupt

    number = 5
"""


def install(monkeypatch: pytest.MonkeyPatch, folder):
    """Write the module into a folder from which it can be imported, and return it freshly imported."""
    import importlib
    import sys

    (folder / f"{NAME}.py").write_text(textwrap.dedent(SOURCE), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    module = importlib.import_module(NAME)
    monkeypatch.setitem(sys.modules, NAME, module)
    return module
