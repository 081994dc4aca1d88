"""The verbs: what they print, what they store, and how they exit."""

import json
import re

import numpy as np
import pytest
import toys

import mtbench
from mtbench.data import catalog, store


def test_version(run):
    assert run("--version") == (0, f"mtbench {mtbench.__version__}\n", "")


def test_list_says_what_there_is_and_what_is_stored(run, printed):
    mtbench.load("toy")
    out = printed("list")
    rows = [re.split("  +", row) for row in out.splitlines()[2:]]
    assert [row[0] for row in rows] == catalog.names()
    assert ["metafam", "entities+relations", "1.0.0", "13,821", "590", "7,257", "184", "no"] in rows
    assert ["toy", "2.0.0", "4", "1", "3", "2", "yes"] in rows
    stored = {row["name"]: row["stored"] for row in json.loads(run("list", "--json")[1])}
    assert stored == {name: name == "toy" for name in catalog.names()}


def test_list_shows_one_group_alone_whatever_signs_its_name_has(run):
    for group in ("one graph", "entities+relations"):
        rows = json.loads(run("list", "--group", group, "--json")[1])
        assert [(row["name"], row["group"]) for row in rows] == [(name, group) for name in catalog.names(group)]
    assert run("list", "--group", "One-Graph") == run("list", "--group", "one graph")
    code, _, err = run("list", "--group", "one graf")
    assert (code, "unknown group 'one graf': did you mean one graph?" in err) == (2, True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "metafam",
            [
                *("train 1,316 28 29 13,821 0", "valid 1,316 28 29 13,821 590", "test 656 28 29 7,257 184"),
                "seed 88564",
                "test/targets 184 38fbe19d1e15f751172e6dca09b72b3227280b3bf4ead9e7e5accf11dae2d086",
                "- The inverse of every missing triple is in the graph.",
                "Stored: not yet (mtbench build metafam)",
            ],
        ),
        (
            "ultra:WikiTopicsMT3:infra",
            [
                *("valid 10,000 29 99 57,815 6,422", "test 10,000 27 37 21,646 2,405"),
                "- The paper prints 99 training relation types: those are all ids of the dictionary, 29 of them occur.",
                "Stored: not yet (mtbench fetch wikitopics-mt3/infrastructure)",
            ],
        ),
    ],
)
def test_info_shows_everything_declared(printed, name, expected):
    out = printed("info", name)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert set(expected) <= set(lines)
    assert ("Licence: MIT" in out) == ("Parameters" in out) == (name == "metafam")
    assert any(line.startswith("also https://raw.githubusercontent.com/") for line in lines) == (name != "metafam")


def test_info_of_a_stored_dataset_as_text_and_as_json(run, listed):
    mtbench.load("toy")
    _, out, _ = run("info", "Toy_v1")
    assert "Toy [bold] (toy, version 2.0.0)" in out
    assert "  - It is [red]tiny[/red].\n" in out
    found = listed("info", "toy")
    counts = {"entities": 3, "relation_types_used": 2, "relation_slots": 5, "triples": 4, "targets": 1}
    assert found["splits"][1] == {"split": "valid", **counts}
    assert found["parameters"] == {"seed": 1, "scale": 0.5, "label": "plain", "loud": False}
    assert found["defects"] == ["It is [red]tiny[/red]."]
    assert found["stored"] == str(store.cached(toys.record()))


def test_build_stores_the_release(printed, cache):
    assert printed("build", "toy") == f"toy 2.0.0 is stored in {cache}\n"
    toys.assert_same(mtbench.load(cache), toys.dataset())


