import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranking_toys import random_split

from mtbench.evaluation.tasks import task
from mtbench.metrics import closed as metrics
from mtbench.metrics.summary import adjust
from mtbench.settings.table import RECORDED, VOCABULARIES

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
DRAWS = 10_000


@given(st.lists(st.integers(0, 60), min_size=1, max_size=6))
def test_the_null_is_the_mean_and_variance_over_all_ranks(counts):
    moments = {name: metric.null(np.array(counts) + 1) for name, metric in metrics.TABLE.items()}
    assert tuple(moments) == metrics.METRICS
    for place, number in enumerate(counts):
        values = metrics.per_target(np.arange(number + 1), np.zeros(number + 1, dtype=np.int64))
        for name, (mean, variance) in moments.items():
            assert mean[place] == pytest.approx(values[name].mean(), abs=1e-12)
            assert variance[place] == pytest.approx(values[name].var(), abs=1e-9)


def test_the_null_of_the_mean_agrees_with_simulation():
    counts = np.array([0, 1, 2, 5, 6, 24, 50, 50, 300])
    random = np.random.default_rng(0)
    greater = random.integers(0, counts + 1, (DRAWS, len(counts)))
    values = metrics.per_target(greater.reshape(-1), np.zeros(greater.size, dtype=np.int64))
    adjusted = adjust(metrics.expected(greater[0], np.zeros_like(counts)), counts)
    for name, found in adjusted.items():
        means = values[name].reshape(greater.shape).mean(axis=1)
        error = means.std() / math.sqrt(DRAWS)
        assert abs(means.mean() - found.chance) < 4 * error, name
        # The standard error of a variance, from the fourth moment.
        spread = math.sqrt(((means - means.mean()) ** 4).mean() - means.var() ** 2) / math.sqrt(DRAWS)
        assert abs(means.var() - found.deviation**2) < 4 * spread, name
        assert found.observed == pytest.approx(means[0])


def test_worked_example():
    # Ranks 1 of 3 and 2 of 5: MR 1.5 where chance is 2.5, MRR 0.75 where it is (11/18 + 137/300) / 2.
    counts = np.array([2, 4])
    observed = metrics.expected(np.array([0, 1]), np.zeros(2, dtype=np.int64))
    found = adjust(observed, counts)
    assert found["mr"].index == pytest.approx(1 - (1.5 - 1) / (2.5 - 1))
    assert found["mr"].deviation == pytest.approx(math.sqrt(8 / 12 + 24 / 12) / 2)
    assert found["mr"].z == pytest.approx((2.5 - 1.5) / found["mr"].deviation)
    chance = (11 / 18 + 137 / 300) / 2
    assert found["mrr"].index == pytest.approx((0.75 - chance) / (1 - chance))
    assert found["hits@1"].index == pytest.approx((0.5 - (1 / 3 + 1 / 5) / 2) / (1 - (1 / 3 + 1 / 5) / 2))
    # Every rank is within ten: nothing is left to be adjusted.
    assert (found["hits@10"].index, found["hits@10"].z) == (None, None)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("protocol", RECORDED)
def test_chance_is_zero_and_perfection_one(protocol, vocabulary):
    chosen = task(random_split(1, relations=6), protocol, vocabulary)
    constant = chosen.run(lambda triples: np.zeros(len(triples)))
    for found in constant.adjusted().values():
        assert found.index is None or found.index == pytest.approx(0, abs=1e-12)
        assert found.z is None or found.z == pytest.approx(0, abs=1e-9)
    targets = {tuple(row) for row in chosen.split.targets.tolist()}
    perfect = chosen.run(lambda triples: np.array([float(tuple(row) in targets) for row in triples.tolist()]))
    for found in perfect.adjusted().values():
        assert found.index is None or found.index == pytest.approx(1)
        assert found.z is None or found.z > 0


def test_a_run_without_ranks_has_nothing_to_adjust():
    assert task(random_split(1)).unfinished("oom").adjusted() == {}
