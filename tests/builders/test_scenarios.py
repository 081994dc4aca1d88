"""Scenarios of one's own: what the file may say, what is drawn from it, and everything that can be wrong in it."""

import hashlib
import json
import random
import re
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
import toys

import mtbench
from mtbench.builders import wikitopics
from mtbench.builders.making import build_all
from mtbench.data import store
from mtbench.data.splits import match_parts
from mtbench.errors import CorruptedFileError, DatasetError, UsageError

MINE = """
[topics]
books = "P1 P2 P2"
films = "P2 P3"
places = '''
P4
P5
'''
lonely = "P6"

[topics.old]
plants = "P7"

[scenarios]
mine = { train = ["books", "films"], test = ["places"] }
other = { version = "old", train = ["plants"], test = ["books", "films"] }
"""
SMALL = {"entities": 60, "share": 0.05}


@pytest.fixture
def dump(tmp_path):
    rng = random.Random(0)
    rows = [
        f"Q{rng.randrange(1, 90)}\tP{kind}\tQ{rng.randrange(1, 90)}\n"
        for kind in (1, 2, 3, 4, 5, 7)
        for _ in range(300)
    ]
    path = tmp_path / "dump.txt"
    path.write_text("".join([*rows, "Q1\tP6\tQ2\n"]), encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    return path


def contents(directory):
    """Return all files of the datasets in a directory, the lock beside each left out."""
    found = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def test_a_dataset_per_scenario_and_test_topic(dump, file, tmp_path):
    out = tmp_path / "out"
    made = build_all("wikitopics", str(dump), scenario=str(file), out=str(out), seed=3, **SMALL)
    names = ["mine/places", "other/books", "other/films"]
    assert [data.name for data in made] == [f"{name}[seed=3,entities=60,share=0.05]" for name in names]
    lists = [("P1 P2 P3", "P4 P5"), ("P7", "P1 P2"), ("P7", "P2 P3")]
    for data, name, (train, test) in zip(made, names, lists, strict=True):
        stored = mtbench.load(str(out / name))
        toys.assert_same(stored, data)
        assert stored.info == data.info
        assert stored.info.id == name
        assert stored.info.builder == "scenario"
        assert stored.info.summary.endswith("(60 entities each, share 0.05 of the triples hidden, seed 3).")
        assert dict(stored.parameters) == {
            "seed": 3,
            **SMALL,
            "train": "books+films" if name == "mine/places" else "plants",
            "train_properties": train,
            "test": name.partition("/")[2],
            "test_properties": test,
            "scenario_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        for split, listed in ((stored.valid, train), (stored.test, test)):
            assert split.num_entities == 60
            assert split.relation_slots == len(listed.split())
            assert set(split.relations.tolist()) <= set(listed.split())
            assert len(split.targets)
        assert all(row.same for row in match_parts(stored, stored.info))
        assert all(row.same for row in store.verify(out / name))
        assert json.loads((out / name / store.MANIFEST).read_text(encoding="utf-8"))["builder"] == "scenario"
    assert np.array_equal(made[1].train.graph, made[2].train.graph)


def test_the_same_seed_gives_the_same_bytes(dump, file, tmp_path):
    def make(name, seed):
        build_all("wikitopics", [dump], scenario=file, out=tmp_path / name, seed=seed, **SMALL)
        return contents(tmp_path / name)

    one = make("one", 0)
    assert len(one) == 3 * (1 + len(store.FILES) - len(store.OPTIONAL))
    assert one == make("two", 0)
    assert one != make("three", 1)
    # The datasets of a file do not depend on one another.
    file.write_text(MINE.replace('test = ["books", "films"]', 'test = ["films"]'), encoding="utf-8")
    alone = make("four", 0)
    assert alone["other/films/test/graph.parquet"] == one["other/films/test/graph.parquet"]


def test_the_published_file_gives_the_published_plans(tmp_path):
    text = (resources.files("mtbench.builders") / "wikitopics.toml").read_text(encoding="utf-8")
    for name, content in (("all", text), ("scenarios only", text[: text.index("[topics.v1]")])):
        file = tmp_path / f"{name}.toml"
        file.write_text(content, encoding="utf-8")
        published = wikitopics.plans("wikitopics-mt")
        read = wikitopics.read_scenarios(file)
        assert [replace(plan, name=f"wikitopics-{plan.name}") for plan in read.plans] == published
        assert bool(read.listed) == (name == "all")


def test_a_damaged_dataset_says_how_to_make_it_again(dump, file, tmp_path):
    out = tmp_path / "out"
    build_all("wikitopics", [dump], scenario=file, out=out, seed=3, **SMALL)
    (out / "mine/places" / store.FILES[0]).unlink()
    remedy = f"--raw DUMP --scenario FILE.toml --seed 3 --set entities=60 --set share=0.05 --out {out} --force"
    with pytest.raises(CorruptedFileError, match=re.escape(remedy)):
        mtbench.load(out / "mine/places")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[topics]", "[topic]", "unknown key 'topic': did you mean topics?"),
        ("[topics]", "[topics", "not valid TOML ("),
        ('"books", "films"], test = ["p', '"boks"], test = ["p', "unknown topic 'boks': did you mean books"),
        ('["places"]', '["plants"]', 'plants is a topic of old: add version = "old"'),
        ('["places"]', '["taxonomy"]', 'taxonomy is a topic of v1: add version = "v1"'),
        ('["places"]', '["places", "places"]', "test names a topic twice"),
        ('["places"]', '"places"', "scenarios.mine.test must be a valid array, not 'places'; a topic is such as art"),
        ('["places"]', "[]", "test must be a list of topics"),
        ('test = ["places"]', 'tests = ["places"]', "scenarios.mine: unknown key 'tests': did you mean test"),
        ('version = "old"', 'version = "odl"', "scenarios.other: unknown version 'odl': did you mean old"),
        ('"P2 P3"', '" "', "topics: films is empty: list its properties"),
        ('"P2 P3"', "3", "topics.films must be a valid string or an object, not 3; a topic is such as art"),
        ('"P7"', '""', "topics.old: plants is empty"),
        ("mine =", '"../mine" =', "'../mine' is no name"),
        (MINE[MINE.index("[scenarios]") :], "", "scenarios: there is none; add one, such as"),
        (
            'mine = { train = ["books", "films"], test = ["places"] }',
            'wikitopics-v1 = { version = "v1", train = ["art"], test = ["health"] }',
            "wikitopics-v1/health is a dataset of the catalogue",
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_name(file, old, new, message):
    assert old in MINE
    file.write_text(MINE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        wikitopics.read_scenarios(file)
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "options", "message"),
    [
        ('"P2 P3"', '"P2 P33"', SMALL, r"mine.toml: topic films: the dump has no triple of P33: correct the spelling"),
        ('["places"]', '["lonely"]', SMALL, "lonely/test: only 2 entities .* give its topics more properties"),
        ("x", "x", {"entities": 60, "share": 0.99}, r"mine.toml: .* smaller share; .*--set share=X"),
        ("x", "x", {}, r"mine.toml: books\+films/train: only \d+ entities .*--set entities=N"),
    ],
)
def test_what_the_dump_cannot_give_is_told_and_nothing_is_made(dump, file, tmp_path, old, new, options, message):
    file.write_text(MINE.replace(old, new), encoding="utf-8")
    with pytest.raises(DatasetError, match=message):
        build_all("wikitopics", [dump], scenario=file, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_dump_without_any_of_the_properties_is_told(dump, file, tmp_path):
    dump.write_text("Q1\tP99\tQ2\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"none with a relation that is asked for; .*mine.toml is drawn from"):
        build_all("wikitopics", [dump], scenario=file, out=tmp_path / "out")
