import gzip
from dataclasses import astuple, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import released
import toys
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import random_split, small, splits

import mtbench
from mtbench.analysis import fingerprints
from mtbench.analysis.fingerprints import KINDS, collect, of_named
from mtbench.analysis.leakage import Seen, contaminations, parts_of
from mtbench.errors import DatasetError, MtbenchError, UnknownNameError, UsageError

ROWS = [("ann", "knows", "bob"), ("bob", "likes", "cem"), ("bob", "likes", "dee"), ("cem", "knows", "ann")]
"""To the four people these are one graph triple, one target, and pairs reversed or with another relation."""


def counts(part):
    return {name: astuple(value) for name, value in vars(part).items()}


def plain(rows, known):
    """Count what of ``rows`` is in ``known``, one triple at a time."""
    triples, pairs = set(known), {(head, tail) for head, _, tail in known}
    back = [(tail, relation, head) for head, relation, tail in rows if head != tail]
    entities, relations = ({name for row in rows for name in (row[0], row[2])}, {row[1] for row in rows})
    known_entities = {name for row in known for name in (row[0], row[2])}
    return {
        "exact": (sum(row in triples for row in rows), len(rows)),
        "same_pair": (sum((row[0], row[2]) in pairs for row in rows), len(rows)),
        "reversed_triple": (sum(row in triples for row in back), len(rows)),
        "reversed_pair": (sum((row[0], row[2]) in pairs for row in back), len(rows)),
        "entities": (len(entities & known_entities), len(entities)),
        "relations": (len(relations & {row[1] for row in known}), len(relations)),
    }


def test_planted_overlap():
    found = mtbench.contamination(small(), ROWS)
    assert (found.dataset, found.split, found.triples) == ("toy", "test", 4)
    graph, targets = counts(found.graph), counts(found.targets)
    assert list(graph) == ["exact", "same_pair", "reversed_triple", "reversed_pair", "entities", "relations"]
    assert list(graph.values()) == [(1, 4), (3, 4), (0, 4), (0, 4), (4, 4), (2, 2)]
    assert list(targets.values()) == [(1, 3), (1, 3), (1, 3), (2, 3), (4, 4), (2, 3)]
    assert found.targets.exact.share == 1 / 3
    assert Seen(0, 0).share == 0
    assert found.to_dict()["targets"]["reversed_pair"] == {"seen": 2, "of": 3, "share": 2 / 3}


@settings(max_examples=40)
@given(split=splits(), other=splits(), size=st.integers(1, 30))
def test_counts_are_those_of_a_plain_loop(split, other, size):
    known = other.named(other.graph)
    blocks = [known[start : start + size] for start in range(0, len(known), size)]
    (found,) = contaminations([split], (part for block in blocks for part in of_named(block)))
    assert found.triples == len(known)
    assert counts(found.graph) == plain(split.named(split.graph), known)
    assert counts(found.targets) == plain(split.named(split.targets), known)


def test_every_kind_of_graph_gives_the_same(toy_cache):
    data = mtbench.load("toy")
    rows = [row for part in (toys.TRAIN, toys.MASKED, toys.TEST, toys.MISSING) for row in part]
    expected = mtbench.contamination(data.test, rows)
    assert expected.targets.exact == Seen(2, 2)
    everything = collect(of_named(rows))
    for graph in (data, "toy", "Toy_v1", everything, iter(rows)):
        assert mtbench.contamination(data.test, graph) == expected
    assert mtbench.contamination(data.valid, data.test) == replace(
        mtbench.contamination(data.valid, toys.TEST + toys.MISSING), triples=5
    )
    for name in ("train", "valid", "test"):
        assert mtbench.contamination(data.test, f"Toy_v1/{name}") == mtbench.contamination(data.test, data.split(name))
    one, two = contaminations([data.valid, data.test], parts_of(toys.MASKED))
    assert (one.targets.exact, two.targets.exact) == (Seen(1, 1), Seen(0, 2))
    assert one == mtbench.contamination(data.valid, toys.MASKED)


def test_what_has_no_triples_and_what_is_no_graph():
    found = mtbench.contamination(small().observable(), [])
    assert (found.triples, found.graph.exact, found.targets.exact) == (0, Seen(0, 4), Seen(0, 0))
    with pytest.raises(UnknownNameError, match="unknown dataset, directory or file 'metafm': did you mean metafam"):
        mtbench.contamination(small(), "metafm")


FORMS = ("txt", "tsv.gz", "parquet", "csv", "csv.gz", "bare.csv", "fingerprints.parquet")


def write(folder, rows, form):
    path = folder / f"graph.{form}"
    if form == "fingerprints.parquet":
        fingerprints.write(collect(of_named(rows)), path)
    elif form == "parquet":
        heads, relations, tails = map(list, zip(*rows, strict=True))
        pq.write_table(pa.table({"tail": tails, "head": heads, "relation": relations}), path)
    else:
        quoted = [tuple(f'"{name}"' if "," in name else name for name in row) for row in rows]
        lines = quoted if "csv" in form else rows
        if form.startswith("csv"):
            lines = [("id", "tail", "head", "relation"), *(("7", t, h, r) for h, r, t in quoted)]
        text = "".join(("," if "csv" in form else "\t").join(row) + "\n" for row in lines)
        path.write_bytes(gzip.compress(text.encode()) if form.endswith("gz") else text.encode())
    return path


