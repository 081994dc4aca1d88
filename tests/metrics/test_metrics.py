import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import optimistic, pessimistic

from mtbench.errors import UsageError
from mtbench.metrics import closed as metrics

counts = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=20)


def by_rank(ranks):
    """Average the metrics of explicit ranks."""
    values = {"mr": sum(ranks), "mrr": sum(1 / rank for rank in ranks)}
    values |= {f"hits@{k}": sum(rank <= k for rank in ranks) for k in (1, 3, 5, 10)}
    return {name: value / len(ranks) for name, value in values.items()}


def arrays(pairs):
    return np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])


@pytest.mark.parametrize("greater", range(12))
@pytest.mark.parametrize("equal", range(5))
def test_expected_is_the_mean_over_all_orders_of_the_ties(greater, equal):
    orders = itertools.permutations(["target", *range(equal)])
    ranks = [greater + 1 + order.index("target") for order in orders]
    assert metrics.expected(np.array([greater]), np.array([equal])) == pytest.approx(by_rank(ranks), rel=1e-12)


@given(counts)
def test_bounds_are_the_best_and_the_worst_order(pairs):
    greater, equal = arrays(pairs)
    best, worst = (greater + 1).tolist(), (greater + equal + 1).tolist()
    assert optimistic(greater, equal) == pytest.approx(by_rank(best), rel=1e-12)
    assert pessimistic(greater, equal) == pytest.approx(by_rank(worst), rel=1e-12)


@given(counts, st.randoms(use_true_random=False))
def test_the_order_of_the_targets_does_not_change_a_bit(pairs, order):
    shuffled = pairs.copy()
    order.shuffle(shuffled)
    assert metrics.expected(*arrays(pairs)) == metrics.expected(*arrays(shuffled))


def exact_mean(greater, equal):
    """Average the values of every target by an exactly rounded sum, without counting equal pairs first."""
    values = metrics.per_target(greater, equal)
    return {name: math.fsum(array.tolist()) / len(array) for name, array in values.items()}


@pytest.mark.parametrize("dense", [0, 1 << 16])
@settings(max_examples=40)
@given(counts, st.integers(1, 300))
def test_counting_equal_pairs_first_does_not_change_a_bit(dense, pairs, times):
    greater, equal = (np.repeat(array, times) for array in arrays(pairs))
    none = np.zeros_like(greater)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "DENSE_CODES", dense)
        found = metrics.figures(greater, equal, greater + equal)
        assert found == {
            "metrics": metrics.expected(greater, equal),
            "optimistic": optimistic(greater, equal),
            "pessimistic": pessimistic(greater, equal),
            "chance": metrics.chance(greater + equal),
        }
    assert found == {
        "metrics": exact_mean(greater, equal),
        "optimistic": exact_mean(greater, none),
        "pessimistic": exact_mean(greater + equal, none),
        "chance": exact_mean(none, greater + equal),
    }


def test_large_counts_are_accurate():
    greater, equal = np.array([10_000_000]), np.array([2])
    exact = math.fsum(1 / rank for rank in (10_000_001, 10_000_002, 10_000_003)) / 3
    assert metrics.expected(greater, equal)["mrr"] == pytest.approx(exact, rel=1e-6)


def test_tie_rate_counts_targets_not_candidates():
    assert metrics.tie_rate(np.array([0, 5, 0, 1])) == 0.5
    assert math.isnan(metrics.tie_rate(np.array([], dtype=np.int64)))


def test_no_targets_have_no_metrics():
    nothing = np.array([], dtype=np.int64)
    with pytest.raises(UsageError, match="no targets"):
        metrics.expected(nothing, nothing)
