"""Exports: what comes out is what went in, the release byte for byte, complete or absent; a record measured anew."""

import hashlib
import re
import tomllib
from dataclasses import replace
from importlib import resources

import numpy as np
import pyarrow.parquet as pq
import pytest
import released
import toys

from mtbench.builders.folders import from_files
from mtbench.data import catalog, loading
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.export.writers import FORMATS, record, write

CONTENT = {
    "train.txt": "ann\tknows\tbob\nbob\tknows\tçelik öz\nçelik öz\tlikes\tann\nann\tlikes\tann\n",
    "valid.txt": "ann\tknows\tçelik öz\n",
    "msg.txt": "x 1\teats\ty\u4e2d\ny\u4e2d\teats\tz\nz\thunts [red]\tx 1\n",
    "test.txt": "x 1\thunts [red]\tz\nx 1\teats\tz\n",
}

HEAD = """
id = "fresh"
title = "Fresh"
version = "1.0.0"
builder = "metafam"
summary = "A dataset."
licence = "MIT"
citation = ""
aliases = []
defects = []
sources = []

[parameters]

"""


def test_ids_and_names_come_back(toy, tmp_path):
    files = write(toy, tmp_path / "out", "npz")
    assert [file.relative_to(tmp_path).as_posix() for file in files] == ["out/dataset.npz"]
    with np.load(files[0], allow_pickle=False) as found:
        assert len(found.files) == 12
        for key, split, part in (
            ("train_graph", toy.train, "graph"),
            ("valid_targets", toy.valid, "targets"),
            ("test_graph", toy.test, "graph"),
            ("test_targets", toy.test, "targets"),
        ):
            assert found[key].dtype == np.int64
            np.testing.assert_array_equal(found[key], getattr(split, part))
        for split in (toy.train, toy.test):
            np.testing.assert_array_equal(found[f"{split.name}_entities"], split.entities)
            np.testing.assert_array_equal(found[f"{split.name}_relations"], split.relations)
            assert found[f"{split.name}_relation_slots"] == split.relation_slots
            named = dict(zip(split.relations.tolist(), found[f"{split.name}_tasks"].tolist(), strict=True))
            assert {name: task for name, task in named.items() if task} == dict(split.tasks)


@pytest.mark.parametrize("kind", ["tsv", "npz", "huggingface", "croissant"])
def test_an_export_has_the_same_bytes_and_is_replaced_only_by_force(toy, tmp_path, kind):
    files = write(toy, tmp_path / "out", kind)
    before = {file: file.read_bytes() for file in files}
    with pytest.raises(UsageError, match="holds an export already: add --force"):
        write(toy, tmp_path / "out", kind)
    files[0].write_text("mine")
    assert write(toy, tmp_path / "out", kind, force=True) == files
    assert {file: file.read_bytes() for file in files} == before
    assert {path for path in (tmp_path / "out").rglob("*") if path.is_file()} == set(files)
    with pytest.raises(UsageError, match="holds other files"):
        write(toy, tmp_path / "out", "npz" if kind == "tsv" else "tsv", force=True)


def contents(directory):
    return {path.name: path.read_text(encoding="utf-8") for path in directory.iterdir()}


def test_rows_keep_their_order(toy, tmp_path):
    files = write(toy, tmp_path / "out", "tsv")
    assert [file.name for file in files] == list(CONTENT)
    assert contents(tmp_path / "out") == CONTENT


def test_what_is_known_besides_is_in_every_export_where_there_is_any(monkeypatch, tmp_path):
    toys.install(monkeypatch.setattr)
    made = toys.dataset(known=((), toys.KNOWN[1]))
    write(made, tmp_path / "tsv", "tsv")
    assert contents(tmp_path / "tsv") == CONTENT | {"test_known.txt": "z\teats\tx 1\ny\u4e2d\teats\tx 1\n"}
    with np.load(write(made, tmp_path / "npz", "npz")[0]) as found:
        np.testing.assert_array_equal(found["test_known"], made.test.known)
        assert "valid_known" not in found
    for kind, described in (("huggingface", "README.md"), ("croissant", "croissant.json")):
        write(made, tmp_path / kind, kind)
        rows = pq.ParquetFile(tmp_path / kind / "known/test.parquet").read().to_pydict()
        assert list(zip(*rows.values(), strict=True)) == toys.KNOWN[1]
        assert "known/test.parquet" in (tmp_path / kind / described).read_text(encoding="utf-8")
    assert made.test.known_sha256 in (tmp_path / "huggingface" / "README.md").read_text(encoding="utf-8")
    made = replace(made, test=replace(made.test, dataset="own"), valid=replace(made.valid, dataset="own"))
    (tmp_path / "record.toml").write_bytes(record(made)["record.toml"])
    assert catalog.parse(HEAD + (tmp_path / "record.toml").read_text(), "own").content_sha256("test") == (
        made.test.content_sha256
    )


