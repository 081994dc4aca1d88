"""``mtbench build --raw``: groups, single datasets, FBNELL, and everything that can be typed wrong."""

import random
import re
from dataclasses import replace
from types import MappingProxyType

import pytest
import toys

import mtbench
from mtbench.builders import wikitopics
from mtbench.data import catalog
from mtbench.data.splits import differences
from mtbench.errors import UsageError

GRAIL = "raw.githubusercontent.com/kkteru/grail/2a3dffa719518e7e6250e355a2fb37cd932de91e/data"
SIZE = ("--set", "entities=60", "--set", "share=0.05")


@pytest.fixture(autouse=True)
def catalogued(monkeypatch):
    """Put small records of WikiTopics into the catalogue, whatever else is there."""
    names = [plan.name for group in wikitopics.GROUPS for plan in wikitopics.plans(group)]
    topic = replace(toys.record(), parameters=MappingProxyType({}), raw="mtbench.builders.wikitopics:from_raw")
    made = {name: replace(topic, id=name) for name in names}
    made |= {name: catalog.record(name) for name in ("metafam", "fbnell", "toy")}
    monkeypatch.setattr(catalog, "_records", lambda: MappingProxyType(made))
    monkeypatch.setattr(catalog, "_aliases", lambda: MappingProxyType({"fbnell_v1": made["fbnell"]}))


@pytest.fixture
def dump(tmp_path):
    """Write a dump in which every topic has a connected graph of some hundred entities."""
    rng = random.Random(0)
    lists = [names for version in ("v1", "v2") for names in wikitopics.topics(version).values()]
    rows = [
        f"Q{rng.randrange(1, 80)}\t{rng.choice(names)}\tQ{rng.randrange(1, 80)}\n"
        for names in lists
        for _ in range(400)
    ]
    path = tmp_path / "dump.txt"
    path.write_text("".join([*rows, rows[0], "Q1\tP999999\tQ2\n"]), encoding="utf-8")
    return path


def test_a_group_is_made_in_one_pass(run, printed, refused, dump, tmp_path):
    out = tmp_path / "mt"
    stdout = printed("build", "wikitopics-mt", "--raw", dump, "--out", out, "--seed", 2, *SIZE)
    assert re.match(r"read 8,802 lines: [\d,]+ of other properties and \d+ duplicates dropped, \d+ self-loops", stdout)
    for plan in wikitopics.plans("wikitopics-mt"):
        data = mtbench.load(out / plan.name)
        assert data.name == f"{plan.name}[rebuilt,seed=2,entities=60,share=0.05]"
        assert data.info.id == plan.name
        assert data.valid.num_entities == data.test.num_entities == 60
        assert data.test.relation_slots == len(plan.test.relations)
    assert run("verify", out / "wikitopics-mt1/health")[0] == 0
    assert "--force" in refused("build", "wikitopics-mt", "--raw", dump, "--out", out, "--seed", 2, *SIZE)
    single = tmp_path / "single"
    arguments = ("wikitopics-mt1/health", "--raw", dump, "--out", single, "--seed", 2, *SIZE)
    assert run("build", *arguments, "--json")[0] == 0
    assert mtbench.load(single).test.content_sha256 == mtbench.load(out / "wikitopics-mt1/health").test.content_sha256
    assert run("build", *arguments, "--force")[0] == 0


def test_check_compares_structure(run, listed, dump, tmp_path, monkeypatch):
    out = tmp_path / "health"
    name = "wikitopics-v1/health"
    arguments = ("build", name, "--raw", dump, *SIZE)
    assert run(*arguments, "--out", out)[0] == 0
    release = mtbench.load(out)
    monkeypatch.setattr("mtbench.cli.building.load", lambda asked: release)
    found = listed(*arguments, "--check")
    assert found["datasets"] == []
    assert all(row["alike"] for row in found["comparison"])
    assert {row["part"] for row in found["comparison"]} == {"train", "test", "train and test"}
    other = tmp_path / "other"
    code, _, stderr = run("build", name, "--raw", dump, "--set", "entities=20", "--check", "--out", other)
    assert code == 1
    assert "differ from the release; nothing was stored" in stderr
    assert not other.exists()


def test_fbnell_from_the_grail_files(run, printed, mirror, tmp_path):
    out = tmp_path / "fbnell"
    folders = [mirror / GRAIL / name for name in ("fb237_v2", "fb237_v2_ind", "nell_v3", "nell_v3_ind")]
    stdout = printed("build", "FBNELL_v1", *(f"--raw={folder}" for folder in folders), "--check", "--out", out)
    assert stdout.count("yes") == 6
    assert mtbench.load(out).name == "fbnell"
    assert not differences(mtbench.build("fbnell", raw=mirror / GRAIL), catalog.record("fbnell"))
    code, _, stderr = run("build", "fbnell", "--raw", folders[0])
    assert code == 1
    assert "not found: nell_v3/train.txt" in stderr


def test_python_makes_single_datasets(dump, tmp_path):
    data = mtbench.build("wikitopics-v2/art", raw=str(dump), seed=1, entities=60, share=0.05)
    assert data.valid.num_entities == 60
    stored = mtbench.build("wikitopics-v2/art", raw=[dump], seed=1, entities=60, share=0.05, out=tmp_path / "art")
    toys.assert_same(stored, data)
    with pytest.raises(UsageError, match="is 8 datasets"):
        mtbench.build("wikitopics-mt", raw=dump)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("wikitopics-mt", "--raw", "DUMP"), 2, "add --out DIR"),
        (("wikitopics-mt4/health", "--raw", "DUMP"), 2, "add --out DIR"),
        (("wikitopics-mt5/health", "--raw", "DUMP", "--out", "OUT"), 2, "did you mean wikitopics-mt"),
        (("metafam", "--raw", "DUMP"), 2, "metafam is built without raw files"),
        (("wikitopics-mt", "--raw", "OUT", "--out", "OUT/x"), 1, "is missing: name a text file"),
        (("wikitopics-mt", "--raw", "OUT", "--out", "OUT/x"), 1, "wikidata5m_all_triplet.txt.gz"),
        (("wikitopics-mt", "--raw", "DUMP", "--out", "OUT", "--set", "entitys=5"), 2, "did you mean entities"),
        (("wikitopics-mt", "--raw", "DUMP", "--out", "OUT", "--set", "entities=many"), 2, "must be a whole number"),
        (("wikitopics-mt", "--raw", "DUMP", "--out", "OUT", "--set", "seed=1", "--seed", "2"), 2, "given twice"),
        (("wikitopics-mt", "--raw", "DUMP", "--out", "OUT"), 1, "a sample of 10000 is too large"),
        (("fbnell", "--raw", "DUMP", "--seed", "3"), 2, "--set recipe=paper"),
        (("fbnell", "--raw", "DUMP", "--set", "recipe=poem", "--out", "OUT"), 2, "must be release or paper"),
        (("fbnell", "--raw", "DUMP", "--set", "recipe=paper", "--out", "OUT"), 1, "needs two dumps"),
    ],
)
def test_what_is_typed_wrong_is_told(run, dump, tmp_path, arguments, code, message):
    places = {"DUMP": str(dump), "OUT": str(tmp_path / "out"), "OUT/x": str(tmp_path / "out" / "x")}
    found, stdout, stderr = run("build", *(places.get(argument, argument) for argument in arguments))
    assert (found, stdout) == (code, "")
    assert message in stderr
    assert not (tmp_path / "out").exists()
