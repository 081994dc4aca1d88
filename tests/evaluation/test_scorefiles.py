"""Scores from files: every format, every order of rows, and every refusal by name."""

import gzip
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, feather, ipc
from ranking_toys import by_direction, figures, hashed, random_split, small, splits, turned

from mtbench.errors import MtbenchError, ScoreError, UnknownNameError, UsageError
from mtbench.evaluation import scorefiles
from mtbench.evaluation.tasks import task
from mtbench.runs.result import MtbenchWarning
from mtbench.settings.table import PROTOCOLS

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
SUFFIXES = (".parquet", ".pq", ".feather", ".arrow", ".csv", ".tsv", ".parquet.gz", ".csv.gz", ".TSV.gz")


def frame_of(chosen, scores=None, *, ids=False):
    """Return the triples of a task with scores, as a frame of names or of ids."""
    triples = chosen.triples
    rows = triples if ids else np.array(chosen.split.named(triples), dtype=object)
    frame = pd.DataFrame({name: rows[:, column] for column, name in enumerate(("head", "relation", "tail"))})
    return frame.assign(score=hashed(triples, 97) * 0.5 if scores is None else scores)


def directed_frame(chosen, *, ids=False):
    """Return the triples of every direction with its scores: `hashed` for tails, `turned` for heads."""
    frame, parts = frame_of(chosen, ids=ids), []
    for direction in chosen.directions:
        rows = chosen.rows(direction)
        scores = {"tail": hashed, "head": turned}[direction](chosen.triples[rows]) * 0.5
        parts.append(frame.iloc[rows].assign(score=scores, direction=direction))
    return pd.concat(parts, ignore_index=True)


def write(frame, path, metadata=None):
    """Write a frame as somebody else's program would; the suffix says how."""
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(metadata)
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    plain = path.with_name(path.name.lower().removesuffix(".gz"))
    if kind in ("parquet", "pq"):
        pq.write_table(table, plain)
    elif kind in ("feather", "arrow"):
        feather.write_feather(table, plain)
    else:
        frame.to_csv(plain, index=False, sep="\t" if kind == "tsv" else ",")
    if path != plain:
        path.write_bytes(gzip.compress(plain.read_bytes()))
    return path


def of_frame(chosen, frame):
    """Return the result of a frame that was written to a Parquet file."""
    with TemporaryDirectory() as directory:
        return chosen.evaluate_file(write(frame, Path(directory) / "s.parquet"))


@settings(max_examples=30)
@given(split=splits(), seed=st.integers(0, 1000), ids=st.booleans(), slots=st.booleans())
def test_rows_may_come_in_any_order_by_name_or_id(split, seed, ids, slots):
    chosen = task(split, "dual", "slots" if slots else "present")
    frame = frame_of(chosen, ids=ids)
    order = np.random.default_rng(seed).permutation(len(frame))
    expected = chosen.evaluate(frame["score"].to_numpy())
    found = of_frame(chosen, frame.iloc[order])
    assert figures(found) == figures(expected)
    np.testing.assert_array_equal(found.ranks.greater, expected.ranks.greater)
    np.testing.assert_array_equal(found.ranks.equal, expected.ranks.equal)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_written_triples_come_back_with_scores_whatever_the_format(suffix, tmp_path):
    chosen = task(small(), "dual", "slots")
    path = chosen.write_triples(tmp_path / "made" / f"t{suffix}")
    kind = suffix.lower().removesuffix(".gz")
    data = gzip.decompress(path.read_bytes()) if suffix.endswith(".gz") else path.read_bytes()
    if kind in (".parquet", ".pq"):
        table = pq.read_table(pa.BufferReader(data))
    elif kind in (".feather", ".arrow"):
        table = ipc.open_file(data).read_all()
    else:
        layout = csv.ParseOptions(delimiter="\t" if kind == ".tsv" else ",")
        table = csv.read_csv(pa.BufferReader(data), parse_options=layout)
    assert table.column_names == ["head", "relation", "tail", *scorefiles.ID_COLUMNS]
    np.testing.assert_array_equal(np.stack([table[name] for name in scorefiles.ID_COLUMNS], axis=1), chosen.triples)
    named = list(zip(*(table[name].to_pylist() for name in ("head", "relation", "tail")), strict=True))
    assert named == chosen.split.named(chosen.triples)
    filled = table.to_pandas().assign(score=hashed(chosen.triples))
    scored = write(filled, tmp_path / f"s{suffix}", table.schema.metadata)
    assert figures(chosen.evaluate_file(scored)) == figures(chosen.evaluate(hashed(chosen.triples) * 1.0))


