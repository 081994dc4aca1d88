"""The store: what is written is what is read, and every damage is found and named."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import toys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtbench.data import catalog, store
from mtbench.data.catalog import Record, Source
from mtbench.data.loading import load
from mtbench.data.store import SCHEMA, StoredFile
from mtbench.errors import CorruptedFileError, DatasetError, MtbenchError, UsageError
from mtbench.files import atomic, reading
from mtbench.files.formats import encode_table
from mtbench.files.hashing import content_hash

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
FILES = [name for name in store.FILES if "known" not in name]
TRIPLES = st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=8)


@pytest.fixture(autouse=True)
def toy(toy_cache) -> Record:
    return catalog.record("toy")


@pytest.fixture
def stored(tmp_path) -> Path:
    directory = tmp_path / "stored"
    store.obtain(directory, toys.dataset)
    return directory


def forge(directory: Path, **changes: object) -> None:
    """Change a manifest, and give it the hash of what it says now."""
    (directory / store.MANIFEST).write_bytes(store.render(replace(store.read_manifest(directory), **changes)))


def everything(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=TRIPLES, targets=TRIPLES, known=TRIPLES, extra_slots=st.integers(0, 3), tasks=st.none() | NAMES)
def test_any_dataset_comes_back_as_it_was(toy, graph, targets, known, extra_slots, tasks):
    slots = (extra_slots + len(graph), extra_slots + len(targets))
    parts, known = (graph, targets, targets, graph), (known, known[1:])
    made = toys.dataset("toy[seed=3]", parameters={"seed": 3}, parts=parts, known=known, slots=slots, tasks=tasks)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "made"
        assert store.obtain(directory, lambda: made) is made
        toys.assert_same(store.read(directory), made)
        assert all(row.same for row in store.verify(directory))


def test_the_layout_is_the_documented_one(stored):
    assert set(everything(stored)) == {store.MANIFEST, *FILES}
    table = pq.read_table(stored / "test" / "graph.parquet")
    assert table.column_names == ["head", "relation", "tail"]
    assert all(pa.types.is_dictionary(field.type) for field in table.schema)
    assert table.column("tail").chunk(0).dictionary.to_pylist() == ["x 1", "y\u4e2d", "z"]
    assert list(zip(*table.to_pydict().values(), strict=True)) == toys.TEST
    described = json.loads((stored / store.MANIFEST).read_text(encoding="utf-8"))
    assert described["parts"]["valid/graph"]["file"] == "train/graph.parquet"
    assert described["graphs"]["train"] == {"entities": 3, "relations": 2, "relation_slots": 5}
    assert described["schema"] == 1


def test_what_is_known_besides_has_files_only_where_there_is_any(tmp_path):
    made = toys.dataset("toy[seed=3]", parameters={"seed": 3}, known=((), toys.KNOWN[1]))
    store.obtain(tmp_path / "made", lambda: made)
    assert set(everything(tmp_path / "made")) == {store.MANIFEST, *FILES, "test/known.parquet"}
    described = json.loads((tmp_path / "made" / store.MANIFEST).read_text(encoding="utf-8"))
    assert described["schema"] == SCHEMA  # which a package that knows of no such part refuses
    part = {"triples": 2, "content_sha256": content_hash(toys.KNOWN[1]), "file": "test/known.parquet"}
    assert described["parts"]["test/known"] == part
    assert [row.part for row in store.verify(tmp_path / "made")][-1] == "test/known"
    store.obtain(tmp_path / "claimed", lambda: toys.dataset(known=toys.KNOWN))
    with pytest.raises(CorruptedFileError, match=r"not the .* release of toy \(valid/known, test/known differ\)"):
        store.read(tmp_path / "claimed")
    (tmp_path / "made" / "test/known.parquet").unlink()
    with pytest.raises(CorruptedFileError, match=r"test/known\.parquet is missing"):
        store.read(tmp_path / "made")


def test_the_same_dataset_gives_the_same_bytes(tmp_path, stored):
    store.obtain(tmp_path / "again", toys.dataset)
    assert everything(tmp_path / "again") == everything(stored)


def decoded(columns):
    """Write a table, and read it as triples of the toy's test graph."""
    vocabulary, sink = toys.dataset().test, pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return store.decode_triples(sink.getvalue().to_pybytes(), vocabulary.entities, vocabulary.relations)


