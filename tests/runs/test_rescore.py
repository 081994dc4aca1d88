"""Old runs under a corrected evaluator: new figures, the old ones kept, and nothing lost on the way."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ranking_toys import hashed, random_split, small

from mtbench.errors import MtbenchError, ResultError
from mtbench.evaluation.tasks import evaluate, task
from mtbench.metrics import closed as metrics
from mtbench.runs import rescoring
from mtbench.runs import result as results
from mtbench.runs.result import verify
from mtbench.runs.runs import RunInfo

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


@pytest.fixture
def run(tmp_path):
    return evaluate(hashed, random_split(1)).save(tmp_path / "run", RunInfo(model="m"))


def payload_of(directory):
    return json.loads((directory / "result.json").read_text(encoding="utf-8"))


def edit(directory, **changes):
    path = directory / "result.json"
    path.write_text(json.dumps(payload_of(directory) | changes), encoding="utf-8")


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def old(run):
    """A run of an evaluator whose MRR was too high and that knew no Hits@5."""
    payload = payload_of(run)
    wrong = {name: value for name, value in payload["metrics"].items() if name != "hits@5"} | {"mrr": 0.9}
    edit(run, evaluator_version="0", metrics=wrong, tie_rate=0.0)
    return run


def test_a_verified_run_is_not_touched(run):
    before = files(run)
    stamp = (run / "result.json").stat().st_mtime_ns
    done = rescoring.rescore(run)
    assert files(run) == before
    assert (run / "result.json").stat().st_mtime_ns == stamp
    assert (done.old_version, done.new_version, done.changed) == ("2", "2", {})
    assert str(done) == f"{run}: nothing to change, all metrics match the ranks"


def test_figures_are_recomputed_and_the_old_ones_kept(old):
    before, ranks = payload_of(old), (old / "ranks.parquet").read_bytes()
    expected = evaluate(hashed, random_split(1))
    done = rescoring.rescore(old)
    assert verify(old).ok
    after = payload_of(old)
    assert results.load(old).metrics == expected.metrics
    assert after["tie_rate"] == expected.tie_rate
    assert after["evaluator_version"] == results.EVALUATOR_VERSION
    (record,) = after["rescored"]
    assert record == {name: before[name] for name in ("evaluator_version", *rescoring.FIGURES)}
    changed = {*rescoring.FIGURES, "evaluator_version", "rescored"}
    assert {name: value for name, value in after.items() if name not in changed} == {
        name: value for name, value in before.items() if name not in changed
    }
    assert (old / "ranks.parquet").read_bytes() == ranks
    assert set(done.changed) == {"mrr", "tie_rate"}
    assert done.changed["mrr"] == (0.9, expected.metrics["mrr"])
    assert f"evaluator 0 -> 2: mrr 0.9000 -> {expected.metrics['mrr']:.4f}; tie_rate 0.0000 -> " in str(done)
    assert sorted(path.name for path in old.iterdir()) == ["ranks.parquet", "result.json"]


def test_a_second_time_changes_nothing(old):
    rescoring.rescore(old)
    before = files(old)
    assert rescoring.rescore(old).changed == {}
    assert files(old) == before


def test_a_later_fix_adds_a_second_record(old, monkeypatch):
    rescoring.rescore(old)
    monkeypatch.setattr(results, "EVALUATOR_VERSION", "3")
    monkeypatch.setattr(rescoring, "EVALUATOR_VERSION", "3")
    original = metrics.per_target
    monkeypatch.setattr(
        metrics, "per_target", lambda above, tied: original(above, tied) | {"mrr": np.full(len(above), 0.5)}
    )
    done = rescoring.rescore(old)
    assert verify(old).ok
    assert (done.old_version, done.new_version) == ("2", "3")
    assert [record["evaluator_version"] for record in payload_of(old)["rescored"]] == ["0", "2"]
    assert payload_of(old)["metrics"]["mrr"] == 0.5


def test_a_version_alone_is_brought_up_to_date(run):
    edit(run, evaluator_version="0")
    assert str(rescoring.rescore(run)) == f"{run}: evaluator 0 -> 2: no figure changed"
    assert verify(run).ok


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks_sha256": "0" * 64}, r"cannot be rescored: .*ranks\.parquet: not the file"),
        ({"protocol": "entity"}, "cannot be rescored: .*protocol entity has tail"),
        ({"candidates_version": 0}, "cannot be rescored: .*candidates_version is 0"),
        ({"targets": 39}, "cannot be rescored: .*40 targets"),
        ({"evaluator_version": "7"}, "evaluator version '7' is not one that 2 follows: update mtbench-kg"),
        ({"evaluator_version": None}, "evaluator version None is not one"),
    ],
)
def test_a_damaged_or_newer_run_is_refused(old, changes, message):
    edit(old, **changes)
    before = files(old)
    with pytest.raises(ResultError, match=message):
        rescoring.rescore(old)
    assert files(old) == before


@pytest.mark.parametrize("protocol", ["dual", "entity", "relation", "full-tail"])
def test_a_run_of_the_first_evaluator_is_read_as_what_it_is(tmp_path, protocol):
    now = {"dual": "dual-tail", "entity": "entity-tail"}.get(protocol, protocol)
    expected = evaluate(hashed, random_split(1), now, "slots", 2)
    run = written_by_the_first(expected, tmp_path / "run", protocol)
    before = files(run)
    loaded = results.load(run)
    assert (loaded.protocol, loaded.evaluator_version, loaded.asked, loaded.asked_again) == (now, "1", {}, "")
    assert loaded.ranks.to_frame().equals(expected.ranks.to_frame())
    assert (loaded.metrics, loaded.by_direction()) == (expected.metrics, {})
    (problem,) = verify(run).problems
    assert problem.message == (
        f"{run / 'result.json'}: evaluator_version is '1', expected '2'; "
        f"mtbench verify RUN --rescore writes it as what it is now"
    )
    assert files(run) == before
    assert str(rescoring.rescore(run)) == f"{run}: evaluator 1 -> 2: no figure changed"
    assert verify(run).ok
    after = payload_of(run)
    assert (after["schema"], after["protocol"], after["candidates_sha256"]) == (2, now, expected.candidates_sha256)
    assert results.load(run).metrics == expected.metrics


def written_by_the_first(result, directory, protocol):
    """Save a result as evaluator 1 did, which had one list per target and did not say what was asked."""
    result.save(directory)
    payload = payload_of(directory)
    old = {name: value for name, value in payload.items() if name not in ("asked", "asked_again")}
    old |= {"schema": 1, "evaluator_version": "1", "protocol": protocol}
    (directory / "result.json").write_text(json.dumps(old), encoding="utf-8")
    return directory


@pytest.mark.parametrize("name", ["result.json", "ranks.parquet"])
def test_a_missing_or_cut_file_is_refused(old, name):
    (old / name).write_bytes((old / name).read_bytes()[:-9])
    with pytest.raises(ResultError, match=f"cannot be rescored: .*{name}"):
        rescoring.rescore(old)
    (old / name).unlink()
    with pytest.raises(ResultError, match=f"cannot be rescored: .*{name}"):
        rescoring.rescore(old)


def test_a_run_that_failed_has_nothing_to_rescore(tmp_path):
    failed = task(small()).unfinished("failed")
    directory = failed.save(tmp_path / "run", replace(failed.run, model="m"))
    assert rescoring.rescore(directory).changed == {}
    edit(directory, evaluator_version="0")
    with pytest.raises(ResultError, match="the run is failed and has no ranks"):
        rescoring.rescore(directory)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_fault_in_the_middle_leaves_the_old_run(old, monkeypatch, step, error):
    before = files(old)

    def fails(*arguments):
        raise error

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], fails)
    with pytest.raises((MtbenchError, KeyboardInterrupt)):
        rescoring.rescore(old)
    assert files(old) == before
    monkeypatch.undo()
    rescoring.rescore(old)
    assert verify(old).ok


def test_a_killed_process_leaves_the_old_run(old, monkeypatch):
    # Nothing is cleaned up after a kill: what is on the disk just before the rename is what stays.
    seen = {}
    original = Path.replace

    def looking(self, other):
        seen.update(files_below(old))
        return original(self, other)

    before = files(old)
    monkeypatch.setattr(Path, "replace", looking)
    rescoring.rescore(old)
    assert {name: seen[name] for name in before} == before


def files_below(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
