"""A grid on a real Ray of this machine: every run once, whatever becomes of the workers."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter, deque

import gridtoys
import pytest
import toys

from leaderboard.grid import state
from leaderboard.grid.drive import survey
from leaderboard.grid.engines import Attempt, in_this_process, on_ray
from leaderboard.grid.jobs import jobs
from mtbench.errors import MtbenchError, UsageError
from mtbench.runs.result import load, verify

ray = pytest.importorskip("ray", reason="Ray is not installed: the extra cluster brings it")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def machine():
    """Start a Ray of two CPUs, which the engine finds this process connected to."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options = {"include_dashboard": False, "object_store_memory": 100 * 2**20, "num_cpus": 2, "num_gpus": 0}
    ray.init(address="local", log_to_driver=False, logging_level=logging.ERROR, **options)
    yield
    ray.shutdown()


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs"


def go(grid, out, watch=None, engine=None, **options):
    return gridtoys.go(grid, out, watch, engine or on_ray(), **options)


def attempts(out):
    return sorted((line.label, line.attempt, line.status) for line in state.read(out))


def test_every_run_ends_once_whatever_becomes_of_its_process(small, out, tmp_path):
    """Each attempt is a process, so there are few: of a model that works, two that are killed, and one that fails."""
    models = (gridtoys.chosen(epochs=2), "DiesOnce", "Dies", "Fails")
    grid = gridtoys.grid(small, *models, seeds=(1,), protocols=("dual", "entity"))
    ended = ["done", "done", "failed", "failed"]
    assert go(grid, out) == ended
    assert attempts(out) == [
        ("counting", 1, "ok"),
        ("dies", 1, "failed"),
        ("dies", 2, "failed"),
        ("diesonce", 1, "failed"),
        ("diesonce", 2, "ok"),
        ("fails", 1, "failed"),
        ("fails", 2, "failed"),
    ]
    # None begins anew: the second attempt goes on where the first was.
    found = {"1 epoch 1": 4, "1 epoch 2": 7, "1 epoch 3": 1, "1 scored": 2}
    assert Counter(gridtoys.diary()) == found
    for label, status in (("counting", "ok"), ("diesonce", "ok"), ("dies", "failed"), ("fails", "failed")):
        assert verify(out / label / "small" / "seed1").ok
        assert load(out / label / "small" / "seed1").run.status == status
    # The lock of a process that was killed may stay.
    assert {path.name for path in (out / "diesonce" / "small").iterdir()} - {".seed1.lock"} == {"seed1"}
    dead = "the process of the run died ("
    assert {line.label for line in state.read(out) if line.error.startswith(dead)} == {"dies", "diesonce"}
    told = {label: (out / label / "small" / "seed1" / "failure.txt").read_text("utf-8") for label in ("dies", "fails")}
    assert told["dies"].startswith(dead)
    assert told["fails"].rstrip().endswith("ZeroDivisionError: by zero")
    assert go(grid, out) == ended
    assert len(state.read(out)) == 7
    assert Counter(gridtoys.diary()) == found
    here = gridtoys.grid(small, models[0], seeds=(1,), protocols=("dual", "entity"))
    assert go(here, tmp_path / "local", engine=in_this_process) == ["done"]
    for part in (".", "entity-present"):
        one, other = (load(folder / "counting" / "small" / "seed1" / part) for folder in (out, tmp_path / "local"))
        assert one.metrics == other.metrics


def test_no_more_runs_are_begun_than_there_is_room_for(small, out):
    found = survey(jobs(gridtoys.grid(small, "Counting", seeds=(0, 1, 2)), out), out)
    queue = deque(Attempt(each.job) for each in found)
    watch = gridtoys.Watcher()
    outcomes = on_ray(cpus=2)(queue, None, watch)
    assert next(outcomes).ending == "ok"
    assert (len(watch.begun), len(queue)) == (1, 2)
    outcomes.close()
    assert [line for line in gridtoys.diary() if not line.startswith("0 ")] == []


def test_a_grid_that_is_stopped_takes_its_tasks_along(small, out):
    found = survey(jobs(gridtoys.grid(small, "Waits", seeds=(0, 1)), out), out)
    outcomes = on_ray()(deque(Attempt(each.job) for each in found), None, gridtoys.Watcher())
    assert next(outcomes).ending == "ok"
    outcomes.close()
    both = ray.remote(num_cpus=2)(lambda: 0)
    free, _ = ray.wait([both.remote()], timeout=60)
    assert free


def test_a_run_that_no_machine_has_room_for_is_refused(small, out):
    grid = gridtoys.grid(small, "Counting")
    with pytest.raises(UsageError, match=r"no machine of this Ray has the 64 CPUs and 0 GPUs .* largest have 2 CPUs"):
        go(grid, out, engine=on_ray(cpus=64))
    with pytest.raises(UsageError, match="the 1 CPUs and 1 GPUs"):
        go(grid, out, engine=on_ray(gpus=1))
    assert gridtoys.diary() == []


def test_nothing_begins_after_the_deadline(small, out):
    watch = gridtoys.Watcher()
    assert go(gridtoys.grid(small, "Counting"), out, watch, deadline=1.0) == ["left"]
    assert watch.begun == []


def start(small, out, *more):
    words = (f"{gridtoys.HERE}:Counting", "--dataset", small, "--out", out, "--engine", "ray", *more)
    return toys.python(
        "-c", "import sys; from mtbench.cli.app import main; main(sys.argv[1:])", "grid", *map(str, words)
    )


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_the_command_brings_its_own_ray_and_takes_it_away(small, out):
    process = start(small, out, "--json")
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    (found,) = json.loads(printed)["runs"]
    assert (found["state"], found["error"]) == ("done", "")
    assert [line.status for line in state.read(out)] == ["ok"]


def test_a_cluster_that_does_not_answer_is_named(small, out, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    _, errors = start(small, out).communicate()
    (line,) = (line for line in errors.splitlines() if line.startswith("error: "))
    assert line.startswith("error: no Ray answers at nowhere (")
    assert "ray start --head" in line


def test_a_ray_that_does_not_start_in_time_is_named(small, out, monkeypatch):
    def init(**options):
        raise Exception("The current node timed out during startup.")  # as Ray does

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    message = r"no Ray answers at local \(Exception: The current node timed out during startup"
    with pytest.raises(MtbenchError, match=message):
        go(gridtoys.grid(small, "Counting"), out)
    assert gridtoys.diary() == []
