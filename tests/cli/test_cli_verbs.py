"""The verbs: what they print, what they store, and how they exit."""

from __future__ import annotations

import json

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
    rows = [row.split() for row in out.splitlines()[2:]]
    assert [row[0] for row in rows] == catalog.names()
    assert ["metafam", "1.0.0", "13,821", "590", "7,257", "184", "no"] in rows
    assert ["toy", "2.0.0", "4", "1", "3", "2", "yes"] in rows
    stored = {row["name"]: row["stored"] for row in json.loads(run("list", "--json")[1])}
    assert stored == {name: name == "toy" for name in catalog.names()}


def test_info_shows_everything_declared(printed):
    out = printed("info", "metafam")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "train 1,316 28 29 13,821 0" in lines
    assert "valid 1,316 28 29 13,821 590" in lines
    assert "test 656 28 29 7,257 184" in lines
    assert "seed 88564" in lines
    assert "test/targets 184 38fbe19d1e15f751172e6dca09b72b3227280b3bf4ead9e7e5accf11dae2d086" in lines
    assert "- The inverse of every missing triple is in the graph." in lines
    assert "Licence: MIT" in out
    assert "Stored: not yet (mtbench build metafam)" in lines


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


def test_cite_prints_each_entry_once(printed):
    out = printed("info", "--cite", "toy", "metafam", "Toy_v1")
    assert out.count("@misc{toy,") == 1
    assert out.count("@inproceedings{zhou2023mtdea,") == 1


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
    assert listed("build", "toy", "--seed", 3, "--set", "scale=2", "--set", "label=x=y", "--out", made) == {
        "name": "toy[seed=3]",
        "version": "2.0.0",
        "directory": str(made),
    }
    assert dict(mtbench.load(made).parameters) == {"seed": 3, "scale": 2.0, "label": "x=y", "loud": False}


def test_a_variant_needs_a_directory(refused, tmp_path):
    assert (
        refused("build", "toy", "--seed", 3)
        == "error: this is not toy's release, so the cache is not its place: add --out DIR\n"
    )
    assert not (tmp_path / "cache").exists()


def test_build_force_mends_a_damaged_cache(run, cache):
    run("build", "toy")
    (cache / "train/graph.parquet").write_bytes(b"")
    code, _, err = run("build", "toy")
    assert code == 1
    assert err.startswith(f"error: {cache / 'train/graph.parquet'} is truncated")
    assert err.endswith(": mtbench build toy --force\n")
    assert run("build", "toy", "--force")[0] == 0
    assert run("verify", "toy")[0] == 0


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


@pytest.mark.parametrize(
    ("format_", "file"), [("npz", "dataset.npz"), ("huggingface", "README.md"), ("croissant", "croissant.json")]
)
def test_export_in_the_other_formats(printed, tmp_path, format_, file):
    out = printed("export", "toy", "--format", format_, "--out", tmp_path / "out")
    assert str(tmp_path / "out" / file) in out.splitlines()
    assert all((tmp_path / "out" / line).exists() for line in out.splitlines())
