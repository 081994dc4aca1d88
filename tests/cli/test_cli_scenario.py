"""``mtbench build wikitopics --scenario``: from a file to datasets every other verb takes."""

import json
import random

import numpy as np
import pytest

import mtbench
from mtbench.data import store

MINE = '[topics]\na = "P1 P2"\nb = "P3"\n\n[scenarios]\nmine = { train = ["a"], test = ["b"] }\n'


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    rng = random.Random(0)
    rows = [f"Q{rng.randrange(1, 90)}\tP{kind}\tQ{rng.randrange(1, 90)}\n" for kind in (1, 2, 3) for _ in range(300)]
    (tmp_path / "dump.txt").write_text("".join(rows), encoding="utf-8")
    (tmp_path / "mine.toml").write_text(MINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


BUILD = ("build", "wikitopics", "--raw", "dump.txt", "--scenario", "mine.toml")
SIZE = ("--out", "out", "--seed", 4, "--set", "entities=50", "--set", "share=0.1")


def test_the_datasets_serve_every_verb(run, printed, refused, here):
    stdout = printed(*BUILD, *SIZE, "--json")
    name = "mine/b[seed=4,entities=50]"
    directory = here / "out" / "mine" / "b"
    assert json.loads(stdout)["datasets"] == [{"name": name, "version": "1.0.0", "directory": str(directory)}]
    assert run("verify", directory)[0] == 0
    code, stdout, _ = run("audit", "out/mine/b", "--json")
    assert (code, bool(json.loads(stdout))) == (0, True)
    made = {"tsv": "train.txt", "npz": "dataset.npz", "huggingface": "README.md", "croissant": "croissant.json"}
    for form, file in made.items():
        files = printed("export", "out/mine/b", "--format", form, "--out", form).splitlines()
        assert str(here / form / file) in files
        assert all((here / name).is_file() for name in files)
    assert "mine/b" in (here / "croissant" / "croissant.json").read_text(encoding="utf-8")
    assert "--force" in refused(*BUILD, *SIZE)
    assert run(*BUILD, *SIZE, "--force")[0] == 0
    task = mtbench.task(directory)
    scores = np.random.default_rng(0).random(task.triples.shape[:-1])
    assert task.evaluate(scores).dataset == name


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("build", "wikitopics", "--raw", "dump.txt", *SIZE), 2, "add --scenario FILE.toml"),
        (("build", "wikitopics", "--scenario", "mine.toml", *SIZE), 2, "drawn from a dump"),
        (("build", "metafam", "--scenario", "mine.toml"), 2, "drawn from a dump"),
        (("build", "wikitopics-mt", *BUILD[2:], *SIZE), 2, "mtbench build wikitopics, not wikitopics-mt"),
        ((*BUILD, *SIZE, "--check"), 2, "leave out --check"),
        ((*BUILD, "--seed", 1), 2, "add --out DIR"),
        ((*BUILD, *SIZE, "--set", "entitys=5"), 2, "unknown wikitopics parameter 'entitys': did you mean entities"),
        ((*BUILD, "--out", "out"), 1, "mine.toml: a/train: only"),
        ((*BUILD, "--out", "out", "--set", "share=2.0"), 2, "no such sample"),
        ((*BUILD[:-1], "none.toml", *SIZE), 2, "none.toml cannot be read, No such file or directory"),
        ((*BUILD[:-1], "dump.txt", *SIZE), 2, "dump.txt: not valid TOML ("),
    ],
)
def test_what_is_typed_wrong_is_told_in_one_line(run, here, arguments, code, message):
    found, stdout, stderr = run(*arguments)
    assert (found, stdout) == (code, "")
    assert message in stderr
    assert stderr.count("\n") == 1
    assert not (here / "out").exists()


def test_a_dataset_in_the_way_leaves_everything_as_it_was(run, here):
    (here / "out" / "mine" / "b").mkdir(parents=True)
    (here / "out" / "mine" / "b" / "notes.txt").write_text("keep me")
    assert run(*BUILD, *SIZE, "--force")[0] == 2
    assert [path.name for path in (here / "out").rglob("*.*")] == ["notes.txt"]
    assert not (here / "out" / "mine" / "b" / store.MANIFEST).exists()
