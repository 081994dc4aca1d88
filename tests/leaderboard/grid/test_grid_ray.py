"""A grid on a real Ray of this machine: every run once, whatever becomes of the workers."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter, deque

import gridtoys
import pytest
import toys

from leaderboard.grid import state
from leaderboard.grid.drive import drive, survey
from leaderboard.grid.engines import in_this_process, on_ray
from leaderboard.grid.jobs import jobs
from leaderboard.grid.work import Attempt
from mtbench.errors import UsageError
from mtbench.results.result import load, verify

ray = pytest.importorskip("ray", reason="Ray is not installed: the extra cluster brings it")


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
    looks = survey(jobs(grid, out), out)
    return [each.state for each in drive(looks, out, engine or on_ray(), watch or gridtoys.Watcher(), **options)]


def attempts(out):
    return sorted((line.seed, line.attempt, line.status) for line in state.read(out))


def test_a_run_on_ray_is_the_run_it_would_be_here(small, out, tmp_path):
    grid = gridtoys.grid(small, gridtoys.chosen(epochs=2), seeds=(0, 1), protocols=("dual", "entity"))
    assert go(grid, out) == ["done", "done"]
    assert go(grid, tmp_path / "here" / "runs", engine=in_this_process) == ["done", "done"]
    for seed in (0, 1):
        for part in (".", "entity-present"):
            place = out / "counting" / "small" / f"seed{seed}" / part
            assert verify(place).ok
            assert load(place).metrics == load(tmp_path / "here" / place.relative_to(tmp_path)).metrics
    assert Counter(gridtoys.diary())["0 scored"] == 2
    assert go(grid, out) == ["done", "done"]
    assert Counter(gridtoys.diary())["0 scored"] == 2


def test_a_run_whose_worker_is_killed_ends_up_exactly_once(small, out):
    grid = gridtoys.grid(small, "DiesOnce", seeds=(0, 1, 2))
    watch = gridtoys.Watcher()
    assert go(grid, out, watch) == ["done"] * 3
    assert attempts(out) == [(0, 1, "ok"), (1, 1, "failed"), (1, 2, "ok"), (2, 1, "ok")]
    assert [line for line in gridtoys.diary() if line.startswith("1 ")] == [
        "1 epoch 1",
        "1 epoch 2",
        "1 epoch 2",
        "1 epoch 3",
        "1 scored",
    ]
    (died,) = (line for line in state.read(out) if line.status == "failed")
    assert died.error.startswith("the process of the run died (")
    assert {path.name for path in (out / "diesonce" / "small").iterdir()} == {"seed0", "seed1", "seed2"}
    assert all(verify(out / "diesonce" / "small" / f"seed{seed}").ok for seed in range(3))


def test_a_run_whose_worker_is_killed_twice_is_recorded_as_failed(small, out):
    grid = gridtoys.grid(small, "Dies", seeds=(0, 1))
    assert go(grid, out) == ["done", "failed"]
    assert attempts(out) == [(0, 1, "ok"), (1, 1, "failed"), (1, 2, "failed")]
    failed = out / "dies" / "small" / "seed1"
    assert verify(failed).ok
    assert load(failed).run.status == "failed"
    assert (failed / "failure.txt").read_text(encoding="utf-8").startswith("the process of the run died (")
    assert go(grid, out) == ["done", "failed"]
    assert len(state.read(out)) == 3


def test_a_model_that_fails_is_recorded_by_its_own_run(small, out):
    assert go(gridtoys.grid(small, "Fails", seeds=(1,)), out) == ["failed"]
    assert attempts(out) == [(1, 1, "failed"), (1, 2, "failed")]
    trace = (out / "fails" / "small" / "seed1" / "failure.txt").read_text(encoding="utf-8")
    assert trace.rstrip().endswith("ZeroDivisionError: by zero")


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


WORK = """
import sys
from mtbench.cli.app import main
main(["grid", *sys.argv[1:]])
"""


def start(*arguments, **environment):
    where = os.pathsep.join([os.path.dirname(toys.__file__), *sys.path])  # noqa: PTH120
    return toys.python("-c", WORK, *map(str, arguments), env={"PYTHONPATH": where, **environment})


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_the_command_brings_its_own_ray_and_takes_it_away(small, out):
    words = (f"{gridtoys.HERE}:DiesOnce", "--dataset", small, "--seeds", "1", "--out", out, "--engine", "ray", "--json")
    process = start(*words)
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    (found,) = json.loads(printed)["runs"]
    assert (found["state"], found["error"]) == ("done", "")
    assert attempts(out) == [(1, 1, "failed"), (1, 2, "ok")]


def test_a_cluster_that_does_not_answer_is_named(small, out):
    words = (f"{gridtoys.HERE}:Counting", "--dataset", small, "--out", out, "--engine", "ray", "--address", "nowhere")
    _, errors = start(*words).communicate()
    (line,) = (line for line in errors.splitlines() if line.startswith("error: "))
    assert line.startswith("error: no Ray answers at nowhere (")
    assert "ray start --head" in line