def test_ids_follow_names_when_a_writer_reordered_the_dictionary():
    first = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["z", "x 1"]))
    second = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), pa.array(["z", "unused"]))
    columns = {
        "head": pa.chunked_array([first, second]),
        "relation": pa.array(["eats", "eats", "hunts [red]"]),
        "tail": pa.array(["z", "y\u4e2d", "x 1"]).dictionary_encode(),
    }
    assert decoded(columns).tolist() == [[0, 0, 2], [2, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"head": ["z"], "relation": ["eats"]}, "no column tail"),
        ({"head": ["z"], "relation": ["eats"], "tail": [None]}, "1 empty cells"),
        ({"head": ["z"], "relation": ["sees"], "tail": ["z"]}, "outside the vocabulary, first 'sees'"),
    ],
)
def test_a_table_that_is_not_triples_is_refused(columns, reason):
    with pytest.raises(ValueError, match=reason):
        decoded(columns)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-7]), "is truncated"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "has grown"),
        (lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]), "was edited"),
        (Path.unlink, "is missing"),
    ],
    ids=["truncated", "grown", "flipped", "deleted"],
)
def test_a_damaged_file_is_named_with_the_command_that_mends_it(stored, name, damage, reason):
    damage(stored / name)
    with pytest.raises(CorruptedFileError) as caught:
        store.read(stored)
    assert str(stored / name) in str(caught.value)
    assert reason in str(caught.value)
    assert str(caught.value).endswith(f"mtbench build toy --out {stored} --force")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "is missing"),
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "is not a manifest"),
        (b'{"schema": 1}', "was edited"),
        (b"[" * 100_000, "is not JSON, or nested too deeply"),
    ],
)
def test_a_damaged_manifest_is_named(stored, text, reason):
    path = stored / store.MANIFEST
    path.unlink() if text is None else path.write_bytes(text)
    with pytest.raises(CorruptedFileError, match=reason) as caught:
        store.read(stored, catalog.record("toy"))
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("mtbench build toy --force")


@pytest.mark.parametrize("key", ["dataset", "licence", "citation", "version", "builder_version"])
def test_an_edit_of_the_manifest_is_found(stored, key):
    path = stored / store.MANIFEST
    described = json.loads(path.read_bytes())
    path.write_text(json.dumps(described | {key: "other"}))
    with pytest.raises(CorruptedFileError, match="was edited"):
        store.read(stored)


def unsigned(directory):
    """Return what a manifest says without the hash of itself."""
    body = json.loads((directory / store.MANIFEST).read_bytes())
    return {key: value for key, value in body.items() if key != "manifest_sha256"}


def signed(body):
    """Return a manifest of any content with the hash that it must have of itself."""
    return json.dumps({**body, "manifest_sha256": store.own_hash(body)}).encode()


def test_a_manifest_of_a_time_before_mirrors_is_read(stored):
    body = unsigned(stored)
    source = {"part": "train/graph", "url": "https://x/train.txt", "bytes": 3, "sha256": "ab"}
    for more, mirrors in (({}, ()), ({"mirrors": ["https://y"]}, ("https://y",))):
        found = store.parse(signed({**body, "sources": [{**source, **more}]}), "here")
        assert found.sources == (Source(**source, mirrors=mirrors),)


def test_a_manifest_has_the_later_keys_of_a_source_only_where_they_say_something(stored):
    manifest = store.read_manifest(stored)
    plain = Source("train/graph", "https://x", 3, "ab")
    special = replace(plain, member="train.txt", columns=("head", "tail", "relation"), git_blob="cd")
    text = store.render(replace(manifest, sources=(plain, special)))
    first, second = json.loads(text)["sources"]
    assert set(first) == {"part", "url", "bytes", "sha256", "mirrors"}
    assert set(second) - set(first) == {"member", "columns", "git_blob"}
    assert store.parse(text, "here").sources == (plain, special)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("files", {"a": {"bytes": "3", "sha256": "ab"}}, "files.a.bytes must be a valid integer, not '3'"),
        ("sources", [{"part": "train/graph"}], "missing sources.0.bytes, sources.0.sha256, sources.0.url"),
        ("licens", "", "unknown key 'licens': did you mean licence or files?"),
    ],
)
def test_what_is_no_manifest_is_told_with_its_place(stored, key, value, reason):
    with pytest.raises(ValueError, match=f"^is not a manifest: {re.escape(reason)}"):
        store.parse(signed({**unsigned(stored), key: value}), "here")


@pytest.mark.parametrize(
    ("key", "lost"), [("files", "test/targets.parquet"), ("graphs", "test"), ("parts", "valid/graph")]
)
def test_a_manifest_that_lost_something_is_refused(stored, key, lost):
    everything_listed = getattr(store.read_manifest(stored), key)
    forge(stored, **{key: {name: listed for name, listed in everything_listed.items() if name != lost}})
    with pytest.raises(CorruptedFileError, match="lists other files, graphs or parts"):
        store.read(stored)


