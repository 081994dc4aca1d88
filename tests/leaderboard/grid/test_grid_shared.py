"""A grid trains once what several of its jobs learn: the two test graphs of a training graph, and a model's twin."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from dataclasses import replace

import gridtoys
import pytest
import toys
from gridtoys import go

import mtbench
from leaderboard.grid import engines
from leaderboard.grid.drive import survey
from leaderboard.grid.jobs import jobs
from leaderboard.grid.state import read
from mtbench.runs.result import load

EPOCHS = [f"epoch {number}" for number in range(1, gridtoys.EPOCHS + 1)]


@pytest.fixture(scope="session")
def pair(small, tmp_path_factory):
    """Return two datasets with one training graph and a test graph each."""
    other = tmp_path_factory.mktemp("data") / "other"
    mtbench.build("metafam", seed=3, out=other, train_trees=2, test_trees=2)
    return [str(small), str(other)]


@pytest.fixture
def asked(pair):
    def grid(*models, seeds=(0, 1), **options):
        return replace(gridtoys.grid("", *models, seeds=seeds, **options), datasets=pair)

    return grid


def test_the_second_test_graph_is_only_scored(asked, tmp_path):
    out, watch = tmp_path / "runs", gridtoys.Watcher()
    assert go(asked("Sharing"), out, watch) == ["done"] * 4
    expected = [f"{seed} {what}" for seed in (0, 1) for what in (*EPOCHS, "scored", "scored")]
    assert sorted(gridtoys.diary()) == sorted(expected)
    assert watch.begun == [f"sharing/{folder}/seed{seed}" for seed in (0, 1) for folder in ("small", "other")]
    alone_out = tmp_path / "alone"
    other = replace(asked("Sharing"), datasets=asked("Sharing").datasets[1:])
    go(other, alone_out)
    for seed in (0, 1):
        ours, theirs = (load(folder / "sharing" / "other" / f"seed{seed}") for folder in (out, alone_out))
        assert ours.metrics == theirs.metrics


def test_a_model_that_does_not_share_trains_for_each(asked, tmp_path):
    assert go(asked("Counting"), tmp_path / "runs") == ["done"] * 4
    assert gridtoys.diary().count("0 epoch 1") == gridtoys.diary().count("1 epoch 1") == 2


def test_what_is_trained_otherwise_is_not_taken(asked, tmp_path):
    longer = gridtoys.chosen("Sharing", "longer", epochs=4)
    assert go(asked("Sharing", longer, seeds=(0,)), tmp_path / "runs") == ["done"] * 4
    assert Counter(gridtoys.diary())["0 epoch 1"] == 2
    assert Counter(gridtoys.diary())["0 epoch 4"] == 1


def test_a_twin_that_learns_the_same_begins_with_the_checkpoints(small, tmp_path):
    twin = gridtoys.chosen("Sharing", "twin", colour="red")
    assert go(gridtoys.grid(small, "Sharing", twin), tmp_path / "runs") == ["done"] * 2
    assert gridtoys.diary() == [*(f"0 {what}" for what in EPOCHS), "0 scored", "0 scored"]


def test_a_finished_run_of_before_serves_what_is_added(asked, tmp_path):
    grid, out = asked("Sharing", seeds=(0,)), tmp_path / "runs"
    go(replace(grid, datasets=grid.datasets[1:]), out)
    assert go(grid, out) == ["done"] * 2
    assert gridtoys.diary() == [*(f"0 {what}" for what in EPOCHS), "0 scored", "0 scored"]


def test_checkpoints_that_were_removed_serve_nobody(asked, tmp_path):
    grid, out = asked("Sharing", seeds=(0,)), tmp_path / "runs"
    go(replace(grid, datasets=grid.datasets[:1]), out)
    shutil.rmtree(out / "sharing" / "small" / "seed0" / "checkpoints")
    assert go(grid, out) == ["done"] * 2
    assert gridtoys.diary().count("0 epoch 1") == 2


def test_while_the_first_is_tried_again_the_second_waits(asked, tmp_path):
    watch = gridtoys.Watcher()
    assert go(asked("SharingFailsOnce"), tmp_path / "runs", watch) == ["done"] * 4
    assert [(name[len("sharingfailsonce/") :], ending) for name, _, ending in watch.outcomes] == [
        ("small/seed0", "ok"),
        ("other/seed0", "ok"),
        ("small/seed1", "failed"),
        ("small/seed1", "ok"),
        ("other/seed1", "ok"),
    ]
    assert Counter(gridtoys.diary())["1 epoch 1"] == Counter(gridtoys.diary())["1 epoch 3"] == 1


def test_where_the_first_fails_for_good_another_trains_in_its_place(asked, tmp_path):
    twin = gridtoys.chosen("SharingFails", "twin", colour="red")
    states = go(asked("SharingFails", twin, seeds=(1,)), tmp_path / "runs")
    assert states == ["failed", "failed", "done", "done"]
    assert Counter(gridtoys.diary())["1 epoch 1"] == 1


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_killed_grid_goes_on_and_still_trains_once(asked, tmp_path):
    grid, out = asked("SharingDies"), tmp_path / "runs"
    child = toys.fork(lambda: go(grid, out))
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    found = survey(jobs(grid, out), out)
    assert [each.state for each in found] == ["done", "done", "resumes", "new"]
    assert go(grid, out) == ["done"] * 4
    assert [line[-1] for line in gridtoys.diary() if line.startswith("1 epoch")] == ["1", "2", "2", "3"]


def test_one_that_was_begun_on_its_own_goes_on_on_its_own(asked, tmp_path):
    grid, out = asked("Sharing", seeds=(0,)), tmp_path / "runs"
    first, second = jobs(grid, out)
    kept = second.directory.partial.path / "checkpoints"
    kept.mkdir(parents=True)
    (kept / "epoch").write_text("1", encoding="utf-8")
    assert go(grid, out) == ["done"] * 2
    assert gridtoys.diary() == ["0 epoch 2", "0 epoch 3", "0 scored", "0 scored"]
    assert load(first.directory.path).run.seed == 0


def test_a_copy_of_checkpoints_that_was_cut_short_is_made_anew(asked, tmp_path):
    grid, out = asked("Sharing", seeds=(0,)), tmp_path / "runs"
    _, second = jobs(grid, out)
    torn = second.directory.partial.path / ".checkpoints.new"
    torn.mkdir(parents=True)
    (torn / "epoch").write_text("", encoding="utf-8")
    assert go(grid, out) == ["done"] * 2
    assert gridtoys.diary().count("0 epoch 1") == 1


def test_who_waits_for_a_run_of_another_process_is_left_to_it(asked, tmp_path):
    grid, out = asked("Sharing", seeds=(0,)), tmp_path / "runs"
    with jobs(grid, out)[0].directory.alone():
        assert go(grid, out) == ["elsewhere", "elsewhere"]
    assert gridtoys.diary() == []
    assert read(out) == []


def test_when_the_time_is_up_in_training_nobody_begins_in_its_place(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "over", lambda deadline: deadline is not None and bool(gridtoys.diary()))
    grid, out = asked("Sharing", seeds=(0,)), tmp_path / "runs"
    assert go(grid, out, deadline=1.0) == ["left", "left"]
    assert gridtoys.diary() == ["0 epoch 1"]
    assert go(grid, out) == ["done", "done"]
    assert gridtoys.diary()[1:] == ["0 epoch 2", "0 epoch 3", "0 scored", "0 scored"]
