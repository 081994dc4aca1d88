"""Loading and building: by name, alias or directory, once, also when killed or run eight times at once."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import toys

import mtbench
from mtbench.data import catalog, loading, store
from mtbench.data.splits import match_parts
from mtbench.errors import CorruptedFileError, DatasetError, UnknownNameError, UsageError, nearest
from mtbench.files import atomic

KILLED = """
import os, shutil, signal, sys
import mtbench, toys
import pandas, mtbench.builders.making, mtbench.data.loading  # once, not in every child
from mtbench.data import store
toys.install()
os.fsync = lambda descriptor: None
POINTS = [("mkdir", 1), ("fsync", 0), ("fsync", 8), ("fsync", 12), ("fsync", 13)]
POINTS += [("rename", 0), ("rename", 1), ("rename", 2), ("unlink", 0), ("unlink", 5), ("rmdir", 0)]

def in_child(work):
    return os.waitpid(toys.fork(work), 0)[1]

def build_and_die(name, calls_left, force):
    function = getattr(os, name)
    def mortal(*arguments, **options):
        nonlocal calls_left
        if calls_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        calls_left -= 1
        return function(*arguments, **options)
    setattr(os, name, mortal)
    mtbench.build("toy", force=force)

def load_and_look():
    toys.assert_same(mtbench.load("toy"), toys.dataset())
    mtbench.build("toy")
    folder = store.cached(toys.record()).parent
    assert sorted(path.name for path in folder.iterdir()) == [".2.0.0.lock", "2.0.0"], list(folder.iterdir())

os.environ["MTBENCH_CACHE"] = template = sys.argv[1] + "/template"
assert in_child(lambda: mtbench.build("toy")) == 0
for force in (False, True):
    for name, calls in POINTS:
        os.environ["MTBENCH_CACHE"] = cache = f"{sys.argv[1]}/{force}-{name}-{calls}"
        if force:
            shutil.copytree(template, cache)
        status = in_child(lambda: build_and_die(name, calls, force))
        assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
        assert in_child(load_and_look) == 0, (force, name, calls)
        print("died" if status else "lived")
"""

AT_ONCE = """
import os, sys, mtbench, toys
import pandas, mtbench.builders.making, mtbench.data.loading
toys.install()
gate, opener = os.pipe()

def work():
    os.close(opener)
    os.read(gate, 1)  # returns when the last process has closed the other end
    toys.assert_same(mtbench.build("toy", force=sys.argv[1] == "force"), toys.dataset())
    toys.assert_same(mtbench.load("toy"), toys.dataset())

