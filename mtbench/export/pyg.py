"""Export to PyTorch Geometric: the tensors its models take, with inverse relations, stored without pickle."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtbench.errors import MissingExtraError
from mtbench.export import store
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.splits import SPLIT_NAMES, Dataset, Split

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data

VOCABULARY = "vocabulary.json"
TENSORS = ("edge_index", "edge_type", "target_edge_index", "target_edge_type")
NUMBERS = ("num_nodes", "num_relations")


def write(dataset: Dataset, directory: Path, *, force: bool = False) -> list[Path]:
    """Write ``train.safetensors``, ``valid.safetensors``, ``test.safetensors`` and ``vocabulary.json``.

    The tensors are those of `to_pyg` with inverses; the counts are in the files' metadata and the names
    by id in ``vocabulary.json``. `read` turns a file back into what `to_pyg` returns. Raises
    `MissingExtraError` without PyTorch or safetensors.
    """
    _expect("torch", "safetensors")
    from safetensors.torch import save

    files: dict[str, bytes] = {}
    for name in SPLIT_NAMES:
        split = dataset.split(name)
        numbers = {"num_nodes": str(split.num_entities), "num_relations": str(2 * split.num_relations)}
        about = {"dataset": dataset.name, "version": dataset.version, "split": name}
        files[f"{name}.safetensors"] = save(_tensors(split, inverses=True), metadata={**about, **numbers})
    names = {
        split.name: {
            "entities": split.entities.tolist(),
            "relations": split.relations.tolist(),
            "relation_slots": split.relation_slots,
            "tasks": dict(split.tasks),
        }
        for split in (dataset.train, dataset.test)
    }
    files[VOCABULARY] = f"{json.dumps(names, ensure_ascii=False, indent=1)}\n".encode()
    return store(directory, files, force=force)


def to_pyg(split: Split, *, inverses: bool = True) -> Data:
    """Return a split as the graph object of PyTorch Geometric.

    ``edge_index`` ``(2, n)`` holds heads and tails and ``edge_type`` ``(n,)`` the relations of the
    observable triples, all int64. With ``inverses`` each triple follows once more, all of them after the
    originals, as (tail, r + R, head), and ``num_relations`` is 2R, R being the split's ``num_relations``;
    without, it is R. ``target_edge_index`` ``(2, m)`` and ``target_edge_type`` ``(m,)`` are the missing
    triples and never have inverses. ``num_nodes`` counts the whole vocabulary. Raises `MissingExtraError`
    without PyTorch Geometric.
    """
    _expect("torch", "torch_geometric")
    from torch_geometric.data import Data

    factor = 2 if inverses else 1
    return Data(
        num_nodes=split.num_entities, num_relations=factor * split.num_relations, **_tensors(split, inverses=inverses)
    )


def read(directory: str | Path, split: str) -> Data:
    """Return one split of an export as `to_pyg` gives it, from its file alone."""
    _expect("torch", "safetensors", "torch_geometric")
    from safetensors import safe_open
    from torch_geometric.data import Data

    with safe_open(Path(directory) / f"{split}.safetensors", framework="pt") as stored:
        counts = stored.metadata()
        tensors = {name: stored.get_tensor(name) for name in TENSORS}
    return Data(**{name: int(counts[name]) for name in NUMBERS}, **tensors)


def _tensors(split: Split, *, inverses: bool) -> dict[str, Tensor]:
    import torch

    edges, types = _ends(split.graph), split.graph[:, RELATION]
    if inverses:
        edges = np.concatenate((edges, edges[::-1]), axis=1)
        types = np.concatenate((types, types + split.num_relations))
    arrays = (edges, types, _ends(split.targets), split.targets[:, RELATION])
    return {
        name: torch.from_numpy(np.array(array, dtype=np.int64, order="C"))
        for name, array in zip(TENSORS, arrays, strict=True)
    }


def _ends(triples: IntArray) -> IntArray:
    return np.stack((triples[:, HEAD], triples[:, TAIL]))


def _expect(*modules: str) -> None:
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError("the export to PyTorch Geometric", "adapters")