@pytest.mark.parametrize("train", [toys.TRAIN, []])
def test_what_has_no_validation_or_no_training_graph_has_every_export(monkeypatch, tmp_path, train):
    toys.install(monkeypatch.setattr)
    made = toys.dataset("own", parts=(train, [], toys.TEST, toys.MISSING))
    for kind in set(FORMATS) - {"pyg"}:
        write(made, tmp_path / kind, kind)
    text = contents(tmp_path / "tsv")
    assert (text["valid.txt"], "train.txt" in text) == ("", bool(train))
    assert from_files(tmp_path / "tsv").test.content_sha256 == made.test.content_sha256
    found = tomllib.loads((tmp_path / "record" / "record.toml").read_text())
    assert {key.partition("/")[0] for key in found["candidates"]} == {"test"}


def test_a_directory_of_other_files_is_left_alone(toy, tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(UsageError, match=r"holds other files \(notes\)"):
        write(toy, tmp_path, "tsv", force=True)
    assert contents(tmp_path) == {"notes": "mine"}


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\rb"])
def test_a_name_that_breaks_lines_is_refused(toy, tmp_path, name):
    broken = replace(toy, test=replace(toy.test, relations=np.array(["eats", name])))
    with pytest.raises(DatasetError, match=f"^toy test: {re.escape(repr(name))} holds a tab or a line break"):
        write(broken, tmp_path / "out", "tsv")
    assert not (tmp_path / "out").exists()


def test_an_unknown_format_is_reported(toy, tmp_path):
    with pytest.raises(UnknownNameError, match="unknown format 'tvs': did you mean tsv"):
        write(toy, tmp_path, "tvs")


def test_metafam_has_the_published_hashes(tmp_path):
    files = write(released.derived("metafam"), tmp_path / "out", "tsv")
    sources = {source.url.rpartition("/")[2]: source for source in catalog.record("metafam").sources}
    assert {file.name for file in files} == set(sources)
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest() == sources[file.name].sha256
        assert file.stat().st_size == sources[file.name].bytes


@pytest.mark.parametrize(
    "name", ["metafam", *(pytest.param(name, marks=pytest.mark.once) for name in ("metafam-hard", "metafam-strict"))]
)
def test_the_tables_are_those_of_the_catalogue(name, tmp_path):
    data = released.derived(name)
    published = tomllib.loads(
        (resources.files("mtbench.data") / "records" / f"{name}.toml").read_text(encoding="utf-8")
    )
    (written,) = write(data, tmp_path / "record", "record")
    assert written.name == "record.toml"
    found = tomllib.loads(written.read_text(encoding="utf-8"))
    assert found == {table: published[table] for table in ("graphs", "parts", "candidates", "baselines")}
    assert all(list(found[table]) == list(published[table]) for table in ("candidates", "baselines"))


def test_a_record_with_empty_tables_is_enough_to_measure_them():
    empty = replace(catalog.record("metafam"), id="fresh", graphs={}, parts={}, candidates={}, baselines={})
    made = loading.derive(empty, {**empty.parameters, "seed": 5, "train_trees": 4, "test_trees": 2})
    found = catalog.parse(HEAD + record(made)["record.toml"].decode(), "fresh.toml")
    assert found.parts["train/graph"].triples == len(made.train.graph)
    known = catalog.record("metafam")
    assert found.candidates.keys() == known.candidates.keys()
    assert found.baselines.keys() == known.baselines.keys()
