from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.analysis.comparison.comparing import holm, letters, rank_intervals


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
