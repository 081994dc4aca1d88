"""What a user hands in is read right, or refused: layouts of others, spellings of a file, and what cannot be meant."""

from __future__ import annotations

import gzip
import os
import re
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mtbench
from mtbench.builders import folders
from mtbench.builders.dumps import files as reader
from mtbench.builders.dumps.dump import read_dump
from mtbench.errors import DatasetError, UsageError

TRAIN = [("ann", "knows", "bob"), ("bob", "knows", "çelik öz"), ("çelik öz", "likes", "ann")]
VALID = [("ann", "likes", "bob")]
GRAPH = [("x 1", "eats", "y"), ("y", "eats", "z")]
KNOWN = [("z", "eats", "x 1")]
TEST = [("x 1", "eats", "z")]
ONE = [("bob", "likes", "ann")]


def text(rows, separator="\t", end="\n", columns=(0, 1, 2), first=""):
    return (first + "".join(separator.join(row[column] for column in columns) + end for row in rows)).encode()


def turned(rows, first=""):
    return text(rows, columns=(0, 2, 1), first=first)


def quoted(rows):
    lines = (",".join(f'"{name}"' for name in row) for row in [("head", "relation", "tail"), *rows])
    return "\n".join(lines).encode()


def iris(rows):
    return [tuple(f"http://x/{name.replace(' ', '_')}" for name in row) for row in rows]


def ntriples(rows):
    lines = (" ".join(f"<{name}>" for name in row) + " .\n" for row in iris(rows))
    return "".join(["# a comment\n", *lines]).encode()


ENTITIES, RELATIONS = ("ann", "bob", "çelik öz"), ("knows", "likes")


def numbered(rows):
    ids = ((ENTITIES.index(head), ENTITIES.index(tail), RELATIONS.index(name)) for head, name, tail in rows)
    return "\n".join([str(len(rows)), *(" ".join(map(str, row)) for row in ids)]).encode()


def vocabulary(names):
    return "\n".join([str(len(names)), *(f"{name}\t{number}" for number, name in enumerate(names))]).encode()


