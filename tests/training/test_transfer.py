"""The transfer matrix on tiny topics: every cell once, whatever stops the process on the way."""

from __future__ import annotations

import json
import math
import os
import sys
import tomllib
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import thirdparty
import toys

from mtbench.analysis.matrix import Matrix, scenario_file, scenario_table
from mtbench.builders import scenarios
from mtbench.data import store
from mtbench.errors import UnknownNameError, UsageError
from mtbench.files import pictures
from mtbench.runs.result import load, verify
from mtbench.training.transfer import Plan, topics_of, transfer

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
TOPICS = ("art", "health", "sport")
SOURCE = """
import os, signal
from pathlib import Path
from somebodys_models import Hashing, calls

class Adapting(Hashing):
    '''Keeps checkpoints of its training and, like one that adapts, of the graph it is applied to.'''

    def fit(self, train, valid):
        done = self.context.workdir / "trained"
        if not done.exists():
            calls.append(("trained", train.dataset))
            self.context.workdir.mkdir(parents=True, exist_ok=True)
            done.write_text(train.dataset)

    def scorer(self, observable):
        mine = self.context.workdir / "adapted"
        assert not mine.exists()
        mine.write_text(observable.dataset)
        calls.append(("applied", observable.dataset))
        if os.environ.get("STOP_AT") == f"{self.context.dataset}>{observable.dataset}":
            os.kill(os.getpid(), getattr(signal, os.environ["STOP_WITH"]))
        return super().scorer(observable)

class Greedy(Hashing):
    def fit(self, train, valid):
        if train.dataset == "health":
            raise MemoryError("no room")

    def scorer(self, observable):
        if observable.dataset == "sport":
            raise MemoryError("no room")
        return super().scorer(observable)
"""


