"""Tally solves MetaFam, strict too, by counting, and is at chance on metafam-hard: on small builds of other seeds."""

import numpy as np
import pytest

import mtbench
from mtbench.training.models import Context
from reference_models.tally import model as tally

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


FEWER = {"lists": "500", "masks": "2"}
"""A quarter of the lists, of half of the masks: enough to solve what counting solves."""


def figures(name: str, **options: int) -> tuple[float, float]:
    """Return the zero-shot dual MRR of tally on a build, and that of chance."""
    data = mtbench.build(name, seed=1, **options)
    model = tally.build(Context(data.name, settings=FEWER))
    model.fit(data.train, data.valid.observable())
    found = model.scorer(data.test.observable()), lambda triples: np.zeros(len(triples))
    reached, chance = (mtbench.evaluate(scorer, data.test).metrics["mrr"] for scorer in found)
    return reached, chance


def test_counting_solves_metafam_and_not_metafam_hard():
    reached, _ = figures("metafam-strict", train_trees=4, test_trees=6)
    assert reached > 0.9
    sizes = {"train_persons": 72, "test_persons": 72, "bonds": 2, "loud": 1, "quiet": 1, "targets": 12}
    reached, chance = figures("metafam-hard", **sizes)
    assert reached < chance + 0.05