def test_writing_is_repeatable_and_replaces_nothing_unasked(tmp_path):
    chosen = task(small())
    first, second = chosen.write_triples(tmp_path / "a.tsv.gz"), chosen.write_triples(tmp_path / "b.tsv.gz")
    assert first.read_bytes() == second.read_bytes()
    assert not any(first.read_bytes()[4:8]), "gzip's header holds the time of writing"
    first.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"a\.tsv\.gz already exists: choose another name, or replace it with --force"):
        chosen.write_triples(first)
    assert first.read_text(encoding="utf-8") == "mine"
    assert chosen.write_triples(first, force=True).read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tsv.gz", "b.tsv.gz"]
    with pytest.raises(UsageError, match="is a directory: name a file"):
        chosen.write_triples(tmp_path.rename(tmp_path.with_name("folder.csv")), force=True)


@pytest.mark.parametrize("mark", ["\t", "\n", '"'])
def test_names_that_tsv_cannot_hold_go_into_the_other_formats(mark, tmp_path):
    split = small()
    chosen = task(replace(split, entities=np.array([f"{name}{mark}x, y" for name in split.entities.tolist()])))
    with pytest.raises(UsageError, match=r"holds a tab, a quote or a line break, which TSV cannot: write \.parquet"):
        chosen.write_triples(tmp_path / "t.tsv")
    assert not list(tmp_path.iterdir())
    for suffix in ("csv", "parquet"):
        path = chosen.write_triples(tmp_path / f"t.{suffix}")
        frame = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
        scored = write(frame.assign(score=hashed(chosen.triples)), tmp_path / f"s.{suffix}")
        assert figures(chosen.evaluate_file(scored)) == figures(chosen.evaluate(hashed(chosen.triples) * 1.0))


def test_text_files_hold_ids_only_where_no_relation_is_named_by_a_number(tmp_path):
    split = replace(small(), entities=np.array(["0", "1", "2", "3"]))
    path = write(frame_of(task(split), ids=True), tmp_path / "s.csv")
    expected = figures(of_frame(task(split), frame_of(task(split))))
    assert figures(task(split).evaluate_file(path)) == expected
    numbered = replace(split, relations=np.array(["0", "1", "10"]), relation_slots=3)
    chosen = task(numbered, "dual", "slots")
    with pytest.raises(
        ScoreError, match=r"column relation has unknown names \(1 in \d+ of its rows, first in row \d+\): '2'"
    ):
        chosen.evaluate_file(write(frame_of(chosen, ids=True), tmp_path / "n.csv"))
    named = write(frame_of(chosen), tmp_path / "m.csv")
    assert figures(chosen.evaluate_file(named)) == figures(of_frame(chosen, frame_of(chosen)))


def test_text_keeps_names_that_look_like_missing_values(tmp_path):
    chosen = task(replace(small(), entities=np.array(["", "NA", "nan", "null"])))
    path = write(frame_of(chosen), tmp_path / "s.tsv")
    assert figures(chosen.evaluate_file(path)) == figures(of_frame(chosen, frame_of(chosen)))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "int64"])
