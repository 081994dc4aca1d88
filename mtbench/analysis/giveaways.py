"""Which statistic alone tells the targets of a split from their candidates: what can be counted needs no learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtbench.data.graphs import keys
from mtbench.data.splits import Split, among
from mtbench.names import COLUMN, RELATION, BoolArray, IntArray, Side
from mtbench.ranking.candidates import PROTOCOLS, draw
from mtbench.ranking.listed import Layout
from mtbench.statistics.features import NAMES, Statistics

AGAINST = {"dual": "dual", "same type": "entity"}
"""What targets are told from, and the protocol that draws it; of the second, what has the slot already is kept."""


@dataclass(frozen=True)
class Giveaway:
    """How well one statistic alone tells targets from the candidates of one side.

    ``auc`` is the share of a target's candidates that have less of the statistic, half of them where they have as
    much, a mean over targets: 0.5 is chance, and far from it on either side gives away. ``targets`` are those that
    have such a candidate.
    """

    against: str
    side: Side
    family: str
    statistic: str
    auc: float
    targets: int

    @property
    def gain(self) -> float:
        """How far the statistic is from chance, from 0 to 0.5."""
        return abs(self.auc - 0.5)


def giveaways(split: Split, seed: int = 0) -> tuple[Giveaway, ...]:
    """Return of each of the 65 statistics how well it alone tells the targets of a split, the clearest first.

    Statistics are those of the observable graph. Targets are compared with the candidates of ``dual``, and with
    heads and tails of the *same type*: candidates of the protocol ``entity`` that are a head, or a tail, of the
    relation already. Raises `UsageError` for a split without targets.
    """
    statistics = Statistics(split.observable())
    found = [row for against in AGAINST for row in _against(split, against, statistics, seed)]
    return tuple(sorted(found, key=lambda row: -row.gain))


def _against(split: Split, against: str, statistics: Statistics, seed: int) -> list[Giveaway]:
    protocol = AGAINST[against]
    drawn = draw(split, protocol, seed=seed)
    sides = {side: drawn.side(side) for side in PROTOCOLS[protocol].sides}
    if against == "same type":
        sides = {side: (ids, valid & _has_slot(split, side, ids)) for side, (ids, valid) in sides.items()}
    layout = Layout(split, drawn.parts, sides)
    features = statistics.of(layout.triples)
    own = features[layout.targets][:, None]
    found: list[Giveaway] = []
    for side, (_, valid) in sides.items():
        some = valid.any(axis=1)
        if not some.any():
            continue
        others = features[layout.rows[side]]
        less = np.where(valid[..., None], (own > others) + (own == others) / 2, 0).sum(axis=1)[some]
        auc = (less / valid.sum(axis=1)[some, None]).mean(axis=0)
        found += [
            Giveaway(against, side, family, name, float(value), int(some.sum()))
            for (family, name), value in zip(NAMES, auc, strict=True)
        ]
    return found


def _has_slot(split: Split, side: Side, ids: IntArray) -> BoolArray:
    """Return which entities ``(m, k)`` are on this side of an observable triple of each target's relation."""
    column, asked = COLUMN[side], np.repeat(split.targets, ids.shape[1], axis=0)
    asked[:, column] = ids.ravel()
    there = keys(split, split.graph, RELATION, column)
    return among(keys(split, asked, RELATION, column), there).reshape(ids.shape)
