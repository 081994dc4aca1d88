"""MOTIF (Huang et al. 2025) zero-shot: ``mtbench run leaderboard.external.motif:build --set checkout=DIR``.

``checkout`` is a folder with the authors' repository. Entities are scored by a network like ULTRA's, but relations are
represented by how they meet: two at an entity, or three along a path. A head is asked for as in the authors' code: the
query starts at t, by the inverse of r, and relations are represented as seen from that inverse.

A path of relations (a, f, b) is an edge u -f-> v where u is the head of a and v the head of b; that u or v is a tail
instead makes the other three kinds of paths, and since every relation has its inverse, they are the same paths by other
names. These may be millions. A relation on a path gets the product of the other two: for each a and f, states of b are
added up first, and then multiplied once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leaderboard.external import ultra
from leaderboard.external.propagation import RelationalSum, Theirs, rspmm, scatter_add
from leaderboard.external.queries import Kinds, Published, commit, imported, load
from mtbench.files.hashing import file_hash
from mtbench.names import HEAD, RELATION, TAIL
from mtbench.training.models import Context, ModelInfo

ADDRESS = "https://github.com/HxyScotthuang/MOTIF"
CHECKPOINT = "motif_3g.pth"
AT_ONCE = 2**29
"""Numbers that representations of relations may hold at a time: 2 GB."""


class Motifs:
    """How the relations of a graph and their inverses meet.

    ``meet`` ``(kinds, kinds)`` is 1 for two relations with a common head. ``ends`` sums over the paths that begin with
    a relation, and ``middles`` over those that it is in the middle of.
    """

    def __init__(self, kinds: Kinds, nodes: int, device: torch.device) -> None:
        self.half = kinds.half
        heads, relations, tails = (torch.tensor(kinds.triples[:, column]) for column in (HEAD, RELATION, TAIL))
        at = torch.zeros(nodes, 2 * kinds.half)
        at[heads, relations] = 1
        at[tails, relations + kinds.half] = 1
        self.meet = (at.T @ at > 0).float().to(device)
        middle, first, last = [], [], []
        for kind in range(kinds.half):
            along = relations == kind
            begin, end = (at[heads[along]].T @ at[tails[along]]).nonzero().T.numpy()
            middle += [np.full(len(begin), kind), np.full(len(begin), kind + kinds.half)]
            first += [begin, end]
            last += [end, begin]
        paths = np.concatenate(middle), np.concatenate(first), np.concatenate(last)
        of_middle, of_first, of_last = paths
        once, number = np.ones_like(of_middle), 2 * kinds.half
        self.ends = RelationalSum((of_first, of_middle, of_last, once), number, number, device)
        self.middles = RelationalSum((of_middle, of_first, of_last, once), number, number, device)

    def sums(self, state: Tensor, places: Tensor) -> Iterator[Tensor]:
        """Yield what relations get by each of the seven ways to meet, from their states ``(kinds, q, d)``.

        The ways are in the authors' order: head and head, tail and tail, head and tail; and of paths, tail and head,
        tail and tail, head and tail, head and head. ``places`` ``(3, d)`` tell the relations of a motif apart.
        """
        one, two, three = places
        other = state.roll(self.half, 0)

        def met(values: Tensor) -> Tensor:
            return (self.meet @ values.flatten(1)).view_as(values)

        def inverse(values: Tensor) -> Tensor:
            return values.roll(self.half, 0)

        yield met(2 * state + one + two)
        yield inverse(met(2 * other + one + two))
        yield met(other + two) + inverse(met(state + one))
        # By the last two relations of a path for the first; by the first two for the last, on the path that leads back.
        by_heads, by_tails = (self.ends(state + two, values + three) for values in (state, other))
        from_heads, from_tails = (self.ends(other + two, values + one) for values in (state, other))
        yield inverse(by_heads) + self.middles(other + one, state + three) + from_tails
        yield inverse(by_tails) + self.middles(other + one, other + three) + inverse(from_tails)
        yield by_tails + self.middles(state + one, other + three) + inverse(from_heads)
        yield by_heads + self.middles(state + one, state + three) + from_heads


class Relations(nn.Module):
    """The authors' network of relations, with its sums by `Motifs`."""

    def __init__(self, theirs: Theirs) -> None:
        super().__init__()
        self.theirs = theirs

    def forward(self, motifs: Motifs, query: Tensor) -> Tensor:
        """Return the states ``(q, kinds, d)`` of all relations as some of them see them."""
        width = len(self.theirs.layers[0].linear.bias)
        step = max(1, AT_ONCE // (2 * width * len(motifs.ends.kind)))
        return torch.cat([self._seen_from(motifs, some, width) for some in torch.split(query, step)], dim=1).transpose(
            0, 1
        )

    def _seen_from(self, motifs: Motifs, query: Tensor, width: int) -> Tensor:
        state = torch.zeros(len(motifs.meet), len(query), width, device=query.device)
        state[query, torch.arange(len(query), device=query.device)] = 1
        for layer in self.theirs.layers:
            by, summed = layer.rel_embedding.weight, torch.zeros_like(state)
            for number, values in enumerate(motifs.sums(state, layer.pos_embedding.weight[1:4])):
                summed += by[number] * values
            state = state + torch.relu(layer.norm(layer.linear(torch.cat((summed, state), dim=-1))))
        states: Tensor = self.theirs.mlp(state)
        return states


class Motif(ultra.Ultra):
    """The checkpoint of MOTIF."""

    def __init__(self, context: Context) -> None:
        Published.__init__(self, context, "MOTIF", {"checkpoint": (CHECKPOINT,)})
        self.heads = "tail"
        stand_ins: dict[str, dict[str, object]] = {
            "torch_scatter": {"scatter": scatter_add, "scatter_add": scatter_add},
            "motif.rspmm": {"generalized_rspmm": rspmm},
            "motif.util": {
                "static_positional_encoding": lambda places, size: torch.zeros(places + 1, size),
                **dict.fromkeys(("coo_to_csr", "preprocess_triton_hypergraph")),
            },
        }
        models = imported(self.checkout, ADDRESS, "motif.models", stand_ins)
        file = self.checkout / "ckpts" / CHECKPOINT
        relations = {"input_dim": ultra.KIND["input_dim"], "hidden_dims": ultra.KIND["hidden_dims"]}
        entities = {**ultra.KIND, "short_cut": True, "layer_norm": True}
        self.model: Any = models.MOTIF({"class": "HCNet", **relations}, {"class": "IndNBFNet", **entities})
        load(self.model, file, ADDRESS, "model")
        self.model.relation_model = Relations(self.model.relation_model)
        self.model.eval()
        self.info = ModelInfo(
            "motif",
            hyperparameters={"checkpoint": CHECKPOINT, "checkpoint_sha256": file_hash(file)},
            device=self.device.type,
            pretraining_graphs=ultra.THREE,
            url=ADDRESS,
            commit=commit(self.checkout),
        )

    def relation_graph(self, kinds: Kinds, nodes: int, device: torch.device) -> Motifs:
        """Return how the relations of a graph and their inverses meet."""
        return Motifs(kinds, nodes, device)


build = Motif