def test_scores_keep_their_type(kind, tmp_path):
    chosen = task(small())
    scores = hashed(chosen.triples, 5).astype(kind)
    path = write(frame_of(chosen, scores), tmp_path / "s.parquet")
    found, cautions = chosen.questions.read(path)
    assert (found.dtype, cautions) == (np.dtype(kind), ())
    np.testing.assert_array_equal(found, scores)


def test_categories_and_large_text_are_names():
    chosen = task(small())
    frame = frame_of(chosen)
    expected = figures(of_frame(chosen, frame))
    assert figures(of_frame(chosen, frame.astype({"head": "category", "relation": "category"}))) == expected
    assert figures(of_frame(chosen, frame.astype({"tail": pd.ArrowDtype(pa.large_string())}))) == expected


def test_other_triples_are_ignored_and_noted(tmp_path):
    chosen = task(small(), "entity")
    frame = frame_of(chosen)
    asked = set(chosen.split.named(chosen.triples))
    every = [(h, r, t) for h in chosen.split.entities for r in chosen.split.relations for t in chosen.split.entities]
    others = pd.DataFrame([row for row in every if row not in asked], columns=["head", "relation", "tail"])
    more = pd.concat([others.assign(score=np.nan), frame, others[:2].assign(score=1.0)])
    sentence = f"rows that score triples the task does not ask for were ignored: {len(others) + 2} of {len(more)}"
    with pytest.warns(MtbenchWarning, match=f"toy/test/entity/present/0: {sentence}"):
        result = chosen.evaluate_file(write(more, tmp_path / "s.parquet"))
    assert sentence in result.warnings
    assert figures(result) == figures(of_frame(chosen, frame))


@settings(max_examples=30)
@given(split=splits(), protocol=st.sampled_from(PROTOCOLS), seed=st.integers(0, 1000), ids=st.booleans())
def test_a_column_says_which_direction_a_score_is_for(split, protocol, seed, ids):
    chosen = task(split, protocol)
    order = np.random.default_rng(seed).permutation
    frame = directed_frame(chosen, ids=ids)
    expected = chosen.run(by_direction(split)[0])
    rows = {direction: chosen.triples[chosen.rows(direction)] for direction in chosen.directions}
    given_scores = {direction: {"tail": hashed, "head": turned}[direction](rows[direction]) for direction in rows}
    for found in (of_frame(chosen, frame.iloc[order(len(frame))]), chosen.evaluate(given_scores)):
        assert figures(found) == figures(expected)
        assert found.ranks.to_frame().equals(expected.ranks.to_frame())
        assert set(found.asked) == set(chosen.directions)
        assert found.asked_again == "given as numbers, which cannot be asked for again"


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_template_by_direction_comes_back_with_scores(suffix, tmp_path):
    chosen = task(small())
    path = chosen.write_triples(tmp_path / f"t{suffix}", by_direction=True)
    frame = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert frame["direction"].tolist() == [way for way in chosen.directions for _ in chosen.rows(way)]
    ids = frame[list(scorefiles.ID_COLUMNS)].to_numpy()
    scores = np.where(frame["direction"] == "tail", hashed(ids), turned(ids)) * 1.0
    scored = write(frame.assign(score=scores).sample(frac=1, random_state=1), tmp_path / f"s{suffix}")
    expected = chosen.run(by_direction(chosen.split)[0])
    assert figures(chosen.evaluate_file(scored)) == figures(expected)
    assert chosen.evaluate_file(scored).metrics != chosen.run(hashed).metrics


DIRECTIONS_REFUSED = {
    "wrong word": (
        lambda frame: frame.replace({"direction": {"head": "heads"}}),
        r"toy test: column direction must be tail or head in every row, not 'heads', first in row \d+$",
    ),
    "empty": (
        lambda frame: frame.assign(direction=frame["direction"].where(frame.index > 0)),
        r"column direction must be tail or head in every row, not (None|''|nan)",
    ),
    "missing rows": (
        lambda frame: frame.drop([14, 15]),
        r"toy test, direction head: 2 of 13 triples have no score: \(ann, hates, bob\); \(ann, knows, cem\)\. Score",
    ),
    "no rows": (
        lambda frame: frame[frame["direction"] == "head"],
        r"toy test, direction tail: 14 of 14 triples have no score",
    ),
    "repeated": (
        lambda frame: pd.concat([frame, frame[:1]]),
        r"toy test, direction tail: 1 triples are scored more than once, 0 of them",
    ),
}


