"""MTDEA as its formula reads, to time ours against: a loop over relations and tasks, sparse sums, single precision.

It uses the weights of a network of ours. Everything a loop can prepare is prepared before it is timed (the
sparse matrix of every relation's edges and of all others', with their transposes), each context is one
weighted sum over the relations, and features are laid out relation by relation, as such a loop wants them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from reference_models.equivariant.network import EquivariantNetwork
from reference_models.equivariant.soft import Input
from reference_models.graphs.graph import TypedGraph
from reference_models.graphs.operators import Operator

Relation = Callable[[int, Tensor, Tensor], Tensor]


class LiteralLoop:
    """Represents the nodes of one graph with the weights of a network, under reading A.

    With ``recompute`` each relation is computed again in the backward pass: less memory, more time.
    """

    def __init__(self, network: EquivariantNetwork, graph: TypedGraph, *, recompute: bool) -> None:
        self.network, self.graph, self.recompute = network, graph, recompute
        self.own = [self._operator(graph.slots == slot) for slot in range(graph.num_slots)]
        self.rest = [self._operator(graph.slots != slot) for slot in range(graph.num_slots)]

    def _operator(self, kept: Tensor) -> Operator:
        shape = (self.graph.num_nodes, self.graph.num_nodes)
        return Operator.from_edges(self.graph.tails[kept], self.graph.heads[kept], shape, self.graph.dtype)

    def represent(self, graph: TypedGraph, attention: Tensor, nodes: None = None) -> Input:
        """Return the representations ``(N, R, d)`` under the attention ``(R, K)``."""
        assert graph is self.graph
        layers, gin_layers = list(self.network.layers), self.network.architecture.gin_layers
        features = attention.new_ones(graph.num_slots, graph.num_nodes, 1)
        for index, (layer, norm) in enumerate(zip(layers, self.network.norms, strict=True)):
            one = self._gin(layer) if index < gin_layers else self._linear(layer)
            slots = [self._run(one, slot, features, attention) for slot in range(graph.num_slots)]
            rows = torch.stack(slots).flatten(0, 1)
            # Not the library's batch norm: on the CPU its single-precision sums over so many rows are off by 1 %.
            variance, mean = torch.var_mean(rows, dim=0, correction=0)
            rows = torch.addcmul(norm.bias, rows - mean, norm.weight * (variance + norm.eps).rsqrt())
            if index + 1 not in (gin_layers, len(layers)):
                rows = torch.relu(rows)
            features = rows.view(graph.num_slots, graph.num_nodes, -1)
        return Input(features.transpose(0, 1).contiguous())

    def _run(self, one: Relation, slot: int, features: Tensor, attention: Tensor) -> Tensor:
        if self.recompute:
            return checkpoint(one, slot, features, attention, use_reentrant=False)
        return one(slot, features, attention)

    def _gin(self, layer: nn.Module) -> Relation:
        def one(slot: int, features: Tensor, attention: Tensor) -> Tensor:
            out = layer.own(features[slot] + self.own[slot] @ features[slot])
            for task, module in enumerate(_modules(layer, slot, attention)):
                seen = layer.positions[task] + context(features, attention, slot, task)
                out = out + module(seen + self.rest[slot] @ seen)
            return out

        return one

    def _linear(self, layer: nn.Module) -> Relation:
        def one(slot: int, features: Tensor, attention: Tensor) -> Tensor:
            out = layer.own(features[slot])
            for task, module in enumerate(_modules(layer, slot, attention)):
                out = out + module(layer.positions[task] + context(features, attention, slot, task))
            return out

        return one


def context(features: Tensor, attention: Tensor, slot: int, task: int) -> Tensor:
    """Return S_rk, the mean over the other relations of their features times their share in task k."""
    others = torch.ones_like(attention[:, task])
    others[slot] = 0
    return torch.tensordot(attention[:, task] * others, features, dims=1) / (len(attention) - 1)


def _modules(layer: nn.Module, slot: int, attention: Tensor) -> list[nn.Module]:
    assigned = int(attention[slot].argmax())
    return [layer.same_task if task == assigned else layer.other_tasks for task in range(attention.shape[1])]
