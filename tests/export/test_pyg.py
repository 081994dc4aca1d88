"""Export to PyTorch Geometric: shapes, inverses, names, and the way back."""

import json

import numpy as np
import pytest
import toys

from mtbench.adapters import requirements as modules
from mtbench.errors import MissingExtraError
from mtbench.export import pyg
from mtbench.export.writers import write

SPLITS = ("train", "valid", "test")


@pytest.fixture
def torch():
    pytest.importorskip("torch_geometric")
    pytest.importorskip("safetensors")
    return pytest.importorskip("torch")


def test_inverses_follow_with_their_own_relation_ids(toy, torch):
    data = pyg.to_pyg(toy.test)
    head, relation, tail = toy.test.graph.T
    assert (data.num_nodes, data.num_relations) == (toy.test.num_entities, 2 * toy.test.num_relations)
    assert data.edge_index.dtype == data.edge_type.dtype == data.target_edge_index.dtype == torch.int64
    assert data.edge_index.tolist() == [[*head, *tail], [*tail, *head]]
    assert data.edge_type.tolist() == [*relation, *(relation + toy.test.num_relations)]
    assert data.target_edge_index.tolist() == toy.test.targets[:, (0, 2)].T.tolist()
    assert data.target_edge_type.tolist() == toy.test.targets[:, 1].tolist()
    assert data.edge_index.is_contiguous()
    assert data.validate(raise_on_error=True)


def test_without_inverses(toy, torch):
    data = pyg.to_pyg(toy.train, inverses=False)
    assert data.num_relations == toy.train.num_relations
    rebuilt = np.stack((data.edge_index[0], data.edge_type, data.edge_index[1]), axis=1)
    np.testing.assert_array_equal(rebuilt, toy.train.graph)
    assert data.target_edge_index.shape == (2, 0)
    assert data.target_edge_type.shape == (0,)


def test_a_change_to_the_tensors_leaves_the_split_alone(toy, torch):
    before = toy.test.targets.copy()
    pyg.to_pyg(toy.test).target_edge_type.fill_(0)
    np.testing.assert_array_equal(toy.test.targets, before)


def test_files_come_back_and_hold_no_pickle(monkeypatch, torch, tmp_path):
    toys.install(monkeypatch.setattr)
    toy = toys.dataset(tasks="eating", known=((), toys.KNOWN[1]))
    assert pyg.to_pyg(toy.test).known_edge_type.tolist() == toy.test.known[:, 1].tolist()
    files = write(toy, tmp_path / "out", "pyg")
    assert [file.name for file in files] == [*(f"{name}.safetensors" for name in SPLITS), "vocabulary.json"]
    for name in SPLITS:
        found, expected = pyg.read(tmp_path / "out", name), pyg.to_pyg(toy.split(name))
        assert set(found.keys()) == set(expected.keys())
        assert (found.num_nodes, found.num_relations) == (expected.num_nodes, expected.num_relations)
        for tensor in {*found.keys()} - {*pyg.NUMBERS}:
            assert torch.equal(found[tensor], expected[tensor])
    names = json.loads(files[-1].read_text(encoding="utf-8"))
    for split in (toy.train, toy.test):
        assert names[split.name]["entities"] == split.entities.tolist()
        assert names[split.name]["relations"] == split.relations.tolist()
        assert names[split.name]["tasks"] == dict(split.tasks)


def test_without_pytorch_the_message_is_the_remedy(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(modules, "find_spec", lambda name: None)
    for use in (lambda: write(toy, tmp_path / "out", "pyg"), lambda: pyg.to_pyg(toy.test)):
        with pytest.raises(MissingExtraError, match=r'pip install "mtbench-kg\[adapters\]"'):
            use()
    assert not (tmp_path / "out").exists()
