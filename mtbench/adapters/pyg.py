"""PyTorch Geometric: a split as the graph its models take, and a model of such graphs as a scorer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mtbench.adapters.requirements import batches, expect, refuse_empty_slots, scoring
from mtbench.data.splits import Split
from mtbench.errors import ScoreError, UsageError
from mtbench.names import HEAD, RELATION, TAIL, IntArray, ScoreFunction
from mtbench.ranking.scorers import batch_limit

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch_geometric.data import Data

    GraphFunction: TypeAlias = Callable[[Data, Tensor], Tensor]

TENSORS = ("edge_index", "edge_type", "target_edge_index", "target_edge_type")
KNOWN_TENSORS = ("known_edge_index", "known_edge_type")
BATCH_SIZE = 1024


def to_pyg(split: Split, *, inverses: bool = True) -> Data:
    """Return a split as the graph object of PyTorch Geometric.

    ``edge_index`` ``(2, n)`` holds heads and tails and ``edge_type`` ``(n,)`` the relations of the
    observable triples, all int64. With ``inverses`` each triple follows once more, all of them after the
    originals, as (tail, r + R, head), and ``num_relations`` is 2R, R being the split's ``num_relations``;
    without, it is R. ``target_edge_index`` ``(2, m)`` and ``target_edge_type`` ``(m,)`` are the missing
    triples and never have inverses, nor have ``known_edge_index`` and ``known_edge_type``, which are there where
    something is known besides (`Split.known`), for a filter. ``num_nodes`` counts the whole vocabulary. Raises
    `MissingExtraError` without PyTorch Geometric.
    """
    expect("a graph of PyTorch Geometric", "torch", "torch_geometric")
    from torch_geometric.data import Data

    factor = 2 if inverses else 1
    return Data(
        num_nodes=split.num_entities, num_relations=factor * split.num_relations, **tensors(split, inverses=inverses)
    )


def tensors(split: Split, *, inverses: bool) -> dict[str, Tensor]:
    """Return the tensors of `to_pyg` by name."""
    import torch

    edges, types = _ends(split.graph), split.graph[:, RELATION]
    if inverses:
        edges = np.concatenate((edges, edges[::-1]), axis=1)
        types = np.concatenate((types, types + split.num_relations))
    arrays = dict(zip(TENSORS, (edges, types, _ends(split.targets), split.targets[:, RELATION]), strict=True))
    if len(split.known):
        arrays |= zip(KNOWN_TENSORS, (_ends(split.known), split.known[:, RELATION]), strict=True)
    # Copied: a tensor would share the split's memory, and a model may write into it.
    return {name: torch.from_numpy(np.array(array, dtype=np.int64, order="C")) for name, array in arrays.items()}


@dataclass(frozen=True)
class BothWays:
    """A model of graphs as a scorer that answers (?, r, t) by another query than (h, r, ?)."""

    score: ScoreFunction
    score_inverses: ScoreFunction


def scorer(
    function: GraphFunction,
    split: Split,
    *,
    data: Data | None = None,
    batch_size: int = BATCH_SIZE,
    device: str | torch.device | None = None,
    empty_slot: float | None = None,
    inverses: bool = False,
) -> ScoreFunction | BothWays:
    """Return a function of triples that asks a model of graphs, to be handed to `mtbench.evaluate`.

    ``function(data, triples)`` returns one score ``(b,)`` per row of the int64 tensor ``triples``
    ``(b, 3)``, columns head, relation, tail; ``data`` is `to_pyg` of the split without its targets, which
    no model should see, or the graph passed here, with whatever a model adds to it. At most ``batch_size``
    triples are scored at a time, without gradients, a module in evaluation mode. ``device`` is where
    graph and triples go; left out, it is where the module's parameters are, else the CPU. With ``inverses``,
    for a graph that has them, an object is returned that asks for the head of (h, r, t) as such models do: by
    the score of (t, r + R, h).

    Relations of empty slots (vocabulary ``slots``) do not exist in such a graph, and their ids are those
    of inverses: they are refused with `UsageError` unless ``empty_slot`` is the score they get. Raises
    `UsageError` for a graph of another size, `ScoreError` for scores of a wrong shape, and
    `MissingExtraError` without PyTorch Geometric.
    """
    expect("a scorer for PyTorch Geometric", "torch", "torch_geometric")
    import torch

    size = batch_limit(batch_size)
    # Data.to moves the tensors of the object it is called on: the caller's stays where it is.
    graph = to_pyg(split.observable()) if data is None else copy.copy(data)
    _expect_same(graph, split)
    if inverses and graph.num_relations != 2 * split.num_relations:
        raise UsageError(f"{split.dataset} {split.name}: the graph has no inverses: make it with to_pyg(split)")
    if device is None:
        parameters = function.parameters() if isinstance(function, torch.nn.Module) else iter(())
        device = next((parameter.device for parameter in parameters), torch.device("cpu"))
    graph = graph.to(device)

    def ask(triples: IntArray, /, *, inverse: bool) -> Tensor:
        empty = triples[:, RELATION] >= split.num_relations
        if empty_slot is None:
            refuse_empty_slots(
                triples, split.num_relations, split, 'use vocabulary="present", or give empty_slot=SCORE'
            )
        asked = triples[~empty]  # relation ids of empty slots are those of inverses in the graph
        if inverse:
            asked = asked[:, [TAIL, RELATION, HEAD]] + np.array([0, split.num_relations, 0])
        parts = []
        with scoring(function):
            for batch in batches(asked, size):
                part = function(graph, batch.to(device))
                if tuple(part.shape) != (len(batch),):
                    raise ScoreError(
                        f"{split.dataset} {split.name}: the model returned the shape {tuple(part.shape)} for a batch "
                        f"of {len(batch)} triples, expected ({len(batch)},), one score each"
                    )
                parts.append(part.cpu())
        scores = torch.cat(parts) if parts else torch.empty(0)
        if not empty.any():
            return scores
        whole = scores.new_full((len(triples),), float("nan") if empty_slot is None else empty_slot)
        whole[torch.from_numpy(~empty)] = scores
        return whole

    score = partial(ask, inverse=False)
    return BothWays(score, partial(ask, inverse=True)) if inverses else score


def _expect_same(data: Data, split: Split) -> None:
    counts = split.num_relations, 2 * split.num_relations
    if data.num_nodes != split.num_entities or data.num_relations not in counts:
        raise UsageError(
            f"{split.dataset} {split.name}: the graph has {data.num_nodes} nodes and {data.num_relations} relations, "
            f"expected {split.num_entities} and {counts[0]}, or {counts[1]} with inverses: make it with to_pyg(split)"
        )


def _ends(triples: IntArray) -> IntArray:
    return np.stack((triples[:, HEAD], triples[:, TAIL]))
