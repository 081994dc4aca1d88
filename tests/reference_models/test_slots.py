from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mtbench
from mtbench.training.models import Context, factory
from reference_models.graphs.graph import Slots


@pytest.fixture
def split(small):
    """A split with 29 slots, of which one is empty, and two more."""
    found = mtbench.load(small).test
    return replace(found, relation_slots=found.relation_slots + 2)


def scorer(split, **settings):
    model = factory("mtdea")(Context("metafam", 0, "cpu", None, {"width": "4", "adaptation_epochs": "0", **settings}))
    return model.scorer(split.observable()), model


def empty(split):
    return np.setdiff1d(np.arange(split.relation_slots), split.graph[:, 1])


def test_all_slots_are_themselves(split):
    slots = Slots.of(split, "all")
    assert slots.split(split) is split
    assert np.array_equal(slots(split.targets), split.targets)


def test_present_slots_keep_their_order_and_one_stands_for_all_that_are_empty(split):
    slots = Slots.of(split, "present")
    seen, none = slots.split(split), empty(split)
    assert len(none) > 1
    assert seen.relation_slots == split.relation_slots - len(none) + 1 == len(seen.relations)
    assert [seen.relation_name(relation) for relation in seen.targets[:, 1]] == [
        split.relation_name(relation) for relation in split.targets[:, 1]
    ]
    assert np.array_equal(seen.graph[:, [0, 2]], split.graph[:, [0, 2]])
    assert {*slots.places[none]} == {seen.relation_slots - 1}
    triples = np.array([[0, split.relation_slots + relation, 1] for relation in range(split.relation_slots)])
    assert np.array_equal(slots(triples)[:, 1], slots.places + slots.number)


def test_a_split_without_empty_slots_comes_out_as_it_is(split):
    present = Slots.of(split, "present").split(split)
    full = replace(present, relation_slots=present.relation_slots)
    dense = replace(full, relations=full.relations[:-1], relation_slots=full.relation_slots - 1)
    assert Slots.of(dense, "present").split(dense) is dense


def test_a_network_of_present_slots_scores_all_empty_ones_alike(split):
    none, (score, model) = empty(split), scorer(split, slots="present")
    first = split.targets[:5].repeat(len(none), axis=0)
    first[:, 1] = np.tile(none, 5)
    for found in (score(first), score.score_inverses(first)):
        assert np.array_equal(found.view(5, -1), found.view(5, -1)[:, :1].expand(-1, len(none)))
    assert len(model.assignments()["test"].relations) == 2 * (split.relation_slots - len(none) + 1)
    every, _ = scorer(split)
    assert every(first).view(5, -1).std(dim=1).max() > 0
