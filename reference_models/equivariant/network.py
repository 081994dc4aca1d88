"""The networks: equivariant layers, an optional distance table and a two-layer head per triple."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from reference_models.graphs.graph import TypedGraph
from reference_models.layers.basic import Linear, RowNorm, uniform_


@dataclass(frozen=True)
class Architecture:
    """The sizes of a network: hidden width, GIN layers, tasks, and distance hops (0: no distances).

    ``adjacency``, ``mean`` and ``linear_layers`` say how the paper's formula is read (`docs/models.md`, What is open).
    With ``checkpointing`` only the outputs of the GIN layers are kept, which are computed again in the backward pass.
    """

    width: int
    gin_layers: int
    tasks: int
    hops: int
    checkpointing: bool = False
    adjacency: str = "others"
    mean: str = "literal"
    linear_layers: str = "single"


class Features(Protocol):
    """Representations of all nodes, or some, under every relation slot, in any layout."""

    @property
    def values(self) -> Tensor:
        """The rows as they are stored."""
        ...

    def at(self, nodes: Tensor, slots: Tensor) -> Tensor:
        """Return the features ``(*, d)`` of nodes ``(*,)`` under slots ``(*,)``."""
        ...

    def whole(self) -> Tensor:
        """Return all of them, ``(N, R, d)``."""
        ...


class TripleNetwork(nn.Module):
    """Scores triples from per-relation node representations, and from distances where ``hops`` is positive.

    Subclasses define how representations are computed, whether that needs the attention ``(R, K)`` of relation slots
    to tasks, and whether relations are told apart at all. The input is the constant 1 of width 1 for every node and
    slot: a node or relation is known by its place in the graph alone.
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

        A network that does not tell relations apart returns ``(N, 1, d)``. With ``nodes``, in increasing order, those
        of other nodes may be left out.
        """

    def through(self, layer: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Return ``layer(*inputs)``, computed again in the backward pass where the architecture asks for it."""
        if not (self.architecture.checkpointing and torch.is_grad_enabled()):
            return layer(*inputs)
        return checkpoint(layer, *inputs, use_reentrant=False, preserve_rng_state=False)  # type: ignore[no-any-return]

    def score(self, features: Features, triples: Tensor, distances: Tensor | None) -> Tensor:
        """Return logits ``(*,)`` of triples ``(*, 3)``, with distances ``(*, 2)`` from head to tail and back."""
        heads, slots, tails = triples.unbind(dim=-1)
        if not self.sees_relations:
            slots = torch.zeros_like(slots)
        parts = list(features.at(torch.stack([heads, tails]), slots).unbind(dim=0))
        if distances is not None:
            parts += [_pick(self.distances, distances[..., 0]), _pick(self.distances, distances[..., 1])]
        return self.head(torch.cat(parts, dim=-1)).squeeze(-1)  # type: ignore[no-any-return]


def _pick(rows: Tensor, places: Tensor) -> Tensor:
    """Return ``rows[places]``; unlike that of indexing, its gradient is added up in the same order on every run."""
    return rows.index_select(0, places.reshape(-1)).view(*places.shape, -1)


def attention_logits(slots: int, tasks: int, device: torch.device) -> nn.Parameter:
    """Draw task logits w ``(R, K)`` from U(+-sqrt(6 / (R + K))); zeros would put all relations into one task."""
    return nn.Parameter(uniform_(torch.empty(slots, tasks), slots, tasks).to(device))