ROLES = {
    "train": (TRAIN, "3 triples of the training graph"),
    "valid": (VALID, "1 triples to predict in the training graph"),
    "graph": (GRAPH, "2 triples of the inference graph"),
    "test": (TEST, "1 test triples"),
    "one": (ONE, "1 test triples"),
    "besides": (ONE, "1 triples of the training graph that are known, not shown"),
    "known": (KNOWN, "1 triples of the inference graph that are known, not shown"),
}
INGRAM = {"train": "train", "msg": "graph", "test": "test", "valid": "known"}
LAYOUTS = {
    "InGram": ("txt", text, INGRAM),
    "GraIL": ("txt", text, {
        "train": "train", "valid": "valid", "../mine_ind/train": "graph", "../mine_ind/test": "test", "test": "besides",
        "../mine_ind/valid": "known",
    }),
    "ULTRA": ("txt", text, {
        "transductive_train": "train", "inference_graph": "graph", "inf_test": "test", "inf_valid": "known"
    }),
    "ILPC": ("txt", text, {
        "train": "train", "inference": "graph", "inference_test": "test", "inference_validation": "known"
    }),
    "PyKEEN": ("txt", text, {"training": "train", "validation": "valid", "testing": "one"}),
    "OpenKE": ("txt", numbered, {"train2id": "train", "valid2id": "valid", "test2id": "one"}),
    ".triples": ("triples", turned, {"train": "train", "dev": "valid", "test": "one"}),
    "quoted CSV": ("csv", quoted, INGRAM),
    "swapped heading": ("tsv", lambda rows: turned(rows, "head\ttail\trelation\n"), INGRAM),
    "gz": ("txt.gz", lambda rows: gzip.compress(text(rows)), INGRAM),
    "N-Triples": ("nt", ntriples, INGRAM),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read_and_says_what_each_file_became(tmp_path, layout, printed):
    suffix, encode, roles = LAYOUTS[layout]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine_ind").mkdir()
    for name, role in roles.items():
        (tmp_path / "mine" / f"{name}.{suffix}").write_bytes(encode(ROLES[role][0]))
    for kind, names in {"entity": ENTITIES, "relation": RELATIONS}.items() if layout == "OpenKE" else ():
        (tmp_path / "mine" / f"{kind}2id.txt").write_bytes(vocabulary(names))
    order = ("head", "tail", "relation") if layout == ".triples" else ("head", "relation", "tail")
    data = mtbench.from_files(tmp_path / "mine", columns=order)
    became = [line.removesuffix("; filtered everywhere") for line in data.parameters["files"].split("\n")]
    places = [name.removeprefix("../") if "/" in name else f"mine/{name}" for name in roles]
    names = places if layout == "GraIL" else roles
    assert became == [f"{name}.{suffix}: {ROLES[role][1]}" for name, role in zip(names, roles.values(), strict=True)]

    def rows(*names):
        found = [row for role in roles.values() if role in names for row in ROLES[role][0]]
        return iris(found) if layout == "N-Triples" else found

    assert data.train.named(data.train.graph) == rows("train")
    assert data.valid.named(data.valid.targets) == rows("valid")
    assert data.test.named(data.test.graph) == (rows("graph") or rows("train"))
    assert data.test.named(data.test.targets) == rows("test", "one")
    assert data.test.named(data.test.known) == (rows("known") or rows("valid"))
    assert data.valid.named(data.valid.known) == (rows("besides") or rows("one"))
    said = printed("import", tmp_path / "mine", "--out", tmp_path / "out", "--columns", ",".join(order))
    assert data.parameters["files"] in said
    assert mtbench.load(tmp_path / "out").test.content_sha256 == data.test.content_sha256


PLAIN = [("a", "r", "b"), ("b", "r", "c d")]
SPELLINGS = {
    "a mark": ("g.txt", text(PLAIN).decode().encode("utf-8-sig")),
    "lines of Windows": ("g.txt", text(PLAIN, end="\r\n")),
    "a cut end": ("g.txt", text(PLAIN)[:-1]),
    "blank lines": ("g.txt", b"\n" + text(PLAIN, end="\n\n") + b"   \n"),
    "blank lines of CSV": ("g.csv", b"\n" + text(PLAIN, ",", end="\n\n") + b"   \n"),
    "spaces after commas": ("g.csv", text(PLAIN, ", ", first="head, relation, tail\n")),
    "quotes and spaces": ("g.csv", b'"a", "r", "b"\n"b","r", "c d"\n'),
    "some quotes": ("g.csv", b'a,r,b\nb,r,"c d"\n'),
    "subject, predicate, object": ("g.csv", text(PLAIN, ",", first="subject,predicate,object\n")),
    "another heading in another order": ("g.csv", text(PLAIN, ",", columns=(2, 0, 1), first='"Object",S,"Pred"\n')),
    "a heading in another order": ("g.tsv", text(PLAIN, columns=(0, 2, 1), first="head\ttail\trelation\n")),
    "a heading behind a sign": ("g.txt", text(PLAIN, first="# head\trelation\ttail\n")),
    "a heading with spaces": ("g.txt", text(PLAIN, first="#head relation tail\n")),
    "a heading with capitals": ("g.txt", text(PLAIN, first="\ufeffHead\tRelation\tTail\r\n", end="\r\n")),
    "a heading of two entities": ("g.tsv", text(PLAIN, first="entity1\trelation\tentity2\n")),
    "a heading of letters": ("g.txt.gz", gzip.compress(text(PLAIN, first="h\tr\tt\n"))),
    "more columns": ("g.tsv", b"id\thead\ttail\trelation\n1\ta\tb\tr\n2\tb\tc d\tr\n"),
    "more columns of CSV": ("g.csv", b"head,relation,tail,note\na,r,b,\nb,r,c d,x\n"),
    "N-Triples": ("g.nt", b'# no triple\n<a> <r> <b> .\n\n<b>\t<r>\t<c\\u0020d> . # last\n'),
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_gives_the_same_triples(tmp_path, spelling):
    name, data = SPELLINGS[spelling]
    (tmp_path / name).write_bytes(data)
    split = folders.read_graph(tmp_path / name)
    assert split.named(split.graph) == PLAIN
    for block_bytes in (1, 16, 1 << 19):
        dump = read_dump([tmp_path / name], block_bytes=block_bytes)
        assert (list(dump.names), list(dump.relations), dump.lines) == (["a", "b", "c d"], ["r"], 2)


@settings(max_examples=300)
@given(
    st.sampled_from(["tabs", "commas"]),
    st.lists(st.text(st.sampled_from('ab",\t\n \r\0\x7f\u00a0\u0085\u202e\ufeff\u3000é'), max_size=12), max_size=6),
)
def test_a_block_is_what_its_lines_are_one_by_one(spelling, lines):
    separator = "\t" if spelling == "tabs" else ","
    good = [separator.join("xyz"), separator.join(["é", "b", "c d"])]
    block = reader.Block("".join(f"{line}\n" for line in [*good, *lines]).encode(), "f", 1, reader.Form(spelling))
    try:
        expected = [names for _, names in block.named()]
    except DatasetError as error:
        with pytest.raises(DatasetError, match=re.escape(str(error))):
            _ = block.table
        return
    assert list(zip(*block.table.to_pydict().values(), strict=True)) == expected


def table(*columns, names=("head", "relation", "tail")):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([pa.array(column) for column in columns], names=list(names)), sink)
    return sink.getvalue().to_pybytes()


MARK = "\ufeff"
KEPT = {
    "quotes of a name": ("g.tsv", b'"b0" x\tr\t"c"\n', ('"b0" x', "r", '"c"')),
    "quotes of a name in CSV": ("g.csv", b'"b0" x,r,"c ""d"""\n', ('"b0" x', "r", 'c "d"')),
    "a comma in quotes": ("g.csv", b'"Smith, Ann",r,b"c\n', ("Smith, Ann", "r", 'b"c')),
    "a literal": ("g.nt", b'<a> <r> "b . \\"c\\""@en .\n', ("a", "r", '"b . \\"c\\""@en')),
    "a mark in a name": ("g.tsv", f"a\tr\t{MARK}b\n".encode(), ("a", "r", f"{MARK}b")),
    "a mark at the start": ("g.parquet", table([f"{MARK}a"], ["r"], ["b"]), (f"{MARK}a", "r", "b")),
    "other words over Parquet": ("g.parquet", table(["b"], ["a"], ["r"], names=("o", "s", "p")), ("a", "r", "b")),
    "numbers": ("g.parquet", table([7], ["r"], [8]), ("7", "r", "8")),
    "a heading's word": ("g.tsv", b"head\tof\tstate\n", ("head", "of", "state")),
}


@pytest.mark.parametrize("case", KEPT)
def test_names_are_kept_byte_for_byte(tmp_path, case):
    name, data, expected = KEPT[case]
    (tmp_path / name).write_bytes(data)
    split = folders.read_graph(tmp_path / name)
    assert split.named(split.graph) == [expected]


def test_a_name_that_begins_with_a_mark_is_one_entity_in_every_block(tmp_path):
    rows = [(f"{MARK}a", "r", f"b{number:06}") for number in range(60_000)]
    for form, data in (
        ("txt", text(rows, first="head\trelation\ttail\n")),
        ("parquet", table(*zip(*rows, strict=True))),
    ):
        (tmp_path / f"g.{form}").write_bytes(data)
        split = folders.read_graph(tmp_path / f"g.{form}")
        assert len(data) > reader.BLOCK_BYTES or form == "parquet"
        assert np.unique(split.graph[:, 0]).tolist() == [split.num_entities - 1]
        assert len(read_dump([tmp_path / f"g.{form}"]).names) == 60_001


def nested(kind):
    cells = {
        "list": [["a"]],
        "struct": [{"a": "b"}],
        "map": pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())),
    }
    return table(cells[kind], ["r"], ["b"])


