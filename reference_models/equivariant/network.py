"""The networks: equivariant layers, an optional distance table and a two-layer head per triple."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from reference_models.equivariant.soft import Input
from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.layers.basic import Linear, RowNorm, uniform_
from reference_models.layers.readings import Reading
from reference_models.layers.sums import expand


@dataclass(frozen=True)
class Architecture:
    """The sizes of a network: hidden width, GIN layers, tasks, and distance hops (0: no distances).

    ``reading`` says how the soft layers read the paper, ``perceptrons`` whether the layers after the GIN
    layers are perceptrons instead of linear maps. With ``checkpointing`` the GIN layers are computed again
    in the backward pass, and nothing of theirs but the output is kept until then.
    """

    width: int
    gin_layers: int
    tasks: int
    hops: int
    reading: Reading = field(default_factory=Reading)
    perceptrons: bool = False
    checkpointing: bool = False


class Features(Protocol):
    """Representations of every node, or of some, under every relation slot, however they are kept."""

    @property
    def values(self) -> Tensor:
        """The rows that are kept."""
        ...

    def at(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the features ``(*, d)`` of nodes ``(*,)`` under slots ``(*,)``."""
        ...

    def whole(self) -> Tensor:
        """Return all of them, ``(N, R, d)``."""
        ...


class TripleNetwork(nn.Module):
    """Scores triples from per-relation node representations, and from distances where ``hops`` is positive.

    Subclasses say how representations come about, whether they need the attention ``(R, K)`` of relation
    slots to tasks, and whether they tell relations apart at all. The input is the constant 1 of width 1 for
    every node and slot, so nothing about a node or a relation but its place in the graph is ever used.
    """

    uses_attention: bool
    sees_relations: bool = True

    def __init__(self, architecture: Architecture, norms: int) -> None:
        super().__init__()
        width = architecture.width
        self.architecture = architecture
        self.norms = nn.ModuleList(RowNorm(width) for _ in range(norms))
        self.head = nn.Sequential(Linear(width * (4 if architecture.hops else 2), width), nn.ReLU(), Linear(width, 1))
        if architecture.hops:
            self.distances = nn.Parameter(uniform_(torch.empty(architecture.hops + 2, width), 1, width))

    @abstractmethod
    def represent(self, graph: TypedGraph, attention: Tensor | None, nodes: Tensor | None = None) -> Features:
        """Return the representations ``(N, R, d)`` of every node under every relation slot.

        A network that does not tell relations apart returns ``(N, 1, d)``. With ``nodes``, in increasing
        order, only theirs need be returned.
        """

    def score(self, features: Features, triples: Tensor, distances: Tensor | None) -> Tensor:
        """Return logits of shape ``(*,)`` for triples ``(*, 3)`` and distances ``(*, 2)``, both ways."""
        heads, slots, tails = triples.unbind(dim=-1)
        if not self.sees_relations:
            slots = torch.zeros_like(slots)
        parts = list(features.at(torch.stack([heads, tails]), slots).unbind(dim=0))
        if distances is not None:
            parts += [_pick(self.distances, distances[..., 0]), _pick(self.distances, distances[..., 1])]
        return self.head(torch.cat(parts, dim=-1)).squeeze(-1)  # type: ignore[no-any-return]


class EquivariantNetwork(TripleNetwork):
    """Double-equivariant GIN layers and two linear ones, each followed by batch norm."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__(architecture, norms=architecture.gin_layers + 2)

    @abstractmethod
    def first_layer(self, graph: TypedGraph, attention: Tensor | None) -> Tensor:
        """Apply the first layer to the constant input: a row per kind of the graph ``(D, d)``, or all ``(N, R, d)``."""

    @abstractmethod
    def gin_layer(self, index: int, features: Tensor, onto: Receivers, attention: Tensor | None) -> Tensor:
        """Apply GIN layer ``index`` without norm or activation: ``(N, R, d)`` to ``(M, R, d)`` for M receivers."""

    @abstractmethod
    def linear_layer(self, index: int, features: Input, attention: Tensor | None) -> Tensor:
        """Apply linear layer ``index``, which stands after the GIN layers, without norm or activation."""

    def represent(self, graph: TypedGraph, attention: Tensor | None, nodes: Tensor | None = None) -> Input:
        """Return the representations ``(N, R, d)`` of every node under every relation slot, the last norm pending.

        Batch norm follows every layer; ReLU stands between GIN layers and between linear layers only.
        Norms and activations are applied where the next layer reads its input, and the first layer, fed
        with a constant, is computed once per kind of node and slot: all of it only saves time and memory.
        With ``nodes``, in increasing order, only theirs are returned; not in training, where the batch
        statistics are those of all nodes.
        """
        if nodes is not None and self.training:
            raise ValueError("batch statistics need all nodes: in training, leave out nodes")
        layers = self.architecture.gin_layers
        onto = graph.everyone if nodes is None else graph.onto(nodes)
        rows = self.first_layer(graph, attention)
        counts = graph.kinds.counts if rows.dim() == 2 else None
        rows = self._normed(0, rows, rectified=layers > 1, counts=counts).whole()
        features = Input(expand(rows, graph) if rows.dim() == 2 else rows)
        for index in range(1, layers):
            last = index == layers - 1
            values = self._gin(index, features.whole(), onto if last else graph.everyone, attention)
            features = self._normed(index, values, rectified=not last)
        if layers == 1:
            features = Input(onto.of(features.values))
        for index in (layers, layers + 1):
            values = self.linear_layer(index, features, attention)
            features = self._normed(index, values, rectified=index == layers)
        return replace(features, nodes=nodes)

    def _gin(self, index: int, features: Tensor, onto: Receivers, attention: Tensor | None) -> Tensor:
        if not (self.architecture.checkpointing and torch.is_grad_enabled()):
            return self.gin_layer(index, features, onto, attention)
        inputs = (index, features, onto, attention)
        return checkpoint(self.gin_layer, *inputs, use_reentrant=False, preserve_rng_state=False)  # type: ignore[no-any-return]

    def _normed(self, index: int, values: Tensor, *, rectified: bool, counts: Tensor | None = None) -> Input:
        norm = self.norms[index]
        assert isinstance(norm, RowNorm)
        rows, scale, shift = norm.as_affine(values.view(-1, values.shape[-1]), counts)
        return Input(rows.view(values.shape), scale, shift, rectified)


def _pick(rows: Tensor, places: Tensor) -> Tensor:
    """Return ``rows[places]``; unlike indexing, its gradient adds up in the same order on every run."""
    return rows.index_select(0, places.reshape(-1)).view(*places.shape, -1)


def attention_logits(slots: int, tasks: int, device: torch.device) -> nn.Parameter:
    """Return fresh task logits w ``(R, K)`` from U(+-sqrt(6 / (R + K))): zeros would put all relations in one task."""
    return nn.Parameter(uniform_(torch.empty(slots, tasks), slots, tasks).to(device))
