"""``mtbench audit``: tables, JSON, the picture, and refusals before any work."""

from __future__ import annotations

import json

import pytest

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
