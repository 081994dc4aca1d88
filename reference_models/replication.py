"""What stands behind the paper's rows besides its text: no training at all, and ties that rounding broke.

Their runs lie in `leaderboard/replication`, stand in `docs/deviations.md` and never rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.heuristics import baselines
from mtbench.names import IntArray
from mtbench.training.models import Context, Model, ModelInfo
from reference_models.double_equivariant import DoubleEquivariantModel
from reference_models.isdea import ISDEA
from reference_models.training.fitting import BothWays
from reference_models.training.recipe import Recipe, read

UNITS = 1
"""How far rounding moves a score, in units in the last place."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The heuristic baseline `half_link_memory` with inverses: each is scored as the triple it is the inverse of."""

    baseline: baselines.Baseline

    def __call__(self, triples: IntArray) -> baselines.Scores:
        """Return the scores ``(m,)`` of triples ``(m, 3)``."""
        return self.baseline.score(triples)

    score_inverses = __call__


class NoTraining(Model):
    """A product of two counts, (1 + a)(1 + b) for a triples (h, r, .) and b triples (., r, t); it learns nothing."""

    def __init__(self, context: Context) -> None:
        if context.settings:
            raise UsageError("no-training has no hyper-parameters")
        self.info = ModelInfo("no-training", pretraining_graphs=())

    def fit(self, train: Split, valid: Split) -> None:
        """Learn nothing."""

    def scorer(self, observable: Split) -> Counts:
        """Return the scorer of triples of ``observable``."""
        return Counts(baselines.half_link_memory(observable))


@dataclass(frozen=True, eq=False)
class Moved:
    """Scores of both directions, each moved by up to `UNITS` units in the last place, as a hash of its triple says.

    Arithmetic in single precision does so, where it adds the other relations of each relation in another order.
    """

    scorer: BothWays
    hashed: baselines.Baseline

    def __call__(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of triples ``(m, 3)``."""
        return self._moved(self.scorer(triples), triples)

    def score_inverses(self, triples: IntArray) -> Tensor:
        """Return the scores ``(m,)`` of the inverses of triples ``(m, 3)``."""
        return self._moved(self.scorer.score_inverses(triples), triples[:, ::-1])

    def _moved(self, scores: Tensor, keys: IntArray) -> Tensor:
        places = np.floor(self.hashed.score(keys) * (2 * UNITS + 1)) - UNITS
        unit = torch.from_numpy(np.spacing(scores.abs().numpy()))
        return scores + torch.from_numpy(places).to(scores.dtype) * unit


class RoundedISDEA(DoubleEquivariantModel):
    """ISDEA, whose scores `Moved` moves: ties that only exact arithmetic makes are broken at random."""

    def scorer(self, observable: Split) -> Callable[[IntArray], Tensor]:
        """Return the scorer of triples of ``observable``."""
        scorer = super().scorer(observable)
        assert isinstance(scorer, BothWays), "its recipes have inverses"
        return Moved(scorer, baselines.random(observable))


def rounded(context: Context) -> RoundedISDEA:
    """Return ISDEA with rounding for a run, with the recipe of the run's dataset."""
    recipe = read(Recipe, "isdea", context.dataset, context.settings)
    return RoundedISDEA("isdea-rounded", context, recipe, partial(ISDEA, learn_epsilon=recipe.learn_epsilon))
