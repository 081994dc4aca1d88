"""Tasks by their one-line names: what is recognised, what is left out, what is refused."""

import pytest
import toys

import mtbench
from mtbench.errors import UnknownNameError, UsageError
from mtbench.evaluation import tasks


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path):
    toys.install(monkeypatch.setattr)
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("toy", "toy/test/dual/present/0"),
        ("Toy_v1", "toy/test/dual/present/0"),
        ("toy/", "toy/test/dual/present/0"),
        ("toy/valid", "toy/valid/dual/present/0"),
        ("toy/entity", "toy/test/entity/present/0"),
        ("toy/slots", "toy/test/dual/slots/0"),
        ("toy/2", "toy/test/dual/present/2"),
        ("toy/relation/slots/1", "toy/test/relation/slots/1"),
        ("toy/valid/entity/slots/2", "toy/valid/entity/slots/2"),
    ],
)
def test_parts_may_be_left_out(name, full):
    found = tasks.task(name)
    assert found.name == full
    assert found.dataset_version == "2.0.0"
    assert tasks.task(found.name).candidates.sha256 == found.candidates.sha256


def test_names_of_datasets_may_hold_slashes(monkeypatch):
    record = toys.record()
    monkeypatch.setattr(tasks.catalog, "_records", lambda: {"a/b": record, "a/b/dual": record})
    assert tasks._dataset_of("a/b/entity/0") == ("a/b", ["entity", "0"])
    assert tasks._dataset_of("a/b/dual") == ("a/b/dual", [])
    with pytest.raises(UnknownNameError, match="unknown dataset or directory 'a': did you mean a/b"):
        tasks.task("a/dual/present/0")


def test_a_directory_is_a_dataset_and_a_folder_around_it_is_not(tmp_path):
    mtbench.build("toy", seed=2, out=tmp_path / "made" / "dual")
    assert tasks.task(f"{tmp_path}/made/dual/entity").name == "toy[seed=2]/test/entity/present/0"
    assert tasks.task("made/dual/valid/slots").name == "toy[seed=2]/valid/dual/slots/0"
    with pytest.raises(UnknownNameError, match="unknown dataset or directory 'made'"):
        tasks.task("made/entity")


def test_parts_may_be_given_apart_from_the_name():
    chosen = {"split": "valid", "protocol": "entity", "vocabulary": "slots", "seed": 2}
    assert tasks.task("toy", **chosen).name == "toy/valid/entity/slots/2"
    assert tasks.task("toy/entity/2", **chosen).name == "toy/valid/entity/slots/2"
    assert tasks.task("toy/entity", split=None, vocabulary="slots").name == "toy/test/entity/slots/0"
    with pytest.raises(UsageError, match="the protocol is dual in the task's name and entity beside it: say it once"):
        tasks.task("toy/dual", **chosen)


@pytest.mark.parametrize(
    ("name", "chosen", "message"),
    [
        ("toi/duall", {}, "unknown dataset or directory 'toi/duall'"),
        ("toi/dual/slots/1", {}, "unknown dataset or directory 'toi': did you mean toy"),
        ("toy/duall", {}, "unknown part of a task's name 'duall': did you mean dual"),
        ("toy/dual/presents", {}, "unknown part of a task's name 'presents': did you mean present"),
        ("toy//0", {}, "unknown part of a task's name ''"),
        ("toy", {"protocol": "entty"}, "unknown protocol 'entty': did you mean entity"),
        ("toy", {"split": "tests"}, "unknown split 'tests': did you mean test"),
        ("toy", {"vocabulary": "all"}, "unknown vocabulary 'all'"),
    ],
)
def test_unknown_names(name, chosen, message):
    with pytest.raises(UnknownNameError, match=message):
        tasks.task(name, **chosen)
    with pytest.raises(UsageError, match="'' names no dataset: give a name"):
        tasks.task("")


@pytest.mark.parametrize("name", ["toy/0/dual", "toy/dual/valid", "toy/dual/entity", "toy/slots/slots", "toy/1/2"])
def test_parts_out_of_order_or_given_twice(name):
    with pytest.raises(UsageError, match="is out of order; write DATASET/SPLIT/PROTOCOL/VOCABULARY/SEED"):
        tasks.task(name)


@pytest.mark.parametrize(("name", "seed"), [("toy", -1), (f"toy/{'9' * 101}", None)])
def test_a_seed_that_is_none(name, seed):
    with pytest.raises(UsageError, match=r"the candidate seed must be a whole number from 0 to .*, not "):
        tasks.task(name, seed=seed)


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
@pytest.mark.parametrize("name", ["toy", "toy/valid/dual", "toy/entity/slots/1", "made/dual"])
def test_python_and_the_command_line_take_one_grammar(listed, tmp_path, name):
    mtbench.build("toy", seed=2, out=tmp_path / "made")
    said = listed("score", "--template", "triples.csv", "--task", name)
    assert said["task"] == mtbench.task(name).name
    result = mtbench.evaluate(lambda triples: triples[:, 0], name)
    assert result.candidates_sha256 == mtbench.task(name).candidates.sha256
