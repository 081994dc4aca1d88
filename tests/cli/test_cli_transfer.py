"""``mtbench transfer`` as it is typed, on two tiny topics."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
import thirdparty
import toys

from mtbench.data import store

MODEL = f"{thirdparty.NAME}:Hashing"


@pytest.fixture(autouse=True)
def module(monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    for number, topic in enumerate(("art", "sport"), start=2):
        parameters = {**toys.record().parameters, "seed": number}
        store.obtain(tmp_path / "topics" / topic, lambda topic=topic, it=parameters: toys.dataset(topic, parameters=it))
    return thirdparty.install(monkeypatch, tmp_path / "elsewhere")


def test_the_matrix_is_printed_and_kept(run, module, tmp_path):
    code, out, err = run("transfer", "topics", "--model", MODEL, "--set", "depth=2")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["train", "\\", "test", "art", "sport"]
    assert [line.split()[0] for line in lines[2:4]] == ["art", "sport"]
    assert "no scenario" in out
    kept = tmp_path / "transfer" / f"topics-{thirdparty.NAME}-Hashing-depth=2-seed0"
    assert {path.name for path in kept.iterdir()} >= {"cells", "plan.json", "matrix.csv", "matrix.md", "matrix.json"}
    assert ("heatmap.png shows it" in out) == (find_spec("matplotlib") is not None)
    module.calls.clear()
    code, again, _ = run("transfer", "topics", "--model", MODEL, "--set", "depth=2", "--format", "csv")
    assert module.calls == []
    assert again == (kept / "matrix.csv").read_text(encoding="utf-8")
    code, out, _ = run("transfer", "topics", "--model", MODEL, "--set", "depth=2", "--json")
    payload = json.loads(out)
    assert payload["topics"] == ["art", "sport"]
    assert [[f"{value:.3f}" for value in row] for row in payload["mrr"]] == [line.split()[1:] for line in lines[2:4]]


def test_an_interruption_says_how_to_go_on(run, tmp_path):
    code, out, err = run("transfer", "topics", "--model", f"{thirdparty.NAME}:Interrupted", "--out", "kept")
    assert (code, out) == (130, "")
    assert err == "error: interrupted; the same command goes on with the cells that are missing\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("transfer", "'v1|v2'"),
        ("transfer v3", "error: unknown version or directory of topics 'v3': did you mean v2 or v1?"),
        ("transfer v1 --topics art,peple", "error: unknown topic 'peple': did you mean people"),
        ("transfer v1 --topics art", "error: v1: a transfer matrix needs at least two topics, not 1"),
        ("transfer elsewhere", "error: elsewhere: a transfer matrix needs at least two topics, not 0"),
        ("transfer topics --model isdae", "error: unknown model 'isdae': did you mean isdea"),
        ("transfer topics --protocol duel", "error: unknown protocol 'duel': did you mean dual"),
        ("transfer topics --vocabulary slot", "error: unknown vocabulary 'slot': did you mean slots?"),
        ("transfer topics --format csb", "error: unknown table format 'csb': did you mean csv"),
        ("transfer topics --format csv --json", "error: give either --format or --json"),
        ("transfer topics --plot picture.jpg", "error: picture.jpg must end in .png or .svg"),
        ("transfer topics --set depth", "error: --set takes KEY=VALUE, not 'depth'"),
        ("transfer topics --epochs 1", "--epochs"),
    ],
)
def test_wrong_usage_exits_with_2_and_does_nothing(run, module, tmp_path, arguments, message):
    words = arguments.split()
    if words[1:2] == ["topics"] and "--model" not in words:
        words += ["--model", MODEL]
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert module.calls == []
    assert not (tmp_path / "transfer").exists()
