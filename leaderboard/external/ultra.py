"""ULTRA (Galkin et al. 2024) zero-shot: ``mtbench run leaderboard.external.ultra:build --set checkout=DIR``.

``checkout`` is a folder with the authors' repository, ``checkpoint`` a file of weights in its ``ckpts``. ``heads`` says
how (?, r, t) is asked. ``inverse`` is what the authors' code does: the query starts at t, by the inverse of r, and
relations are represented as seen from r. With ``tail`` they are represented as seen from the inverse.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from leaderboard.external.propagation import CPU, Network, Relations, Whole, rspmm, scatter_add, twins
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
    load,
    together,
)
from mtbench.data.splits import Split, unique
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

    def __init__(
        self, model: Any, of_relations: Callable[[torch.device], Any], kinds: Kinds, nodes: int, heads: str
    ) -> None:
        self.model, self.half, self.seen_from_inverse = model, kinds.half, heads == "tail"
        self.of_relations = of_relations
        entities = model.entity_model
        self.network = Network(entities.layers, entities.mlp, twins(kinds.triples, nodes, 2 * kinds.half))
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
        representations = self.model.relation_model(self.of_relations(CPU), query=seen_from)
        made = self.network.relations(representations.transpose(0, 1).contiguous(), asked)
        if (len(self.shared) + 1) * made.bytes <= HELD:
            self.shared[block] = made
        return made


class Rows:
    """ULTRA on one graph, for all ends of queries at once."""

    def __init__(
        self, model: Any, relation_graph: Any, kinds: Kinds, nodes: int, heads: str, device: torch.device
    ) -> None:
        self.model, self.half, self.device, self.seen_from_inverse = model, kinds.half, device, heads == "tail"
        self.graph = Whole(twins(kinds.triples, nodes, 2 * kinds.half), 2 * kinds.half, device)
        self.width = len(model.entity_model.layers[0].linear.bias) * self.graph.width
        self.relation_graph = relation_graph
        self.known: dict[int, torch.Tensor] = {}

    @torch.inference_mode()
    def rows(self, starts: IntArray, asked: IntArray) -> torch.Tensor:
        """Return the scores ``(q, n)`` of all ends of queries ``(q,)``."""
        seen_from = asked if self.seen_from_inverse else asked % self.half
        begun, kinds = (torch.tensor(column, device=self.device) for column in (starts, asked))
        network = self.model.entity_model
        types = self._representations(seen_from)
        own = types[kinds, torch.arange(len(kinds), device=self.device)]
        weights = [layer.relation_projection(types) for layer in network.layers]
        state = self.graph.states(network.layers, weights, self.graph.begun(own, begun))
        scores = network.mlp(torch.cat((state, own.expand_as(state)), dim=-1)).squeeze(-1)
        return self.graph.alike(scores.T, begun)

    def _representations(self, seen_from: IntArray) -> torch.Tensor:
        """Return the states ``(kinds, q, d)`` of all types as some types see them."""
        new = [kind for kind in unique(seen_from).tolist() if kind not in self.known]
        for begin in range(0, len(new), AT_ONCE):
            some = new[begin : begin + AT_ONCE]
            made = self.model.relation_model(self.relation_graph, query=torch.tensor(some, device=self.device))
            self.known |= dict(zip(some, made, strict=True))
        return torch.stack([self.known[kind] for kind in seen_from.tolist()], dim=1)


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
        load(self.model, file, ADDRESS, "model")
        self.info = ModelInfo(
            name.removesuffix(".pth").replace("_", "-") + ("" if self.heads == "inverse" else "-tail"),
            hyperparameters={"checkpoint": name, "checkpoint_sha256": file_hash(file), "heads": self.heads},
            device=self.device.type,
            pretraining_graphs=LEARNED[name],
            url=ADDRESS,
            commit=commit(self.checkout),
        )

    def scorer(self, observable: Split) -> Answers:
        """Return what asks ULTRA for each answer on a graph once."""
        kinds, nodes = Kinds(observable), observable.num_entities
        of_relations = functools.cache(functools.partial(self.relation_graph, kinds, nodes))
        network = OnGraph(self.model, of_relations, kinds, nodes, self.heads)
        rows = Rows(self.placed(self.model), of_relations(self.device), kinds, nodes, self.heads, self.device)
        return Answers(network, rows, observable, self.workdir, self.made_of)

    def relation_graph(self, kinds: Kinds, nodes: int, device: torch.device) -> Any:
        """Return the authors' graph of the relations of a graph and their inverses, on a device."""
        head, relation, tail = torch.from_numpy(kinds.triples.T)
        graph = SimpleNamespace(
            edge_index=torch.stack((torch.cat((head, tail)), torch.cat((tail, head)))),
            edge_type=torch.cat((relation, relation + kinds.half)),
            num_nodes=nodes,
            num_relations=2 * kinds.half,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse ", UserWarning)  # PyTorch on the sparse matrices in their code
            made = self.tasks.build_relation_graph(graph).relation_graph
        return made if device.type == "cpu" else made.to(device)


build = Ultra
