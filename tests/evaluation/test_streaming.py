"""Scores in pieces: the figures of the whole, however it is cut, and every piece that is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import hashed, small, splits

from mtbench.errors import ScoreError, UsageError
from mtbench.evaluation.tasks import Task, task

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


def figures(result):
    return result.metrics, result.optimistic, result.pessimistic, result.tie_rate


@settings(max_examples=30, deadline=None)
@given(split=splits(), seed=st.integers(0, 1000), pieces=st.integers(1, 9))
def test_however_the_rows_are_cut_and_ordered_the_figures_are_those_of_the_whole(split, seed, pieces):
    chosen = task(split)
    scores, rng = hashed(chosen.triples), np.random.default_rng(seed)
    evaluator, left = chosen.evaluator(), len(scores)
    for rows in np.array_split(rng.permutation(len(scores)), pieces):
        evaluator.update(rows, scores[rows])
        left -= len(rows)
        assert evaluator.remaining == left
    found, expected = evaluator.compute(), chosen.evaluate(scores)
    assert figures(found) == figures(expected)
    np.testing.assert_array_equal(found.ranks.greater, expected.ranks.greater)
    assert figures(evaluator.compute()) == figures(found)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda rows: np.array(rows, dtype=np.uint8)])
def test_an_index_is_a_slice_or_row_numbers(kind):
    chosen = task(small())
    scores = hashed(chosen.triples)
    evaluator = chosen.evaluator()
    evaluator.update(slice(None, None, 2), scores[::2])
    odd = list(range(1, len(scores), 2))
    evaluator.update(kind(odd), scores[odd])
    evaluator.update([], [])
    assert figures(evaluator.compute()) == figures(chosen.evaluate(scores))


def test_tensors_serve_as_scores_and_as_index(torch):
    chosen = task(small())
    scores = torch.from_numpy(hashed(chosen.triples)).to(torch.bfloat16).requires_grad_()
    evaluator = chosen.evaluator()
    evaluator.update(torch.arange(5), scores[:5])
    evaluator.update(slice(5, None), scores[5:])
    assert figures(evaluator.compute()) == figures(chosen.evaluate(scores))


def test_missing_scores_are_named_when_it_is_computed():
    chosen = task(small())
    evaluator = chosen.evaluator()
    with pytest.raises(
        ScoreError, match=r"toy test: 21 triples of 21 have no score: \(ann, hates, bob\); .*18 more; sc"
    ):
        evaluator.compute()
    evaluator.update(slice(1, 20), np.zeros(19))
    with pytest.raises(
        ScoreError, match=r"2 triples of 21 have no score: \(ann, hates, bob\); \(dee, likes, cem\); score"
    ):
        evaluator.compute()


BAD = {
    "scored already": ([3, 4], [0.0, 0.0], r"1 triples are scored already: \(ann, knows, dee\); score each row"),
    "with the same score": ([3], [1.0], "1 triples are scored already"),
    "twice in a batch": (
        [5, 5, 6],
        [1.0, 2.0, 3.0],
        r"1 triples are in this batch more than once: \(bob, hates, bob\)",
    ),
    "another type": ([5], np.zeros(1, np.float32), "scores have the type float64 before and float32 in this batch"),
    "nan": (
        [5, 6],
        [1.0, np.nan],
        r"1 of 2 scores of a batch, 21 in all, are not finite .*\(bob, likes, ann\) scored nan",
    ),
    "too few": (slice(5, 9), [1.0, 2.0], r"shape \(2,\), expected \(4,\)"),
    "text": ([5], ["high"], "expected integers or floats"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_refused_piece_changes_nothing(name):
    index, scores, message = BAD[name]
    chosen = task(small())
    evaluator = chosen.evaluator()
    evaluator.update(slice(0, 4), np.ones(4))
    with pytest.raises(ScoreError, match=message):
        evaluator.update(index, scores)
    assert evaluator.remaining == 17
    evaluator.update(slice(4, None), np.zeros(17))
    assert figures(evaluator.compute()) == figures(chosen.evaluate((np.arange(21) < 4).astype(np.float64)))


def test_a_first_piece_that_is_refused_or_empty_does_not_fix_the_type():
    evaluator = task(small()).evaluator()
    with pytest.raises(ScoreError, match="not finite"):
        evaluator.update([0], np.array([np.inf], dtype=np.float32))
    evaluator.update([], np.empty(0, dtype=np.float16))
    evaluator.update(slice(None), np.zeros(21, dtype=np.int32))
    assert evaluator.compute().tie_rate == 1


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([21], "1 row numbers are outside 0 to 20, first 21"),
        ([0, -1], "1 row numbers are outside 0 to 20, first -1"),
        (np.ones(21, dtype=bool), r"not bool of shape \(21,\); np\.flatnonzero turns a mask into row numbers"),
        (3, r"not int64 of shape \(\)"),
        ([[1]], r"not int64 of shape \(1, 1\)"),
        ([0.0], "not float64"),
        ([[1], [2, 3]], "cannot be read as row numbers"),
        ("rows", "row numbers of task.triples"),
    ],
)
def test_an_index_that_is_none(index, message):
    with pytest.raises(UsageError, match=message):
        task(small()).evaluator().update(index, [1.0])


def test_a_task_without_a_list_of_triples_says_so_at_once(monkeypatch, tmp_path):
    def refuse(self):
        raise UsageError("this protocol has no list")

    monkeypatch.setattr(Task, "triples", property(refuse))
    (tmp_path / "s.csv").write_text("head,relation,tail,score\n", encoding="utf-8")
    chosen = task(small())
    for use in (
        chosen.evaluator,
        lambda: chosen.evaluate_file(tmp_path / "s.csv"),
        lambda: chosen.write_triples(tmp_path / "t.csv"),
    ):
        with pytest.raises(UsageError, match="this protocol has no list"):
            use()
