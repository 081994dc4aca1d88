"""A grid in one process: every run once, whatever fails, is stopped, or is already there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import gridtoys
import pytest
import toys
from gridtoys import go

from leaderboard.entries import entries
from leaderboard.grid import engines, state
from leaderboard.grid import jobs as grid_jobs
from leaderboard.grid.drive import drive, survey
from leaderboard.grid.engines import in_this_process
from leaderboard.grid.jobs import Grid, check, jobs
from leaderboard.grid.state import estimates
from mtbench.cli import app
from mtbench.errors import ResultError, UsageError
from mtbench.runs.result import load, verify
from mtbench.training import models
from mtbench.training.run import run

PUBLISHED = Path(__file__).resolve().parents[3] / "leaderboard" / "results"
CARD = (PUBLISHED / "deq-ingram" / "card.toml").read_text(encoding="utf-8")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs"


def states(grid, out, **options):
    return [each.state for each in survey(jobs(grid, out), out, **options)]


def attempts(out):
    return [(line.seed, line.attempt, line.status) for line in state.read(out)]


def test_every_run_is_done_once_in_the_layout_of_an_entry(small, out):
    grid = gridtoys.grid(small, "Counting", gridtoys.chosen(label="five", epochs=5), seeds=(0, 1))
    watch = gridtoys.Watcher()
    assert go(grid, out, watch) == ["done"] * 4
    names = ["counting/small/seed0", "five/small/seed0", "counting/small/seed1", "five/small/seed1"]
    assert watch.begun == names
    assert watch.outcomes == [(name, 1, "ok") for name in names]
    for name in names:
        assert verify(out / name).ok
        assert load(out / name).run.seed == int(name[-1])
    assert load(out / "five" / "small" / "seed1").run.hyperparameters == {"epochs": 5}
    assert {path.name for path in out.iterdir()} == {"counting", "five", "grid.jsonl"}
    assert Counter(gridtoys.diary())["0 scored"] == 2


def test_a_grids_folder_is_an_entry_once_it_has_a_card(small, out):
    go(gridtoys.grid(small, "Counting", seeds=(0, 1), protocols=("all",)), out)
    (out / "counting" / "card.toml").write_text(CARD, encoding="utf-8")
    entry = entries.load(out / "counting")
    assert entry.slug == "counting"
    (runs,) = entry.runs.values()
    assert [run.headline.run.seed for run in runs] == [0, 1]
    assert [setting.name for setting in runs[0].results] == ["dual-present", "entity-present", "relation-present"]


def test_finished_runs_are_never_repeated_and_seeds_may_be_added(small, out):
    grid = gridtoys.grid(small, "Counting")
    go(grid, out)
    before = load(out / "counting" / "small" / "seed0").run
    assert go(replace(grid, seeds=(0, 1)), out) == ["done", "done"]
    assert load(out / "counting" / "small" / "seed0").run == before
    assert Counter(gridtoys.diary()) == {f"{seed} {what}": 1 for seed in (0, 1) for what in (*EPOCHS, "scored")}


EPOCHS = [f"epoch {number}" for number in range(1, gridtoys.EPOCHS + 1)]


def start(model, small, out):
    """Begin a grid in another process; returns its id."""

    def work():
        assert set(go(gridtoys.grid(small, model, seeds=(0, 1, 2)), out)) <= {"done", "elsewhere"}

    return toys.fork(work)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_killed_grid_goes_on_where_it_was(small, out):
    _, status = os.waitpid(start("DiesOnce", small, out), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    grid = gridtoys.grid(small, "DiesOnce", seeds=(0, 1, 2))
    assert states(grid, out) == ["done", "resumes", "new"]
    assert go(grid, out) == ["done"] * 3
    one = [line for line in gridtoys.diary() if line.startswith("1 ")]
    assert one == ["1 epoch 1", "1 epoch 2", "1 epoch 2", "1 epoch 3", "1 scored"]
    assert Counter(gridtoys.diary())["0 scored"] == 1
    whole = replace(grid, models=[gridtoys.chosen("Counting")])
    go(whole, out)
    for seed in range(3):
        ours, theirs = (load(out / label / "small" / f"seed{seed}") for label in ("diesonce", "counting"))
        assert ours.metrics == theirs.metrics


@pytest.mark.skipif(os.name == "nt", reason="processes are forked")
def test_two_grids_at_once_do_no_run_twice(small, out):
    for child in [start("Counting", small, out) for _ in range(2)]:
        assert os.waitpid(child, 0) == (child, 0)
    assert sorted(attempts(out)) == [(seed, 1, "ok") for seed in range(3)]
    assert Counter(gridtoys.diary()) == {f"{seed} {what}": 1 for seed in range(3) for what in (*EPOCHS, "scored")}


def test_a_run_that_another_process_finishes_just_before_this_one_begins_is_found(small, out, monkeypatch):
    def after_another(plan, *arguments, **options):
        run(plan, *arguments, **options)
        return run(plan, *arguments, **options)

    monkeypatch.setattr(grid_jobs, "run", after_another)
    watch = gridtoys.Watcher()
    assert go(gridtoys.grid(small, "Counting", seeds=(0,)), out, watch) == ["done"]
    assert watch.outcomes == [("counting/small/seed0", 1, "found")]
    assert attempts(out) == []


def test_a_run_that_fails_is_repeated_once_after_all_others(small, out):
    grid = gridtoys.grid(small, "Fails", seeds=(0, 1, 2))
    watch = gridtoys.Watcher()
    assert go(grid, out, watch) == ["done", "failed", "done"]
    assert [(name[-1], number) for name, number, _ in watch.outcomes] == [("0", 1), ("1", 1), ("2", 1), ("1", 2)]
    assert attempts(out) == [(0, 1, "ok"), (1, 1, "failed"), (2, 1, "ok"), (1, 2, "failed")]
    failed = out / "fails" / "small" / "seed1"
    assert load(failed).run.status == "failed"
    assert "ZeroDivisionError: by zero" in (failed / "failure.txt").read_text(encoding="utf-8")
    assert state.read(out)[1].error == "ZeroDivisionError: by zero"
    assert states(grid, out) == ["done", "failed", "done"]
    assert go(grid, out) == ["done", "failed", "done"]
    assert len(state.read(out)) == 4


def test_the_second_attempt_goes_on_from_the_checkpoints_of_the_first(small, out):
    assert go(gridtoys.grid(small, "FailsOnce", seeds=(1,)), out) == ["done"]
    assert attempts(out) == [(1, 1, "failed"), (1, 2, "ok")]
    assert gridtoys.diary() == ["1 epoch 1", "1 epoch 2", "1 epoch 2", "1 epoch 3", "1 scored"]
    assert [path.name for path in (out / "failsonce" / "small").iterdir() if path.name[0] != "."] == ["seed1"]
    assert not (out / "failsonce" / "small" / "seed1" / "failure.txt").exists()


def test_a_failed_run_whose_line_was_lost_is_repeated_once(small, out):
    grid = gridtoys.grid(small, "Fails", seeds=(1,))
    (job,) = jobs(grid, out)
    job.run()
    assert states(grid, out) == ["retries"]
    assert go(grid, out) == ["failed"]
    assert len(gridtoys.diary()) == 3


def test_a_failed_run_that_somebody_removed_begins_anew(small, out):
    grid = gridtoys.grid(small, "Fails", seeds=(1,))
    go(grid, out)
    shutil.rmtree(out / "fails" / "small" / "seed1")
    assert states(grid, out) == ["new"]
    assert go(grid, out) == ["failed"]
    assert len(state.read(out)) == 4


def test_running_out_of_memory_is_an_end(small, out):
    grid = gridtoys.grid(small, "Greedy", seeds=(0, 1))
    assert go(grid, out) == ["done", "oom"]
    assert go(grid, out) == ["done", "oom"]
    assert attempts(out) == [(0, 1, "ok"), (1, 1, "oom")]


def test_what_stands_in_the_way_of_a_run_is_no_failure_of_it(small, out, monkeypatch):
    grid = gridtoys.grid(small, "Counting", seeds=(0, 1))
    looks = survey(jobs(grid, out), out)
    thesis = out / "counting" / "small" / "seed0" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("dear", encoding="utf-8")
    ended = drive(looks, out, in_this_process, gridtoys.Watcher())
    assert [each.state for each in ended] == ["blocked", "done"]
    assert "holds no run" in ended[0].error
    assert attempts(out) == [(0, 1, "blocked"), (1, 1, "ok")]
    thesis.unlink()
    assert go(grid, out) == ["done", "done"]


def test_options_a_model_refuses_half_way_say_how_to_begin_anew(small, out):
    grid = gridtoys.grid(small, "Picky", seeds=(1,))
    looks = survey(jobs(grid, out), out)
    (ended,) = drive(looks, out, in_this_process, gridtoys.Watcher())
    partial = out / "picky" / "small" / ".seed1.partial"
    assert (ended.state, partial.is_dir()) == ("blocked", True)
    assert ended.error == f"not these options (to begin this run anew, remove {partial})"
    assert attempts(out) == [(1, 1, "blocked")]


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test can let run out."""
    hands = {"over": False}
    monkeypatch.setattr(engines, "over", lambda deadline: deadline is not None and hands["over"])
    return hands


