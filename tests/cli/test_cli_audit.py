"""``mtbench audit``: tables, JSON, the picture, and refusals before any work."""

import pytest
import toys

import mtbench
from mtbench.files import pictures


def test_audit_prints_tables_and_findings(printed):
    out = printed("audit", "toy")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "toy 2.0.0"
    assert "train 3 4 1 2 5 2.0 2" in lines
    assert "all 1 2" in lines
    assert "another relation from head to tail is in the graph 0 (0.0 %) 0 (0.0 %)" in lines
    assert "half-links (h, r, .) and (., r, t) in the graph: both 1 (100.0 %) 1 (50.0 %)" in lines
    assert "valid knows knows knows 1 1" in lines
    assert "- train graph: 2 relation types occur, of 5 relation ids" in lines
    assert "Test candidates, mean of seeds 0, 1, 2" in lines
    assert "entity slots 50 heads, 50 tails 50.0 + 50.0 1.5 + 1.5 0.0 % 0 0.0886 0.1961" in lines


def test_audit_as_json(listed):
    found = listed("audit", "toy")
    assert (found["dataset"], found["threshold"]) == ("toy", 0.8)
    assert found["targets"]["valid"]["half_links"]["both"] == 1
    assert set(found["graphs"]) == {"train", "test"}
    assert len(found["candidates"]) == 18
    assert {part["false_negatives"] for part in found["candidates"]} == {0}


def test_audit_draws(printed, tmp_path):
    pytest.importorskip("matplotlib")
    out = printed("audit", "toy", "--plot", tmp_path / "toy.png")
    assert out.endswith(f"{tmp_path / 'toy.png'} shows the degrees and relation frequencies\n")
    assert (tmp_path / "toy.png").exists()


def test_audit_refuses_before_it_loads(run, refused, tmp_path, cache, monkeypatch):
    assert run("audit", "toy", "--plot", tmp_path / "toy.gif")[0] == 2
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    assert 'python -m pip install "mtbench-kg[plots]"' in refused("audit", "toy", "--plot", tmp_path / "toy.png")
    assert not cache.exists()


@pytest.fixture
def graph(tmp_path):
    """A file with one of the two test targets and a triple of the training graph."""
    path = tmp_path / "graph.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in (toys.MISSING[1], toys.TRAIN[0])), encoding="utf-8")
    return path


def test_contamination_prints_a_table(printed, graph):
    out = printed("audit", "toy", "--against", graph)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == f"toy: seen in the 2 triples of {graph}"
    assert lines[2] == "Part Triples Exact Same pair Reversed Reversed pair Entities Relations"
    assert "train graph 4 1 (25.0 %) 1 (25.0 %) 0 0 2 (66.7 %) 1 (50.0 %)" in lines
    assert "valid triples 1 0 0 0 0 1 (50.0 %) 1 (100.0 %)" in lines
    assert "test graph 3 0 0 0 1 (33.3 %) 2 (66.7 %) 1 (50.0 %)" in lines
    assert "test triples 2 1 (50.0 %) 2 (100.0 %) 0 0 2 (100.0 %) 1 (50.0 %)" in lines


def test_contamination_as_json(listed, graph):
    found = listed("audit", "toy", "--against", graph)
    assert (found["against"], found["fingerprints"]) == (str(graph), None)
    data = mtbench.load("toy")
    assert found["splits"] == [mtbench.contamination(split, graph).to_dict() for split in (data.valid, data.test)]


@pytest.mark.parametrize(("share", "code"), [("0.5", 0), ("0.49", 1), ("0", 1), ("1", 0)])
def test_contamination_fails_above_a_share_of_the_test_split(run, graph, share, code):
    found, out, err = run("audit", "toy", "--against", graph, "--fail-above", share)
    assert found == code
    assert "test triples" in out
    assert err == (f"error: toy: 0.5000 of its test triples were seen, more than {share}\n" if code else "")


def test_contamination_against_a_dataset(run):
    code, _, err = run("audit", "toy", "--against", "Toy_v1", "--fail-above", "0.5")
    assert code == 1
    assert "1.0000 of its inference graph and 1.0000 of its test triples were seen" in err


def test_fingerprints_stand_in_for_the_graph(printed, listed, refused, graph, tmp_path):
    prints = tmp_path / "prints.parquet"
    assert printed("audit", "--against", graph, "--fingerprints", prints) == (
        f"{prints} holds the fingerprints of 2 triples\n"
    )
    by_graph = listed("audit", "toy", "--against", graph)
    assert listed("audit", "toy", "--against", prints)["splits"] == by_graph["splits"]
    written = ("audit", "toy", "--against", graph, "--fingerprints", prints)
    assert "already exists" in refused(*written)
    assert listed(*written, "--force") == {**by_graph, "fingerprints": str(prints)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["toy", "--fail-above", "0"], "--fail-above is of a graph that a model learned from: name it with --against"),
        (["toy", "--against", "toy", "--plot", "x.png"], "--against counts triples of both graphs"),
        ([], "give the dataset to audit, NAME"),
        (["--against", "toy"], "give the dataset to check, NAME, or the file to write, --fingerprints FILE"),
        (["--against", "toy", "--fingerprints", "x.parquet", "--fail-above", "0"], "checks a dataset: give its NAME"),
        (["toy", "--against", "tooy"], "unknown dataset, directory or file 'tooy': did you mean toy?"),
        (["tooy", "--against", "toy"], "did you mean toy?"),
        (["toy", "--against", "toy", "--fail-above", "2"], "'--fail-above'"),
    ],
)
def test_contamination_refuses(refused, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused("audit", *arguments)
    assert not (tmp_path / "x.parquet").exists()