@pytest.fixture
def module(monkeypatch, tmp_path):
    """Return somebody's models; three topics are built below ``topics``."""
    toys.install(monkeypatch.setattr)
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "elsewhere").mkdir()
    module = thirdparty.install(monkeypatch, tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "transferred.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "transferred", raising=False)
    for number, topic in enumerate(TOPICS):
        rows = [(f"{topic}{i}", f"r{(i * (number + 2)) % 3}", f"{topic}{(i * 7 + 1) % 12}") for i in range(12)]
        parts = (rows, rows[:2], rows[2:], rows[:2])
        parameters = {**toys.record().parameters, "seed": number + 2}
        made = toys.dataset(topic, parameters=parameters, parts=parts)
        store.obtain(tmp_path / "topics" / topic, lambda made=made: made)
    return module


@pytest.fixture
def plan(module, tmp_path):
    name, version, datasets = topics_of(str(tmp_path / "topics"))
    assert (name, version, tuple(datasets)) == ("topics", "", TOPICS)
    return Plan(name, datasets, version, model="transferred:Adapting", out=tmp_path / "matrix")


@pytest.fixture
def undrawn(monkeypatch):
    """The heat map is not drawn, which takes longer than all the rest; the first test has it."""
    monkeypatch.setattr(pictures, "available", lambda: False)


def test_every_topic_is_trained_on_once_and_scored_on_each(module, plan):
    matrix = transfer(plan)
    trained = [name for kind, name in (call[:2] for call in module.calls) if kind == "trained"]
    assert trained == list(TOPICS)
    assert not np.isnan(matrix.values).any()
    assert matrix.statuses == {}
    for row, topic in enumerate(TOPICS):
        for column, other in enumerate(TOPICS):
            cell = plan.out / "cells" / topic / other
            assert verify(cell).ok
            saved = load(cell)
            assert (saved.dataset, saved.run.pretraining_graphs) == (other, (f"{topic}/train",))
            assert saved.metrics["mrr"] == matrix.values[row, column]
    written = json.loads((plan.out / "matrix.json").read_text(encoding="utf-8"))
    assert written == matrix.to_dict()
    assert (plan.out / "matrix.csv").read_text(encoding="utf-8").splitlines()[0] == "train,art,health,sport"
    assert (plan.out / "heatmap.png").exists() == (find_spec("matplotlib") is not None)
    assert not (plan.out / "scenarios.toml").exists()


@pytest.mark.usefixtures("undrawn")
def test_finished_cells_are_never_repeated_and_topics_may_be_added(module, plan):
    few = replace(plan, datasets={topic: plan.datasets[topic] for topic in TOPICS[:2]})
    transfer(few)
    before = load(plan.out / "cells" / "art" / "health").run
    module.calls.clear()
    transfer(few)
    assert module.calls == []
    transfer(plan)
    assert [call[1] for call in module.calls if call[0] == "trained"] == ["sport"]
    assert [call[1] for call in module.calls if call[0] == "applied" and isinstance(call[1], str)] == [
        "sport",
        "sport",
        *TOPICS,
    ]
    assert load(plan.out / "cells" / "art" / "health").run == before


WORK = """
import sys, toys; toys.install()
from pathlib import Path
from mtbench.training.transfer import Plan, topics_of, transfer
from mtbench.files import pictures
pictures.available = lambda: False
import warnings; warnings.simplefilter("ignore")
name, version, datasets = topics_of(sys.argv[1])
transfer(Plan(name, datasets, version, model="transferred:Adapting", out=Path(sys.argv[2])))
"""


@pytest.mark.usefixtures("undrawn")
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGINT"])
def test_a_process_that_is_stopped_is_continued_without_repeating_a_cell(module, plan, tmp_path, number):
    where = {"PYTHONPATH": os.pathsep.join([str(tmp_path / "elsewhere"), os.path.dirname(toys.__file__)])}  # noqa: PTH120
    stop = {"STOP_AT": "health>sport", "STOP_WITH": number}
    process = toys.python("-c", WORK, str(tmp_path / "topics"), str(plan.out), env={**where, **stop})
    process.communicate()
    assert process.returncode
    finished = {path.parent: load(path.parent).run for path in plan.out.glob("cells/*/*/result.json")}
    assert len(finished) == 5
    module.calls.clear()
    matrix = transfer(plan)
    assert [call[1] for call in module.calls if call[0] == "trained"] == ["sport"]
    assert not np.isnan(matrix.values).any()
    assert all(load(cell).run == run for cell, run in finished.items())
    whole = transfer(replace(plan, out=tmp_path / "whole"))
    np.testing.assert_array_equal(matrix.values, whole.values)


@pytest.mark.usefixtures("undrawn")
def test_what_runs_out_of_memory_is_a_cell_of_its_own(plan):
    matrix = transfer(replace(plan, model="transferred:Greedy"))
    expected = {("art", "sport"), ("sport", "sport"), ("health", "art"), ("health", "health"), ("health", "sport")}
    assert matrix.statuses == dict.fromkeys(expected, "oom")
    assert {pair for pair in expected if math.isnan(matrix.values[tuple(map(TOPICS.index, pair))])} == expected
    assert load(plan.out / "cells" / "health" / "art").run.status == "oom"
    assert "oom" in matrix.table()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed: 0 there, 1 here"),
        ({"settings": {"depth": "2"}}, "settings: .* there, {'depth': '2'} here"),
        ({"vocabulary": "slots"}, "vocabulary: present there, slots here"),
    ],
)
def test_cells_of_other_options_are_not_mixed(module, plan, change, message):
    transfer(plan)
    module.calls.clear()
    with pytest.raises(UsageError, match=message):
        transfer(replace(plan, **change))
    assert module.calls == []


def test_a_directory_of_other_files_is_left_alone(module, plan):
    plan.out.mkdir()
    (plan.out / "thesis.tex").write_text("dear", encoding="utf-8")
    with pytest.raises(UsageError, match="holds other files"):
        transfer(plan)
    assert [path.name for path in plan.out.iterdir()] == ["thesis.tex"]


def test_the_published_topics_are_found_by_version():
    name, version, found = topics_of("v1")
    assert (name, version, len(found)) == ("wikitopics-v1", "v1", 11)
    assert found["art"] == "wikitopics-v1/art"
    assert list(topics_of("wikitopics-v2", ["sport", "art", "sport"])[2]) == ["sport", "art"]
    with pytest.raises(UnknownNameError, match="unknown topic 'sports': did you mean sport"):
        topics_of("v1", ["sports", "art"])
    with pytest.raises(UnknownNameError, match="unknown version or directory of topics 'v3'"):
        topics_of("v3")
    with pytest.raises(UsageError, match="at least two topics, not 1"):
        topics_of("v1", ["art"])


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
    found = matrix_of(VALUES, topics).scenarios()
    text = scenario_file(found, "v1")
    assert tomllib.loads(text)["scenarios"]["art-people"] == {
        "version": "v1",
        "train": ["art", "people"],
        "test": ["health", "taxonomy"],
    }
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert scenarios.read(tmp_path / "mine.toml").names[:2] == ("art-people/health", "art-people/taxonomy")
    assert "art + people" in scenario_table(found).splitlines()[2]
    assert "health (+0.500)" in scenario_table(found).splitlines()[2]
