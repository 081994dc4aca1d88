import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mtbench.training.learned import adjusted_rand, normalised_mutual_information

GROUPS = arrays(np.int64, st.integers(2, 12), elements=st.integers(0, 3))


def one_hot(groups, number=4):
    return np.eye(number)[groups]


def test_a_known_pair_of_groupings():
    """Two groups of three against 2 + 2 + 2: 2 of 15 pairs in common, 6 and 3 pairs each."""
    truth, other = np.array([0, 0, 0, 1, 1, 1]), one_hot(np.array([0, 0, 1, 1, 2, 2]))
    expected = 6 * 3 / 15
    assert adjusted_rand(truth, other) == pytest.approx((2 - expected) / (4.5 - expected))
    information = np.log(2) + np.log(3) - (4 / 6 * np.log(3) + 2 / 6 * np.log(6))
    assert normalised_mutual_information(truth, other) == pytest.approx(2 * information / (np.log(2) + np.log(3)))


@given(GROUPS)
def test_a_grouping_agrees_with_itself_whatever_the_names(groups):
    renamed = one_hot((groups + 1) % 4)
    assert adjusted_rand(groups, renamed) == pytest.approx(1)
    assert normalised_mutual_information(groups, renamed) == pytest.approx(1)


@pytest.mark.parametrize(("truth", "other"), [([0, 0, 1, 1], [0, 1, 0, 1]), ([0, 1, 2, 3], [0, 0, 0, 0])])
def test_independent_groupings_share_nothing(truth, other):
    assert normalised_mutual_information(np.array(truth), one_hot(np.array(other))) == pytest.approx(0, abs=1e-12)
    assert adjusted_rand(np.array(truth), one_hot(np.array(other))) <= 1e-12


@pytest.mark.parametrize("groups", [[0], [0, 0, 0], [0, 1, 2]])
def test_where_there_is_one_way_only_they_agree(groups):
    assert adjusted_rand(np.array(groups), one_hot(np.array(groups))) == 1


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_index_counts_the_pairs_that_are_drawn_together(groups, random):
    shares = np.array([[0.01 + random.random() for _ in range(3)] for _ in groups])
    shares /= shares.sum(axis=1, keepdims=True)
    pairs = list(itertools.combinations(range(len(groups)), 2))
    together = [float(groups[i] == groups[j]) for i, j in pairs]
    drawn = [float(shares[i] @ shares[j]) for i, j in pairs]
    both = sum(a * b for a, b in zip(together, drawn, strict=True))
    expected = sum(together) * sum(drawn) / len(pairs)
    most = (sum(together) + sum(drawn)) / 2
    found = adjusted_rand(groups, shares)
    if abs(most - expected) > 1e-9:
        assert found == pytest.approx((both - expected) / (most - expected), abs=1e-9)


def test_a_random_grouping_has_no_index_on_average_but_some_information():
    rng = np.random.default_rng(0)
    truth = np.arange(28) // 2
    drawn = [one_hot(rng.integers(0, 4, 28)) for _ in range(2000)]
    assert abs(np.mean([adjusted_rand(truth, part) for part in drawn])) < 0.01
    assert np.mean([normalised_mutual_information(truth, part) for part in drawn]) > 0.3