REFUSED = {
    "a list": ("g.parquet", nested("list"), "column head has the type list"),
    "a struct": ("g.parquet", nested("struct"), "column head has the type struct"),
    "a map": ("g.parquet", nested("map"), "column head has the type map"),
    "a column twice": ("g.parquet", table(*["a"] * 4, names=("s", "p", "o", "o")), "the column o 2 times"),
    "a heading of other bytes": (
        "g.parquet", table(["a"], ["r"], ["b"]).replace(b"head", b"he\xf6d"), "g.parquet cannot be read"
    ),
    "no bytes of text": ("g.parquet", table(["a"], ["r"], [1.5]), "column tail has the type double"),
    "NUL": ("g.tsv", b"a\tr\tb\na\tr\tb\0\n", r"g.tsv, line 2: the tail 'b\\x00' is a name with U\+0000"),
    "NUL in Parquet": ("g.parquet", table(["a", "a\0"], ["r", "r"], ["b", "b"]), r"row 2: the head .* U\+0000"),
    "an end of a line in Parquet": ("g.parquet", table(["a\r"], ["r"], ["b"]), r"row 1: the head .* U\+000D"),
    "a bell": ("g.csv", b"a,r\x07,b\n", r"line 1: the relation .* U\+0007, which is a control"),
    "a late control": ("g.tsv", "a\tr\tb\u0085c\n".encode(), r"line 1: the tail .* U\+0085"),
    "a tab in CSV": ("g.csv", b'a,r,b\na,"r\ts",b\n', r"line 2: the relation .* U\+0009"),
    "spaces alone": ("g.tsv", b"\na\tr\t  \n", r"line 2: the tail '  ' is a name of spaces alone"),
    "wide spaces alone": ("g.tsv", "a\tr\t\u3000\n".encode(), r"line 1: the tail .* a name of spaces alone"),
    "spaces alone in quotes": ("g.csv", b'a,"r","  "\n', r"line 1: the tail '  ' is a name of spaces alone"),
    "an empty name": ("g.tsv", b"a\tr\tb\na\t\tb\n", "line 2: the relation '' is an empty name"),
    "a turn": ("g.tsv", "a\tr\tb\u202ec\n".encode(), r"line 1: .* U\+202E, which turns the direction"),
    "an isolate": ("g.csv", "a\u2067,r,b\n".encode(), r"line 1: .* U\+2067, which turns the direction"),
    "a quote without an end": ("g.csv", b'a,r,"b\n', r"""line 1: 'a,r,"b' is not head,relation,tail"""),
    "commas in a text": ("g.txt", b"a,r,b\n", "'a,r,b' is not head TAB relation TAB tail: call the file .csv"),
    "tabs in CSV": ("g.csv", b"a\tr\tb\n", r"is not head,relation,tail: call the file .tsv"),
    "spaces": ("g.txt", b"head relation tail\na r b\n", "line 2: .* TAB tail: put tabs for its spaces"),
    "semicolons": ("g.csv", b"a;r;b c\n", "is not head,relation,tail: put tabs for its semicolons"),
    "no words for the columns": ("g.parquet", table("a", "r", "b", names="xyz"), "has the columns x, y, z, which are"),
    "another number of columns": ("g.tsv", b"a\tr\tb\na\tr\tb\tc\n", "line 2: .* is not head TAB relation TAB tail"),
    "no N-Triple": ("g.nt", b"<a> <r> <b> .\n<a> <r> <b>\n", "line 2: '<a> <r> <b>' is not <head> <relation> <tail> ."),
    "ids without names": ("train2id.txt", b"1\n0 0 0\n", "holds ids, and .*entity2id.txt, which is to name them"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_right_is_refused_by_file_and_line(tmp_path, case):
    name, data, message = REFUSED[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DatasetError, match=message):
        folders.read_graph(tmp_path / name)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (b"3\n0 1 0\n", "has 1 lines of the 3 that its first one promises"),
        (b"1\n0 1 2\n", "line 2: '0 1 2' is not three"),
    ],
)
def test_ids_of_openke_are_those_that_are_named(tmp_path, lines, message):
    (tmp_path / "entity2id.txt").write_bytes(vocabulary(ENTITIES))
    (tmp_path / "relation2id.txt").write_bytes(vocabulary(RELATIONS))
    (tmp_path / "train2id.txt").write_bytes(lines)
    with pytest.raises(DatasetError, match=message):
        folders.read_graph(tmp_path / "train2id.txt")