@pytest.mark.parametrize("name", DIRECTIONS_REFUSED)
def test_directions_that_are_refused(name, tmp_path):
    change, message = DIRECTIONS_REFUSED[name]
    chosen = task(small())
    frame = change(directed_frame(chosen))
    for suffix in ("parquet", "csv"):
        with pytest.raises(ScoreError, match=rf"s\.{suffix}: .*{message}"):
            chosen.evaluate_file(write(frame, tmp_path / f"s.{suffix}"))


def test_rows_of_a_direction_that_is_not_asked_for_are_ignored_and_noted():
    both, one = task(small()), task(small(), "dual-tail")
    found = of_frame(one, directed_frame(both))
    assert "rows of a direction the task does not ask for were ignored: 13 of 27" in found.warnings
    assert figures(found) == figures(of_frame(one, directed_frame(one)))


def test_scores_by_direction_are_for_all_that_are_asked_for():
    chosen, scores = task(small()), np.zeros(14)
    for given_scores in ({"tail": scores}, {}, {"tail": scores, "head": scores[:13], "relation": scores}):
        with pytest.raises(ScoreError, match="toy/test/dual/present/0: scores by direction are for tail and head, not"):
            chosen.evaluate(given_scores)
    with pytest.raises(ScoreError, match=r"toy test: scores have the shape \(14,\), expected \(13,\)"):
        chosen.evaluate({"tail": scores, "head": scores})
    with pytest.raises(UsageError, match="the protocol does not ask for heads"):
        task(small(), "dual-tail").rows("head")


def drop(rows):
    return lambda frame: frame.drop(index=rows)


def again(scores):
    return lambda frame: pd.concat([frame, frame[: len(scores)].assign(score=scores)])


def put(row, column, value):
    def change(frame):
        kinds = {str: object, np.uint64: np.uint64}
        frame = frame.astype({column: kinds.get(type(value), frame[column].dtype)})
        frame.loc[row, column] = value
        return frame

    return change


