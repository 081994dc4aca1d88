"""The picture of an audit: a file of the right kind, or the command that makes one possible."""

from __future__ import annotations

import pytest
import toys

import mtbench
from mtbench.analysis.auditing import plot
from mtbench.errors import MissingExtraError, MtbenchError, UsageError
from mtbench.files import pictures


@pytest.fixture
def found(monkeypatch):
    toys.install(monkeypatch.setattr)
    return mtbench.audit(toys.dataset())


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG\r\n"), ("deep/a.SVG", b"<?xml")])
def test_a_picture_is_written_and_always_the_same(found, tmp_path, name, start):
    pytest.importorskip("matplotlib")
    plot.draw(found, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert first.startswith(start)
    plot.draw(found, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


def test_a_picture_says_what_it_shows(found, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    plot.draw(found, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for words in (
        "toy 2.0.0",
        "Degrees in the graph",
        "Relation types, most frequent first",
        "train: 3 entities, 4 triples",
        "Degree k",
        "Triples of the type, missing ones included",
    ):
        assert words in text


@pytest.mark.parametrize("name", ["a.jpg", "a", "png"])
def test_another_suffix_is_refused(found, tmp_path, name):
    with pytest.raises(UsageError, match=r"must end in \.png or \.svg"):
        plot.draw(found, tmp_path / name)


def test_without_matplotlib_the_message_is_the_remedy(found, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "mtbench-kg\[plots\]"'):
        plot.draw(found, tmp_path / "a.png")


def test_a_place_that_cannot_be_written_is_named(found, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "file").write_text("")
    with pytest.raises(MtbenchError, match=r"cannot write .*file/a\.png"):
        plot.draw(found, tmp_path / "file" / "a.png")
