"""Export to a record: the tables of a record of the catalogue, measured anew."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib import resources

import pytest
import released

from mtbench.data import catalog, loading
from mtbench.export import record
from mtbench.export.writers import write


@pytest.mark.parametrize(
    "name", ["metafam", *(pytest.param(name, marks=pytest.mark.once) for name in ("metafam-hard", "metafam-strict"))]
)
def test_the_tables_are_those_of_the_catalogue(name, tmp_path):
    data = released.derived(name)
    published = tomllib.loads(
        (resources.files("mtbench.data") / "records" / f"{name}.toml").read_text(encoding="utf-8")
    )
    (written,) = write(data, tmp_path / "record", "record")
    assert written.name == "record.toml"
    found = tomllib.loads(written.read_text(encoding="utf-8"))
    assert found == {table: published[table] for table in ("graphs", "parts", "candidates", "baselines")}
    assert all(list(found[table]) == list(published[table]) for table in ("candidates", "baselines"))


def test_a_record_with_empty_tables_is_enough_to_measure_them():
    empty = replace(catalog.record("metafam"), id="fresh", graphs={}, parts={}, candidates={}, baselines={})
    made = loading.derive(empty, {**empty.parameters, "seed": 5, "train_trees": 4, "test_trees": 2})
    found = catalog.parse(HEAD + record.tables(made), "fresh.toml")
    assert found.parts["train/graph"].triples == len(made.train.graph)
    known = catalog.record("metafam")
    assert found.candidates.keys() == known.candidates.keys()
    assert found.baselines.keys() == known.baselines.keys()


HEAD = """
id = "fresh"
title = "Fresh"
version = "1.0.0"
builder = "metafam"
summary = "A dataset."
licence = "MIT"
citation = ""
aliases = []
defects = []
sources = []

[parameters]

"""
