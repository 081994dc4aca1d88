"""Raw dumps: every form gives the same triples, and what is wrong is named by file, line and text."""

import gzip
import io
import subprocess
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.builders.dumps.dump import read_dump
from mtbench.builders.dumps.files import BLOCK_BYTES, LONGEST_LINE
from mtbench.errors import DatasetError

WIKIDATA = [("Q5", "P31", "Q1"), ("Q20", "P31", "Q5"), ("Q5", "P17", "Q20"), ("Q5", "P31", "Q1"), ("Q7", "P2", "Q7")]
NAMED = [("/m/b", "/r s/x", 'ä"1'), ("concept:a", "likes", "/m/b"), ("/m/b", "/r s/x", 'ä"1'), ("c", "likes", "c")]


def by_id(row):
    return int(row[1][1:]) if row[1].startswith("P") else row[1]


def text(rows, end="\n"):
    return "".join("\t".join(row) + end for row in rows).encode()


def write(folder, rows, form):
    path = folder / f"dump.{form}"
    plain = {
        "txt": text(rows),
        "crlf.txt": text(rows, "\r\n"),
        "cut.txt": text(rows).removesuffix(b"\n"),
        "txt.gz": gzip.compress(text(rows)),
        "members.txt.gz": gzip.compress(text(rows[:2])) + gzip.compress(text(rows[2:])),
    }
    if form in plain:
        path.write_bytes(plain[form])
    elif form == "parquet":
        columns = dict(zip(("head", "relation", "tail"), map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), path)
    elif form == "tar.gz":
        with tarfile.open(path, "w:gz") as archive:
            for name, part in (("x_train.txt", rows[:2]), ("README.md", None), ("x_test.txt", rows[2:])):
                data = b"words" if part is None else text(part)
                member = tarfile.TarInfo(f"folder/{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


def named(dump, relations=None):
    head, relation, tail = dump.select(dump.relations if relations is None else relations)
    heads, tails = dump.entity_names(head).tolist(), dump.entity_names(tail).tolist()
    return list(zip(heads, [dump.relations[index] for index in relation.tolist()], tails, strict=True))


@pytest.mark.parametrize("rows", [WIKIDATA, NAMED], ids=["wikidata", "named"])
@pytest.mark.parametrize("form", ["txt", "crlf.txt", "cut.txt", "txt.gz", "members.txt.gz", "parquet", "tar.gz"])
@pytest.mark.parametrize("block_bytes", [1, 30, 1 << 20])
def test_every_form_and_block_size_gives_the_same_dump(tmp_path, rows, form, block_bytes):
    dump = read_dump([write(tmp_path, rows, form)], block_bytes=block_bytes)
    assert sorted(named(dump)) == sorted(set(rows))
    assert (dump.lines, dump.others, dump.duplicates, dump.loops) == (len(rows), 0, 1, 1)
    assert list(dump.relations) == list(dict.fromkeys(row[1] for row in sorted(rows, key=by_id)))
    whole = read_dump([write(tmp_path, rows, "txt")])
    assert np.array_equal(dump.keys, whole.keys)


@pytest.mark.parametrize("rows", [WIKIDATA, NAMED], ids=["wikidata", "named"])
def test_order_of_lines_and_files_does_not_matter(tmp_path, rows):
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_bytes(text(rows[3:]))
    other.write_bytes(text(rows[:3]))
    whole = read_dump([write(tmp_path, rows, "txt")])
    assert named(read_dump([one, other])) == named(read_dump([other, one])) == named(whole)


def test_only_relations_asked_for_are_kept(tmp_path):
    for rows, wanted, left in ((WIKIDATA, ["P17", "P999", "nonsense"], 1), (NAMED, ["likes", "never"], 2)):
        dump = read_dump([write(tmp_path, rows, "txt")], wanted)
        assert len(named(dump)) == left
        assert dump.lines == len(rows)
        assert dump.others == len(rows) - left
    assert named(read_dump([write(tmp_path, WIKIDATA, "txt")]), ["P17"]) == [("Q5", "P17", "Q20")]


numbers = st.integers(1, 100_000) | st.integers(1 << 28, 999_999_999)
wikidata_rows = st.lists(st.tuples(numbers, st.integers(1, 999_999), numbers), min_size=1, max_size=30)


@settings(max_examples=50)
@given(wikidata_rows, st.integers(1, 100))
def test_wikidata_numbers_of_any_size(tmp_path_factory, rows, block_bytes):
    rows = [(f"Q{head}", f"P{relation}", f"Q{tail}") for head, relation, tail in rows]
    path = tmp_path_factory.mktemp("dump") / "dump.txt"
    path.write_bytes(text(rows))
    assert sorted(named(read_dump([path], block_bytes=block_bytes))) == sorted(set(rows))


@pytest.mark.parametrize("rows", [WIKIDATA, NAMED], ids=["wikidata", "named"])
def test_reading_does_not_import_pandas(tmp_path, rows):
    # Arrow does so in some of its conversions, which costs a process more than reading a million lines.
    path = write(tmp_path, rows, "txt.gz")
    code = "import sys, pathlib; from mtbench.builders.dumps.dump import read_dump; "
    code += "read_dump([pathlib.Path(sys.argv[1])]); assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


@settings(max_examples=30)
@given(wikidata_rows)
def test_order_of_names_is_that_of_text(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("dump") / "dump.txt"
    for prefix in ("Q", "x"):
        path.write_bytes(text((f"{prefix}{head}", f"P{relation}", f"{prefix}{tail}") for head, relation, tail in rows))
        dump = read_dump([path])
        entities = np.arange(dump.num_entities)[::2]
        names = dump.entity_names(entities).tolist()
        assert [names[place] for place in dump.name_order(entities).tolist()] == sorted(names)


@pytest.mark.parametrize(
    "line",
    [
        *(b"Q1\tP1", b"Q1\tP1\tQ2\tQ3", b"Q1 P1 Q2", b"Q1\tP1\tQ", b"1Q\tP1\tQ2", b"Q1\tP1\t2Q", b"Q01\tP1\tQ2"),
        *(b"Q1\tQ2\tP3", b"Q1\tP1\tQ2 ", b"Q1\tP1\tQ-2", b"Q0x1\tP1\tQ2", b"Q1\tP1\tQ99999999999"),
        *(b"ann\tknows\tbob", b"Q1\tP1\t\xff"),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_malformed_wikidata_line(tmp_path, line, block_bytes):
    path = tmp_path / "dump.txt"
    path.write_bytes(b"Q1\tP1\tQ2\nQ3\tP1\tQ2\n" + line + b"\nQ4\tP1\tQ2\n")
    with pytest.raises(DatasetError) as raised:
        read_dump([path], block_bytes=block_bytes)
    assert f"{path}, line 3: " in str(raised.value)
    assert repr(line.decode("latin-1"))[1:4] in str(raised.value)


@pytest.mark.parametrize("line", [b"a\tb", b"a\tb\tc\td", b"a b c", b"a\t\tc", b"\tb\tc", b"a\tb\t", b"a\tb\t\xff"])
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_malformed_named_line(tmp_path, line, block_bytes):
    path = tmp_path / "dump.txt"
    path.write_bytes(b"x\ty\tz\n" + line + b"\nu\ty\tz\n")
    with pytest.raises(DatasetError, match=r"dump\.txt, line 2: "):
        read_dump([path], block_bytes=block_bytes)


def test_wrong_files_are_told(tmp_path):
    damaged = tmp_path / "damaged.txt.gz"
    damaged.write_bytes(gzip.compress(text(WIKIDATA))[:-9])
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"head": ["a"], "tail": ["b"]}), other)
    nulls = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"head": ["a"], "relation": pa.array([None], pa.string()), "tail": ["b"]}), nulls)
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    archive = tmp_path / "empty.tar.gz"
    tarfile.open(archive, "w:gz").close()
    for path, message in (
        (tmp_path / "none.txt", "is missing"),
        (damaged, "cannot be read"),
        (other, "has the columns head, tail, which are not one each of head, relation, tail"),
        (nulls, "row 1: an empty cell"),
        (empty, "0 lines"),
        (archive, "no train, valid or test file"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(DatasetError, match=message):
            read_dump([path])
    with pytest.raises(DatasetError, match="5 lines, none with a relation that is asked for"):
        read_dump([write(tmp_path, WIKIDATA, "txt")], ["P1"])


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_line_without_an_end_is_not_read_to_it(tmp_path, pack):
    path = tmp_path / ("dump.txt" if pack is bytes else "dump.txt.gz")
    path.write_bytes(pack(text(NAMED) + b"x" * (LONGEST_LINE + 2 * BLOCK_BYTES) + b"\tr\tt\n"))
    with pytest.raises(DatasetError, match=f"{path}, line 5: more than 1,048,576 bytes without an end"):
        read_dump([path])
