import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranking_toys import FakeTensor, random_split, small

from mtbench.errors import ScoreError, UsageError
from mtbench.ranking import ranks
from mtbench.ranking.ranks import Counts, Ranks, count
from mtbench.ranking.scorers import accept, compare


@given(st.integers(0, 1000), st.integers(1, 40))
def test_counts_in_blocks_are_those_of_a_plain_loop(seed, cells):
    rng = np.random.default_rng(seed)
    scores, target = rng.integers(0, 5, 30), rng.integers(0, 30, 12)
    candidates, valid = rng.integers(0, 30, (12, 4)), rng.random((12, 4)) < 0.7
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "BLOCK_CELLS", cells)
        found = count(scores, target, candidates, valid)
    for row in range(12):
        others = [scores[other] for other, kept in zip(candidates[row], valid[row], strict=True) if kept]
        own = scores[target[row]]
        assert found.greater[row] == sum(other > own for other in others)
        assert found.equal[row] == sum(other == own for other in others)
        assert found.count[row] == len(others)


def test_scores_are_compared_in_their_own_type():
    target, candidates, valid = np.array([0]), np.array([[1]]), np.array([[True]])
    huge = np.array([2**53, 2**53 + 1])
    assert count(huge, target, candidates, valid).greater.tolist() == [1]
    close = np.array([1.0, 1.0 + 1e-12])
    assert count(close, target, candidates, valid).greater.tolist() == [1]
    assert count(close.astype(np.float32), target, candidates, valid).equal.tolist() == [1]


def test_sides_add_up():
    names = np.array(["a", "b"])
    one, two = (np.array(values) for values in ([1, 2], [3, 4]))
    found = Ranks(names, names, names, {"tail": Counts(one, two, two), "relation": Counts(two, one, two)})
    assert found.greater.tolist() == [4, 6]
    assert found.equal.tolist() == [4, 6]
    assert found.count.tolist() == [6, 8]
    frame = found.to_frame()
    assert frame["rank"].tolist() == [7.0, 10.0]
    assert frame["relation_equal"].tolist() == [1, 2]
    assert frame["head"].tolist() == ["a", "b"]
    assert len(Ranks.empty()) == 0


@pytest.mark.parametrize("kind", ["int8", "int64", "uint8", "float16", "float32", "float64"])
def test_numbers_of_any_precision_are_taken_as_they_are(kind):
    split = small()
    array, found = accept(np.arange(3).astype(kind), split.targets, split, 3)
    assert array.dtype == np.dtype(kind)
    assert found == kind
    assert array.tolist() == [0, 1, 2]


def test_plain_lists_are_taken():
    split = small()
    assert accept([1.5, 2, 3], split.targets, split, 3)[0].tolist() == [1.5, 2.0, 3.0]


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_tensors_are_detached_moved_and_taken_without_torch(kind):
    split = small()
    array, found = accept(FakeTensor(np.array([0.5, 1.5, 2.5], np.float32), kind), split.targets, split, 3)
    assert (array.tolist(), array.dtype, found) == ([0.5, 1.5, 2.5], np.dtype("float32"), kind)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.array([[1.0], [2.0], [3.0]]), r"toy test: scores have the shape \(3, 1\), expected \(3,\).*reshape\(-1\)"),
        (np.array([[1.0, 2.0, 3.0]]), r"toy test: scores have the shape \(1, 3\), expected \(3,\).*reshape\(-1\)"),
        (np.ones((3, 2)), r"toy test: scores have the shape \(3, 2\).*one number per triple"),
        (np.float64(1.0), r"toy test: scores have the shape \(\), .*a single value is not broadcast"),
        (2.0, r"a single value is not broadcast"),
        (np.ones(1), r"toy test: .*2 of 3 scores are missing; score every row"),
        (np.ones(0), r"3 of 3 scores are missing"),
        (np.ones(5), r"toy test: .*2 more scores than triples; score each row once"),
        (np.array([True, False, True]), r"toy test: scores have the type bool, expected integers or floats"),
        (np.array([1j, 2, 3]), r"the type complex128, expected integers or floats"),
        (np.array([1.0, 2.0, None]), r"the type object, expected integers or floats"),
        (np.array(["1", "2", "3"]), r"the type <U1, expected integers or floats"),
        (np.array([1, 2, 3], "datetime64[s]"), r"the type datetime64\[s\], expected integers or floats"),
        (None, r"the type object, expected"),
        ([[1.0], [2.0, 3.0], [4.0]], r"toy test: scores cannot be read as an array of numbers"),
        (np.ma.masked_array(np.ones(3), [0, 1, 0]), r"toy test: scores are a masked array"),
        (FakeTensor(np.ones((3, 1)), "float32"), r"toy test: scores have the shape \(3, 1\)"),
    ],
)
def test_refused_scores(scores, message):
    split = small()
    with pytest.raises(ScoreError, match=message):
        accept(scores, split.targets, split, 3)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_scores_that_are_not_finite_are_named(kind):
    split = small()
    with pytest.raises(ScoreError) as caught:
        accept(np.array([np.nan, 1.0, -np.inf], dtype=kind), split.targets, split, 3)
    message = str(caught.value)
    assert message.startswith("toy test: 2 of 3 scores are not finite (1 NaN, 1 infinite): ")
    assert "(ann, knows, cem) scored nan; (bob, likes, cem) scored -inf." in message
    assert "division by zero" in message


