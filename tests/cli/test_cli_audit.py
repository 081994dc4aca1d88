"""``mtbench audit``: tables, JSON, the picture, and refusals before any work."""

from __future__ import annotations

import json

import pytest
import toys

import mtbench
from mtbench.files import pictures


def test_audit_prints_tables_and_findings(run):
    code, out, err = run("audit", "toy")
    assert (code, err) == (0, "")
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


def test_audit_as_json(run):
    code, out, _ = run("audit", "toy", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["dataset"], found["threshold"]) == ("toy", 0.8)
    assert found["targets"]["valid"]["half_links"]["both"] == 1
    assert set(found["graphs"]) == {"train", "test"}
    assert len(found["candidates"]) == 18
    assert {part["false_negatives"] for part in found["candidates"]} == {0}


def test_audit_draws(run, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, _ = run("audit", "toy", "--plot", tmp_path / "toy.png")
    assert code == 0
    assert out.endswith(f"{tmp_path / 'toy.png'} shows the degrees and relation frequencies\n")
    assert (tmp_path / "toy.png").exists()


def test_audit_refuses_before_it_loads(run, tmp_path, cache, monkeypatch):
    assert run("audit", "toy", "--plot", tmp_path / "toy.gif")[0] == 2
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    code, _, err = run("audit", "toy", "--plot", tmp_path / "toy.png")
    assert code == 2
    assert 'python -m pip install "mtbench-kg[plots]"' in err
    assert not cache.exists()


@pytest.fixture
def graph(tmp_path):
    """A file with one of the two test targets and a triple of the training graph."""
    path = tmp_path / "graph.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in (toys.MISSING[1], toys.TRAIN[0])), encoding="utf-8")
    return path


def test_contamination_prints_a_table(run, graph):
    code, out, err = run("audit", "toy", "--against", graph)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == f"toy: seen in the 2 triples of {graph}"
    assert lines[2] == "Part Triples Exact Same pair Reversed Reversed pair Entities Relations"
    assert "train graph 4 1 (25.0 %) 1 (25.0 %) 0 0 2 (66.7 %) 1 (50.0 %)" in lines
    assert "valid triples 1 0 0 0 0 1 (50.0 %) 1 (100.0 %)" in lines
    assert "test graph 3 0 0 0 1 (33.3 %) 2 (66.7 %) 1 (50.0 %)" in lines
    assert "test triples 2 1 (50.0 %) 2 (100.0 %) 0 0 2 (100.0 %) 1 (50.0 %)" in lines


def test_contamination_as_json(run, graph):
    code, out, _ = run("audit", "toy", "--against", graph, "--json")
    found = json.loads(out)
    assert code == 0
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


def test_fingerprints_stand_in_for_the_graph(run, graph, tmp_path):
    prints = tmp_path / "prints.parquet"
    code, out, _ = run("audit", "--against", graph, "--fingerprints", prints)
    assert (code, out) == (0, f"{prints} holds the fingerprints of 2 triples\n")
    _, by_graph, _ = run("audit", "toy", "--against", graph, "--json")
    _, by_prints, _ = run("audit", "toy", "--against", prints, "--json")
    assert json.loads(by_prints)["splits"] == json.loads(by_graph)["splits"]
    code, out, err = run("audit", "toy", "--against", graph, "--fingerprints", prints)
    assert (code, out) == (2, "")
    assert "already exists" in err
    code, out, _ = run("audit", "toy", "--against", graph, "--fingerprints", prints, "--force", "--json")
    assert code == 0
    assert json.loads(out) == {**json.loads(by_graph), "fingerprints": str(prints)}


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
def test_contamination_refuses(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("audit", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "x.parquet").exists()
