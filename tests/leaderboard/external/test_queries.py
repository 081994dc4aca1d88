"""Answers of published models: each question is asked once, and what was answered is read back."""

import numpy as np
import pytest

pytest.importorskip("torch")

from leaderboard.external.queries import Kept
from mtbench.errors import UsageError

SIZES = (9, 4, 30)


class Counting:
    """Answers a question by its place among all, and refuses one that it was asked before."""

    def __init__(self):
        self.asked = set()

    def answer(self, questions):
        keys = np.ravel_multi_index(tuple(questions.T), SIZES)
        assert (np.diff(keys) > 0).all()
        assert not self.asked & set(keys.tolist())
        self.asked |= set(keys.tolist())
        return keys.astype(np.float32)


def test_questions_in_batches_of_any_size_are_asked_once_and_kept(tmp_path):
    network, rng = Counting(), np.random.default_rng(0)
    kept = Kept(network, SIZES, tmp_path / "answers.npz", "one")
    for size in (1, 300, 2, 40, 40, 40, 7, 500, 1):
        kept.writing = 0  # however long the last writing took
        keys = rng.integers(np.prod(SIZES), size=size)
        assert kept(*np.unravel_index(keys, SIZES)).tolist() == keys.tolist()
    again = Kept(None, SIZES, tmp_path / "answers.npz", "one")
    keys = np.array(sorted(network.asked))
    assert again(*np.unravel_index(keys, SIZES)).tolist() == keys.tolist()
    with pytest.raises(UsageError, match="has the answers of another model"):
        Kept(network, SIZES, tmp_path / "answers.npz", "two")
