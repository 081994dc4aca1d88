"""A model that cannot finish leaves a result that says so, never half a run or a traceback for a common mishap."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
import thirdparty
from planned import Plan, run

from mtbench.errors import CorruptedFileError, MtbenchError, UsageError
from mtbench.runs.origin import RunInfo
from mtbench.runs.result import load, verify
from mtbench.settings.table import settings_of
from mtbench.training import costs
from mtbench.training.models import Progress

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
SOURCE = """
import numpy as np
from somebodys_models import Hashing

class OutOfMemoryError(RuntimeError):
    pass

class Greedy(Hashing):
    def fit(self, train, valid):
        np.ones(2**58)

class GreedyFrom(Hashing):
    def __init__(self, context):
        raise OutOfMemoryError("no room")

class GreedyLater(Hashing):
    def scorer(self, observable):
        calls = []
        def score(triples):
            calls.append(len(triples))
            if calls[-1] > calls[0]:
                raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you")
            return triples[:, 0] * 1.5
        return score

class Faulty(Hashing):
    def scorer(self, observable):
        raise ValueError("two\\nlines")

class Choosy(Hashing):
    def fit(self, train, valid):
        raise UsageError("depth must be even")

from mtbench.errors import UsageError
"""


@pytest.fixture(autouse=True)
def module(somebodys_models, monkeypatch, tmp_path):
    (tmp_path / "elsewhere" / "failing_models.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.delitem(__import__("sys").modules, "failing_models", raising=False)


def plan_for(tmp_path, name, **options):
    return Plan(f"failing_models:{name}", tmp_path / "runs" / "one", **options)


def tree(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize(("name", "model"), [("Greedy", "hashing"), ("GreedyFrom", "failing_models:GreedyFrom")])
def test_a_model_that_runs_out_of_memory_is_a_result(tmp_path, name, model):
    directory, (result,) = run(plan_for(tmp_path, name, seed=4, settings={"depth": "2"}))
    saved = load(directory)
    assert tree(directory) == ["failure.txt", "result.json"]
    assert verify(directory).ok
    assert (saved.run.status, saved.run.model, saved.run.seed) == ("oom", model, 4)
    assert saved.run.hyperparameters["depth"] == "2"
    assert (saved.metrics, len(saved.ranks)) == ({}, 0)
    assert saved.warnings == result.warnings
    assert "Error: " in saved.warnings[0]
    assert saved.run.peak_memory_bytes is None or saved.run.peak_memory_bytes > 2**20
    assert "Traceback" in (directory / "failure.txt").read_text(encoding="utf-8")
    assert sorted(path.name for path in directory.parent.iterdir()) == [".one.lock", "one"]


def test_tasks_that_were_scored_before_keep_their_result(tmp_path):
    directory, results = run(
        plan_for(tmp_path, "GreedyLater", tasks=settings_of(("relation", "dual", "entity"), ["present"]))
    )
    assert [result.run.status for result in results] == ["ok", "oom", "oom"]
    assert [result.protocol for result in results] == ["relation", "dual", "entity"]
    assert len(load(directory).ranks) == 2
    assert load(directory / "entity-present").run.status == "oom"
    assert all(verify(place.parent).ok for place in directory.rglob("result.json"))
    directory, results = run(replace(plan_for(tmp_path, "GreedyLater"), force=True))
    assert tree(directory) == ["ranks.parquet", "result.json"]


def test_any_other_error_of_a_model_is_raised_unless_it_is_asked_for(tmp_path):
    plan = plan_for(tmp_path, "Faulty")
    with pytest.raises(ValueError, match="two"):
        run(plan)
    assert not plan.out.exists()
    directory, (result,) = run(plan, keep_failures=True)
    assert load(directory).run.status == result.run.status == "failed"
    assert load(directory).warnings == ("ValueError: two lines",)
    assert "failing_models.py" in (directory / "failure.txt").read_text(encoding="utf-8")


def test_wrong_options_are_never_recorded_as_a_failure_of_the_model(tmp_path):
    plan = plan_for(tmp_path, "Choosy")
    with pytest.raises(UsageError, match="depth must be even"):
        run(plan, keep_failures=True)
    assert not plan.out.exists()


def attempted(error, *, keep):
    def work():
        raise error

    return costs.attempt(work, keep=keep)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."), "oom"),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling"), "oom"),
        (RuntimeError("shapes differ"), "failed"),
        (ValueError("out of memory of what was said"), "failed"),
        (MtbenchError("diverged"), "failed"),
        (CorruptedFileError("cut"), None),
        (UsageError("no"), None),
    ],
)
def test_what_counts_as_which_failure(error, status):
    for keep in (True, False):
        recorded = status == "oom" or (keep and status is not None)
        with contextlib.nullcontext() if recorded else pytest.raises(type(error)):
            assert attempted(error, keep=keep).status == status


def test_a_message_without_end_is_cut():
    found = attempted(RuntimeError("word " * 1000), keep=True)
    assert len(found.sentence) == costs.LONGEST + 3
    assert found.trace.count("word") == 1000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"checkpointing": False, "batch": 256}, "try --set checkpointing=true or --set batch=128;"),
        ({"checkpointing": True, "batch": 2}, "try --set batch=1;"),
        ({"batch": 1}, "try a smaller model, or a machine with more memory;"),
        ({"batch": "many"}, "try a smaller model, or a machine with more memory;"),
    ],
)
def test_the_sentence_names_settings_the_model_has(settings, expected):
    info = RunInfo("m", hyperparameters=settings, status="oom", device="cpu", peak_memory_bytes=3 * 2**30)
    text = costs.explain(info, "toy", "MemoryError: ", Path("runs/m"))
    assert text.startswith("m ran out of memory on toy (device cpu, peak 3.00 GiB): ")
    assert expected in text
    assert text.endswith("runs/m holds the result with the status oom, --force replaces it")


@pytest.fixture
def begun(tmp_path):
    """Interrupt a run; return the plan that goes on with it, and the file of what it cost so far."""
    plan = Plan(f"{thirdparty.NAME}:Hashing", tmp_path / "runs" / "one")
    with pytest.raises(KeyboardInterrupt):
        run(replace(plan, model=f"{thirdparty.NAME}:Interrupted"))
    return plan, tmp_path / "runs" / ".one.partial" / "checkpoints" / "cost.json"


def test_the_cost_of_a_run_adds_up_over_its_processes(begun):
    plan, file = begun
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert kept["seconds"] > 0
    file.write_text(json.dumps({"seconds": 5000.5, "peak": 2**50}), encoding="utf-8")
    directory, _ = run(plan)
    info = load(directory).run
    assert 5000.5 < info.wall_seconds < 6000
    assert info.peak_memory_bytes == 2**50


def test_a_run_that_begins_anew_begins_its_cost_anew(begun):
    plan, file = begun
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(CorruptedFileError, match=r"cost\.json: not the cost of a run .*--restart"):
        run(plan)
    directory, _ = run(replace(plan, restart=True))
    assert load(directory).run.wall_seconds < 1000


@pytest.mark.parametrize(("often", "kept"), [(0.0, True), (1e9, False)])
def test_a_cost_is_kept_between_the_ends_of_an_epoch(tmp_path, monkeypatch, often, kept):
    monkeypatch.setattr(costs, "OFTEN", often)
    report = costs.Cost(tmp_path, time.perf_counter()).keeping(lambda progress: None)
    report(Progress("scoring", 1, 1, 5, 10, None))
    assert (tmp_path / "cost.json").exists() == kept


def test_a_run_tells_how_far_its_scoring_has_got_and_keeps_its_cost_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "OFTEN", 0.0)
    kept = tmp_path / "runs" / ".one.partial" / "checkpoints" / "cost.json"
    plan, told, cost = Plan(f"{thirdparty.NAME}:Kept", tmp_path / "runs" / "one"), [], []

    def report(progress):
        told.append(progress)
        cost.append(json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"seconds": 0.0, "threads": {}})

    run(plan, report)
    assert {(progress.stage, progress.loss) for progress in told} == {("scoring dual-present", None)}
    assert [progress.batch for progress in told] == sorted({progress.batch for progress in told})
    assert (told[-1].batch, told[-1].told) == (told[-1].batches, "100%")
    seconds = [one["seconds"] for one in cost]
    assert seconds == sorted(seconds)
    assert (len(told) == 1) or seconds[-1] > seconds[0]
    assert all(one["threads"] == {} for one in cost)
