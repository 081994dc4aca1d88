"""Stopping a run at a chosen place, and telling whether two runs are the same to the last bit."""

import pytest
import torch
from planned import run
from safetensors.torch import load_file

from mtbench.runs.result import load, verify


class Stop:
    """Raises KeyboardInterrupt at one report of a run, as Ctrl-C there would."""

    def __init__(self, *where):
        self.where = where
        self.stopped = False

    def __call__(self, progress):
        if not self.stopped and (progress.stage, progress.epoch, progress.batch) == self.where:
            self.stopped = True
            raise KeyboardInterrupt


def weights(directory):
    files = sorted((directory / "checkpoints").glob("*.safetensors"))
    return {f"{path.name}/{name}": value for path in files for name, value in load_file(path).items()}


def assert_same_run(directory, expected):
    left, right = load(directory), load(expected)
    for name in ("metrics", "optimistic", "pessimistic", "tie_rate", "candidates_sha256", "content_sha256"):
        assert getattr(left, name) == getattr(right, name), name
    assert left.ranks.to_frame().equals(right.ranks.to_frame())
    ours, theirs = weights(directory), weights(expected)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert verify(directory).ok


def assert_goes_on(plan, where, expected):
    """Stop a run somewhere; it goes on there, and ends as one that nobody stopped."""
    stop, reports = Stop(*where), []
    with pytest.raises(KeyboardInterrupt):
        run(plan, stop)
    assert stop.stopped
    assert not plan.out.exists()
    run(plan, reports.append)
    assert_same_run(plan.out, expected)
    assert (reports[0].stage, reports[0].epoch) == where[:2]