def test_the_budget_stops_at_the_next_report_and_keeps_checkpoints(small, out, clock):
    grid = gridtoys.grid(small, "Counting", seeds=(0, 1, 2))

    def tick(progress):
        clock["over"] = len(gridtoys.diary()) > 5  # the first epoch of the second run

    assert go(grid, out, gridtoys.Watcher(tick), deadline=1.0) == ["done", "left", "left"]
    assert attempts(out) == [(0, 1, "ok"), (1, 1, "stopped")]
    assert states(grid, out) == ["done", "resumes", "new"]
    assert go(grid, out) == ["done"] * 3
    assert attempts(out)[2:] == [(1, 2, "ok"), (2, 1, "ok")]
    assert [line for line in gridtoys.diary() if line.startswith("1 ")].count("1 epoch 1") == 1


def test_no_run_begins_after_the_deadline(small, out):
    watch = gridtoys.Watcher()
    assert go(gridtoys.grid(small, "Counting"), out, watch, deadline=1.0) == ["left"]
    assert (watch.begun, state.read(out), gridtoys.diary()) == ([], [], [])


def test_a_run_another_process_is_at_work_on_is_left_to_it(small, out):
    grid = gridtoys.grid(small, "Counting", seeds=(0, 1))
    watch = gridtoys.Watcher()
    with jobs(grid, out)[0].directory.alone():
        assert go(grid, out, watch) == ["elsewhere", "done"]
    endings = [(name[-1], ending) for name, _, ending in watch.outcomes]
    assert endings == [("0", "elsewhere"), ("1", "ok"), ("0", "elsewhere")]
    assert attempts(out) == [(1, 1, "ok")]
    assert go(grid, out) == ["done", "done"]


