"""Folders of files of triples that are somebody's own: what is read of them, and what is refused and why."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mtbench
from mtbench.builders import folders
from mtbench.data.loading import stored
from mtbench.errors import DatasetError, MtbenchError, UsageError
from mtbench.evaluation.tasks import task

PARTS = {
    "train": [("ann", "knows", "bob"), ("bob", "knows", "çelik öz"), ("ann", "knows", "bob")],
    "valid": [("ann", "likes", "bob"), ("ann", "knows", "dee")],
    "msg": [("x 1", "eats", "y"), ("y", "eats", "z")],
    "test": [("x 1", "hunts", "z"), ("x 1", "eats", "new")],
}


COLUMNS = ("head", "relation", "tail")


def text(rows, separator="\t", end="\n"):
    return "".join(separator.join(row) + end for row in rows)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    for name, rows in PARTS.items():
        (place / f"{name}.txt").write_text(text(rows), encoding="utf-8")
    return place


def test_a_folder_is_read_as_it_is_and_repeated_rows_once(folder):
    data = mtbench.load(folder)
    assert (data.name, data.info.builder, data.info.defects) == ("mine", "files", ())
    assert data.train.named(data.train.graph) == PARTS["train"][:2]
    assert not len(data.train.targets)
    assert data.valid.named(data.valid.targets) == PARTS["valid"]
    assert data.test.named(data.test.graph) == PARTS["msg"]
    assert data.test.named(data.test.targets) == PARTS["test"]
    assert data.test.entities.tolist() == ["new", "x 1", "y", "z"]
    assert (data.test.relations.tolist(), data.test.relation_slots) == (["eats", "hunts"], 2)
    assert data.info.parts["test/graph"].content_sha256 == data.test.graph_sha256
    assert mtbench.audit(data).targets["test"].unseen_entities == 1
    message = r"mine holds no manifest.json, so there is no hash to compare.*: mtbench info .*mine shows the"
    with pytest.raises(DatasetError, match=message):
        stored(folder)
    assert task(f"{folder}/valid/dual").split.content_sha256 == data.valid.content_sha256


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))), sink)
    return sink.getvalue().to_pybytes()


PLAINLY = {"train": "train_graph", "valid": "valid_targets", "msg": "test_graph", "test": "test_targets"}


@pytest.mark.parametrize(
    ("suffix", "content", "names"),
    [
        ("csv", lambda rows: text([COLUMNS[::-1], *(row[::-1] for row in rows)], ",").encode(), {}),
        ("parquet", parquet, {}),
        ("tsv.gz", lambda rows: gzip.compress(text([COLUMNS, *rows]).encode()), {}),
        ("tsv", lambda rows: text(rows, end="\r\n").encode(), {}),
        ("txt", lambda rows: text(rows).encode("utf-8-sig"), {}),
        ("txt", lambda rows: text(rows).encode(), PLAINLY),
    ],
    ids=["turned csv", "parquet", "packed with a heading", "lines of Windows", "with a mark", "named plainly"],
)
def test_every_form_of_a_file_gives_the_same(folder, tmp_path, suffix, content, names):
    other = tmp_path / "other"
    other.mkdir()
    for name, rows in PARTS.items():
        (other / f"{names.get(name, name)}.{suffix}").write_bytes(content(rows))
    ours, theirs = mtbench.load(folder), mtbench.load(other)
    for split in ("train", "valid", "test"):
        assert theirs.split(split).content_sha256 == ours.split(split).content_sha256
        np.testing.assert_array_equal(theirs.split(split).graph, ours.split(split).graph)


def test_what_is_exported_as_text_is_a_folder_that_loads(folder, tmp_path):
    from mtbench.export.writers import write

    write(mtbench.load(folder), tmp_path / "again", "tsv")
    assert mtbench.load(tmp_path / "again").test.content_sha256 == mtbench.load(folder).test.content_sha256


def test_without_a_file_for_it_there_is_no_validation(folder):
    (folder / "valid.txt").unlink()
    data = mtbench.load(folder)
    assert not len(data.valid.targets)
    assert data.train.entities.tolist() == ["ann", "bob", "çelik öz"]
    with pytest.raises(MtbenchError, match="mine valid: there are no triples to rank"):
        task(f"{folder}/valid")


def test_validation_targets_of_the_test_graph_are_known_and_said_to_be(folder):
    (folder / "valid.txt").write_text("z\teats\tx 1\n", encoding="utf-8")
    data = mtbench.load(folder)
    assert not len(data.valid.targets)
    assert data.test.named(data.test.known) == [("z", "eats", "x 1")]
    said = "valid.txt: 1 triples of the inference graph that are known, not shown; filtered everywhere"
    assert data.parameters["files"].endswith(said)
    (folder / "valid.txt").write_text("z\teats\tx 1\nz\tlikes\tx 1\ny\teats\tnobody\n", encoding="utf-8")
    data = mtbench.load(folder)
    assert data.test.named(data.test.known) == [("z", "eats", "x 1")]
    said = "2 known triples of the inference graph name an entity or a relation that it has not: left out, as no"
    assert said in data.parameters["files"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("msg.txt", None, r"about entities that train.txt has not, .*no graph for test: give it with --inference FILE"),
        ("msg.txt", "", r"msg.txt holds no triple"),
        ("test.txt", "", r"test.txt holds no triple"),
        ("msg.tsv", "a\tb\tc\n", r"mine holds msg.txt and msg.tsv: keep one of them"),
        ("msg.txt", "a b c\n", r"msg.txt, line 1: 'a b c' is not head TAB relation TAB tail"),
        ("test.txt", "x 1\teats\ty\nx 1\teats\tz\n", r"test.txt: 1 of 2 triples are in the test graph as well, first"),
        ("test.txt", "ann\tlikes\tbob\n", r"test.txt: none of its entities is in msg.txt, the graph"),
        ("valid.txt", "who\tlikes\twhom\n", r"valid.txt: none of its entities is in train.txt, the"),
        ("train.txt", None, r"valid.txt: none .* in the test graph, and there is no training graph: .* --train FILE"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder, name, content, message):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        mtbench.load(folder)


@pytest.mark.parametrize("cell", ["", '"a\tb"', '"a\nb"'])
def test_a_cell_that_text_could_not_hold_is_refused(tmp_path, cell):
    (tmp_path / "graph.csv").write_text(f"head,relation,tail\na,b,c\na,{cell},c\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"graph.csv, line 3: "):
        folders.read_graph(tmp_path / "graph.csv")


def test_a_folder_without_triples_says_what_it_should_hold(tmp_path):
    message = r"no train and no msg and no test file.*holds nothing: name a folder of train"
    with pytest.raises(DatasetError, match=message):
        mtbench.load(tmp_path)
    for number in range(7):
        (tmp_path / f"{number}.py").touch()
    with pytest.raises(DatasetError, match=r"it holds 0.py, 1.py, 2.py, 3.py, 4.py and 2 more: name a folder"):
        mtbench.load(tmp_path)


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), min_size=1, max_size=3).filter(
    str.strip
)


@given(rows=st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=9))
def test_a_graph_is_the_distinct_rows_of_its_file(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("graph") / "graph.tsv"
    path.write_text(text([("head", "relation", "tail"), *rows]), encoding="utf-8", newline="")
    found = folders.read_graph(path)
    assert found.named(found.graph) == list(dict.fromkeys(rows))
    assert (found.dataset, len(found.targets)) == ("graph.tsv", 0)
    assert found.entities.tolist() == sorted({name for row in rows for name in (row[0], row[2])})


ARGUMENTS = ("train", "valid", "inference", "test")
LAYOUTS = {
    "GraIL: NAME": ("mine/train", "mine/valid", "mine_ind/train", "mine_ind/test"),
    "GraIL in one folder": ("mine/train", "mine/valid", "mine/train_ind", "mine/test_ind"),
    "INDIGO": ("mine/train/train", "mine/train/valid", "mine/test/test-graph", "mine/test/test-fact"),
    "ULTRA": ("mine/transductive_train", "mine/inf_valid", "mine/inference_graph", "mine/inf_test"),
    "PyKEEN": ("mine/train", "mine/inference_validation", "mine/inference", "mine/inference_test"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_others_are_recognised(folder, tmp_path, layout):
    for place, rows in zip(LAYOUTS[layout], PARTS.values(), strict=True):
        path = tmp_path / "theirs" / f"{place}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(rows), encoding="utf-8")
    ours, theirs = mtbench.load(folder), mtbench.load(tmp_path / "theirs" / "mine")
    assert theirs.parameters["layout"].startswith(layout)
    assert theirs.name == "mine"
    for split in ("train", "valid", "test"):
        assert theirs.split(split).content_sha256 == ours.split(split).content_sha256


def test_files_are_named_one_by_one_where_no_layout_is_theirs(folder, tmp_path):
    files = {part: folder / f"{name}.txt" for part, name in zip(ARGUMENTS, PARTS, strict=True)}
    found = mtbench.from_files(**files, name="ours")
    assert (found.name, found.test.content_sha256) == ("ours", mtbench.load(folder).test.content_sha256)
    unvalidated = mtbench.from_files(**{part: file for part, file in files.items() if part != "valid"})
    assert not len(unvalidated.valid.targets)
    for some in ({}, {"train": files["train"]}, {"test": files["test"]}):
        with pytest.raises(UsageError, match="give a folder of files, or a file for test and one for train or"):
            mtbench.from_files(**some)


def test_of_one_graph_nothing_is_new_and_it_says_so(folder):
    (folder / "msg.txt").unlink()
    (folder / "test.txt").write_text("bob\tknows\tann\n", encoding="utf-8")
    (folder / "valid.txt").write_text("bob\tknows\tbob\n", encoding="utf-8")
    data = mtbench.load(folder)
    assert data.info.defects == ("the test graph is the training graph: no entity or relation is new in it",)
    assert data.test.graph_sha256 == data.train.graph_sha256
    assert data.test.named(data.test.targets) == data.valid.named(data.valid.known) == [("bob", "knows", "ann")]
    assert data.test.named(data.test.known) == [("bob", "knows", "bob")]


def test_of_a_whole_test_graph_a_share_is_hidden_and_nothing_left_alone(folder):
    (folder / "msg.txt").unlink()
    rows = [(f"n{head}", f"r{(head + tail) % 3}", f"n{tail}") for head in range(8) for tail in range(8)]
    (folder / "test.txt").write_text(text(rows), encoding="utf-8")
    made = [mtbench.from_files(folder, hide=0.25, seed=seed) for seed in (0, 0, 1)]
    for data in made:
        assert (len(data.test.graph), len(data.test.targets)) == (48, 16)
        assert sorted(data.test.named(np.concatenate([data.test.graph, data.test.targets]))) == sorted(rows)
        assert {*data.test.graph[:, 0], *data.test.graph[:, 2]} == set(range(8))
        assert {*data.test.graph[:, 1]} == set(range(3))
    assert made[0].test.content_sha256 == made[1].test.content_sha256 != made[2].test.content_sha256
    assert (made[0].parameters["hide"], made[0].parameters["seed"]) == (0.25, 0)
    for share in (0, 1, -0.5, float("nan")):
        with pytest.raises(UsageError, match="hide must be between 0 and 1"):
            mtbench.from_files(folder, hide=share)
    (folder / "test.txt").write_text(text([("a", "b", "c"), ("d", "e", "f")]), encoding="utf-8")
    with pytest.raises(DatasetError, match="no triple can be held out"):
        mtbench.from_files(folder, hide=0.2)


def test_what_is_imported_is_stored_and_loads_as_it_was(folder, tmp_path, printed, listed, refused):
    out = tmp_path / "stored"
    said = printed("import", folder, "--out", out)
    assert f"read as train, valid, msg, test, as InGram and mtbench have them, and stored in {out}" in said
    assert "Heuristic baselines on mine/test/dual/present/0" in said
    stored, read = mtbench.load(out), mtbench.load(folder)
    assert repr(stored) == repr(read)
    assert stored.test.content_sha256 == read.test.content_sha256
    printed("verify", out)
    assert "exists already" in refused("import", folder, "--out", out)
    assert listed("import", folder, "--out", out, "--force")["name"] == mtbench.load(out).name == "mine"
    assert "say where the dataset is to be stored: add --out DIR" in refused("import", folder)
    (out / "test" / "graph.parquet").write_bytes(b"")
    with pytest.raises(MtbenchError, match=r"mtbench import FOLDER --out .*stored --force"):
        mtbench.load(out)
