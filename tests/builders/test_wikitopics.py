"""WikiTopics from a dump: the recipe's invariants, determinism, and the real excerpt of Wikidata5M."""

import gzip
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtbench.builders import wikitopics
from mtbench.builders.dumps.dump import read_dump
from mtbench.builders.making import compare_structure, degree_distance, relation_distance
from mtbench.builders.wikitopics import Plan, Sample
from mtbench.data import catalog
from mtbench.errors import DatasetError, UnknownNameError, UsageError

ONE = Sample("one", ("P1", "P2", "P3", "P999"))
TWO = Sample("two", ("P2", "P4"))
PLANS = [Plan("pair", ONE, TWO), Plan("same", ONE, replace(ONE, label="one/test"))]


def records(plans):
    return {plan.name: replace(catalog.record("metafam"), id=plan.name) for plan in plans}


@pytest.fixture(scope="module")
def rows():
    rng = random.Random(0)
    found = [
        (f"Q{rng.randrange(1, 300)}", f"P{1 + int(5 * rng.random() ** 2)}", f"Q{1 + int(299 * rng.random() ** 2)}")
        for _ in range(3000)
    ]
    return [*found, ("Q1000", "P1", "Q1001"), ("Q5", "P2", "Q5"), ("Q5", "P2", "Q5")]


@pytest.fixture
def plain(tmp_path, rows) -> Path:
    path = tmp_path / "dump.txt"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rebuild(path, plans=PLANS, **options):
    dump = read_dump([path], wikitopics.properties(plans))
    return wikitopics.rebuild(dump, plans, records(plans), **{"seed": 0, "entities": 100, "share": 0.1, **options})


def hashes(datasets):
    return [[data.split(name).content_sha256 for name in ("train", "valid", "test")] for data in datasets]


def test_facts_are_those_of_the_paper():
    for version in ("v1", "v2"):
        assert len(wikitopics.topics(version)) == 11
    plans = wikitopics.plans("wikitopics-mt")
    assert [plan.name.removeprefix("wikitopics-") for plan in plans] == [
        *("mt1/health", "mt1/taxonomy", "mt2/location", "mt2/science"),
        *("mt3/art", "mt3/infrastructure", "mt4/health", "mt4/science"),
    ]
    assert len({part for plan in plans for part in (plan.train, plan.test)}) == 12
    assert [len(plan.train.relations) for plan in plans[::2]] == [36, 19, 99, 94]
    assert wikitopics.plan("wikitopics-mt1/health").test == wikitopics.plan("wikitopics-v1/health").test
    assert wikitopics.plan("wikitopics-v2/art").train.relations == wikitopics.plan("wikitopics-v2/art").test.relations


def test_unknown_names_are_told():
    for call in (
        lambda: wikitopics.plan("wikitopics-mt1/art"),
        lambda: wikitopics.plans("wikitopics-v3"),
        lambda: wikitopics.topics("v3"),
        lambda: wikitopics.sample("v1", ["arts"], "train"),
    ):
        with pytest.raises(UnknownNameError):
            call()


def test_every_graph_follows_the_recipe(plain, rows):
    share = 0.2
    for data in rebuild(plain, share=share):
        for split, wanted in ((data.valid, ONE), (data.test, ONE if data.name.startswith("same") else TWO)):
            graph, targets = split.named(split.graph), split.named(split.targets)
            sampled = set(split.entities.tolist())
            assert len(sampled) == 100
            inside = {row for row in rows if {row[0], row[2]} <= sampled and row[1] in wanted.relations}
            assert len(graph) + len(targets) == len(inside)
            assert set(graph) | set(targets) == inside
            assert len(targets) == int(share * len(inside))
            assert sampled == {name for row in graph for name in (row[0], row[2])}
            assert split.relation_slots == len(wanted.relations)
            assert "Q1000" not in sampled
        assert not len(data.train.targets)
        assert np.array_equal(data.train.graph, data.valid.graph)
        assert data.info.builder == "wikitopics"


def test_same_seed_same_datasets_in_any_form_and_company(plain, rows):
    expected = hashes(rebuild(plain))
    zipped = plain.with_suffix(".txt.gz")
    shuffled = random.Random(1).sample(rows, len(rows))
    zipped.write_bytes(gzip.compress("".join("\t".join(row) + "\n" for row in shuffled).encode()))
    assert hashes(rebuild(zipped)) == expected
    assert hashes(rebuild(plain, PLANS[1:])) == expected[1:]
    assert all(one != other for one, other in zip(hashes(rebuild(plain, seed=1)), expected, strict=True))
    one = rebuild(plain)[1]
    assert one.valid.graph_sha256 != one.test.graph_sha256


def test_impossible_requests_are_told(plain):
    with pytest.raises(DatasetError, match=r"one: only .* entities in the largest component"):
        rebuild(plain, entities=5000)
    with pytest.raises(DatasetError, match=r"two: .*smaller share|one: .*smaller share"):
        rebuild(plain, share=0.99)
    with pytest.raises(DatasetError, match="no triple of its 1 properties"):
        rebuild(plain, [Plan("none", ONE, Sample("none", ("P77",)))])
    for options in ({"seed": -1}, {"entities": 1}, {"share": 0.0}, {"share": 1.0}):
        with pytest.raises(UsageError, match="no such sample"):
            rebuild(plain, **options)


def test_structure_of_a_dataset_is_that_of_itself(plain):
    one, other = rebuild(plain), rebuild(plain, seed=1)
    for row in compare_structure(one[0], one[0]):
        assert row.alike
        assert row.statistic.endswith("distance") == (row.rebuilt != row.released) or row.rebuilt == row.released
    assert degree_distance(np.array([1, 2]), np.array([3, 4])) == 1.0
    assert degree_distance(np.array([1, 1, 2, 2]), np.array([1, 2, 2, 2])) == 0.25
    assert relation_distance(one[0].valid, one[0].test) > 0.3
    assert 0 < relation_distance(one[0].valid, other[0].valid) < 0.3
    wrong = [row for row in compare_structure(replace(one[0], test=one[1].test), one[0]) if not row.alike]
    assert {"relations", "relation distance"} <= {row.statistic for row in wrong}
    assert {row.part for row in wrong} == {"test"}
    other_training = replace(one[0], valid=one[0].test)
    assert not all(row.alike for row in compare_structure(other_training, one[0]))
    assert all(row.alike for row in compare_structure(other_training, one[0], mixed=True))


def test_a_scenario_from_the_real_excerpt(excerpt):
    plans = [wikitopics.plan("wikitopics-mt1/health"), wikitopics.plan("wikitopics-mt1/taxonomy")]
    dump = read_dump([excerpt], wikitopics.properties(plans))
    assert dump.lines == 1_199_695
    assert dump.duplicates == 0
    health, taxonomy = wikitopics.rebuild(dump, plans, records(plans), seed=5)
    assert health.valid.graph_sha256 == taxonomy.valid.graph_sha256
    for split, slots in ((health.valid, 36), (health.test, 8), (taxonomy.test, 10)):
        assert split.num_entities == 10_000
        assert split.relation_slots == slots
        assert set(split.named(split.targets)).isdisjoint(split.named(split.graph))
        assert len(split.targets) == (len(split.graph) + len(split.targets)) // 10
        used = Counter(name for row in split.named(split.graph) for name in (row[0], row[2]))
        assert len(used) == 10_000
    assert not set(health.train.relations) & set(health.test.relations)
