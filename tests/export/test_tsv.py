"""Export to tab-separated files: the release byte for byte, complete or absent."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import pytest
import released
import toys

from mtbench.data import catalog
from mtbench.errors import DatasetError, UnknownNameError, UsageError
from mtbench.export.writers import write

CONTENT = {
    "train.txt": "ann\tknows\tbob\nbob\tknows\tçelik öz\nçelik öz\tlikes\tann\nann\tlikes\tann\n",
    "valid.txt": "ann\tknows\tçelik öz\n",
    "msg.txt": "x 1\teats\ty\u4e2d\ny\u4e2d\teats\tz\nz\thunts [red]\tx 1\n",
    "test.txt": "x 1\thunts [red]\tz\nx 1\teats\tz\n",
}


@pytest.fixture
def toy(monkeypatch):
    toys.install(monkeypatch.setattr)
    return toys.dataset()


@pytest.fixture
def metafam():
    return released.derived("metafam")


def contents(directory):
    return {path.name: path.read_text(encoding="utf-8") for path in directory.iterdir()}


def test_rows_keep_their_order(toy, tmp_path):
    files = write(toy, tmp_path / "out", "tsv")
    assert [file.name for file in files] == list(CONTENT)
    assert contents(tmp_path / "out") == CONTENT


def test_an_export_is_replaced_only_by_force(toy, tmp_path):
    write(toy, tmp_path / "out", "tsv")
    (tmp_path / "out" / "msg.txt").write_text("mine")
    with pytest.raises(UsageError, match=f"{tmp_path / 'out'} holds an export already: add --force"):
        write(toy, tmp_path / "out", "tsv")
    assert (tmp_path / "out" / "msg.txt").read_text() == "mine"
    write(toy, tmp_path / "out", "tsv", force=True)
    assert contents(tmp_path / "out") == CONTENT


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


def test_metafam_has_the_published_hashes(metafam, tmp_path):
    files = write(metafam, tmp_path / "out", "tsv")
    sources = {source.url.rpartition("/")[2]: source for source in catalog.record("metafam").sources}
    assert {file.name for file in files} == set(sources)
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest() == sources[file.name].sha256
        assert file.stat().st_size == sources[file.name].bytes


def test_metafam_is_the_release_byte_for_byte(metafam, mirror, tmp_path):
    write(metafam, tmp_path / "out", "tsv")
    for source in catalog.record("metafam").sources:
        address = urlsplit(source.url)
        released = mirror / address.netloc / address.path.lstrip("/")
        assert (tmp_path / "out" / released.name).read_bytes() == released.read_bytes()
