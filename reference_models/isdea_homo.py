"""ISDEA-homo: all relations treated alike, the baseline that cannot tell two relations apart."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from mtbench.training.models import Context
from reference_models.double_equivariant import DoubleEquivariantModel
from reference_models.equivariant.network import Architecture, TripleNetwork
from reference_models.equivariant.soft import Input
from reference_models.graphs.graph import TypedGraph
from reference_models.layers.basic import Perceptron
from reference_models.training.recipe import Recipe, read, refuse


class ISDEAHomo(TripleNetwork):
    """A plain GIN stack on the edges without their types, under the same head (`docs/models.md`, ISDEA-homo)."""

    uses_attention = False
    sees_relations = False

    def __init__(self, architecture: Architecture, *, learn_epsilon: bool = True) -> None:
        super().__init__(architecture, norms=0)
        width, count = architecture.width, architecture.gin_layers
        self.layers = nn.ModuleList(Perceptron(1 if index == 0 else width, width) for index in range(count))
        self.epsilon = nn.Parameter(torch.zeros(count), requires_grad=learn_epsilon)

    def represent(self, graph: TypedGraph, attention: Tensor | None, nodes: Tensor | None = None) -> Input:
        """Return the representations ``(N, 1, d)`` of every node; ReLU stands between layers, and no batch norm."""
        features = torch.ones(graph.num_nodes, 1, dtype=graph.dtype, device=graph.heads.device)
        for index, layer in enumerate(self.layers):
            features = torch.relu(features)  # does not change the constant input
            features = layer((1 + self.epsilon[index]) * features + graph.union @ features)
        return Input((features if nodes is None else features[nodes]).unsqueeze(1), nodes=nodes)


def build(context: Context) -> DoubleEquivariantModel:
    """Return ISDEA-homo for a run, with the recipe of the run's dataset."""
    recipe = read(Recipe, "isdea-homo", context.dataset, context.settings)
    only = {"adjacency": "others", "mean": "literal", "linear_layers": "single"}
    refuse("isdea-homo", recipe, tasks=1, statistics="graph", **only)
    make = partial(ISDEAHomo, learn_epsilon=recipe.learn_epsilon)
    return DoubleEquivariantModel("isdea-homo", context, recipe, make)