def test_a_run_that_another_process_finished_meanwhile_is_left_alone(small, out):
    grid = gridtoys.grid(small, "Counting")
    looks = survey(jobs(grid, out), out)
    go(grid, out)
    ended = drive(looks, out, in_this_process, gridtoys.Watcher())
    assert [each.state for each in ended] == ["done"]
    assert gridtoys.diary().count("0 scored") == 1
    assert len(state.read(out)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": [gridtoys.chosen(epochs=4)]}, "epochs: the default there, 4 here"),
        ({"models": [gridtoys.chosen("Fails", "counting")]}, f"model: {gridtoys.HERE}:Counting there"),
        ({"candidate_seed": 2}, "candidate seed: 0 there, 2 here"),
        ({"with_names": False}, "names of the test triples: yes there, no here"),
    ],
)
def test_a_run_of_other_options_is_refused(small, out, change, message):
    grid = gridtoys.grid(small, "Counting")
    go(grid, out)
    with pytest.raises(UsageError, match=message) as refused:
        go(replace(grid, **change), out)
    assert f"{out}/counting/small/seed0 is a run of other options" in str(refused.value)
    assert gridtoys.diary().count("0 scored") == 1


@pytest.mark.parametrize("more", [{"protocols": ("dual", "entity")}, {"vocabularies": ("slots",)}, {"paper": True}])
def test_more_tasks_are_added_to_the_runs_that_are_there(small, out, more):
    grid = gridtoys.grid(small, "Counting", seeds=(0, 1))
    go(grid, out)
    before = load(out / "counting" / "small" / "seed0")
    asked = replace(grid, seeds=(0, 1, 2), **more)
    assert states(asked, out) == ["completes", "completes", "new"]
    assert go(asked, out) == ["done"] * 3
    assert states(asked, out) == [*states(grid, out), "done"] == ["done"] * 3
    made = jobs(asked, out)[0]
    assert made.directory.read().has(made.plan.tasks, paper=made.plan.paper)
    assert load(made.directory.path).metrics == before.metrics
    assert gridtoys.diary().count("0 epoch 1") == 1  # from its checkpoints


