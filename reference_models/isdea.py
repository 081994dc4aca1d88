"""ISDEA: one relation against the mean of all others, the double-equivariant baseline."""

from __future__ import annotations

from torch import Tensor, nn

from mtbench.errors import UsageError
from mtbench.experiments.models import Context
from reference_models.double_equivariant import DoubleEquivariantModel
from reference_models.equivariant.mean import EquivariantGIN, EquivariantLinear, EquivariantPerceptron
from reference_models.equivariant.network import Architecture, EquivariantNetwork
from reference_models.equivariant.soft import Input
from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.training.recipe import load, refuse


class ISDEA(EquivariantNetwork):
    """The double-equivariant network: one task, no attention (Gao et al. 2023)."""

    uses_attention = False

    def __init__(self, architecture: Architecture, *, learn_epsilon: bool) -> None:
        super().__init__(architecture)
        width, mean = architecture.width, architecture.reading.mean
        nodewise = EquivariantPerceptron if architecture.perceptrons else EquivariantLinear
        self.layers = nn.ModuleList(
            [
                *(
                    EquivariantGIN(1 if index == 0 else width, width, learn_epsilon=learn_epsilon, mean=mean)
                    for index in range(architecture.gin_layers)
                ),
                nodewise(width, mean),
                nodewise(width, mean),
            ]
        )

    def first_layer(self, graph: TypedGraph, attention: Tensor | None) -> Tensor:
        """Apply the first layer to the constant input; ``attention`` is not used, here and below."""
        return self.layers[0].of_constant(graph)  # type: ignore[no-any-return, operator]

    def gin_layer(self, index: int, features: Tensor, onto: Receivers, attention: Tensor | None) -> Tensor:
        """Apply a GIN layer."""
        return self.layers[index](features, onto)  # type: ignore[no-any-return]

    def linear_layer(self, index: int, features: Input, attention: Tensor | None) -> Tensor:
        """Apply a linear layer."""
        return self.layers[index](features)  # type: ignore[no-any-return]


def build(context: Context) -> DoubleEquivariantModel:
    """Return ISDEA for a run, with the recipe of the run's dataset."""
    recipe = load("isdea", context.dataset, context.settings)
    if recipe.tasks != 1:
        raise UsageError(f"isdea has one task, not {recipe.tasks}: run mtdea with --set tasks={recipe.tasks}")
    refuse("isdea", recipe, adjacency="others", assignment="hard")
    return DoubleEquivariantModel(
        "isdea", context, recipe, lambda sizes: ISDEA(sizes, learn_epsilon=recipe.learn_epsilon)
    )
