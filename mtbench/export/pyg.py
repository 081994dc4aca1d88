"""Export to PyTorch Geometric: the tensors its models take, with inverse relations, stored without pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mtbench.adapters.pyg import tensors
from mtbench.adapters.pyg import to_pyg as to_pyg
from mtbench.adapters.requirements import expect
from mtbench.data.splits import SPLIT_NAMES, Dataset

if TYPE_CHECKING:
    from torch_geometric.data import Data

VOCABULARY = "vocabulary.json"
EXPORT = "the export to PyTorch Geometric"
NUMBERS = ("num_nodes", "num_relations")


def files(dataset: Dataset) -> dict[str, bytes]:
    """Return ``train.safetensors``, ``valid.safetensors``, ``test.safetensors`` and ``vocabulary.json``.

    The tensors are those of `to_pyg` with inverses; the counts are in the files' metadata and the names
    by id in ``vocabulary.json``. `read` turns a file back into what `to_pyg` returns. Raises
    `MissingExtraError` without PyTorch or safetensors.
    """
    expect(EXPORT, "torch", "safetensors")
    from safetensors.torch import save

    made: dict[str, bytes] = {}
    for name in SPLIT_NAMES:
        split = dataset.split(name)
        numbers = {"num_nodes": str(split.num_entities), "num_relations": str(2 * split.num_relations)}
        about = {"dataset": dataset.name, "version": dataset.version, "split": name}
        made[f"{name}.safetensors"] = save(tensors(split, inverses=True), metadata={**about, **numbers})
    names = {
        split.name: {
            "entities": split.entities.tolist(),
            "relations": split.relations.tolist(),
            "relation_slots": split.relation_slots,
            "tasks": dict(split.tasks),
        }
        for split in (dataset.train, dataset.test)
    }
    made[VOCABULARY] = f"{json.dumps(names, ensure_ascii=False, indent=1)}\n".encode()
    return made


def read(directory: str | Path, split: str) -> Data:
    """Return a split of an export as `to_pyg` gives it, from its file alone."""
    expect(EXPORT, "torch", "safetensors", "torch_geometric")
    from safetensors import safe_open
    from torch_geometric.data import Data

    with safe_open(Path(directory) / f"{split}.safetensors", framework="pt") as stored:
        counts = stored.metadata()
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118  no mapping
    return Data(**{name: int(counts[name]) for name in NUMBERS}, **tensors)
