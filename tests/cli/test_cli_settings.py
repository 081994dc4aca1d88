"""``mtbench settings``: tables, JSON, somebody's scorer, and refusals before any work."""

from __future__ import annotations

import json
import sys

import pytest

from mtbench.conventions.reading import CONVENTIONS

READ = [name for name, one in CONVENTIONS.items() if not one.inverses]
SOURCE = """
def make(split):
    assert len(split.targets) == 0
    return lambda triples: triples[:, 2] * 1.0
"""


def test_every_scorer_under_every_setting(run):
    code, out, err = run("settings", "toy", "--seed", 1)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "toy 2.0.0 test: protocol dual, seed 1"
    assert [line for line in lines if line in ("oracle", "blind-oracle", "relation-frequency", "entity-degree")] == [
        "oracle",
        "blind-oracle",
        "relation-frequency",
        "entity-degree",
    ]
    assert lines.count("MR MRR Hits@1 Hits@3 Hits@5 Hits@10") == 4
    assert sum(line.startswith("nbfnet, mean over its random integer") for line in lines) == 4
    nearest = [f"{name} (its dual is nearest to our {CONVENTIONS[name].nearest})" for name in READ]
    assert [line.partition(":")[0] for line in lines[-3:]] == nearest


def test_json_has_every_figure(run):
    code, out, _ = run("settings", "toy", "--scorer", "oracle", "--protocol", "relation", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["dataset"], found["version"], found["split"]) == ("toy", "2.0.0", "test")
    assert list(found["scorers"]) == ["oracle"]
    results = found["scorers"]["oracle"]
    assert [part["convention"] for part in results] == ["standard", *READ]
    assert {part["protocol"] for part in results} == {"relation"}
    assert results[0]["metrics"]["mrr"] == 1


def test_somebodys_scorer_sees_no_targets(run, monkeypatch, tmp_path):
    (tmp_path / "conventional.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "conventional", raising=False)
    code, out, err = run("settings", "toy", "--scorer", "conventional:make", "--scorer", "conventional:make")
    assert (code, err) == (0, "")
    assert out.count("\nconventional:make\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("toy", "--scorer", "oracel"), "unknown scorer 'oracel': did you mean oracle"),
        (("toy", "--scorer", "nowhere:make"), "cannot import the model 'nowhere:make'"),
        (("toy", "--protocol", "duel"), "unknown protocol 'duel': did you mean dual"),
        (("tyo",), "unknown dataset or directory 'tyo': did you mean toy"),
        (("toy", "--seed", "-1"), "Invalid value for '--seed'"),
    ],
)
def test_refusals(run, cache, arguments, message):
    code, _, err = run("settings", *arguments)
    assert code == 2
    assert message in " ".join(err.split())
    assert not cache.exists()