@pytest.mark.parametrize(
    ("bound", "message"), [("MOST_ROWS", "has 9 rows, and more than"), ("LARGE", "bytes for 9 names")]
)
def test_sizes_that_a_footer_tells_are_refused_before_anything_is_read(tmp_path, monkeypatch, bound, message):
    (tmp_path / "g.parquet").write_bytes(table(["a" * 5000] * 9, ["r"] * 9, [f"{n}" * 9000 for n in range(9)]))
    monkeypatch.setattr(reader, bound, 8)
    monkeypatch.setattr(reader.pq.ParquetFile, "iter_batches", None)
    with pytest.raises(DatasetError, match=message):
        folders.read_graph(tmp_path / "g.parquet")


@pytest.fixture
def mine(tmp_path):
    folder = tmp_path / "my graph"
    folder.mkdir()
    for name, rows in (("train", TRAIN), ("test", [*GRAPH, *TEST])):
        (folder / f"{name}.tsv").write_bytes(text(rows))
    return folder


@pytest.mark.parametrize("suffix", ["tsv", "csv", "parquet", "nt", "tsv.gz"])
def test_a_file_of_triples_without_a_part_is_refused_with_what_to_type(mine, command, suffix):
    data = {"csv": quoted(GRAPH), "parquet": table(*zip(*GRAPH, strict=True)), "nt": ntriples(GRAPH)}.get(
        suffix, text(GRAPH)
    )
    path = mine / f"graph.{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    (mine / "README.txt").write_text("What it is\n")
    code, _, said = command("import", mine, "--out", mine.parent / "out", "--hide", "0.5")
    assert code == 1
    assert f"graph.{suffix}, a file of triples that has no part" in said
    assert f"mtbench import '{mine}' --inference '{path}' --out DIR (--inference or --valid or --known)" in said
    assert not (mine.parent / "out").exists()