def test_a_run_whose_model_gives_other_ranks_now_is_not_completed(small, out, monkeypatch):
    grid = gridtoys.grid(small, "Counting")
    go(grid, out)
    before = (out / "counting" / "small" / "seed0" / "ranks.parquet").read_bytes()
    monkeypatch.setattr(gridtoys.Counting, "scorer", lambda self, observable: lambda triples: triples[:, 0] * 1.0)
    assert go(replace(grid, protocols=("dual", "entity")), out) == ["blocked"]
    assert "holds other ranks than this model gives now" in state.read(out)[-1].error
    assert (out / "counting" / "small" / "seed0" / "ranks.parquet").read_bytes() == before


def test_a_run_of_another_dataset_or_seed_is_refused(small, out, tmp_path):
    grid = gridtoys.grid(small, "Counting", seeds=(0, 1))
    go(grid, out)
    (out / "counting" / "small" / "seed1").rename(out / "counting" / "small" / "seed2")
    with pytest.raises(UsageError, match="seed: 1 there, 2 here"):
        survey(jobs(replace(grid, seeds=(2,)), out), out)
    (out / "counting" / "small" / "seed0").rename(tmp_path / "moved")
    (out / "counting" / "metafam").mkdir()
    (tmp_path / "moved").rename(out / "counting" / "metafam" / "seed0")
    with pytest.raises(UsageError, match=r"dataset: metafam\[seed=3,.*there, metafam 1.0.0 here"):
        survey(jobs(replace(grid, datasets=("metafam",)), out), out)


def edit(run, change):
    payload = json.loads((run / "result.json").read_text(encoding="utf-8"))
    change(payload)
    (run / "result.json").write_text(json.dumps(payload), encoding="utf-8")


def test_settings_are_compared_with_the_result_where_it_has_no_command(small, out):
    four = gridtoys.grid(small, gridtoys.chosen(epochs=4))
    go(four, out)
    edit(out / "counting" / "small" / "seed0", lambda payload: payload["environment"].pop("command"))
    assert states(four, out) == ["done"]
    with pytest.raises(UsageError, match="epochs: 4 there, 5 here"):
        states(gridtoys.grid(small, gridtoys.chosen(epochs=5)), out)


def test_more_than_was_asked_for_is_enough(small, out):
    grid = gridtoys.grid(small, "Counting", protocols=("all",), paper=True)
    go(grid, out)
    assert states(replace(grid, protocols=("entity",), paper=False), out) == ["done"]


def test_a_run_that_does_not_hold_is_refused(small, out):
    grid = gridtoys.grid(small, "Counting", protocols=("dual", "entity"))
    go(grid, out)
    edit(out / "counting" / "small" / "seed0" / "entity-present", lambda payload: payload["metrics"].update(mrr=0.1))
    with pytest.raises(ResultError, match=r"the counts give .*; remove .*seed0 to run it again"):
        survey(jobs(grid, out), out)


def test_the_death_of_a_process_is_recorded_as_a_failed_run(small, out):
    grid = gridtoys.grid(small, "Counting", protocols=("all",))
    (job,) = jobs(grid, out)
    outcome = engines.Outcome(engines.Attempt(job, 2), "2026-01-01T00:00:00+00:00", 5.0, "failed", "the process died")
    engines.record_death(outcome)
    assert verify(job.directory.path).ok
    found = load(job.directory.path)
    assert (found.run.status, found.run.seed, found.warnings) == ("failed", 0, ("the process died",))
    assert load(job.directory.path / "relation-present").run.status == "failed"
    assert states(grid, out, retry_failed=True) == ["retries"]
    assert go(grid, out, retry_failed=True) == ["done"]
    engines.record_death(outcome)
    assert states(grid, out) == ["done"]


