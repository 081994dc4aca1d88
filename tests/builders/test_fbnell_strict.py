"""FBNELL, strict: only targets on relation types that training does not have."""

from __future__ import annotations

import numpy as np
import pytest
import released

import mtbench
from mtbench.builders import fbnell as recipes
from mtbench.data import catalog
from mtbench.data.splits import Dataset, differences, match_parts
from mtbench.errors import DatasetError


@pytest.fixture(scope="module")
def fbnell(mirror) -> Dataset:
    return released.dataset("fbnell", mirror)


def test_the_397_targets_on_new_relations_are_kept(fbnell):
    data = recipes.keep_new_relations(fbnell, "fbnell-strict")
    assert len(data.test.targets) == 397
    assert mtbench.audit(data).overlap.targets_on_training_relations == 0
    known = {
        relation for _, relation, _ in fbnell.valid.named(np.concatenate((fbnell.train.graph, fbnell.valid.targets)))
    }
    expected = [row for row in fbnell.test.named(fbnell.test.targets) if row[1] not in known]
    assert data.test.named(data.test.targets) == expected
    assert {split.dataset for split in (data.train, data.valid, data.test)} == {data.name} == {"fbnell-strict"}
    for name in ("train", "valid", "test"):
        assert np.array_equal(data.split(name).graph, fbnell.split(name).graph)
    assert np.array_equal(data.valid.targets, fbnell.valid.targets)


def test_the_record_is_what_the_released_files_give(fbnell):
    data, record = recipes.keep_new_relations(fbnell, "fbnell-strict"), catalog.record("fbnell-strict")
    assert all(row.same for row in match_parts(data, record))
    for name in ("train", "test"):
        split, declared = data.split(name), record.graphs[name]
        assert (split.num_entities, split.num_relations) == (declared.entities, declared.relations)
        assert split.relation_slots == declared.relation_slots


def test_the_builder_takes_what_fbnell_builds(fbnell, monkeypatch):
    monkeypatch.setattr(recipes, "derive", lambda record: {"fbnell": fbnell}[record.id])
    data = recipes.build_strict(catalog.record("fbnell-strict"), {})
    assert (data.name, data.info.id, len(data.test.targets)) == ("fbnell-strict", "fbnell-strict", 397)
    assert not differences(data, catalog.record("fbnell-strict"))


def test_a_dataset_without_new_relations_is_refused():
    rows = [("a", "knows", "b")]
    data = released.named("old", rows, rows, rows, rows, slots=(1, 1))
    with pytest.raises(DatasetError, match="old: every test target is on a relation type of training; none is left"):
        recipes.keep_new_relations(data, "new")
