import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtbench.ranking import ranks as counting

KINDS = ("int8", "int64", "uint8", "float16", "float32", "float64", ">f4")


def plainly(own, others, valid=None):
    """Count the way it reads: what the fast version must agree with."""
    kept = np.ones(others.shape, dtype=bool) if valid is None else valid
    above, equal = ((others > own[:, None]) & kept).sum(axis=1), ((others == own[:, None]) & kept).sum(axis=1)
    return above.tolist(), equal.tolist()


def fast(own, others, valid=None):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        above, equal, finite = counting.tally(own, others, valid)
    assert above.dtype == equal.dtype == np.int64
    return (above.tolist(), equal.tolist()), finite


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(0, 30),
    width=st.one_of(st.integers(0, 20), st.integers(240, 260), st.just(2 * counting.CHUNK + 3)),
    wide=st.sampled_from([1, 245, counting.WIDE]),
    cells=st.integers(1, 3000),
    per_thread=st.sampled_from([1, 10**9]),
    padded=st.booleans(),
)
def test_counts_are_those_of_the_plain_version(kind, seed, rows, width, wide, cells, per_thread, padded):
    rng = np.random.default_rng(seed)
    own, others = (rng.integers(0, 3, shape).astype(kind) for shape in (rows, (rows, width)))
    valid = rng.random(others.shape) < 0.7 if padded else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "WIDE", wide)
        patch.setattr(counting, "CACHED_CELLS", cells)
        patch.setattr(counting, "CELLS_PER_THREAD", per_thread)
        patch.setattr(counting, "_processors", lambda: 4)
        assert fast(own, others, valid) == (plainly(own, others, valid), True)


@pytest.mark.parametrize("width", [1, 7, 8, counting.CHUNK, counting.CHUNK + 1, 1000, counting.WIDE])
def test_no_count_overflows(width):
    own, others = np.zeros(5, dtype=np.float32), np.ones((5, width), dtype=np.float32)
    assert fast(own, others)[0] == ([width] * 5, [0] * 5)
    assert fast(own, others * 0)[0] == ([0] * 5, [width] * 5)
    assert fast(own, -others)[0] == ([0] * 5, [0] * 5)


def test_arrays_in_any_memory_order():
    rng = np.random.default_rng(0)
    own, others = rng.integers(0, 4, 40), rng.integers(0, 4, (40, 30))
    expected = plainly(own, others)
    assert fast(own, np.asfortranarray(others))[0] == expected
    assert fast(np.repeat(own, 2)[::2], np.repeat(others, 2, axis=1)[:, ::2])[0] == expected


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@settings(max_examples=20)
@given(
    row=st.integers(0, 19),
    column=st.one_of(st.just(-1), st.integers(0, 299)),
    per_thread=st.sampled_from([1, 10**9]),
    wide=st.sampled_from([1, counting.WIDE]),
)
def test_one_score_that_is_not_finite_is_noticed_wherever_it_is(kind, bad, row, column, per_thread, wide):
    largest = np.finfo(kind).max
    own, others = np.full(20, largest, dtype=kind), np.full((20, 300), -largest, dtype=kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "WIDE", wide)
        patch.setattr(counting, "CACHED_CELLS", 1000)
        patch.setattr(counting, "CELLS_PER_THREAD", per_thread)
        patch.setattr(counting, "_processors", lambda: 2)
        assert fast(own, others)[1]
        if column < 0:
            own[row] = bad
        else:
            others[row, column] = bad
        assert not fast(own, others)[1]


def test_what_is_padding_is_not_counted_even_if_it_is_no_number():
    own, others = np.array([1.0, 1.0]), np.array([[2.0, np.nan, 1.0], [np.inf, 0.0, 1.0]])
    valid = np.isfinite(others)
    assert fast(own, others, valid) == (([1, 0], [1, 1]), False)
