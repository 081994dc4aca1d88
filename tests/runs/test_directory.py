"""A run directory is whole whatever happens to its process, and one process at a time works on it."""

import os
from dataclasses import replace

import pytest
from ranking_toys import hashed, random_split
from toys import fork

from mtbench.errors import AtWorkError, CorruptedFileError, UsageError
from mtbench.evaluation.tasks import evaluate
from mtbench.runs.directory import CHECKPOINTS, RunDirectory
from mtbench.runs.origin import RunInfo
from mtbench.runs.result import load, verify

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "runs" / "one")


def seed(number):
    return replace(evaluate(hashed, random_split(1)), run=RunInfo(model="m", seed=number))


def exit_code(work):
    """Do some work in a process of its own."""
    return os.waitstatus_to_exitcode(os.waitpid(fork(work), 0)[1])


def prepare(run, number):
    """Leave all of a run that is finished and not in place, with weights."""
    with run.alone():
        partial = run.begin()
        seed(number).save(partial.path)
        partial.checkpoints.mkdir()
        (partial.checkpoints / "weights.bin").write_bytes(b"1")


@pytest.mark.parametrize(("there", "killed"), [(False, 1), (False, 2), (True, 1), (True, 2), (True, 3), (True, 4)])
def test_a_process_killed_at_any_rename_loses_nothing(run, there, killed):
    """The next process finds the old run with what was to become the new one, or the new one: each of them whole."""
    if there:
        seed(1).save(run.path)
    prepare(run, 2)
    calls, rename = [], os.rename

    def counted(*arguments):
        calls.append(arguments)
        if len(calls) == killed:
            os._exit(9)
        rename(*arguments)

    def finish():
        os.rename = counted
        with run.alone():
            run.finish()

    assert exit_code(finish) == 9
    with run.alone():
        pass
    if killed == 1:
        assert not there or load(run.path).run.seed == 1
        assert (run.partial.checkpoints / "weights.bin").exists()
        run.finish()
    assert (load(run.path).run.seed, verify(run.path).ok) == (2, True)
    assert (run.checkpoints / "weights.bin").exists()
    assert sorted(path.name for path in run.path.parent.iterdir()) == [".one.lock", "one"]


def test_what_a_finished_run_would_delete_is_not_deleted(run):
    prepare(run, 2)
    run.partial.path.rename(run.path.with_name(".one.ready"))
    run.path.mkdir()
    (run.path / "thesis.tex").write_text("dear", encoding="utf-8")
    with pytest.raises(UsageError, match=r"holds more than a run \(thesis\.tex\)"), run.alone():
        pass
    assert (run.path / "thesis.tex").exists()


def test_two_processes_with_two_caches_do_not_work_on_one_run(run, monkeypatch, tmp_path):
    def other():
        monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "another"))
        with pytest.raises(AtWorkError, match="another process is at work on"), run.alone():
            pass

    with run.alone():
        assert exit_code(other) == 0


def test_results_are_kept_all_or_none(run):
    slots = evaluate(hashed, random_split(1), vocabulary="slots")
    with run.alone():
        run.keep([seed(0), slots], failure="why")
    found = run.read()
    assert [setting.name for setting in found.results] == ["dual-present", "dual-slots"]
    assert found.directory.places() == [run.path, run.path / "dual-slots"]
    assert (run.path / "failure.txt").read_text() == "why\n"
    assert (len(found.missing), found.headline.metrics) == (4, seed(0).metrics)
    assert run.verify() == []
    with pytest.raises(UsageError, match="one exists already"), run.alone():
        run.keep([seed(0)])
    with pytest.raises(UsageError, match="cannot be written as JSON"), run.alone():
        run.keep([seed(0), replace(slots, run=RunInfo(hyperparameters={"rate": {1}}))], force=True)
    assert run.read().results.keys() == found.results.keys()
    assert not any(path.name.endswith(".new") for path in run.path.parent.iterdir())


def test_a_run_that_is_reopened_goes_on_from_its_newest_checkpoints(run):
    prepare(run, 1)
    with run.alone():
        run.finish()
        run.reopen()
        assert not run.exists
        (run.partial.checkpoints / "weights.bin").write_bytes(b"2")
        seed(1).save(run.path)
        (run.path / CHECKPOINTS).mkdir()
        run.reopen()
    assert (run.partial.checkpoints / "weights.bin").read_bytes() == b"2"


def test_of_a_link_the_directory_it_leads_to_is_made_and_replaced(run, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(run.path, target_is_directory=True)
    for number in (1, 2):  # first the link leads nowhere
        made = RunDirectory.to_make(link)
        prepare(made, number)
        with made.alone():
            made.finish()
        assert load(run.path).run.seed == number
    assert link.readlink() == run.path
    assert sorted(path.name for path in run.path.parent.iterdir()) == [".one.lock", "one"]


@pytest.mark.parametrize("state", ["ready", "new", "old", "gone"])
@pytest.mark.parametrize("kind", ["file", "link", "empty"])
def test_what_somebody_left_beside_a_run_does_not_replace_it(run, state, kind):
    seed(1).save(run.path)
    place = run.path.with_name(f".one.{state}")
    if kind == "file":
        place.write_text("x", encoding="utf-8")
    elif kind == "link":
        place.symlink_to(run.path.parent)
    else:
        place.mkdir()
    with run.alone():
        assert load(run.path).run.seed == 1
        prepared = run.begin()
        seed(2).save(prepared.path)
        run.finish()
    assert load(run.path).run.seed == 2
    assert sorted(path.name for path in run.path.parent.iterdir()) == [".one.lock", "one"]


@pytest.mark.parametrize("text", ["{", "5", "[1]"])
def test_edited_names_of_what_was_trained_are_refused(run, text):
    prepare(run, 1)
    (run.partial.checkpoints / "trained.json").write_text(text, encoding="utf-8")
    with pytest.raises(CorruptedFileError, match=r"trained\.json: .* begin the run anew with --restart"), run.alone():
        run.begin()
