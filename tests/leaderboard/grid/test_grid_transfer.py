"""A grid over training and test datasets: each is learned from once, scored on all, and shown as a matrix."""

from __future__ import annotations

import math
import os
import signal
import tomllib
from importlib.util import find_spec

import gridtoys
import numpy as np
import pytest
import toys

from leaderboard.grid.jobs import jobs, named
from leaderboard.grid.state import matrices
from mtbench.analysis.matrix import Matrix, scenario_file, scenario_table
from mtbench.builders.wikitopics import read_scenarios
from mtbench.data import store
from mtbench.errors import UsageError
from mtbench.files import pictures
from mtbench.runs.result import load, verify

TOPICS = ("art", "health", "sport")


class Adapting(gridtoys.Counting):
    """Keeps checkpoints of its training and, like one that adapts, of the graph it is applied to."""

    def scorer(self, observable):
        mine = self.context.workdir / "adapted"
        assert not mine.exists()
        mine.write_text(observable.dataset)
        if os.environ.get("STOP_AT") == f"{self.context.dataset}>{observable.dataset}":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().scorer(observable)


class Greedy(gridtoys.Counting):
    def fit(self, train, valid):
        if train.dataset == "health":
            raise MemoryError("no room")
        super().fit(train, valid)

    def scorer(self, observable):
        if observable.dataset == "sport":
            raise MemoryError("no room")
        return super().scorer(observable)


@pytest.fixture
def topics(monkeypatch, diary):
    """Build three topics below ``topics``; the heat map is not drawn, which takes longer than all the rest."""
    toys.install(monkeypatch.setattr)
    monkeypatch.setattr(pictures, "available", lambda: False)
    for number, topic in enumerate(TOPICS):
        rows = [(f"{topic}{i}", f"r{(i * (number + 2)) % 3}", f"{topic}{(i * 7 + 1) % 12}") for i in range(12)]
        parameters = {**toys.record().parameters, "seed": number + 2}
        made = toys.dataset(topic, parameters=parameters, parts=(rows, rows[:2], rows[2:], rows[:2]))
        store.obtain(diary.parent / "here" / "topics" / topic, lambda made=made: made)
    return [f"topics/{topic}" for topic in TOPICS]


def grid(model, train, tests=(), **options):
    chosen = gridtoys.Chosen(model.__name__.lower(), f"{__name__}:{model.__name__}")
    return gridtoys.Grid([chosen], tests or train, train, **options)


def go(asked, out):
    return gridtoys.go(asked, out), matrices(jobs(asked, out))


def trained():
    return gridtoys.diary().count("0 epoch 1")


def test_every_dataset_is_learned_from_once_and_scored_on_each(topics, tmp_path):
    asked, out = grid(Adapting, topics), tmp_path / "runs"
    states, made = go(asked, out)
    matrix = made["adapting"]
    assert states == ["done"] * 9
    assert (trained(), gridtoys.diary().count("0 scored")) == (3, 9)
    assert (matrix.name, matrix.topics, matrix.statuses) == ("topics, protocol dual, present relations", [*TOPICS], {})
    for job in jobs(asked, out):
        saved = load(job.directory.path)
        assert verify(job.directory.path).ok
        assert (saved.dataset, saved.run.pretraining_graphs) == (job.test.name, (f"{job.train.name}/train",))
        assert saved.metrics["mrr"] == matrix.values[TOPICS.index(job.train.name), TOPICS.index(job.test.name)]
        assert "--train art --test" in saved.run.environment["command"] or job.train.name != "art"


def test_datasets_may_be_added_and_tests_may_be_others_than_trainings(topics, tmp_path):
    out = tmp_path / "runs"
    go(grid(Adapting, topics[:2]), out)
    assert trained() == 2
    states, made = go(grid(Adapting, topics[1:], topics), out)
    assert (states, trained()) == (["done"] * 6, 3)
    matrix = made["adapting"]
    assert matrix.table().splitlines()[0].split() == ["train", "\\", "test", *TOPICS]
    assert (matrix.values.shape, matrix.scenarios()) == ((2, 3), [])
    assert not np.isnan(matrix.values).any()
    assert matrix.to_dict()["tests"] == [*TOPICS]


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_process_that_is_killed_is_continued_without_repeating_a_cell(topics, tmp_path, monkeypatch):
    asked, out = grid(Adapting, topics), tmp_path / "runs"
    monkeypatch.setenv("STOP_AT", "health>sport")
    child = toys.fork(lambda: go(asked, out))
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    finished = {path: load(path).run for path in (job.directory.path for job in jobs(asked, out)) if path.exists()}
    assert (len(finished), trained()) == (5, 2)
    monkeypatch.delenv("STOP_AT")
    _, made = go(asked, out)
    assert trained() == 3
    assert all(load(path).run == run for path, run in finished.items())
    _, whole = go(asked, tmp_path / "whole")
    np.testing.assert_array_equal(made["adapting"].values, whole["adapting"].values)