@pytest.mark.parametrize("form", FORMS)
def test_files_of_every_form(tmp_path, form):
    rows = [*ROWS, ("são, p", "lies in", "br"), ROWS[0]]
    path = write(tmp_path, rows, form)
    for graph in (path, str(path)):
        assert mtbench.contamination(small(), graph) == mtbench.contamination(small(), rows)
    found, expected = collect(parts_of(path)), collect(of_named(rows))
    for kind in KINDS:
        assert getattr(found, kind).tolist() == getattr(expected, kind).tolist()


def test_a_file_of_fingerprints_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints, "ROWS", 3)
    split = random_split(1)
    path = tmp_path / "graph.parquet"
    fingerprints.write(collect(of_named(split.named(split.graph))), path)
    table = pq.read_table(path)
    assert table.column_names == ["kind", "fingerprint"]
    assert table.column("kind").unique().to_pylist() == list(KINDS)
    columns = [pq.read_metadata(path).row_group(0).column(number) for number in range(2)]
    assert ["RLE_DICTIONARY" in column.encodings for column in columns] == [True, False]
    parts = list(fingerprints.read(path))
    assert max(sum(len(getattr(part, kind)) for kind in KINDS) for part in parts) == 3
    assert mtbench.contamination(split, path).graph.exact == Seen(300, 300)
    assert mtbench.contamination(split, path).targets.exact == Seen(0, 40)


def test_files_of_fingerprints_are_written_whole_and_replaced_on_purpose(tmp_path, monkeypatch):
    found, path = collect(of_named(ROWS)), tmp_path / "new" / "graph.parquet"
    fingerprints.write(found, path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"graph\.parquet already exists: .*--force"):
        fingerprints.write(found, path)
    with pytest.raises(UsageError, match="is a directory"):
        fingerprints.write(found, tmp_path, force=True)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fingerprints.pq.ParquetWriter, "write_table", full)
    with pytest.raises(MtbenchError, match="No space left"):
        fingerprints.write(found, path, force=True)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["graph.parquet"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"a\tr\tb\na b\n", r"a\.txt, line 2: 'a b' is not head TAB relation TAB tail"),
        ("a.csv", b"a,r\n", r"a\.csv, line 1: 'a,r' is not head,relation,tail"),
        ("a.csv", b"a,r,b\na,r\n", r"a\.csv, line 2: 'a,r' is not head,relation,tail"),
        ("a.csv", b"\xff\xfe,r,b\n", r"a\.csv, line 1: .* is not UTF-8 text"),
        ("a.csv.gz", b"a,r,b\n", r"a\.csv\.gz cannot be read"),
        ("a.parquet", b"PAR1", r"a\.parquet cannot be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DatasetError, match=message):
        mtbench.contamination(small(), tmp_path / name)


def test_fingerprints_of_another_version_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints, "VERSION", 0)
    fingerprints.write(collect(of_named(ROWS)), tmp_path / "old.parquet")
    monkeypatch.undo()
    with pytest.raises(DatasetError, match="holds fingerprints of version b'0', this is 1: write them again"):
        mtbench.contamination(small(), tmp_path / "old.parquet")


@pytest.mark.parametrize(
    ("key", "columns"),
    [("other", {"kind": ["triple"], "fingerprint": [1]}), ("mtbench_fingerprints", {"kind": ["triple"]})],
)
def test_a_table_that_only_looks_like_fingerprints_is_read_as_triples(tmp_path, key, columns):
    pq.write_table(pa.table(columns).replace_schema_metadata({key: "1"}), tmp_path / "a.parquet")
    with pytest.raises(DatasetError, match="column"):
        mtbench.contamination(small(), tmp_path / "a.parquet")


def test_wikitopics_is_in_wikidata5m(mirror, excerpt):
    data = released.dataset("wikitopics-mt1/health", mirror)
    other = released.dataset("wikitopics-mt3/art", mirror)
    found, art = contaminations([data.test, other.test], parts_of(excerpt))
    assert found.triples == 1_199_695
    assert found.targets.exact == Seen(1566, 1566)
    assert found.graph.exact == Seen(14110, 14110)
    assert found.targets.reversed_triple == Seen(201, 1566)
    with gzip.open(excerpt, "rt", encoding="utf-8") as stream:
        wanted = {"\t".join(row) + "\n" for row in other.test.named(other.test.targets)}
        expected = len(wanted.intersection(stream))
    assert art.targets.exact == Seen(expected, 3113)


def test_other_datasets_share_nothing(mirror):
    data = released.dataset("wikitopics-mt1/health", mirror)
    for part in vars(mtbench.contamination(data.test, released.dataset("metafam", mirror)).targets).values():
        assert part.seen == 0
