"""Export to NumPy: what comes out is what went in, without pickle."""

from __future__ import annotations

import numpy as np
import pytest
import toys

from mtbench.errors import UsageError
from mtbench.export.writers import write


@pytest.fixture
def toy(monkeypatch):
    toys.install(monkeypatch.setattr)
    return toys.dataset(tasks="eating")


def test_ids_and_names_come_back(toy, tmp_path):
    files = write(toy, tmp_path / "out", "npz")
    assert [file.relative_to(tmp_path).as_posix() for file in files] == ["out/dataset.npz"]
    with np.load(files[0], allow_pickle=False) as found:
        assert len(found.files) == 12
        for key, split, part in (
            ("train_graph", toy.train, "graph"),
            ("valid_targets", toy.valid, "targets"),
            ("test_graph", toy.test, "graph"),
            ("test_targets", toy.test, "targets"),
        ):
            assert found[key].dtype == np.int64
            np.testing.assert_array_equal(found[key], getattr(split, part))
        for split in (toy.train, toy.test):
            np.testing.assert_array_equal(found[f"{split.name}_entities"], split.entities)
            np.testing.assert_array_equal(found[f"{split.name}_relations"], split.relations)
            assert found[f"{split.name}_relation_slots"] == split.relation_slots
            named = dict(zip(split.relations.tolist(), found[f"{split.name}_tasks"].tolist(), strict=True))
            assert {name: task for name, task in named.items() if task} == dict(split.tasks)


@pytest.mark.parametrize("kind", ["npz", "huggingface", "croissant"])
def test_an_export_has_the_same_bytes_and_is_replaced_only_by_force(toy, tmp_path, kind):
    files = write(toy, tmp_path / "out", kind)
    before = {file: file.read_bytes() for file in files}
    with pytest.raises(UsageError, match="holds an export already: add --force"):
        write(toy, tmp_path / "out", kind)
    files[0].write_text("mine")
    assert write(toy, tmp_path / "out", kind, force=True) == files
    assert {file: file.read_bytes() for file in files} == before
    assert {path for path in (tmp_path / "out").rglob("*") if path.is_file()} == set(files)
    with pytest.raises(UsageError, match="holds other files"):
        write(toy, tmp_path / "out", "tsv", force=True)
