"""Leave-out lists: some observable triples hidden, statistics of the rest, and the hidden ones among candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from mtbench.data.splits import Split
from mtbench.errors import DatasetError
from mtbench.names import BoolArray, IntArray
from mtbench.ranking.candidates import PROTOCOLS, draw
from mtbench.ranking.listed import Layout
from mtbench.statistics.features import Statistics

PROTOCOL = "dual"


@dataclass(frozen=True, eq=False)
class Lists:
    """Positives, each among tails, heads and relations: ``features`` float32 ``(k, F)`` of all distinct triples.

    ``rows`` int64 ``(m, 1 + c)`` says which of them stand in a list, the positive first, and ``valid`` which are no
    padding. The positive and its tails and relations are one list, it and its heads and relations the other:
    ``tails`` and ``heads`` bool ``(1 + c,)`` mark their columns.
    """

    features: Tensor
    rows: Tensor
    valid: Tensor
    tails: Tensor
    heads: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Return the lists of several graphs as one."""
        starts = np.cumsum([0, *(len(part.features) for part in parts)]).tolist()
        return cls(
            torch.cat([part.features for part in parts]),
            torch.cat([part.rows + start for part, start in zip(parts, starts, strict=False)]),
            torch.cat([part.valid for part in parts]),
            parts[0].tails,
            parts[0].heads,
        )


def leave_out(graph: Split, share: float, most: int, seed: int) -> Lists:
    """Return lists of at most ``most`` triples of the graph, where a share of all is hidden from the statistics.

    Candidates are those of the protocol ``dual``, so that a hidden triple is never one. A positive and its
    corruptions see the same graph, which has neither: nothing tells them apart but what the rest says of them.
    Raises `DatasetError` for a graph of fewer than two triples.
    """
    order = np.random.default_rng([seed, *b"leave out"]).permutation(len(graph.graph))
    if len(order) < 2:
        raise DatasetError(f"{graph.dataset} {graph.name}: {len(order)} triples are too few to hide some and learn")
    number = min(max(1, round(share * len(order))), len(order) - 1)
    split = replace(graph, graph=graph.graph[order[number:]], targets=graph.graph[order[:number]])
    drawn = draw(split, PROTOCOL, seed=seed)
    chosen = {side: _first(*drawn.side(side), most) for side in PROTOCOLS[PROTOCOL].sides}
    layout = Layout(replace(split, targets=split.targets[:most]), drawn.parts, chosen)
    own = layout.targets[:, None]
    rows, valid, sides = [own], [np.ones(own.shape, dtype=np.bool_)], ["own"]
    for side, (_, there) in chosen.items():
        width = PROTOCOLS[PROTOCOL].number(side)
        padding = ((0, 0), (0, width - there.shape[1]))
        rows.append(np.pad(layout.rows[side], padding))
        valid.append(np.pad(there, padding))
        sides += [side] * width
    return Lists(
        torch.from_numpy(Statistics(split.observable()).of(layout.triples)),
        torch.from_numpy(np.concatenate(rows, axis=1)),
        torch.from_numpy(np.concatenate(valid, axis=1)),
        torch.tensor([side != "head" for side in sides]),
        torch.tensor([side != "tail" for side in sides]),
    )


def _first(ids: IntArray, valid: BoolArray, most: int) -> tuple[IntArray, BoolArray]:
    return ids[:most], valid[:most]
