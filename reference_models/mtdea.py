"""MTDEA: double equivariance within soft tasks of relations, with test-time adaptation of the tasks."""

from __future__ import annotations

from torch import Tensor, nn

from mtbench.experiments.models import Context
from reference_models.double_equivariant import DoubleEquivariantModel
from reference_models.equivariant.linear import SoftLinear, SoftPerceptron
from reference_models.equivariant.network import Architecture, EquivariantNetwork
from reference_models.equivariant.soft import Input, SoftGIN
from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.training.recipe import Recipe, load, refuse


class MTDEA(EquivariantNetwork):
    """The multi-task double-equivariant network (the paper's section 4); attention comes from outside."""

    uses_attention = True

    def __init__(self, architecture: Architecture, *, learn_epsilon: bool = False) -> None:
        super().__init__(architecture)
        width, tasks, reading = architecture.width, architecture.tasks, architecture.reading
        nodewise = SoftPerceptron if architecture.perceptrons else SoftLinear
        self.layers = nn.ModuleList(
            [
                *(
                    SoftGIN(1 if index == 0 else width, width, tasks, reading, learn_epsilon=learn_epsilon)
                    for index in range(architecture.gin_layers)
                ),
                nodewise(width, tasks, reading),
                nodewise(width, tasks, reading),
            ]
        )

    def first_layer(self, graph: TypedGraph, attention: Tensor | None) -> Tensor:
        """Apply the first soft layer under the attention ``(R, K)`` to the constant input."""
        return self.layers[0].of_constant(graph, attention)  # type: ignore[no-any-return, operator]

    def gin_layer(self, index: int, features: Tensor, onto: Receivers, attention: Tensor | None) -> Tensor:
        """Apply a GIN soft layer under the attention ``(R, K)``."""
        return self.layers[index](features, onto, attention)  # type: ignore[no-any-return]

    def linear_layer(self, index: int, features: Input, attention: Tensor | None) -> Tensor:
        """Apply a linear soft layer under the attention ``(R, K)``."""
        return self.layers[index](features, attention)  # type: ignore[no-any-return]


def build(context: Context) -> DoubleEquivariantModel:
    """Return MTDEA for a run, with the recipe of the run's dataset."""
    return _model("mtdea", context, load("mtdea", context.dataset, context.settings))


def build_search(context: Context) -> DoubleEquivariantModel:
    """Return MTDEA with a search of the assignment of relations to tasks, which is ours and not the paper's.

    All else is MTDEA's recipe. Raises `UsageError` for the setting that would take the search away.
    """
    recipe = load("mtdea", context.dataset, {"reassign": "true", **context.settings})
    refuse("mtdea-search", recipe, reassign=True)
    return _model("mtdea-search", context, recipe)


def _model(name: str, context: Context, recipe: Recipe) -> DoubleEquivariantModel:
    return DoubleEquivariantModel(
        f"{name}-k{recipe.tasks}", context, recipe, lambda sizes: MTDEA(sizes, learn_epsilon=recipe.learn_epsilon)
    )