def test_build_check_compares_with_the_release_and_names_what_differs(run, printed, cache, tmp_path):
    out = printed("build", "toy", "--check")
    assert out.endswith("\ntoy is identical to the release\n")
    assert [line.split()[-1] for line in out.splitlines()[2:8]] == ["yes"] * 6
    assert cache.exists()
    code, out, err = run("build", "toy", "--seed", 3, "--check", "--out", tmp_path / "made")
    assert (code, "identical" in out) == (1, False)
    assert err == "error: train/graph, valid/graph differ from the release; nothing was stored\n"
    assert not (tmp_path / "made").exists()
    for seed, differing in ((1, 0), (3, 2)):
        code, out, _ = run("build", "toy", "--seed", seed, "--check", "--json")
        found = json.loads(out)
        assert (code, found["identical"]) == (differing > 0, not differing)
        assert [part["same"] for part in found["parts"]].count(False) == differing


def test_build_check_does_not_trust_what_is_stored(run, monkeypatch):
    mtbench.load("toy")
    monkeypatch.setattr(toys, "MISSING", toys.MISSING[:1])
    code, _, err = run("build", "toy", "--check")
    assert code == 1
    assert "error: test/targets differ from the release" in err


def test_a_variant_is_built_into_a_directory_and_loads(listed, tmp_path):
    made = tmp_path / "made [1]"
    found = listed("build", "toy", "--seed", 3, "--set", "scale=2", "--set", "label=x=y", "--out", made)
    assert found == {"name": "toy[seed=3]", "version": "2.0.0", "directory": str(made)}
    assert dict(mtbench.load(made).parameters) == {"seed": 3, "scale": 2.0, "label": "x=y", "loud": False}


def test_a_variant_needs_a_directory(refused, tmp_path):
    message = "error: this is not toy's release, so the cache is not its place: add --out DIR\n"
    assert refused("build", "toy", "--seed", 3) == message
    assert not (tmp_path / "cache").exists()


def test_export(printed, refused, tmp_path):
    out = printed("export", "toy", "--format", "tsv", "--out", tmp_path / "tsv")
    assert [line.rpartition("/")[2] for line in out.splitlines()] == ["train.txt", "valid.txt", "msg.txt", "test.txt"]
    assert (tmp_path / "tsv" / "valid.txt").read_text(encoding="utf-8") == "ann\tknows\tçelik öz\n"
    assert "holds an export already: add --force" in refused("export", "toy", "--out", tmp_path / "tsv")
    out = printed("export", "toy", "--out", tmp_path / "tsv", "--force", "--json")
    assert [row["bytes"] for row in json.loads(out)] == [70, 21, 44, 29]


def test_verify_a_dataset(run, printed, cache):
    code, _, err = run("verify", "toy")
    assert (code, err) == (1, "error: toy is not stored yet: mtbench build toy\n")
    mtbench.load("toy")
    for source in ("toy", cache):
        assert printed("verify", source).endswith(f"{cache}: every file and every content hash is as recorded\n")
    (cache / "test/entities.parquet").unlink()
    code, _, err = run("verify", "toy")
    assert (code, err) == (1, f"error: {cache / 'test/entities.parquet'} is missing: mtbench build toy --force\n")


def test_verify_names_a_part_whose_content_is_not_the_manifests(run, monkeypatch):
    mtbench.load("toy")
    other = toys.dataset(parts=(toys.TRAIN[:3], toys.MASKED, toys.TEST, toys.MISSING))
    monkeypatch.setattr(store, "read", lambda *_: other)
    code, out, err = run("verify", "toy", "--json")
    assert code == 1
    assert json.loads(out)["valid"] is False
    assert "train/graph, valid/graph differ from the manifest: mtbench build toy --force" in err


def test_verify_a_run(run, printed, tmp_path):
    def score(triples):
        return triples @ np.array([1, 100, 10_000])

    mtbench.evaluate(score, mtbench.load("toy").test).save(tmp_path / "run")
    assert printed("verify", tmp_path / "run") == f"{tmp_path / 'run'}: verified, all metrics match the ranks\n"
    path = tmp_path / "run" / "result.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    found["metrics"]["mrr"] += 0.25
    path.write_text(json.dumps(found), encoding="utf-8")
    code, out, err = run("verify", tmp_path / "run", "--json")
    assert code == 1
    assert json.loads(out)["valid"] is False
    assert "mrr" in err
    path.unlink()
    assert run("verify", tmp_path / "run")[0] == 1
