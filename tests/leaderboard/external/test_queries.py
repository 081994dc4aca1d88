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


@pytest.mark.parametrize("damage", ["empty", "cut", "short", "unsorted", "none"])
def test_answers_that_were_damaged_are_one_clear_error(tmp_path, damage):
    file = tmp_path / "answers.npz"
    Kept(Counting(), SIZES, file, "one")(*np.unravel_index(np.arange(50), SIZES))
    keys, scores = {"short": ([1, 2], [1]), "unsorted": ([2, 1], [1, 2]), "none": ([], [])}.get(damage, ([1], [1]))
    if damage in ("empty", "cut"):
        file.write_bytes(file.read_bytes()[: 300 * (damage == "cut")])
    else:
        np.savez(file, made_of="one", keys=np.array(keys, dtype=np.int64), scores=np.array(scores, dtype=np.float32))
    with pytest.raises(UsageError, match=r"answers\.npz (cannot be read|holds no answers): begin anew with --restart"):
        Kept(Counting(), SIZES, file, "one")
