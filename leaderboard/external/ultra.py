"""ULTRA (Galkin et al. 2024) zero-shot: ``mtbench run leaderboard.external.ultra:build --set checkout=DIR``.

Settings: ``checkout`` is a folder with the authors' repository, ``checkpoint`` the name of a file of weights in its
``ckpts``, and ``heads`` how (?, r, t) is asked: by the ``inverse`` relation from t, which is how ULTRA answers it, or
``forward`` from every head, as a function of triples would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leaderboard.external.checkouts import commit, imported
from leaderboard.external.propagation import Network, Relations, relational_sum
from leaderboard.external.queries import END, HEADS, QUERY, START, Kinds, Tails
from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.experiments.models import Context
from mtbench.files.hashing import file_hash
from mtbench.names import HEAD, RELATION, TAIL, IntArray

ADDRESS = "https://github.com/DeepGraphLearning/ULTRA"
THREE = ("FB15k-237", "WN18RR", "CoDEx-Medium")
LEARNED = {"ultra_3g.pth": THREE, "ultra_4g.pth": (*THREE, "NELL-995")}
DEPTH, WIDTH = 6, 64
"""Layers of each of the two networks, and their dimension."""

AT_ONCE = 16
"""Relations that are computed together."""

FEW = 8
"""Ends: more of one query are scored apart from those of the other queries of their start."""


def scatter_add(values: Tensor, index: Tensor, dim: int = -1) -> Tensor:
    """Return sums by index, as the function of that name in torch_scatter does for vectors."""
    return values.new_zeros(int(index.max()) + 1).scatter_add(dim, index, values)


def rspmm(edge_index: Tensor, edge_type: Tensor, edge_weight: Tensor, relation: Tensor, input: Tensor, **_: str) -> Tensor:  # noqa: A002
    """Return the relational sum as the authors' kernel does; weights of edges are 1 outside of training."""
    into, source = edge_index.numpy()
    return relational_sum(into, edge_type.numpy(), source, relation, input, len(input))


class OnGraph:
    """ULTRA on one graph: what all queries of a relation share is computed once, and kept."""

    def __init__(self, model: Any, tasks: Any, split: Split, asked_as: str) -> None:
        kinds = Kinds(split)
        triples = split.graph.copy()
        triples[:, RELATION] = kinds.forward[triples[:, RELATION]]
        heads, relations, tails = torch.from_numpy(triples.T)
        graph = SimpleNamespace(
            edge_index=torch.stack((torch.cat((heads, tails)), torch.cat((tails, heads)))),
            edge_type=torch.cat((relations, relations + kinds.half)),
            num_nodes=split.num_entities,
            num_relations=2 * kinds.half,
        )
        self.relation_graph = tasks.build_relation_graph(graph).relation_graph
        self.model, entities = model, model.entity_model
        self.network = Network(entities.layers, entities.mlp, triples, split.num_entities, 2 * kinds.half)
        self.half, self.asked_as = kinds.half, asked_as
        self.shared: dict[int, Relations] = {}

    @torch.inference_mode()
    def answer(self, asked: IntArray) -> NDArray[np.float32]:
        """Return the scores of questions: by what they share, then by start, the queries with few ends together."""
        _, query, ends = np.unique(asked[:, :END], axis=0, return_inverse=True, return_counts=True)
        columns = (ends[query] > FEW, asked[:, START], asked[:, QUERY] // AT_ONCE)
        order = np.lexsort(columns)
        changes = np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0)
        scores = np.empty(len(asked), dtype=np.float32)
        for rows in np.split(order, np.flatnonzero(changes) + 1):
            start, block = asked[rows[0], START], asked[rows[0], QUERY] // AT_ONCE
            queries, column = np.unique(asked[rows, QUERY], return_inverse=True)
            nodes, place = np.unique(asked[rows, END], return_inverse=True)
            found = self.network.scores(self._shared(block), queries - block * AT_ONCE, start, nodes)
            scores[rows] = found.numpy()[place, column]
        return scores

    def _shared(self, block: int) -> Relations:
        if block not in self.shared:
            asked = torch.arange(self.network.kinds)[block * AT_ONCE :][:AT_ONCE]
            seen_from = asked % self.half if self.asked_as == "inverse" else asked
            representations = self.model.relation_model(self.relation_graph, query=seen_from)
            self.shared[block] = self.network.relations(representations.transpose(0, 1).contiguous(), asked)
        return self.shared[block]


class Ultra:
    """A checkpoint of ULTRA; it learns nothing here."""

    regime, device, url = "zero-shot", "cpu", ADDRESS

    def __init__(self, context: Context) -> None:
        settings = {"checkpoint": "ultra_3g.pth", "heads": "inverse"} | dict(context.settings)
        unknown = sorted(settings.keys() - {"checkout", "checkpoint", "heads"})
        if unknown or "checkout" not in settings or settings["heads"] not in HEADS:
            raise UsageError(f"ULTRA takes --set checkout=DIR, checkpoint=FILE, heads={'|'.join(HEADS)}")
        checkout = Path(settings["checkout"]).expanduser()
        weights = checkout / "ckpts" / settings["checkpoint"]
        stand_ins = {
            "torch_scatter": {"scatter": scatter_add, "scatter_add": scatter_add},
            "ultra.rspmm": {"generalized_rspmm": rspmm},
        }
        self.models = imported(checkout, ADDRESS, ("ultra.models",), stand_ins)
        if not weights.is_file():
            raise UsageError(f"there is no {weights}: {', '.join(sorted(path.name for path in weights.parent.iterdir()))}")
        kind = {"input_dim": WIDTH, "hidden_dims": [WIDTH] * DEPTH, "message_func": "distmult", "aggregate_func": "sum"}
        kind |= {"short_cut": True, "layer_norm": True}
        self.model = self.models.Ultra({"class": "RelNBFNet", **kind}, {"class": "EntityNBFNet", **kind})
        self.model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True)["model"])
        self.model.eval()
        self.heads = settings["heads"]
        self.name = weights.stem.replace("_", "-") + ("" if self.heads == "inverse" else f"-{self.heads}")
        self.pretraining_graphs: Sequence[str] = LEARNED[weights.name]
        self.commit = commit(checkout)
        self.hyperparameters: Mapping[str, str] = {
            "checkpoint": weights.name,
            "checkpoint_sha256": file_hash(weights),
            "heads": self.heads,
        }
        self.workdir = context.workdir

    def fit(self, train: Split, valid: Split) -> None:
        """Learn nothing: the weights are there."""

    def scorer(self, observable: Split) -> Tails:
        """Return what asks ULTRA for one query at a time on a graph."""
        on_graph = OnGraph(self.model, self.models.tasks, observable, self.heads)
        made_of = f"{self.commit} {self.hyperparameters['checkpoint_sha256']} {self.heads}"
        return HEADS[self.heads](on_graph, observable, self.workdir, made_of)


def build(context: Context) -> Ultra:
    """Return the checkpoint of ULTRA that the settings name."""
    return Ultra(context)
