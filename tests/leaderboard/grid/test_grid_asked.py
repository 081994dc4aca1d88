"""What a grid is asked for: words of the command line, a file, and the log of what was done."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.cli import grid as cli_grid
from leaderboard.entries.commands import label as label_of
from leaderboard.grid import state
from leaderboard.grid.jobs import Chosen, jobs, read_declared, typed_model, typed_seeds
from leaderboard.grid.state import Line
from mtbench.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected", "label"),
    [
        ("isdea", ("isdea", {}), "isdea"),
        ("mtdea:tasks=4", ("mtdea", {"tasks": "4"}), "mtdea-tasks-4"),
        ("mtdea:tasks=4,mask=none", ("mtdea", {"tasks": "4", "mask": "none"}), "mtdea-tasks-4-mask-none"),
        ("mine.models:Model", ("mine.models:Model", {}), "mine.models-model"),
        ("mine:Model:rate=1e-3,b=a=b", ("mine:Model", {"rate": "1e-3", "b": "a=b"}), "mine-model-rate-1e-3-b-a-b"),
    ],
)
def test_a_model_may_carry_settings(text, expected, label):
    assert typed_model(text) == expected
    assert label_of(*expected) == label


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (typed_seeds, {"0": [0], "0-2": [0, 1, 2], "0,2,5-7": [0, 2, 5, 6, 7], "3,3": [3], "2-2": [2], "1, 4": [1, 4]}),
        (cli_grid.duration, {"25m": 1500, "1h30m": 5400, "90s": 90, "2h": 7200, "1h0m5s": 3605, " 5m ": 300}),
    ],
)
def test_seeds_and_budgets(read, values):
    assert {text: read(text) for text in values} == values


@pytest.mark.parametrize(
    ("read", "message", "texts"),
    [
        (typed_model, "settings in .* must be .*:KEY=VALUE", "isdea:tasks|isdea:|isdea:a=1,b|mine:Model:=4|a:b=1,b=2"),
        (typed_seeds, "seeds", "|-1|0-|a|0..2|2-0|1,,2|0:3"),
        (cli_grid.duration, "budget", "| |25|25min|m|1.5h|30m1h|-5m|0m|1d|1H"),
    ],
)
def test_another_form_is_refused(read, message, texts):
    for text in texts.split("|"):
        with pytest.raises(UsageError, match=message):
            read(text)


@given(st.integers(1, 599) | st.integers(10, 6000).map(lambda minutes: 60 * minutes))
def test_a_length_of_time_is_written_as_it_is_typed(seconds):
    assert cli_grid.duration(cli_grid.spoken(seconds)) == seconds


def declare(tmp_path, text):
    path = tmp_path / "grid.toml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_declared_grid(tmp_path):
    path = declare(
        tmp_path,
        """
        datasets = ["metafam", "wikitopics-mt1/health"]
        seeds = [0, 1]
        protocols = ["all"]
        paper = true
        [models.isdea]
        model = "isdea"
        [models.mtdea-k4]
        model = "mtdea"
        set = { tasks = 4, learning_rate = 1e-3, inverses = true, mask = "pair" }
        [models.mtdea-k4.datasets."wikitopics-mt1/health"]
        set = { tasks = 6 }
        """,
    )
    grid = read_declared(path)
    settings = {"tasks": "4", "learning_rate": "0.001", "inverses": "true", "mask": "pair"}
    overrides = {"wikitopics-mt1/health": {"tasks": "6"}}
    assert grid.models == [Chosen("isdea", "isdea"), Chosen("mtdea-k4", "mtdea", settings, overrides)]
    assert (grid.datasets, grid.seeds) == (["metafam", "wikitopics-mt1/health"], [0, 1])
    assert (grid.protocols, list(grid.vocabularies), grid.paper, grid.with_names) == (["all"], ["present"], True, True)
    found = {str(job): job.plan for job in jobs(grid, tmp_path / "out")}
    assert len(found) == 8
    assert found["mtdea-k4/metafam/seed1"].settings == settings
    assert found["mtdea-k4/wikitopics-mt1-health/seed1"].settings == {**settings, "tasks": "6"}
    assert found["isdea/wikitopics-mt1-health/seed0"].out == tmp_path / "out/isdea/wikitopics-mt1-health/seed0"


MINIMAL = 'datasets = ["metafam"]\n[models.isdea]\nmodel = "isdea"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("datasets = [", "not valid TOML"),
        ('datasets = ["metafam"]', "grid.toml: missing models"),
        ('[models.isdea]\nmodel = "isdea"', "grid.toml: missing datasets"),
        ("dataset = 1\n" + MINIMAL, "grid.toml: unknown key 'dataset': did you mean datasets"),
        ("seeds = [true]\n" + MINIMAL, r"grid.toml: seeds\.0 must be a valid integer, not True"),
        ("seeds = [-1]\n" + MINIMAL, r"seeds\.0 must be greater than or equal to 0, not -1"),
        ("seeds = 3\n" + MINIMAL, "seeds must be a valid array, not 3"),
        ("seeds = []\n" + MINIMAL, "seeds must hold at least one value"),
        ("paper = 1\n" + MINIMAL, "paper must be a valid boolean, not 1"),
        (MINIMAL + "st = { tasks = 4 }", r"models.isdea: unknown key 'st': did you mean set"),
        (MINIMAL + "set = { tasks = [4] }", r"models.isdea.set.tasks.* must be .*integer.*, not \[4\]"),
        ('datasets = ["metafam"]\n[models]\nisdea = "isdea"', "models.isdea must be an object, not 'isdea'"),
        ('datasets = ["metafam"]\n[models.a]\nset = { tasks = 4 }', "grid.toml: missing models.a.model"),
        (MINIMAL + "[models.isdea.datasets.metafm]\nset = { a = 1 }", "dataset in .*: 'metafm': did you mean metafam"),
    ],
)
def test_a_file_of_another_form_is_refused_by_name(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        read_declared(declare(tmp_path, text))


def test_a_folder_of_files_of_triples_is_a_dataset(tmp_path):
    folder = tmp_path / "my own"
    folder.mkdir()
    for name, row in (("train", "a\tr\tb"), ("msg", "c\tr\td"), ("test", "d\tr\tc")):
        (folder / f"{name}.txt").write_text(f"{row}\n", encoding="utf-8")
    (job,) = jobs(read_declared(declare(tmp_path, MINIMAL.replace("metafam", str(folder)))), tmp_path / "out")
    assert (str(job), job.test.name, job.test.source) == ("isdea/my-own/seed0", "my own", str(folder))


def line(seed=0, **changes):
    begun = Line("çelik", "metafam", seed, attempt=1, started="2026-01-01T00:00:00+00:00", seconds=1.5, status="ok")
    return replace(begun, **changes)


def test_a_log_is_read_as_it_was_written(tmp_path):
    assert state.read(tmp_path) == []
    lines = [line(0), line(1, status="failed", error="a\nb")]
    folder = tmp_path / "new" / "grid"
    for each in lines:
        state.append(folder, each)
    assert state.read(folder) == lines
    assert (folder / "grid.jsonl").read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("kept", [1, 20, -2])
def test_a_line_that_a_killed_process_left_unfinished_is_none(tmp_path, kept):
    for seed in (0, 1):
        state.append(tmp_path, line(seed))
    path = tmp_path / state.LOG_FILE
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:kept])
    assert state.read(tmp_path) == [line(0)]
    state.append(tmp_path, line(2))
    assert state.read(tmp_path) == [line(0), line(2)]


@pytest.mark.parametrize("text", ["[]", "{}", '"x"', '{"label": "a"}'])
def test_what_is_no_line_of_the_log_is_left_out(tmp_path, text):
    (tmp_path / state.LOG_FILE).write_text(f"{text}\n", encoding="utf-8")
    state.append(tmp_path, line())
    assert state.read(tmp_path) == [line()]


def test_a_line_of_a_later_version_is_read(tmp_path):
    state.append(tmp_path, line())
    path = tmp_path / state.LOG_FILE
    path.write_text(path.read_text(encoding="utf-8").replace("{", '{"machine": "a", ', 1), encoding="utf-8")
    assert state.read(tmp_path) == [line()]