@pytest.mark.parametrize("name", ["train.ttl", "train.txt.bz2", "train", "train.parquet", "train.csv", "graph.dat"])
def test_no_part_is_left_out_without_a_word(tmp_path, name):
    for stem, rows in (("msg", GRAPH), ("test", TEST)):
        (tmp_path / f"{stem}.txt").write_bytes(text(rows))
    assert not len(mtbench.from_files(tmp_path).train.graph)
    if name == "train.parquet":  # as Spark writes one
        (tmp_path / name).mkdir()
    elif name == "train.csv":
        (tmp_path / name).symlink_to(tmp_path / "gone.csv")
    else:
        (tmp_path / name).write_bytes(text(TRAIN) if name == "graph.dat" else b"@prefix x: <http://x/> .\n")
    with pytest.raises(DatasetError, match=f"{name}.*(no form that is read|a directory|is missing|has no part)"):
        mtbench.from_files(tmp_path)


def test_scripts_and_archives_beside_the_triples_are_no_part(tmp_path):
    for stem, rows in (("train", TRAIN), ("test", ONE)):
        (tmp_path / f"{stem}.txt").write_bytes(text(rows))
    for name in ("inference.py", "valid.log", "graph.tar.gz", "notes"):
        (tmp_path / name).write_bytes(b"anything\n")
    assert mtbench.from_files(tmp_path).parameters["files"].count("\n") == 1


def test_the_folder_above_a_dataset_says_what_may_be_meant(tmp_path):
    for folder in ("v1", "v1_ind", "v2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.txt").write_bytes(text(TRAIN))
    with pytest.raises(DatasetError, match=f"did you mean {re.escape(f'{tmp_path}/v1, {tmp_path}/v2')}\\?$"):
        mtbench.from_files(tmp_path)