def test_only_the_first_few_are_named_with_the_size_of_the_task():
    split = random_split(0)
    with pytest.raises(ScoreError) as caught:
        accept(np.full(40, np.inf), split.targets, split, 900)
    message = str(caught.value)
    assert message.startswith("random test: 40 of 40 scores of a batch, 900 in all, are not finite")
    assert message.count(" scored inf") == 3
    assert "; and 37 more." in message


def test_empty_slots_are_named_as_such():
    split = small()
    with pytest.raises(ScoreError, match=r"\(ann, <empty slot 4>, bob\) scored nan"):
        accept(np.array([np.nan]), np.array([[0, 4, 1]]), split, 1)


def test_dense_scores_are_counted_row_by_row():
    own, others = np.array([0.5, 0.2], np.float32), np.array([[0.7, 0.5, 0.1], [0.2, 0.2, 0.3]], np.float32)
    found = compare(own, others)
    assert (found.greater.tolist(), found.equal.tolist(), found.count.tolist()) == ([1, 1], [1, 2], [3, 3])
    tensors = compare(FakeTensor(own, "bfloat16"), FakeTensor(others, "bfloat16"))
    assert tensors.greater.tolist() == [1, 1]
    others[1, 0] = np.nan
    found = compare(own, others, np.isfinite(others))
    assert (found.greater.tolist(), found.equal.tolist(), found.count.tolist()) == ([1, 1], [1, 1], [3, 2])
    empty = compare(np.empty(0), np.empty((0, 3)))
    assert (len(empty.greater), len(empty.count)) == (0, 0)
    assert compare(own, np.empty((2, 0), np.float32)).count.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("own", "others", "message"),
    [
        (np.ones(3), np.ones((1, 5)), r"shape \(3,\) and candidate scores \(1, 5\).*nothing is broadcast"),
        (np.ones(1), np.ones((3, 5)), r"shape \(1,\) and candidate scores \(3, 5\)"),
        (np.ones((3, 1)), np.ones((3, 5)), r"shape \(3, 1\) and candidate scores \(3, 5\)"),
        (1.0, np.ones((3, 5)), r"shape \(\) and candidate scores \(3, 5\)"),
        (np.ones(5), np.ones(5), r"candidate scores \(5,\), expected \(m,\) and \(m, c\)"),
        (np.ones(3, np.float32), np.ones((3, 5)), "type float32 and candidate scores float64: different precisions"),
        (FakeTensor(np.ones(3, np.float32), "bfloat16"), np.ones((3, 5), np.float32), "type bfloat16 and .* float32"),
        (np.ones(3, bool), np.ones((3, 5)), "targets: scores have the type bool"),
        (np.ones(3), [["a"]], "candidates: scores have the type <U1"),
        (np.ma.masked_array(np.ones(3)), np.ones((3, 5)), "targets: scores are a masked array"),
        (np.array([1, np.nan, 1]), np.ones((3, 5)), r"1 target scores are not finite \(1 NaN, 0 infinite\): row 1 sc"),
        (
            np.ones(2),
            np.array([[1, np.inf], [np.nan, 1]]),
            r"2 candidate scores are not finite \(1 NaN, 1 infinite\): row 0, candidate 1 scored inf; row 1, candidate",
        ),
        (np.ones(2), np.full((2, 9), np.nan), r"18 candidate .*row 0, candidate 2 scored nan; and 15 more\. Look for"),
    ],
)
def test_dense_scores_that_are_refused(own, others, message):
    with pytest.raises(ScoreError, match=message):
        compare(own, others)


@pytest.mark.parametrize("valid", [np.ones((2, 4), bool), np.ones(2, bool), np.ones((2, 3))])
def test_marks_of_another_shape_or_type_are_refused(valid):
    with pytest.raises(UsageError, match=r"valid must be bool of shape \(2, 3\)"):
        compare(np.ones(2), np.ones((2, 3)), valid)