def test_a_manifest_whose_hashes_were_edited_together_says_so_when_it_is_loaded(stored):
    forge(stored, version="9.9")
    with pytest.warns(UserWarning, match=r"stored is called toy 9\.9, but is nobody's release"):
        assert load(stored).version == "9.9"
    graphs = store.read_manifest(stored).graphs
    forge(stored, graphs={**graphs, "test": replace(graphs["test"], entities=9)})
    with pytest.raises(CorruptedFileError, match=r"manifest\.json counts other entities or relations of test: mtb"):
        load(stored)


def test_a_column_that_is_there_twice_is_refused(stored):
    names = pq.read_table(stored / "test/relations.parquet").column("relation")
    (stored / "test/relations.parquet").write_bytes(encode_table(pa.table([names, names], names=["relation"] * 2)))
    data = (stored / "test/relations.parquet").read_bytes()
    file = store.StoredFile(len(data), hashlib.sha256(data).hexdigest())
    forge(stored, files={**store.read_manifest(stored).files, "test/relations.parquet": file})
    with pytest.raises(CorruptedFileError, match=r"relations\.parquet has a column twice: mtbench build toy"):
        store.read(stored)


@pytest.mark.parametrize("name", [store.MANIFEST, "test/graph.parquet"])
def test_a_pipe_is_refused_at_once(stored, name):
    (stored / name).unlink()
    os.mkfifo(stored / name)
    with pytest.raises(CorruptedFileError, match=f"{name} cannot be read, it is a named pipe: mtbench build"):
        store.read(stored)


def test_a_folder_of_a_user_who_is_not_there_and_a_name_too_long_are_refused(monkeypatch, command):
    monkeypatch.setenv("MTBENCH_CACHE", "~nobody-here/x")
    assert command("list") == (2, "", f"error: ~nobody-here/x: {reading.NOBODY}\n")
    monkeypatch.setenv("MTBENCH_CACHE", "a" * 300)
    code, _, stderr = command("info", "metafam")
    assert code == 1
    assert "may not be read or written: File name too long" in stderr


def test_a_folder_that_may_not_be_read_is_one_problem_of_its_own(stored, monkeypatch, command):
    place = store.cached(catalog.record("metafam"))
    place.mkdir(parents=True)
    exists = Path.exists

    def refused(path, *arguments):
        if path == place or place in path.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refused)
    assert command("list")[0] == 0
    code, _, stderr = command("verify", "--all")
    assert (code, stderr.count("error:")) == (1, 1)
    assert "metafam/1.0.0/manifest.json is missing: mtbench build metafam --force" in stderr
    code, _, stderr = command("verify", place)
    assert (code, stderr) == (1, f"error: {place / 'result.json'} may not be read or written: Permission denied\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, _, stderr = command("info", stored)
    assert (code, stderr) == (2, f"error: {stored} may not be read: chmod u+rx {stored}\n")


BACKWARDS = store.encode_names("entity", toys.dataset(info=toys.record()).test.entities[::-1])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        *((name, b"hello", "is not a Parquet file") for name in FILES),
        ("test/entities.parquet", BACKWARDS, "column entity is not sorted"),
    ],
)
def test_a_file_of_the_wrong_content_is_named_even_when_the_manifest_agrees(stored, name, content, reason):
    (stored / name).write_bytes(content)
    listed = StoredFile(len(content), hashlib.sha256(content).hexdigest())
    forge(stored, files={**store.read_manifest(stored).files, name: listed})
    with pytest.raises(CorruptedFileError, match=f"{name} {reason}"):
        store.read(stored)


def test_a_newer_manifest_asks_for_a_newer_package(stored):
    path = stored / store.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"schema": SCHEMA + 1}))
    with pytest.raises(DatasetError, match=r"newer mtbench.*pip install --upgrade"):
        store.read(stored)


@pytest.mark.parametrize(
    ("other", "differing"),
    [
        ({"parts": (toys.TRAIN, toys.MASKED, toys.TEST, toys.MISSING[:1])}, "test/targets"),
        ({"parts": (toys.TRAIN, toys.MASKED, toys.TEST + toys.MISSING, toys.MISSING)}, "test/graph"),
        ({"slots": (5, 500)}, "test/relation_slots"),
        ({"tasks": "symmetric"}, "train/tasks, test/tasks"),
    ],
)
def test_what_is_said_to_be_the_release_must_be_it_whatever_its_hashes(stored, tmp_path, toy, other, differing):
    store.obtain(tmp_path / "forged", lambda: toys.dataset(**other))
    forge(tmp_path / "forged", parts=store.read_manifest(stored).parts)
    message = rf"not the catalogue's release of toy \({differing} differ\): mtb"
    for release in (None, toy):
        with pytest.raises(CorruptedFileError, match=message):
            store.read(tmp_path / "forged", release=release)