def test_nothing_is_drawn_by_chance_unless_it_is_asked_for(mine, command, printed):
    code, _, said = command("import", mine, "--out", mine.parent / "out")
    assert code == 1
    assert (
        "no graph for test: give it with --inference FILE (inference=), or hide a part of test.tsv with --hide 0.2"
        in said
    )
    assert "2 triples of the inference graph and 1 test triples, drawn by chance" in printed(
        "import", mine, "--out", mine.parent / "out", "--hide", "0.3"
    )
    (mine / "msg.tsv").write_bytes(text(GRAPH))
    (mine / "test.tsv").write_bytes(text(TEST))
    with pytest.raises(UsageError, match=r"msg.tsv is the test graph, so nothing has to be hidden"):
        mtbench.from_files(mine, hide=0.3)


def test_a_file_that_is_named_takes_the_place_of_the_folders(mine):
    (mine / "graph.tsv").write_bytes(text(GRAPH))
    (mine / "test.tsv").write_bytes(text(TEST))
    data = mtbench.from_files(mine, inference=mine / "graph.tsv")
    assert data.test.named(data.test.graph) == GRAPH


def test_what_trains_nothing_needs_no_training_graph(tmp_path, printed):
    for name, rows in (("msg", GRAPH), ("test", TEST)):
        (tmp_path / f"{name}.txt").write_bytes(text(rows))
    files = ("--inference", tmp_path / "msg.txt", "--test", tmp_path / "test.txt")
    said = printed("import", *files, "--out", tmp_path / "out", "--name", "mine")
    assert "there is no training graph" in said
    for data in (mtbench.load(tmp_path), mtbench.load(tmp_path / "out")):
        assert (len(data.train.graph), data.train.num_entities, data.test.num_entities) == (0, 0, 3)
        assert mtbench.evaluate(lambda triples: triples @ [9, 3, 1], data).metrics["mrr"] > 0
        assert not any("0 of 0" in sentence for sentence in mtbench.audit(data).findings)


def test_repeated_lines_are_counted(mine):
    (mine / "train.tsv").write_bytes(text([*TRAIN, *TRAIN, TRAIN[0]]))
    (mine / "test.tsv").write_bytes(text([*ONE, *ONE]))
    lines = mtbench.from_files(mine).parameters["files"].split("\n")
    assert lines[0] == "train.tsv: 3 triples of the training graph, 4 repeated lines dropped"
    assert lines[1] == "test.tsv: 1 test triples, 1 repeated line dropped"


def test_columns_in_another_order_and_loops_are_findings(tmp_path):
    rows = [(f"n{number}", f"r{number % 2}", f"n{number // 2}") for number in range(12)]
    for name, rows_of in {"train": rows, "test": [("n1", "r0", "n2")]}.items():
        (tmp_path / f"{name}.triples").write_bytes(turned(rows_of))
    read_wrong, read_right = mtbench.load(tmp_path), mtbench.from_files(tmp_path, columns=("head", "tail", "relation"))
    wrong, right = (mtbench.audit(data).findings for data in (read_wrong, read_right))
    said = (
        "6 relation types and 14 entities, with 6 names in common: if the columns of its files are head, tail, relation"
    )
    assert any(said in sentence for sentence in wrong)
    assert not any("columns" in sentence for sentence in right)
    assert any("graph: 1 triples lead from an entity to itself" in sentence for sentence in right)
    assert len(right) == len({sentence.partition(" (")[0] for sentence in right})


def odd(path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as server:
            os.chdir(path.parent)
            server.bind(path.name)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
@pytest.mark.parametrize("name", ["train.tsv", "other.tsv"])
def test_what_is_no_file_is_refused_and_never_opened(mine, monkeypatch, kind, name):
    monkeypatch.chdir(mine)
    (mine / name).unlink(missing_ok=True)
    odd(mine / name, kind)
    for reading in (lambda: mtbench.from_files(mine, hide=0.2), lambda: folders.read_graph(mine / name)):
        with pytest.raises(DatasetError, match=f"{name} cannot be read, as it is a .*{kind}"):
            reading()
