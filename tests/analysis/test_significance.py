"""The bootstrap on values whose true mean and spread are known; corrections, groups and ranks by hand."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mtbench.analysis import significance
from mtbench.analysis.significance import holm, letters, rank_intervals

CLUSTERS = np.repeat(np.arange(40), 5)


def simulated(random, *, seeds=3, seed=0.1, cluster=0.3, target=0.3, both=0.1):
    """Draw the values of one model, true mean 0: effects of seeds, clusters, targets and seeds with targets."""
    shared = random.normal(0, cluster, CLUSTERS.max() + 1)[CLUSTERS] + random.normal(0, target, len(CLUSTERS))
    own = random.normal(0, both, (seeds, len(CLUSTERS)))
    return shared + random.normal(0, seed, (seeds, 1)) + own


def drawn(values, clusters=CLUSTERS, draws=300, seed=0, names="abc"):
    return significance.draw(list(zip(names, values, strict=False)), clusters, draws, seed)


@pytest.mark.parametrize(
    "effects",
    [
        *({}, {"seed": 0.3, "cluster": 0.1}, {"seed": 0, "cluster": 0.05}),
        *({"seeds": 2}, {"seeds": 1, "seed": 0}, {"seed": 0, "cluster": 0, "both": 0.5}),
    ],
)
def test_intervals_cover_the_truth_and_p_values_are_uniform(effects):
    random, repeats = np.random.default_rng(3), 300
    covered, p_values = np.zeros(2), []
    for repeat in range(repeats):
        one, two = drawn([simulated(random, **effects) for _ in range(2)], seed=repeat)
        difference = one.minus(two)
        for place, found in enumerate((one, difference)):
            low, high = found.interval(0.95)
            covered[place] += low <= 0 <= high
        p_values.append(difference.p_value())
    assert (covered / repeats > 0.9).all()
    # Where seeds and targets only interact, the spread over seeds is all drift, and the test is conservative.
    conservative = effects.get("both", 0.1) > 0.3
    assert conservative or (covered / repeats < 0.98).all()
    rejected = np.mean(np.array(p_values) < 0.05)
    assert rejected < 0.09
    assert conservative or (rejected > 0.015 and stats.kstest(p_values, "uniform").pvalue > 0.01)


def test_the_error_of_one_seed_is_that_of_a_mean():
    values = np.random.default_rng(0).random((1, 2000))
    found = drawn([values], np.arange(2000), draws=4000)[0]
    assert found.error == pytest.approx(values.std(ddof=1) / math.sqrt(2000), rel=0.05)
    low, high = found.interval(0.95)
    expected = stats.norm.interval(0.95, values.mean(), values.std() / math.sqrt(2000))
    assert (low, high) == pytest.approx(expected, abs=0.001)


def test_few_seeds_widen_the_interval_as_student_does():
    means = np.array([0.3, 0.5, 0.4])
    values = np.repeat(means[:, None], len(CLUSTERS), axis=1)
    found = drawn([values], draws=4000)[0]
    assert found.error == pytest.approx(means.std(ddof=1) / math.sqrt(3), rel=0.05)
    assert found.degrees == pytest.approx(2)
    low, high = found.interval(0.95)
    assert high - low > 2 * 4 * found.error


def test_clusters_that_vary_together_widen_the_interval():
    values = [simulated(np.random.default_rng(1), seed=0, cluster=0.5, target=0.1)]
    by_cluster, alone = drawn(values)[0], drawn(values, np.arange(len(CLUSTERS)))[0]
    assert by_cluster.error > 1.7 * alone.error
    # A cluster of five equal values counts as one value.
    expected = values[0].mean(axis=0).reshape(40, 5).mean(axis=1).std(ddof=1) / math.sqrt(40)
    assert by_cluster.error == pytest.approx(expected, rel=0.1)


def test_pairs_are_drawn_on_the_same_targets():
    base = np.random.default_rng(2).random((1, len(CLUSTERS)))
    one, two = drawn([base + 0.01, base])
    difference = one.minus(two)
    assert one.error > 0.01
    assert difference.error == pytest.approx(0, abs=1e-12)
    assert (difference.estimate, difference.p_value()) == (pytest.approx(0.01), 0.0)


def test_equal_values_never_differ():
    values = simulated(np.random.default_rng(5))
    one, two = drawn([values, values.copy()])
    assert (one.minus(two).estimate, one.minus(two).p_value()) == (0, 1)


def test_a_model_is_drawn_alike_whatever_it_is_compared_with():
    random = np.random.default_rng(6)
    first, second, third = (simulated(random) for _ in range(3))
    alone = drawn([first])[0]
    among = significance.draw([("c", third), ("a", first), ("b", second)], CLUSTERS, 300, 0)[1]
    assert alone.interval(0.9) == pytest.approx(among.interval(0.9), abs=1e-12)
    assert drawn([first], seed=1)[0].interval(0.9) != pytest.approx(alone.interval(0.9), abs=1e-6)


def test_blocks_do_not_change_what_is_drawn(monkeypatch):
    values = [simulated(np.random.default_rng(7))]
    whole = drawn(values)[0]
    monkeypatch.setattr(significance, "BLOCK_CELLS", 41 * 7)
    np.testing.assert_allclose(drawn(values)[0].both, whole.both, atol=1e-12)


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five():
    random, repeats, hits = np.random.default_rng(8), 400, 0
    error = math.sqrt(2 * (0.3**2 / 40 + 0.3**2 / 200))
    for repeat in range(repeats):
        one, two = (simulated(random, seeds=1, seed=0, both=0) for _ in range(2))
        shifted = drawn([one + significance.multiplier(0.95) * error, two], seed=repeat)
        hits += shifted[0].minus(shifted[1]).p_value() < 0.05
    assert hits / repeats == pytest.approx(0.8, abs=0.06)
    assert significance.multiplier(0.95) == pytest.approx(2.802, abs=0.001)


def test_degrees_of_freedom_by_hand():
    # Variances 2 of targets and 3 of seeds, of which 1 is drift: 4 in all, over 2^2 / 5 + 3^2 / 2.
    targets = np.array([1.0, -1.0]) * math.sqrt(2)
    one = significance.Drawn(0.0, targets, targets, ((3.0, 1.0, 2.0),), 5.0)
    assert one.degrees == pytest.approx(4**2 / (4 / 5 + 9 / 2))
    two = significance.Drawn(0.0, 0 * targets, 0 * targets, ((2.0, 0.0, 4.0),), 5.0)
    assert one.minus(two).degrees == pytest.approx(6**2 / (4 / 5 + 9 / 2 + 4 / 4))
    # More drift than spread: what the targets explain is all there is.
    three = significance.Drawn(0.0, targets, targets, ((0.5, 1.0, 2.0),), 5.0)
    assert three.degrees == pytest.approx(4 / (4 / 5 + 0.125))


def test_clusters_are_worth_as_many_equal_ones():
    values = np.random.default_rng(0).random((1, len(CLUSTERS)))
    assert drawn([values])[0].degrees == pytest.approx(39)
    unequal = np.array([0] * 6 + [1] * 3 + [2])
    assert drawn([values[:, :10]], unequal)[0].degrees == pytest.approx(100 / 46 - 1)


def test_the_error_is_unbiased_for_few_clusters():
    values = np.array([[0.0, 0.2, 0.6, 1.0]])
    found = drawn([values], np.arange(4), draws=20_000)[0]
    assert found.error == pytest.approx(values.std(ddof=1) / 2, rel=0.02)


@pytest.mark.parametrize("apart", [0.0, 0.03])
def test_the_spread_that_targets_explain_is_counted_once(apart):
    random, number = np.random.default_rng(9), 500
    values = random.random((3, number)) + apart * np.arange(3)[:, None]
    found = drawn([values], np.arange(number), draws=8000)[0]
    drift = (values - values.mean(axis=0)).var(axis=1).sum() / 2 / number
    seeds = max(0.0, values.mean(axis=1).var(ddof=1) - drift) / 3
    assert bool(seeds > 0) is (apart > 0)
    assert found.error == pytest.approx(math.sqrt(values.mean(axis=0).var() / number + seeds), rel=0.02)


def test_seeds_of_two_models_are_drawn_apart():
    values = np.repeat([[0.3], [0.5], [0.4]], len(CLUSTERS), axis=1)
    one, two = drawn([values, values], draws=8000)
    assert one.minus(two).error == pytest.approx(math.sqrt(2) * one.error, rel=0.05)
    assert not np.array_equal(one.both, drawn([values], draws=8000, seed=1)[0].both)


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 is 0.02, 0.03, 0.06, 0.04; none may fall below an earlier one.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_only_raises_and_keeps_the_order(values):
    corrected = holm(values)
    assert all(before <= after <= 1 for before, after in zip(values, corrected, strict=True))
    for (a, left), (b, right) in combinations(zip(values, corrected, strict=True), 2):
        assert (left <= right) if a < b else (left >= right) if a > b else (left == right)


def test_letters_by_hand():
    assert letters(1, []) == ["a"]
    assert letters(3, []) == ["a", "a", "a"]
    assert letters(3, [(0, 1), (0, 2), (1, 2)]) == ["a", "b", "c"]
    # The first and the last differ, the middle one from neither.
    assert letters(3, [(0, 2)]) == ["a", "ab", "b"]


@st.composite
def relations(draw):
    number = draw(st.integers(1, 7))
    pairs = list(combinations(range(number), 2))
    return number, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


@settings(max_examples=50)
@given(relations())
def test_two_models_share_a_letter_exactly_if_they_do_not_differ(case):
    number, different = case
    found = letters(number, different)
    assert all(found)
    for pair in combinations(range(number), 2):
        assert bool(set(found[pair[0]]) & set(found[pair[1]])) is (pair not in different)
    names = sorted({letter for group in found for letter in group})
    assert names == [chr(ord("a") + index) for index in range(len(names))]


def test_rank_intervals():
    assert rank_intervals(3, []) == [(1, 3)] * 3
    assert rank_intervals(3, [(0, 1), (0, 2)]) == [(1, 1), (2, 3), (2, 3)]
    assert rank_intervals(3, [(0, 2)]) == [(1, 2), (1, 3), (2, 3)]