REFUSALS = {
    "missing": (drop([0, 2, 3, 4]), r"4 of \d+ triples have no score: \(ann, hates, bob\); .*; .*; and 1 more\. Score"),
    "missing three": (drop([0, 2, 3]), r"3 of \d+ triples have no score: \(.*\); \(.*\); \([^;]*\)\. Score every one"),
    "missing one": (drop([0]), r"1 of \d+ triples have no score: \(ann, hates, bob\)\. Score every one"),
    "repeated": (
        again([0.0, 1.0]),
        r"2 triples are scored more than once, 2 of them with different scores: \(ann, ha.* in rows 0 and",
    ),
    "repeated equally": (lambda f: pd.concat([f, f[:1]]), r"1 triples .* once, 0 of them .* equal ones too"),
    "repeated and missing": (lambda f: pd.concat([f[1:], f[1:2]]), r"1 of \d+ triples have no.*1 triples are scored"),
    "nobody": (
        put(1, "tail", "zoe"),
        r"column tail has unknown names \(1 in 1 of its rows, first in row 1\): 'zoe'\. Names are those",
    ),
    "nobodies": (
        lambda f: f.assign(tail=[*(["zoe", "xi", "moe", "ulf"] * len(f))[: len(f)]]),
        r"column tail has unknown names \(4 in (\d+) of its rows, first in row 0\): 'zoe', 'xi', 'moe' and 1 more\.",
    ),
    "misspelt": (put(1, "relation", "knowz"), r"column relation has unknown.*'knowz' \(did you mean 'knows'\?\)"),
    "nan": (
        put(1, "score", np.nan),
        r"1 of \d+ scores are empty \(null or NaN\), first in row 1: \(.*\)\. Such a score has no rank",
    ),
    "infinite": (put(1, "score", np.inf), r"1 of \d+ scores are not finite \(0 NaN, 1 infinite\)"),
    "nameless": (put(1, "head", None), r"column head has 1 empty cells, first at row 1"),
    "no scores": (lambda f: f.assign(score=None), r"of \d+ scores are empty"),
    "wrong score": (lambda f: f.assign(score="high"), r"column score has the type .*string, expected integers or"),
    "truth": (lambda f: f.assign(score=True), r"column score has the type bool"),
    "fractions": (lambda f: f.assign(head=0.5), r"column head has the type double, expected names \(text\) or ids"),
    "mixed": (lambda f: f.assign(head=1), r"ids and names are mixed \(head int64, relation .*string"),
    "no column": (lambda f: f.drop(columns="tail"), r"the column tail is missing; found: 'head', 'relation', 'score'"),
    "renamed": (
        lambda f: f.rename(columns={"score": "Scores"}),
        r"score \(did you mean the column 'Scores'\?\) is mis",
    ),
    "twice": (lambda f: pd.concat([f, f[["head"]]], axis=1), "the column head is there 2 times: keep one"),
    "empty": (lambda f: f[:0], r"(\d+) of \1 triples have no score|column head has the type null"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_files_that_are_refused(name, tmp_path):
    change, message = REFUSALS[name]
    chosen = task(small())
    frame = change(frame_of(chosen))
    if name == "twice":
        table = pa.Table.from_arrays([pa.array(frame.iloc[:, column]) for column in range(5)], list(frame.columns))
        pq.write_table(table, tmp_path / "s.parquet")
    else:
        write(frame, tmp_path / "s.parquet")
    with pytest.raises(ScoreError, match=rf"s\.parquet: .*{message}" if "|" not in message else message):
        chosen.evaluate_file(tmp_path / "s.parquet")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_that_pandas_takes_for_something_else_are_refused_with_what_to_type(tmp_path, suffix):
    empty = task(replace(small(), entities=np.array(["NA", "bob", "cem", "dee"])))
    frame = frame_of(empty).replace({"NA": None})
    with pytest.raises(
        ScoreError, match=r"column head has \d+ empty .* row 0; pandas reads 'NA', .*keep_default_na=False"
    ):
        empty.evaluate_file(write(frame, tmp_path / f"s.{suffix}"))
    numbers = task(replace(small(), entities=np.array(["10", "20", "30", "40"])))
    integers = frame_of(numbers).astype({"head": int, "tail": int})
    if suffix == "parquet":
        with pytest.raises(ScoreError, match=r"ids and names are mixed .*'10' is a name here.*astype\({'head': str"):
            numbers.evaluate_file(write(integers, tmp_path / "n.parquet"))
    integers = integers.assign(relation=0)
    with pytest.raises(ScoreError, match=r"head id outside 0 to 3, first at row 0: 10; '10' is a name here"):
        numbers.evaluate_file(write(integers, tmp_path / f"n.{suffix}"))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("head", np.uint64(2**63), "column head has ids beyond int64"),
        ("relation", 6, r"1 rows have a relation id outside 0 to 5, first at row 2: 6; inverse relations are not"),
        ("head", -1, r"1 rows have a head id outside 0 to 3, first at row 2: -1$"),
        ("tail", 2**40, r"1 rows have a tail id outside 0 to 3"),
    ],
)
def test_ids_outside_the_vocabulary(column, value, message):
    chosen = task(small(), "dual", "slots")
    with pytest.raises(ScoreError, match=message):
        of_frame(chosen, put(2, column, value)(frame_of(chosen, ids=True)))


