"""ULTRA (Galkin et al. 2024) zero-shot: ``mtbench run leaderboard.external.ultra:build --set checkout=DIR``.

``checkout`` is a folder with the authors' repository, ``checkpoint`` a file of weights in its ``ckpts``. ``heads`` says
how (?, r, t) is asked. ``inverse`` is what the authors' code does: the query starts at t, by the inverse of r, and
relations are represented as seen from r. With ``tail`` they are represented as seen from the inverse.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from leaderboard.external.propagation import Network, Relations, rspmm, scatter_add, twins
from leaderboard.external.queries import (
    END,
    QUERY,
    START,
    Answers,
    Kinds,
    Published,
    Scores,
    commit,
    imported,
    together,
    weights,
)
from mtbench.data.splits import Split
from mtbench.files.hashing import file_hash
from mtbench.names import IntArray
from mtbench.training.models import Context, ModelInfo

ADDRESS = "https://github.com/DeepGraphLearning/ULTRA"
HEADS = ("inverse", "tail")
THREE = ("FB15k-237", "WN18RR", "CoDEx-Medium")
FIFTY = (
    *(*THREE, "NELL-995", "YAGO3-10", "DBpedia100k", "AristoV4", "Hetionet", "WD-singer", "CoDEx-Small", "NELL23k"),
    *("ConceptNet100k", "FB15k-237-10", "ILPC2022-small", "ILPC2022-large"),
    *(f"{name}-inductive-v{version}" for name in ("FB15k-237", "WN18RR", "NELL-995") for version in range(1, 5)),
    *(f"{name}-{share}" for name in ("FB", "WK", "NL") for share in (25, 50, 75, 100)),
    *("NL-0", "metafam/train", "fbnell/train", "wikitopics-mt1/health/train", "wikitopics-mt2/location/train"),
    *("wikitopics-mt3/art/train", "wikitopics-mt4/health/train"),
)
"""27 as the author begins to list them in issue 15 of the repository, and the 23 sets with new relations of its README.

These are 13 of InGram and the ten of this benchmark: their training graphs, of which a pair of WikiTopics has one.
"""

LEARNED = {"ultra_3g.pth": THREE, "ultra_4g.pth": (*THREE, "NELL-995"), "ultra_50g.pth": FIFTY}
KIND = {"input_dim": 64, "hidden_dims": [64] * 6, "message_func": "distmult", "aggregate_func": "sum"}
AT_ONCE = 64
"""Relations computed together."""

HELD = 2**31
"""The most bytes of common parts of queries that are kept; others are computed again when they are asked for."""


class OnGraph:
    """ULTRA on one graph: the common part of all queries by a relation is computed once and kept."""

    def __init__(self, model: Any, tasks: Any, split: Split, heads: str) -> None:
        kinds = Kinds(split)
        self.model, self.half, self.seen_from_inverse = model, kinds.half, heads == "tail"
        head, relation, tail = torch.from_numpy(kinds.triples.T)
        graph = SimpleNamespace(
            edge_index=torch.stack((torch.cat((head, tail)), torch.cat((tail, head)))),
            edge_type=torch.cat((relation, relation + kinds.half)),
            num_nodes=split.num_entities,
            num_relations=2 * kinds.half,
        )
        self.relation_graph = tasks.build_relation_graph(graph).relation_graph
        entities = model.entity_model
        self.network = Network(entities.layers, entities.mlp, twins(kinds.triples, split.num_entities, 2 * kinds.half))
        self.shared: dict[int, Relations] = {}

    @torch.inference_mode()
    def answer(self, questions: IntArray) -> Scores:
        """Return the scores of questions; queries from one start with few ends are computed together."""
        scores = np.empty(len(questions), dtype=np.float32)
        groups = together(questions, AT_ONCE)
        for number, of_block in itertools.groupby(groups, lambda rows: int(questions[rows[0], QUERY]) // AT_ONCE):
            shared = self._shared(number)
            for rows in of_block:
                queries, column = np.unique(questions[rows, QUERY], return_inverse=True)
                nodes, place = np.unique(questions[rows, END], return_inverse=True)
                start = questions[rows[0], START]
                answers = self.network.scores(shared, queries - number * AT_ONCE, start, nodes)
                scores[rows] = answers.numpy()[place, column]
        return scores

    def _shared(self, block: int) -> Relations:
        if block in self.shared:
            return self.shared[block]
        asked = torch.arange(2 * self.half)[block * AT_ONCE :][:AT_ONCE]
        seen_from = asked if self.seen_from_inverse else asked % self.half
        representations = self.model.relation_model(self.relation_graph, query=seen_from)
        made = self.network.relations(representations.transpose(0, 1).contiguous(), asked)
        if (len(self.shared) + 1) * made.bytes <= HELD:
            self.shared[block] = made
        return made


class Ultra(Published):
    """A checkpoint of ULTRA."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "ULTRA", {"checkpoint": tuple(LEARNED), "heads": HEADS})
        name, self.heads = self.settings["checkpoint"], self.settings["heads"]
        stand_ins: dict[str, dict[str, object]] = {
            "torch_scatter": {"scatter": scatter_add, "scatter_add": scatter_add},
            "ultra.rspmm": {"generalized_rspmm": rspmm},
        }
        models = imported(self.checkout, ADDRESS, "ultra.models", stand_ins)
        file = self.checkout / "ckpts" / name
        kind = {**KIND, "short_cut": True, "layer_norm": True}
        self.tasks = models.tasks
        self.model = models.Ultra({"class": "RelNBFNet", **kind}, {"class": "EntityNBFNet", **kind})
        self.model.load_state_dict(weights(file, ADDRESS)["model"])
        self.model.eval()
        self.info = ModelInfo(
            name.removesuffix(".pth").replace("_", "-") + ("" if self.heads == "inverse" else "-tail"),
            hyperparameters={"checkpoint": name, "checkpoint_sha256": file_hash(file), "heads": self.heads},
            pretraining_graphs=LEARNED[name],
            url=ADDRESS,
            commit=commit(self.checkout),
        )

    def scorer(self, observable: Split) -> Answers:
        """Return what asks ULTRA for each answer on a graph once."""
        network = OnGraph(self.model, self.tasks, observable, self.heads)
        return Answers(network, observable, self.workdir, self.made_of)


build = Ultra