def dying(queue, deadline, watch):
    """An engine whose processes die at once."""
    while queue:
        yield engines.Outcome(queue.popleft(), "2026-01-01T00:00:00+00:00", 5.0, "failed", "the process died")


def test_a_process_that_dies_twice_leaves_a_failed_run(small, out):
    grid = gridtoys.grid(small, "Counting", seeds=(0, 1))
    assert go(grid, out, engine=dying) == ["failed", "failed"]
    assert attempts(out) == [(0, 1, "failed"), (1, 1, "failed"), (0, 2, "failed"), (1, 2, "failed")]
    assert load(out / "counting" / "small" / "seed1").warnings == ("the process died",)
    assert states(grid, out) == ["failed", "failed"]


def test_a_death_that_cannot_be_recorded_is_told_and_does_not_end_the_grid(small, out):
    found = survey(jobs(gridtoys.grid(small, "Counting", seeds=(0, 1)), out), out)
    with found[0].job.directory.alone():
        first, second = drive(found, out, dying, gridtoys.Watcher())
    assert first.error.startswith("the process died, and has no run: another process is at work on")
    assert (first.state, second.state, second.error) == ("failed", "failed", "the process died")
    assert not first.job.directory.path.exists()


def test_estimates_are_those_of_the_same_dataset_then_of_the_model(small, out):
    grid = gridtoys.grid(small, "Counting", "Fails", "Greedy", seeds=(0, 1))
    assert estimates(jobs(grid, out)[:1], out) == [None]
    for name, seconds in (("counting/small/seed7", 10), ("counting/small/seed8", 20), ("fails/b/seed0", 3)):
        (out / name).mkdir(parents=True)
        (out / name / "result.json").write_text(f'{{"status": "ok", "wall_seconds": {seconds}}}', encoding="utf-8")
    (out / "fails" / "b" / "seed1").mkdir()
    (out / "fails" / "b" / "seed1" / "result.json").write_text("{", encoding="utf-8")
    assert estimates(jobs(grid, out)[:3], out) == [15.0, 3.0, None]


def test_labels_and_datasets_that_would_share_a_folder_are_refused(small, out, tmp_path):
    with pytest.raises(UsageError, match=r"two models would have the folder same: .*:Counting and .*:Fails"):
        jobs(gridtoys.grid(small, gridtoys.chosen(label="same"), gridtoys.chosen("Fails", "same")), out)
    shutil.copytree(small, tmp_path / "other" / "small")
    with pytest.raises(UsageError, match="two datasets would have the folder small"):
        jobs(Grid([gridtoys.chosen()], [str(small), str(tmp_path / "other" / "small")]), out)
    with pytest.raises(UsageError, match="'Mine' cannot name a folder of runs"):
        jobs(gridtoys.grid(small, gridtoys.chosen(label="Mine")), out)


def test_a_device_of_other_machines_is_not_looked_for_here(small, out, monkeypatch):
    made = []
    monkeypatch.setattr(models, "factory", lambda name: lambda context: made.append(context.device))
    for device in ("cuda", "cpu"):
        for here in (True, False):
            check(jobs(gridtoys.grid(small, "Counting", device=device), out), here=here)
    assert made == ["cuda", "auto", "cpu", "cpu"]


# A process that is started inherits the peak of whoever started it, one that is forked does not.
PEAKS = """
import os
from mtbench.training import costs
if child := os.fork():
    os.waitpid(child, 0)
else:
    held = [bytearray(100_000) for _ in range(3_000)]
    before = costs.peak_memory()
    del held
    costs.fresh()
    print(before - costs.peak_memory())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a process begin a new peak")
@pytest.mark.parametrize("settings", [{}, app.SETTINGS], ids=["as it comes", "of the command line"])
def test_the_peak_of_a_run_is_not_that_of_one_before(settings):
    printed, errors = toys.python("-c", PEAKS, env=settings).communicate()
    assert not errors
    assert int(printed) > 200 * 2**20
