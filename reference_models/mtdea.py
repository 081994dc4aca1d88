"""MTDEA: double equivariance within soft tasks of relations, with test-time adaptation of the tasks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from mtbench.training.models import Context
from reference_models.double_equivariant import DoubleEquivariantModel
from reference_models.equivariant.network import Architecture, TripleNetwork
from reference_models.equivariant.slotwise import SlotwiseGIN, SlotwiseNodes
from reference_models.equivariant.soft import Input, SoftGIN, SoftLinear
from reference_models.graphs.graph import Receivers, TypedGraph
from reference_models.graphs.reach import kinds
from reference_models.layers.basic import RowNorm
from reference_models.layers.sums import expand
from reference_models.training.recipe import Recipe, read, refuse


class MTDEA(TripleNetwork):
    """The multi-task double-equivariant network (the paper's section 4); attention comes from outside.

    Layers are factorised (`equivariant.soft`) where they are read as usual, and else computed slot by slot
    (`equivariant.slotwise`). The epsilons of the GINs are 0 unless they are learned.
    """

    uses_attention = True

    def __init__(self, architecture: Architecture, *, learn_epsilon: bool = False) -> None:
        super().__init__(architecture, norms=architecture.gin_layers + 2)
        sizes, width, tasks = architecture, architecture.width, architecture.tasks
        factorised = sizes.mean == "literal" and sizes.adjacency == "others" and not learn_epsilon
        single = sizes.mean == "literal" and sizes.linear_layers == "single"
        widths = [1] + [width] * (sizes.gin_layers - 1)
        gins = [
            SoftGIN(width_in, width, tasks) if factorised else SlotwiseGIN(sizes, width_in, learn_epsilon=learn_epsilon)
            for width_in in widths
        ]
        nodewise = [SoftLinear(width, tasks) if single else SlotwiseNodes(sizes) for _ in range(2)]
        self.layers = nn.ModuleList([*gins, *nodewise])

    def represent(self, graph: TypedGraph, attention: Tensor | None, nodes: Tensor | None = None) -> Input:
        """Return the representations ``(N, R, d)`` of every node under every relation slot, the last norm pending.

        Batch norm follows every layer; ReLU stands between GIN layers and between linear layers only. To save time and
        memory, norms and activations are applied where the next layer reads its input, and a factorised first layer,
        fed with a constant, is computed once per kind of node and slot. With ``nodes``, in increasing order, only
        theirs are returned; in training the batch statistics behind the first layer are then over these nodes.
        """
        layers = self.architecture.gin_layers
        onto = graph.everyone if nodes is None else graph.onto(nodes)
        rows = self.layers[0].of_constant(graph, attention)  # type: ignore[operator]
        counts = kinds(graph).counts if rows.dim() == 2 else None
        features = self._normed(0, rows, rectified=layers > 1, counts=counts)
        for index in range(1, layers):
            last = index == layers - 1
            values = self._gin(index, features.whole(), graph, onto if last else graph.everyone, attention)
            features = self._normed(index, values, rectified=not last)
        if layers == 1:
            whole = features.whole()
            features = Input(onto.of(expand(whole, kinds(graph)) if whole.dim() == 2 else whole))
        for index in (layers, layers + 1):
            features = self._normed(index, self.layers[index](features, attention), rectified=index == layers)
        return replace(features, nodes=nodes)

    def _gin(self, index: int, rows: Tensor, graph: TypedGraph, onto: Receivers, attention: Tensor | None) -> Tensor:
        """Apply GIN layer ``index`` without norm or activation: to rows per kind ``(D, d)``, or to ``(N, R, d)``."""
        layer: Any = self.layers[index]
        if rows.dim() == 2:
            return self.through(layer.of_kinds, rows, graph, onto, attention)
        return self.through(layer, rows, onto, attention)

    def _normed(self, index: int, values: Tensor, *, rectified: bool, counts: Tensor | None = None) -> Input:
        norm = self.norms[index]
        assert isinstance(norm, RowNorm)
        rows, scale, shift = norm.as_affine(values.view(-1, values.shape[-1]), counts)
        return Input(rows.view(values.shape), scale, shift, rectified)


def build(context: Context) -> DoubleEquivariantModel:
    """Return MTDEA for a run, with the recipe of the run's dataset."""
    return _model("mtdea", context, read(Recipe, "mtdea", context.dataset, context.settings))


def build_search(context: Context) -> DoubleEquivariantModel:
    """Return MTDEA with our search of the assignment of relations to tasks, which the paper does not have.

    The rest is MTDEA's recipe. Raises `UsageError` for a setting that turns the search off.
    """
    recipe = read(Recipe, "mtdea", context.dataset, {"reassign": "true", **context.settings})
    refuse("mtdea-search", recipe, reassign=True)
    return _model("mtdea-search", context, recipe)


def _model(name: str, context: Context, recipe: Recipe) -> DoubleEquivariantModel:
    make = partial(MTDEA, learn_epsilon=recipe.learn_epsilon)
    return DoubleEquivariantModel(f"{name}-k{recipe.tasks}", context, recipe, make)