def test_what_is_stored_is_read_where_no_lock_can_be_had(stored):
    stored.with_name(".stored.lock").unlink()
    stored.with_name(".stored.lock").mkdir()
    toys.assert_same(store.obtain(stored, pytest.fail), toys.dataset())
    with pytest.raises(MtbenchError, match="cannot write"):
        store.obtain(stored, pytest.fail, force=True)


def test_the_remedy_repeats_the_parameters(tmp_path):
    directory = tmp_path / "made here"
    store.obtain(directory, lambda: toys.dataset("toy[seed=9]", parameters={"seed": 9, "scale": 2.0}))
    (directory / "test/graph.parquet").unlink()
    with pytest.raises(CorruptedFileError, match=f"mtbench build toy --seed 9 --set scale=2.0 --out '{directory}'"):
        store.read(directory)


def test_splits_that_do_not_fit_together_are_not_stored(tmp_path):
    good = toys.dataset()
    foreign = toys.dataset(parts=(toys.TEST, toys.MISSING, toys.TEST, toys.MISSING))
    unsorted = replace(good.test, entities=good.test.entities[::-1])
    labelled = replace(good.test, tasks={"nothing": "pattern"})
    for bad, reason in (
        (replace(good, valid=foreign.valid), "graph and the vocabulary of train"),
        (replace(good, train=replace(good.valid, name="train")), "train has 1 targets"),
        (replace(good, test=unsorted), "sorted and distinct"),
        (replace(good, test=labelled), "tasks of unknown relations nothing"),
    ):
        with pytest.raises(DatasetError, match=reason):
            store.obtain(tmp_path / "bad", lambda bad=bad: bad)
        assert not (tmp_path / "bad").exists()


def test_a_split_whose_ids_have_no_names_is_refused():
    good = toys.dataset().test
    beyond, below = good.targets.copy(), good.graph.copy()
    beyond[1, 2], below[0, 1] = good.num_entities, -1
    for changes, reason in (
        ({"targets": beyond}, "1 rows of targets have ids outside the vocabulary, first at row 1"),
        ({"graph": below}, "1 rows of graph have ids outside the vocabulary, first at row 0"),
        ({"graph": good.graph[:, :2]}, r"graph must be int64 of shape \(n, 3\), not int64 of shape \(3, 2\)"),
        ({"relation_slots": 1}, "1 relation ids cannot hold 2 relations"),
    ):
        with pytest.raises(DatasetError, match=reason):
            replace(good, **changes)


@pytest.mark.parametrize("step", range(13))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_failing_disk_leaves_the_old_dataset_and_nothing_else(stored, monkeypatch, step, code):
    before, calls = everything(stored), iter(range(100))

    def fsync(descriptor: int) -> None:
        if next(calls) == step:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(atomic.os, "fsync", fsync)
    with pytest.raises(MtbenchError, match=f"cannot write {stored}: {os.strerror(code)}; nothing was stored"):
        store.obtain(stored, lambda: toys.dataset("other", parameters={"seed": 2}), force=True)
    assert everything(stored) == before
    assert sorted(path.name for path in stored.parent.iterdir()) == [".stored.lock", "stored"]


def test_a_failing_disk_leaves_nothing_of_a_first_build(tmp_path):
    script = (
        "import resource, sys, toys; from pathlib import Path; from mtbench.data import store; toys.install()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))\n"
        "try: store.obtain(Path(sys.argv[1]), toys.dataset)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    output, errors = toys.python("-c", script, str(tmp_path / "data" / "made")).communicate()
    assert output.startswith(f"MtbenchError cannot write {tmp_path / 'data' / 'made'}: File too large"), errors
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".made.lock"]


def test_a_builder_that_fails_leaves_the_old_dataset(stored):
    before = everything(stored)
    with pytest.raises(ZeroDivisionError):
        store.obtain(stored, lambda: 1 // 0, force=True)
    assert everything(stored) == before


def test_only_a_dataset_is_replaced(tmp_path, stored):
    store.expect_replaceable(stored)
    (stored / "train" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds other files \(train/notes.txt\)"):
        store.expect_replaceable(stored)
    with pytest.raises(UsageError, match="is a file"):
        store.expect_replaceable(stored / "train" / "notes.txt")


def test_the_cache_is_where_the_environment_says(monkeypatch, toy, tmp_path):
    assert store.cached(toy) == tmp_path / "cache" / "datasets" / "toy" / "2.0.0"
    monkeypatch.setenv("MTBENCH_CACHE", "~/elsewhere")
    assert store.cache_root() == Path.home() / "elsewhere"
    monkeypatch.delenv("MTBENCH_CACHE")
    assert store.cache_root().name == "mtbench"