children = [toys.fork(work) for _ in range(8)]
os.close(opener)
print([os.waitpid(child, 0)[1] for child in children])
"""


@pytest.fixture(autouse=True)
def cache(toy_cache, monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    return toy_cache


def times_built(tmp_path) -> int:
    return len((tmp_path / "log").read_text().splitlines())


def test_the_first_load_builds_and_the_next_ones_read(tmp_path, cache):
    for name in ("toy", "Toy_v1", "TOY"):
        toys.assert_same(mtbench.load(name), toys.dataset())
    assert times_built(tmp_path) == 1
    assert (cache / "manifest.json").is_file()


@pytest.mark.parametrize("kind", [str, Path])
def test_a_directory_made_by_build_loads(tmp_path, kind):
    made = mtbench.build("toy", seed=3, out=kind(tmp_path / "made"))
    toys.assert_same(mtbench.load(kind(tmp_path / "made")), made)
    assert made.name == "toy[seed=3]"
    assert made.parameters["seed"] == 3


def test_only_the_release_goes_to_the_cache(tmp_path):
    made = mtbench.build("toy", seed=3)
    assert len(made.train.graph) == 3
    assert not (tmp_path / "cache").exists()
    mtbench.build("toy", seed=1, scale=0.5)
    assert (tmp_path / "cache").exists()


def test_building_again_reads_and_force_builds(tmp_path):
    for force, total in ((False, 1), (False, 1), (True, 2)):
        toys.assert_same(mtbench.build("toy", force=force), toys.dataset())
        assert times_built(tmp_path) == total


def test_a_directory_with_another_dataset_needs_force(tmp_path):
    made = tmp_path / "made"
    mtbench.build("toy", seed=3, out=made)
    with pytest.raises(UsageError, match=r"made holds toy\[seed=3\].*add --force"):
        mtbench.build("toy", seed=4, out=made)
    assert mtbench.load(made).parameters["seed"] == 3
    mtbench.build("toy", seed=4, out=made, force=True)
    assert mtbench.load(made).parameters["seed"] == 4


def test_an_empty_directory_is_as_good_as_none_and_one_with_other_files_is_never_replaced(tmp_path):
    made, file = tmp_path / "made", tmp_path / "made" / "chapter.tex"
    made.mkdir()
    mtbench.build("toy", out=made)
    toys.assert_same(mtbench.load(made), toys.dataset())
    file.write_text("x")
    with pytest.raises(UsageError, match="holds other files"):
        mtbench.build("toy", out=made, force=True)
    assert file.read_text() == "x"


def test_at_most_three_near_names_are_proposed_whatever_their_case():
    assert nearest("TOY", ["toy1", "Toy2", "toy3", "toy4", "zoology"]) == ["toy1", "Toy2", "toy3"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"seed": "7"}, "toy: seed must be a whole number, not '7'"),
        ({"seed": True}, "toy: seed must be a whole number, not True"),
        ({"seed": 1.0}, "toy: seed must be a whole number, not 1.0"),
        ({"scale": "x"}, "toy: scale must be a number, not 'x'"),
        ({"label": 3}, "toy: label must be text, not 3"),
        ({"loud": 1}, "toy: loud must be true or false, not 1"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_refused(parameters, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        mtbench.build("toy", **parameters)


@pytest.mark.parametrize(
    ("text", "value"), [("seed=-3", -3), ("scale=2", 2.0), ("label=a=b", "a=b"), ("loud=True", True), ("label=", "")]
)
def test_parameters_are_read_from_text(text, value):
    key, found = loading.parse_parameter("toy", catalog.record("toy").parameters, text)
    assert (key, found, type(found)) == (text.partition("=")[0], value, type(value))


@pytest.mark.parametrize("text", ["seed", "seed=", "seed=1.5", "scale=big", "loud=1", "sed=3"])
def test_text_that_is_no_parameter_is_refused(text):
    with pytest.raises(UsageError, match=r"sed|seed|scale|loud"):
        loading.parse_parameter("toy", catalog.record("toy").parameters, text)


def test_a_build_that_misses_the_release_names_the_part_and_stores_nothing(monkeypatch, cache):
    monkeypatch.setattr(toys, "MISSING", toys.MISSING[:1])
    with pytest.raises(DatasetError, match=r"^toy: test/targets differ from the release"):
        mtbench.load("toy")
    assert not cache.exists()


def test_check_compares_all_six_parts():
    rows = match_parts(mtbench.build("toy", seed=3), catalog.record("toy"))
    parts = [f"{split}/{part}" for split in ("train", "valid", "test") for part in ("graph", "targets")]
    assert {row.part: row.same for row in rows} == {part: part not in ("train/graph", "valid/graph") for part in parts}
    assert [(row.triples, row.expected_triples) for row in rows[:2]] == [(3, 4), (0, 0)]
    assert all(row.same for row in match_parts(mtbench.load("toy"), catalog.record("toy")))


def test_a_damaged_cache_names_the_command_and_the_command_mends_it(cache):
    mtbench.load("toy")
    (cache / "test/graph.parquet").write_bytes(b"")
    for load in (mtbench.load, mtbench.build):
        with pytest.raises(CorruptedFileError, match=r"test/graph.parquet is truncated.*: mtbench build toy --force$"):
            load("toy")
    mtbench.build("toy", force=True)
    toys.assert_same(mtbench.load("toy"), toys.dataset())


@pytest.mark.parametrize("other", ["seed", "name", "version", "files"])
def test_another_dataset_in_the_place_of_the_release_is_refused(cache, command, other):
    made = toys.dataset()
    others = {
        "seed": lambda: mtbench.build("toy", seed=3),
        "name": lambda: replace(made, name="fbnell"),
        "version": lambda: replace(made, version="1.0.0"),
        "files": lambda: replace(made, info=replace(made.info, builder=catalog.FILES)),
    }
    store.obtain(cache, others[other])
    message = r"not the catalogue's release of toy .*: mtbench build toy --force$"
    for use in (mtbench.load, mtbench.build):
        with pytest.raises(CorruptedFileError, match=message):
            use("toy")
    for verb in ("info", "audit", "baselines", "verify"):
        code, stdout, stderr = command(verb, "toy")
        assert (code, stdout) == (1, "")
        assert "not the catalogue's release of toy" in stderr
    assert command("verify", "--all")[0] == 1


def test_a_directory_says_that_it_is_not_a_release(tmp_path, command):
    mtbench.build("toy", seed=3, out=tmp_path / "mine")
    mtbench.build("toy", out=tmp_path / "same")
    assert repr(mtbench.load(tmp_path / "mine")).startswith("toy[seed=3] 2.0.0, not a release: A few people.")
    for verb in ("info", "audit", "baselines", "verify"):
        assert "not a release" in command(verb, tmp_path / "mine")[1]
        assert "not a release" not in command(verb, tmp_path / "same")[1]
    assert not json.loads(command("info", tmp_path / "mine", "--json")[1])["release"]


def test_a_stored_dataset_loads_where_nothing_can_be_written(monkeypatch):
    mtbench.load("toy")
    monkeypatch.setattr(atomic, "locked", lambda directory: pytest.fail(f"locked {directory}"))
    toys.assert_same(mtbench.load("toy"), toys.dataset())


@pytest.mark.parametrize("place", ["toys:mkae", "tois:make", "toys", ""])
def test_a_record_that_names_no_recipe_is_a_broken_record(monkeypatch, place):
    toys.install(monkeypatch.setattr, replace(toys.record(), recipe=place))
    with pytest.raises(DatasetError, match=f"^toy: the record names '{place}', which is no function"):
        mtbench.load("toy")


def test_locating_does_not_build(cache):
    with pytest.raises(DatasetError, match="toy is not stored yet: mtbench build toy"):
        loading.stored("toy")
    mtbench.load("toy")
    assert loading.stored("toy") == (cache, catalog.record("toy"))


def test_a_dataset_that_is_replaced_while_it_is_read_is_read_again(monkeypatch):
    mtbench.load("toy")
    failures = iter([CorruptedFileError("half old, half new")])
    read = store.read

    def flaky(*arguments):
        for failure in failures:
            raise failure
        return read(*arguments)

    monkeypatch.setattr(store, "read", flaky)
    toys.assert_same(mtbench.load("toy"), toys.dataset())


@pytest.mark.once
def test_a_build_killed_at_any_point_leaves_a_cache_that_loads(tmp_path):
    output, errors = toys.python("-c", KILLED, str(tmp_path / "killed")).communicate()
    assert len(output.split()) == 22, errors
    assert output.count("died") >= 16


@pytest.mark.once
@pytest.mark.parametrize("force", ["", "force"])
def test_eight_processes_building_at_once_end_with_one_dataset(tmp_path, cache, force):
    output, errors = toys.python("-c", AT_ONCE, force).communicate()
    assert output == f"{[0] * 8}\n", errors
    assert times_built(tmp_path) == (8 if force else 1)
    assert sorted(path.name for path in cache.parent.iterdir()) == [".2.0.0.lock", "2.0.0"]


def test_a_task_is_had_by_name_or_by_split():
    by_name = mtbench.task("toy", protocol="entity", vocabulary="slots", seed=2)
    by_split = mtbench.task(mtbench.load("toy").test, "entity", "slots", 2)
    assert by_name.split.name == "test"
    assert by_name.dataset_version == "2.0.0"
    np.testing.assert_array_equal(by_name.triples, by_split.triples)
    assert mtbench.task("toy", split="valid").split.name == "valid"
    with pytest.raises(UnknownNameError, match="unknown split 'tset': did you mean test"):
        mtbench.task("toy", split="tset")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "NoneType names no dataset: give a name of the catalogue"),
        (3, "int names no dataset"),
        ("", "'' names no dataset"),
        ("~nosuchuser/x", "can be no directory: .*home directory"),
        ("a\0b", "(can be no directory|unknown dataset or directory)"),
        ("x" * 5000, "can be no directory: File name too long"),
        ("toyy", "unknown dataset or directory 'toyy': did you mean toy"),
        ("no/such/place", "unknown dataset or directory 'no/such/place'"),
    ],
)
def test_what_can_be_no_name_is_one_clear_error(source, message):
    with pytest.raises(UsageError, match=message) as failed:
        mtbench.load(source)
    assert len(str(failed.value)) < 400
