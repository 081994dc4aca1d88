"""TRIX (Zhang et al. 2024) zero-shot: ``mtbench run leaderboard.external.trix:build --set checkout=DIR``.

``checkout`` is a folder with the authors' repository, which has a checkpoint for entities, asked by (h, r, ?), and one
for relations, asked by (h, ?, t). A target is compared with entities by the former and with relations by the latter;
with ``relations=entity_prediction.pth`` by the former alone. A head is asked for as the authors' code does: the query
starts at t, by the inverse of r, and relations are represented as seen from r.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from leaderboard.external.checkouts import Published, commit, imported, weights
from leaderboard.external.crossing import AT_ONCE, Entities, Graph, Relations
from leaderboard.external.propagation import rspmm, scatter_add, twins
from leaderboard.external.queries import END, Answering, Answers, Kept, Kinds, Queries, Scores, together
from mtbench.data.splits import Split
from mtbench.files.hashing import file_hash
from mtbench.names import HEAD, RELATION, TAIL, IntArray
from mtbench.training.models import Context, ModelInfo

ADDRESS = "https://github.com/yuchengz99/TRIX"
OF_ENTITIES, OF_RELATIONS = "entity_prediction.pth", "relation_prediction.pth"
KIND = {"input_dim": 32, "message_func": "distmult", "aggregate_func": "sum", "short_cut": True, "layer_norm": True}
LAYERS = SimpleNamespace(feature_dim=32, num_layer=3, num_mlp_layer=2)
PAIRS = "relations.npz"
SINCE = {OF_ENTITIES: {"entity_model_mini": "entity_model_1", "entity_model": "entity_model_2"}, OF_RELATIONS: {}}
"""What networks that have another name in a checkpoint are called in the code: those of two and of four layers."""


class RelationQueries:
    """The network for relations: a question is a head, a tail and the type to score."""

    def __init__(self, network: Relations) -> None:
        self.network = network

    @torch.inference_mode()
    def answer(self, questions: IntArray) -> Scores:
        """Return the scores of questions."""
        scores = np.empty(len(questions), dtype=np.float32)
        for rows in together(questions, 1):
            head, tail, _ = questions[rows[0]].tolist()
            scores[rows] = self.network.scores(head, tail).numpy()[questions[rows, END]]
        return scores


class WithRelations(Answers):
    """A scorer that asks for a relation from the head and the tail."""

    def __init__(self, entities: Answering, relations: Answering, split: Split, folder: Path | None, made: str) -> None:
        super().__init__(entities, split, folder, made)
        sizes = split.num_entities, split.num_entities, self.kinds.half
        self.between = Kept(relations, sizes, folder / PAIRS if folder else None, self.ends.made_of)

    def score_between(self, triples: IntArray) -> Scores:
        """Return the scores of the relations of triples ``(m, 3)``; of a query, all are asked for at once."""
        ends, kinds = triples[:, [HEAD, TAIL]], np.arange(self.kinds.half)
        pairs = np.unique(ends, axis=0).repeat(len(kinds), axis=0)
        self.between(*pairs.T, np.tile(kinds, len(pairs) // len(kinds)))
        return self.between(*ends.T, self.kinds.of_slot[triples[:, RELATION]])


class Trix(Published):
    """The checkpoints of TRIX."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "TRIX", {"relations": (OF_RELATIONS, OF_ENTITIES)})
        self.relations, checkout = self.settings["relations"], self.checkout
        stand_ins: dict[str, dict[str, object]] = {
            "torch_scatter": {"scatter": scatter_add, "scatter_add": scatter_add},
            "torch_geometric.utils.degree": {},
            "trix.rspmm": {"generalized_rspmm": rspmm},
        }
        layers = [{**KIND, "hidden_dims": [KIND["input_dim"]] * number} for number in range(5)]
        entities, relations = (
            imported(checkout / "src", ADDRESS, f"trix.models_{kind}", stand_ins) for kind in ("entity", "relation")
        )
        self.models = {
            OF_ENTITIES: entities.TRIX(layers[3], layers[2], layers[4]),
            OF_RELATIONS: relations.TRIX(layers[2], layers[2], LAYERS),
        }
        used = dict.fromkeys((OF_ENTITIES, self.relations))
        for name in used:
            self.load(name)
        self.info = ModelInfo(
            "trix" if len(used) > 1 else "trix-entities",
            hyperparameters={
                "relations": self.relations,
                **{f"{name}_sha256": file_hash(checkout / name) for name in used},
            },
            pretraining_graphs=("FB15k-237", "WN18RR", "CoDEx-Medium"),
            url=ADDRESS,
            commit=commit(checkout),
        )

    def load(self, name: str) -> None:
        """Give a network the weights of its checkpoint."""
        found = weights(self.checkout / name, ADDRESS)["model"]
        parts = [(*key.partition("."), values) for key, values in found.items()]
        called = {f"{SINCE[name].get(model, model)}.{rest}": values for model, _, rest, values in parts}
        self.models[name].load_state_dict(called)
        self.models[name].eval()

    def scorer(self, observable: Split) -> Answers:
        """Return what asks TRIX for each answer on a graph once."""
        kinds = Kinds(observable)
        graph = Graph(twins(kinds.triples, observable.num_entities, 2 * kinds.half), 2 * kinds.half)
        with torch.inference_mode():
            entities = Queries(Entities(self.models[OF_ENTITIES], graph), AT_ONCE)
        if self.relations == OF_ENTITIES:
            return Answers(entities, observable, self.workdir, self.made_of)
        relations = RelationQueries(Relations(self.models[OF_RELATIONS], graph))
        return WithRelations(entities, relations, observable, self.workdir, self.made_of)


build = Trix
