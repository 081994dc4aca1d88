"""MetaFam, strict: each target has its intended pattern, no inverse is left, test relations have new names."""

from collections import Counter
from functools import cache, partial

import numpy as np
import pytest
import released
from hypothesis import given, settings
from hypothesis import strategies as st

import mtbench
from mtbench.analysis.relations import two_hop_patterns
from mtbench.builders.metafam.dataset import rename_relations
from mtbench.data import catalog
from mtbench.data.graphs import half_links
from mtbench.data.splits import Dataset, Split, differences
from mtbench.errors import UsageError

build, build_strict = partial(mtbench.build, "metafam"), partial(mtbench.build, "metafam-strict")

SMALL = {"train_trees": 6, "test_trees": 3}


@cache
def small(seed: int) -> Dataset:
    return build_strict(seed=seed, **SMALL)


@pytest.fixture
def strict() -> Dataset:
    return released.derived("metafam-strict")


def recovered(split: Split) -> list[bool]:
    """For each target, is there a sibling whose link of the same relation is observable."""
    graph, targets = split.named(split.graph), split.named(split.targets)
    siblings: dict[str, set[str]] = {}
    for head, relation, tail in graph:
        if split.tasks[relation] == "sibling":
            siblings.setdefault(head, set()).add(tail)
    known, found = set(graph), []
    for head, relation, tail in targets:
        if split.tasks[relation] == "parent":
            # parent_of + sibling_of: somebody whose parent the head is, and whose sibling the tail is.
            found.append(any((head, relation, other) in known for other in siblings if tail in siblings[other]))
        else:
            # sibling_of + child_of: a sibling of the head who is a child of the tail.
            found.append(any((other, relation, tail) in known for other in siblings.get(head, ())))
    return found


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_every_target_has_its_pattern_and_no_inverse(seed: int) -> None:
    data = small(seed)
    for split in (data.valid, data.test):
        assert len(split.targets) > 0
        assert all(recovered(split))
        pairs = {(head, tail) for head, _, tail in split.named(np.concatenate((split.graph, split.targets)))}
        assert not [row for row in split.named(split.targets) if (row[2], row[0]) in pairs]
        assert len(pairs) == len(split.graph) + len(split.targets)
        assert split.num_entities == len(np.unique(split.graph[:, (0, 2)]))
        assert set(split.tasks) == set(split.relations.tolist())
    for split, tasks in ((data.valid, {"parent", "child"}), (data.test, {"parent"})):
        assert {split.tasks[relation] for _, relation, _ in split.named(split.targets)} == tasks


@settings(max_examples=4)
@given(st.integers(0, 10**6))
def test_the_rest_is_metafam_of_the_same_seed(seed: int) -> None:
    data, plain = small(seed), build(seed=seed, **SMALL)
    closure = {*plain.valid.named(plain.valid.graph), *plain.valid.named(plain.valid.targets)}
    graph, targets = set(data.valid.named(data.valid.graph)), set(data.valid.named(data.valid.targets))
    inverses = {(tail, head) for head, _, tail in targets}
    assert graph.isdisjoint(targets)
    assert {(head, tail) for head, _, tail in closure - graph - targets} == inverses
    pairs = [(head, tail) for head, _, tail in data.test.named(data.test.targets)]
    assert pairs == [(head, tail) for head, _, tail in plain.test.named(plain.test.targets)]


def test_the_release(strict: Dataset) -> None:
    assert not differences(strict, catalog.record("metafam-strict"))
    counts = Counter(relation for _, relation, _ in strict.valid.named(strict.valid.targets))
    assert counts == {"motherOf": 88, "fatherOf": 88, "sonOf": 88, "daughterOf": 70}
    assert len(strict.test.targets) == 184


def test_both_patterns_recover_their_half_and_no_other_half_link_helps(strict: Dataset) -> None:
    patterns = two_hop_patterns(strict.valid)
    covered = {(row.relation, row.first, row.second): (row.covered, row.targets) for row in patterns}
    assert covered["parent", "parent", "sibling"] == (176, 176)
    assert covered["child", "sibling", "child"] == (158, 158)
    assert ("child", "child", "sibling") not in covered
    assert ("parent", "sibling", "parent") not in covered
    found = mtbench.audit(strict)
    assert [part.reversed_pair for part in found.targets.values()] == [0, 0]
    assert found.overlap.relations == ()
    assert found.overlap.entities == 0
    # A parent keeps another child's link, a child keeps none of its own.
    ids = [strict.valid.relations.tolist().index(name) for name in ("motherOf", "fatherOf")]
    parents = np.isin(strict.valid.targets[:, 1], ids)
    assert set(half_links(strict.valid)[parents].tolist()) == {1}
    assert set(half_links(strict.valid)[~parents].tolist()) == {2}


def test_test_relations_have_new_names_in_a_drawn_order(strict: Dataset) -> None:
    plain = released.derived("metafam")
    assert strict.test.relations.tolist() == [f"relation{number:02d}" for number in range(28)]
    assert strict.train.relations.tolist() == plain.train.relations.tolist()
    assert Counter(strict.test.tasks.values()) == Counter(plain.test.tasks.values())
    tasks = [strict.test.tasks[name] for name in strict.test.relations.tolist()]
    assert tasks != [plain.test.tasks[name] for name in plain.test.relations.tolist()]
    again, other = rename_relations(plain.test, 1), rename_relations(plain.test, 2)
    assert dict(again.tasks) == dict(rename_relations(plain.test, 1).tasks) != dict(other.tasks)
    assert np.array_equal(again.graph[:, (0, 2)], plain.test.graph[:, (0, 2)])
    for old in range(28):
        assert len(np.unique(again.graph[plain.test.graph[:, 1] == old, 1])) == 1
    np.testing.assert_array_equal(np.unique(again.graph[:, 1]), np.arange(28))


def test_defaults_and_options_are_those_of_metafam() -> None:
    assert dict(catalog.record("metafam-strict").parameters) == dict(catalog.record("metafam").parameters)
    assert small(3).name == "metafam-strict[seed=3,train_trees=6,test_trees=3]"
    with pytest.raises(UsageError, match="size must be between 2 and 59"):
        build_strict(size=60)
