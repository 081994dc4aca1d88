"""ISDEA: one relation against the mean of all others, the double-equivariant baseline."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from mtbench.training.models import Context
from reference_models.double_equivariant import DoubleEquivariantModel
from reference_models.equivariant.mean import EquivariantGIN, EquivariantLinear, EquivariantPerceptron, Late, Table
from reference_models.equivariant.network import Architecture, TripleNetwork
from reference_models.graphs.graph import TypedGraph
from reference_models.graphs.reach import reach
from reference_models.layers.basic import RowNorm
from reference_models.training.recipe import Recipe, read, refuse


class ISDEA(TripleNetwork):
    """The double-equivariant network: one task, no attention (Gao et al. 2023).

    Batch norm follows every layer, over all nodes and slots; ReLU stands between GIN layers and between linear
    layers only.
    """

    uses_attention = False

    def __init__(self, architecture: Architecture, *, learn_epsilon: bool = True) -> None:
        super().__init__(architecture, norms=architecture.gin_layers + 2)
        width = architecture.width
        widths = [1] + [width] * (architecture.gin_layers - 1)
        gins = [EquivariantGIN(width_in, width, learn_epsilon=learn_epsilon) for width_in in widths]
        nodewise = EquivariantPerceptron if architecture.linear_layers == "perceptron" else EquivariantLinear
        self.layers = nn.ModuleList([*gins, nodewise(width), nodewise(width)])

    def represent(self, graph: TypedGraph, attention: Tensor | None, nodes: Tensor | None = None) -> Table | Late:
        """Return the representations of all nodes under all slots; ``attention`` and ``nodes`` are not used."""
        layers = self.architecture.gin_layers
        reached = reach(graph, layers)
        table = self._normed(0, self.layers[0].of_constant(reached), rectified=layers > 1)  # type: ignore[operator]
        for index, links in enumerate(reached.links, 1):
            features: Any = self.through(self.layers[index], table, links)
            table = self._normed(index, features, rectified=index < layers - 1)
        table = self._normed(layers, self.layers[layers](table), rectified=True)
        last, norm = self.layers[-1], self.norms[-1]
        if self.training and isinstance(last, EquivariantLinear):
            assert isinstance(norm, RowNorm)
            return last.late(table, norm)
        return self._normed(layers + 1, last(table), rectified=False)

    def _normed(self, index: int, table: Table, *, rectified: bool) -> Table:
        norm = self.norms[index]
        assert isinstance(norm, RowNorm)
        values, *affine = norm.as_affine(table.values, table.counts)
        return replace(table, values=values, affine=affine, rectified=rectified)


def build(context: Context) -> DoubleEquivariantModel:
    """Return ISDEA for a run, with the recipe of the run's dataset."""
    recipe = read(Recipe, "isdea", context.dataset, context.settings)
    refuse("isdea", recipe, tasks=1, statistics="graph", adjacency="others", mean="literal")
    return DoubleEquivariantModel("isdea", context, recipe, partial(ISDEA, learn_epsilon=recipe.learn_epsilon))
