"""Runs that are scored again from their weights; those of the reference models are tested with what is published."""

import json

import numpy as np
import pytest
import toys
from planned import Plan, run

from mtbench.errors import UsageError
from mtbench.evaluation.tasks import evaluate
from mtbench.runs.origin import RunInfo
from mtbench.settings.table import settings_of
from mtbench.training import models
from mtbench.training.again import from_weights
from mtbench.training.models import Model, ModelInfo, Progress

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
NAME = f"{__name__}:Keeping"


class Keeping(Model):
    """Learns three numbers in two steps and keeps them; scores by them alone."""

    def __init__(self, context):
        self.context, self.info = context, ModelInfo(NAME, hyperparameters=context.settings)

    def fit(self, train, valid):
        path = self.context.workdir / "weights.json"
        if path.exists():
            self.weights = json.loads(path.read_text(encoding="utf-8"))
        else:
            self.context.report(Progress("train", 1, 1, 1, 1, 0.5))
            self.weights = np.random.default_rng(self.context.seed).normal(size=3).tolist()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.weights), encoding="utf-8")

    def scorer(self, observable):
        return lambda triples: np.sin((triples * np.array(self.weights)).sum(axis=1))


@pytest.fixture
def trained(toy_cache, tmp_path):
    return run(Plan(NAME, tmp_path / "run", tasks=settings_of(("dual", "entity"), ("present", "slots")), seed=3))[0]


def test_the_weights_of_a_run_give_its_ranks(trained):
    before = sorted(path.stat().st_mtime_ns for path in trained.rglob("*"))
    found = from_weights(trained)
    tasks = {f"{task.protocol}-{task.vocabulary}" for task in found}
    assert tasks == {"dual-present", "dual-slots", "entity-present", "entity-slots"}
    assert all(one.ok and one.same == 1 and one.recorded == one.found for one in found)
    assert sorted(path.stat().st_mtime_ns for path in trained.rglob("*")) == before


def test_other_weights_give_other_ranks(trained):
    (trained / "checkpoints" / "weights.json").write_text("[0.5, -0.25, 1.75]", encoding="utf-8")
    assert any(not one.ok and one.same < 1 for one in from_weights(trained))


def test_nothing_is_trained_for_it(trained):
    (trained / "checkpoints" / "weights.json").unlink()
    with pytest.raises(UsageError, match="not of a finished training, which stands at train"):
        from_weights(trained)


def test_the_command_shows_both_figures(trained, command, printed):
    assert printed("verify", trained, "--from-weights").count("100.0%") == 4
    (trained / "checkpoints" / "weights.json").write_text("[0.5, -0.25, 1.75]", encoding="utf-8")
    code, out, err = command("verify", trained, "--from-weights", "--json")
    assert code == 1
    assert json.loads(out)["valid"] is False
    assert {one["protocol"] for one in json.loads(out)["from_weights"]} == {"dual", "entity"}
    assert "its weights give an MRR of" in err


def edit(directory, **changes):
    """Change what is recorded of every task of a run."""
    for path in directory.rglob("result.json"):
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def test_a_model_under_another_name_is_named(trained):
    edit(trained, model="keeping-k2")
    with pytest.raises(UsageError, match="--model NAME"):
        from_weights(trained)
    assert all(one.ok for one in from_weights(trained, NAME))


@pytest.mark.parametrize("verb", ["run", "grid"])
def test_a_model_under_another_name_is_known_by_the_command_that_made_the_run(trained, monkeypatch, verb):
    def record(name):
        edit(trained, model="keeping-k2", environment={"command": f"mtbench {verb} {name} --dataset toy"})

    record("keeping")
    monkeypatch.setattr(models, "names", lambda: ["keeping"])
    monkeypatch.setattr(models, "factory", lambda name: {"keeping": Keeping}[name])
    assert all(one.ok for one in from_weights(trained))
    record("os:system")  # what is no name of an installed model is not even imported
    with pytest.raises(KeyError, match="keeping-k2"):
        from_weights(trained)


def test_a_run_that_nobody_can_score_again_is_refused(toy_cache, tmp_path):
    evaluate(lambda triples: triples[:, 0] * 1.0, toys.dataset().test).save(tmp_path / "run", RunInfo(model=NAME))
    with pytest.raises(UsageError, match="holds no checkpoints"):
        from_weights(tmp_path / "run")
