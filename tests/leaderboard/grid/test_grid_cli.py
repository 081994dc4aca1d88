"""``mtbench grid`` as it is typed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from statistics import fmean
from unittest.mock import ANY

import gridtoys
import pytest

import mtbench
from leaderboard.cli import grid as cli_grid
from leaderboard.grid import engines
from leaderboard.grid.jobs import jobs
from mtbench.analysis.groups import mean_over
from mtbench.data import catalog
from mtbench.runs.result import load
from mtbench.training.models import Progress

COUNTING = f"{gridtoys.HERE}:Counting"
LABEL = f"{gridtoys.HERE}-counting"
EPOCHS = (("short", 1), ("long", 2))


def test_a_line_per_finished_run_and_a_sentence_at_the_end(printed, small, tmp_path):
    words = (COUNTING, f"{COUNTING}:epochs=5", "--dataset", small, "--seeds", "0-1", "--out", "kept")
    out = printed("grid", *words)
    names = [f"{label}/small/seed{seed}" for seed in (0, 1) for label in (LABEL, f"{LABEL}-epochs-5")]
    lines = out.splitlines()
    assert [re.sub(r" \d+s$", "", line) for line in lines[:-1]] == [f"{name} ok after" for name in names]
    assert lines[-1] == "kept: 4 runs, 4 done"
    assert load(tmp_path / "here" / "kept" / names[-1]).run.hyperparameters == {"epochs": 5}
    assert printed("grid", *words) == "kept: 4 runs, 4 done\n"
    assert gridtoys.diary().count("0 scored") == 2


def test_what_run_knows_is_passed_on(printed, small):
    options = "--set epochs=2 --protocol dual,entity --vocabulary slots --paper --without-names"
    printed("grid", f"{COUNTING}:colour=red", "--dataset", small, "--out", "kept", *options.split())
    kept = Path("kept") / f"{LABEL}-colour-red" / "small" / "seed0"
    found = load(kept)
    assert (found.protocol, found.vocabulary, found.candidate_seed) == ("dual", "slots", 0)
    assert found.run.hyperparameters == {"epochs": 2}
    assert not found.ranks.named
    assert {path.name for path in kept.iterdir()} >= {"entity-slots", "conventions.json"}


def test_json_is_all_that_is_printed(mtbench_grid, small):
    code, out, err = mtbench_grid(f"{gridtoys.HERE}:Fails", "--dataset", small, "--seeds", "0-1", "--json")
    assert code == 1
    found = json.loads(out)
    assert found["directory"] == "runs/grid"
    assert [(run["seed"], run["state"]) for run in found["runs"]] == [(0, "done"), (1, "failed")]
    assert found["runs"][1]["error"] == "ZeroDivisionError: by zero"
    assert err.startswith("error: ")


def test_failed_runs_are_listed_and_exit_with_1_until_they_are_retried(mtbench_grid, small):
    words = (f"{gridtoys.HERE}:Fails", "--dataset", small, "--seeds", "0-1", "--out", "kept")
    name = f"{gridtoys.HERE}-fails/small/seed1"
    code, out, err = mtbench_grid(*words)
    assert code == 1
    assert out.splitlines()[-1] == "kept: 2 runs, 1 done, 1 failed"
    assert re.search(rf"{re.escape(name)} failed after \d+s \(attempt 2\): ZeroDivisionError: by zero\n", out)
    again = shlex.join(["mtbench", "grid", *map(str, words)])
    expected = [
        f"error: {name} failed: ZeroDivisionError: by zero",
        f"error: what failed twice is left alone; to try it again: {again} --retry-failed",
    ]
    assert err.splitlines() == expected
    code, out, err = mtbench_grid(*words)
    assert (code, out) == (1, "kept: 2 runs, 1 done, 1 failed\n")
    assert err.splitlines() == expected
    code, out, err = mtbench_grid(*words, "--retry-failed")
    assert (code, out.count("failed after"), err.splitlines()) == (1, 2, expected)


def test_a_plan_shows_what_would_run_and_trains_nothing(mtbench_grid, printed, listed, small, tmp_path):
    words = (f"{gridtoys.HERE}:Interrupted", "--dataset", small)
    planned = (*words, "--seeds", "0-2", "--out", "kept", "--plan")
    out = printed("grid", *planned)
    assert [line.split()[-2:] for line in out.splitlines()[2:5]] == [["new", "unknown"]] * 3
    assert out.endswith("\n3 of 3 runs to do; nothing was trained\n")
    assert not (tmp_path / "here" / "kept").exists()
    code, _, err = mtbench_grid(*words, "--seeds", "0-1", "--out", "kept")
    assert code == 130
    again = shlex.join(["mtbench", "grid", *map(str, words), "--seeds", "0-1", "--out", "kept"])
    assert err == f"error: interrupted; checkpoints are kept, go on with: {again}\n"
    before = gridtoys.diary()
    found = listed("grid", *planned)
    assert [run["state"] for run in found["runs"]] == ["done", "resumes", "new"]
    seconds = load(tmp_path / "here" / "kept" / f"{gridtoys.HERE}-interrupted" / "small" / "seed0").run.wall_seconds
    assert [run["estimated_seconds"] for run in found["runs"]] == [seconds] * 3
    assert found["estimated_seconds"] == pytest.approx(2 * seconds, abs=1e-3)
    assert gridtoys.diary() == before


def test_a_group_is_done_by_every_model_and_its_mean_shown_once_all_of_it_is_there(
    mtbench_grid, listed, small, tmp_path, monkeypatch
):
    mtbench.build("metafam", seed=4, out=tmp_path / "next", train_trees=2, test_trees=1)
    monkeypatch.setattr(catalog, "names", lambda group="": [str(small), str(tmp_path / "next")])
    # The second model fails with the second seed, so that no dataset has all of its runs.
    words = (COUNTING, f"{gridtoys.HERE}:Fails", "--group", "one-graph", "--seeds", "0-1", "--out", "kept")
    code, out, err = mtbench_grid(*words)
    assert code == 1
    assert "one graph: dual, present relations, mean over the datasets" in out
    kept = [[load(f"kept/{LABEL}/{name}/seed{seed}") for seed in (0, 1)] for name in ("small", "next")]
    mean = mean_over({runs[0].dataset: fmean(run.metrics["mrr"] for run in runs) for runs in kept})
    (row,) = [line for line in out.splitlines() if re.match(rf"{LABEL} +0", line)]
    assert re.split(" {2,}", row)[1] == str(mean)
    fails = f"{gridtoys.HERE}-fails"
    lacking = [runs[0].dataset for runs in kept]
    assert f"{fails} has no mean yet: it lacks 2 of 2, {', '.join(lacking)}\n" in out
    assert "--group 'one graph'" in err
    plan = listed("grid", *words, "--plan")
    assert plan["means"]["dual-present"] == {LABEL: ANY}
    assert plan["means"]["dual-present"][LABEL]["mrr"] == mean.to_dict()
    assert plan["lacking"] == {fails: lacking}
    out = mtbench_grid(*words, "--train", small, "--seeds", "0", "--out", "transferred")[1]
    assert f"{fails} of {kept[0][0].dataset}" in out


def test_a_budget_that_is_over_says_what_is_left_and_how_to_go_on(mtbench_grid, small, monkeypatch):
    monkeypatch.setattr(engines, "over", lambda deadline: deadline is not None and len(gridtoys.diary()) > 5)
    words = (COUNTING, "--dataset", small, "--seeds", "0-2", "--without-names", "--out", "kept", "--budget", "1h")
    code, out, err = mtbench_grid(*words)
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()[:-1]] == ["ok", "stopped"]
    again = shlex.join(["mtbench", "grid", *map(str, words)])
    assert err == f"the budget of 1h is over: 2 of 3 runs left (1 with checkpoints); go on with: {again}\n"
    monkeypatch.undo()


def test_a_declared_grid_and_some_of_it(printed, listed, small, tmp_path):
    models = [f'[models.{label}]\nmodel = "{COUNTING}"\nset = {{ epochs = {epochs} }}\n' for label, epochs in EPOCHS]
    text = f'datasets = ["{small}"]\nseeds = [0, 1]\n{"".join(models)}'
    (tmp_path / "here" / "grid.toml").write_text(text, encoding="utf-8")
    assert len(listed("grid", "--file", "grid.toml", "--plan")["runs"]) == 4
    printed("grid", "long", "--file", "grid.toml", "--seeds", "4", "--out", "kept")
    (run,) = (tmp_path / "here" / "kept").glob("*/*/seed*")
    assert run.relative_to(tmp_path / "here" / "kept").as_posix() == "long/small/seed4"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "a grid needs MODEL... and --dataset NAME or --group NAME, or --file grid.toml"),
        ("isdea", "a grid needs MODEL... and --dataset NAME"),
        ("COUNTING --dataset metafm", "unknown dataset or directory 'metafm': did you mean metafam"),
        ("isdae --dataset metafam", "unknown model 'isdae': did you mean isdea"),
        ("isdea:epochs --dataset metafam", "the settings in 'isdea:epochs' must be isdea:KEY=VALUE,..., not 'epochs'"),
        ("COUNTING:epchs=2 --dataset metafam", "unknown hyper-parameter 'epchs': did you mean epochs"),
        ("COUNTING --dataset metafam --set epochs", "--set takes KEY=VALUE, not 'epochs'"),
        ("COUNTING COUNTING --dataset metafam", "two models would have the folder gridtoys-counting"),
        ("COUNTING --dataset metafam --dataset Metafam_v1", "unknown dataset"),
        ("COUNTING --dataset metafam --dataset MetaFam", "the folder metafam: metafam and MetaFam"),
        ("COUNTING --dataset metafam --seeds 0..2", "seeds are written 0-2, or 0,3,7, not '0..2'"),
        ("COUNTING --dataset metafam --protocol duel", "unknown protocol 'duel': did you mean dual"),
        ("COUNTING --dataset metafam --vocabulary slot", "unknown vocabulary 'slot': did you mean slots"),
        ("COUNTING --dataset metafam --budget 25", "a budget is written 25m, 1h30m or 90s, not '25'"),
        ("COUNTING --dataset metafam --engine rya", "unknown engine 'rya': did you mean ray"),
        ("COUNTING --dataset metafam --gpus 1", "--gpus is for runs on Ray: add --engine ray"),
        ("COUNTING --dataset metafam --engine ray --cpus 0", "--cpus must be more than 0, not 0"),
        ("COUNTING --dataset metafam --engine ray --gpus -1", "--gpus must be 0 or more, not -1"),
        ("COUNTING --dataset metafam --engine ray --gpus 1.5", "--gpus above 1 must be a whole number, not 1.5"),
        ("COUNTING --dataset metafam --out taken", "taken is a file: name a directory with --out DIR"),
        ("COUNTING --dataset metafam --retry", "--retry-failed"),
        ("COUNTING --dataset metafam --group entities", "--group is all datasets to be scored on: leave out --dataset"),
        ("--file mine.toml --group entities", "--group is all datasets to be scored on: leave out --file"),
        ("--file nothing.toml", "nothing.toml: cannot be read"),
        ("--file mine.toml --set a=1", "--set is for models on the command line: write set = {...} into mine.toml"),
        ("isdae --file mine.toml", "unknown label 'isdae': did you mean isdea"),
        ("--file mine.toml --dataset fbnel", "unknown dataset of the file 'fbnel'"),
    ],
)
def test_wrong_usage_exits_with_2_and_does_nothing(refused, tmp_path, arguments, message):
    (tmp_path / "here" / "taken").touch()
    (tmp_path / "here" / "mine.toml").write_text('datasets = ["metafam"]\n[models.isdea]\nmodel = "isdea"\n')
    err = refused("grid", *arguments.replace("COUNTING", COUNTING).split())
    assert message in " ".join(err.split())
    assert gridtoys.diary() == []
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"taken", "mine.toml"}


def test_without_ray_there_is_no_engine(monkeypatch, refused, small):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    err = refused("grid", COUNTING, "--dataset", small, "--engine", "ray")
    assert 'python -m pip install "mtbench-kg[cluster]"' in err


def test_whoever_waits_is_told_what_runs_and_what_ended(small, tmp_path, capsys):
    one, two = (engines.Attempt(job) for job in jobs(gridtoys.grid(small, "Counting", seeds=(0, 1)), tmp_path))
    shown = []
    watch = cli_grid.Lines(shown.append, silent=False)
    watch.started(one)
    watch.progressed(two, Progress("train", 3, 9, 1, 2, 0.5, 0.25))
    watch.finished(engines.Outcome(one, "", 75.0, "failed", "it [broke]"))
    assert shown == ["counting/small/seed0", "counting/small/seed1  train: epoch 3/9  loss 0.500  valid MRR 0.250"]
    assert capsys.readouterr().out == "counting/small/seed0 failed after 1m15s: it [broke]\n"