def test_names_that_are_not_utf_8(tmp_path):
    chosen, frame = task(small()), frame_of(task(small()))
    raw = pa.array([b"bob \xff" if name == "bob" else name.encode() for name in frame["head"]], pa.binary())
    table = pa.Table.from_pandas(frame, preserve_index=False)
    feather.write_feather(table.set_column(0, "head", raw.view(pa.string())), path := tmp_path / "s.feather")
    with pytest.raises(ScoreError, match=r"cannot be read as Arrow .*[Uu][Tt][Ff]"):
        chosen.evaluate_file(path)


def test_scores_of_other_candidates_or_another_version_are_refused_by_their_hash(tmp_path):
    split, path = random_split(3, entities=5), tmp_path / "s.parquet"
    chosen = task(split)
    metadata = pq.read_schema(chosen.write_triples(tmp_path / "t.parquet")).metadata
    assert metadata[b"mtbench.candidates_sha256"].decode() == chosen.candidates.sha256
    assert metadata[b"mtbench.content_sha256"].decode() == split.content_sha256
    for other, message in (
        (
            task(split, seed=1),
            r"with other candidates, task random/test/dual/present/0 .* not for random/test/dual/pre",
        ),
        (task(replace(split, relation_slots=21)), "written for another version of the dataset, task random/test"),
    ):
        write(frame_of(other), path, metadata)
        with pytest.raises(ScoreError, match=message):
            other.evaluate_file(path)
        write(frame_of(other), path, {"somebody": "else"})
        other.evaluate_file(path)


@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if not suffix.endswith((".csv", ".tsv"))])
def test_truncated_files(suffix, tmp_path):
    path = write(frame_of(task(small())), tmp_path / f"s{suffix}")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ScoreError, match=r"cannot be read as .* truncated, damaged or of another format"):
        task(small()).evaluate_file(path)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".csv", ".csv.gz"])
@pytest.mark.parametrize("content", [b"", b"no table \xff\xfe at all\n"], ids=["empty", "noise"])
def test_files_that_are_something_else(suffix, content, tmp_path):
    path = tmp_path / f"s{suffix}"
    path.write_bytes(content)
    with pytest.raises(ScoreError, match=r"s\.\w+.*: (cannot be read as|the columns .* are missing)"):
        task(small()).evaluate_file(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head,relation,tail,score\nann,knows,cem,high\n", "cannot be read as CSV .*invalid value 'high'"),
        ("head;relation;tail;score\nann;knows;cem;1\n", "found: 'head;relation;tail;score'; text files begin"),
        ("ann,knows,cem,1.0\n", "the columns head, relation, tail, score are missing"),
        ("head,relation,tail,score\nann,knows,cem\n", "cannot be read as CSV .*Expected 4 columns, got 3"),
        ("head,relation,tail,score\nann,knows,cem,\nbob,likes,cem,nan\n", r"of \d+ triples have no score"),
    ],
)
def test_text_that_cannot_be_read(text, message, tmp_path):
    (tmp_path / "s.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ScoreError, match=message):
        task(small()).evaluate_file(tmp_path / "s.csv")


def test_files_that_are_not_there_or_have_no_known_suffix(tmp_path):
    chosen = task(small())
    with pytest.raises(UsageError, match=r"none\.parquet is no file: check the path"):
        chosen.evaluate_file(tmp_path / "none.parquet")
    with pytest.raises(UsageError, match="is a directory, not a file"):
        chosen.evaluate_file(tmp_path)
    for name, suffix in (("s.parqet", ".parqet"), ("s.gz", ".gz"), ("scores", "scores"), ("s.json.gz", ".json.gz")):
        (tmp_path / name).write_text("{}", encoding="utf-8")
        with pytest.raises(UnknownNameError, match=f"unknown file suffix '{suffix}'"):
            chosen.evaluate_file(tmp_path / name)


def test_a_disk_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(MtbenchError, match=r"cannot write .*; nothing was stored"):
        task(small()).write_triples(tmp_path / "file" / "t.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