def test_what_runs_out_of_memory_is_a_cell_of_its_own_and_seeds_are_averaged(topics, tmp_path):
    _, made = go(grid(Greedy, topics, seeds=(0, 1)), tmp_path / "runs")
    matrix = made["greedy"]
    expected = {("art", "sport"), ("sport", "sport"), ("health", "art"), ("health", "health"), ("health", "sport")}
    assert matrix.statuses == dict.fromkeys(expected, "oom")
    assert {pair for pair in expected if math.isnan(matrix.values[tuple(map(TOPICS.index, pair))])} == expected
    assert "oom" in matrix.table()
    assert matrix.name.endswith("mean of seeds 0, 1")
    cells = [load(tmp_path / "runs" / "greedy" / "art-to-art" / f"seed{seed}").metrics["mrr"] for seed in (0, 1)]
    assert matrix.values[0, 0] == pytest.approx(sum(cells) / 2)


def test_the_matrix_is_printed_and_kept(topics, printed, listed, monkeypatch, tmp_path):
    monkeypatch.setattr(pictures, "available", lambda: find_spec("matplotlib") is not None)
    model = f"{gridtoys.HERE}:Counting"
    out = printed("grid", model, "--train", "topics/*", "--out", tmp_path / "runs")
    folder = tmp_path / "runs" / "gridtoys-counting"
    kept = {path.name for path in folder.iterdir() if path.is_file()}
    assert kept - {"heatmap.png"} == {"matrix.csv", "matrix.md", "matrix.json", "plan.json"}
    assert ("heatmap.png" in kept) == (find_spec("matplotlib") is not None)
    assert out.endswith("9 runs, 9 done\n")
    found = listed("grid", model, "--train", "topics/art,topics/sport", "--out", tmp_path / "runs")
    (matrix,) = found["matrices"].values()
    assert matrix["topics"] == ["art", "sport"]
    lines = (folder / "matrix.md").read_text(encoding="utf-8").replace("|", " ").splitlines()[4:]
    assert [[f"{value:.3f}" for value in row] for row in matrix["mrr"]] == [line.split()[1:] for line in lines]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--train", "topicz/*"), "topicz/* matches no dataset (mtbench list shows them) and no directory"),
        (("--train", "wikitopics-v3/art"), "unknown dataset or directory 'wikitopics-v3/art': did you mean"),
        (("--test", "topics/art", "--tran", "topics/art"), "No such option"),
        ((), "a grid needs MODEL... and --dataset NAME or --group NAME, or --file grid.toml"),
    ],
)
def test_wrong_usage_exits_with_2_and_does_nothing(topics, refused, tmp_path, arguments, message):
    assert message in refused("grid", f"{gridtoys.HERE}:Counting", *arguments, "--out", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_the_published_topics_are_found_by_a_pattern():
    assert len(named(["wikitopics-v1/*"])) == 11
    assert named(["wikitopics-v2/[as]*", "wikitopics-v2/art"])[:2] == ["wikitopics-v2/art", "wikitopics-v2/award"]
    with pytest.raises(UsageError, match="matches no dataset"):
        named(["wikitopics-v3/*"])


def matrix_of(values, topics="abcd"):
    return Matrix("toy", "model", list(topics), np.array(values, dtype=float), {})


VALUES = [[0.9, 0.1, 0.8, 0.3], [0.2, 0.9, 0.3, 0.7], [0.6, 0.5, 0.9, 0.4], [0.5, 0.6, 0.5, 0.9]]


def test_pairs_that_transfer_worst_come_first_each_with_a_topic_of_its_own():
    first, *others = matrix_of(VALUES).scenarios()
    assert (first.train, first.test, first.between) == (("a", "b"), ("c", "d"), 0.2)
    assert first.gains == pytest.approx((0.5, 0.4))
    assert [scenario.between for scenario in others] == sorted(scenario.between for scenario in others)
    assert all(gain > 0 for scenario in others for gain in scenario.gains)


def test_a_pair_of_which_one_is_never_better_makes_no_scenario():
    better = np.array(VALUES)
    better[0, 2:] = 0.95
    assert ("a", "b") not in [scenario.train for scenario in matrix_of(better).scenarios()]
    assert matrix_of([[1, 0.1, 0.5], [0.1, 1, 0.2], [0.3, 0.3, 1]], "abc").scenarios() == []
    assert matrix_of([[1, 0.1], [0.1, 1]], "ab").scenarios() == []


def test_topics_whose_cells_are_missing_take_no_part():
    values = np.full((5, 5), np.nan)
    values[:4, :4] = VALUES
    assert matrix_of(values, "abcde").scenarios() == matrix_of(VALUES).scenarios()


def test_the_scenarios_can_be_built_as_they_are_written(tmp_path):
    topics = ("art", "people", "health", "taxonomy")
    proposed = matrix_of(VALUES, topics).scenarios()
    text = scenario_file(proposed, "v1")
    expected = {"version": "v1", "train": ["art", "people"], "test": ["health", "taxonomy"]}
    assert tomllib.loads(text)["scenarios"]["art-people"] == expected
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    plans = read_scenarios(tmp_path / "mine.toml").plans
    assert [plan.name for plan in plans[:2]] == ["art-people/health", "art-people/taxonomy"]
    assert "art + people" in scenario_table(proposed).splitlines()[2]
    assert "health (+0.500)" in scenario_table(proposed).splitlines()[2]
