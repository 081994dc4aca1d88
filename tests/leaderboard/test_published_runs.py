"""Every published run holds: its figures follow from its counts, which are those of the released dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtbench.results import result as results

PUBLISHED = Path(__file__).resolve().parents[2] / "leaderboard" / "results"
RUNS = sorted(path.parent for path in PUBLISHED.rglob("result.json"))
OURS = ("metafam", "metafam-strict")
"""Datasets made here, whose targets may be published by name."""


@pytest.mark.parametrize("run", RUNS, ids=[str(run.relative_to(PUBLISHED)) for run in RUNS])
def test_a_published_run_holds(run):
    assert results.verify(run).problems == ()
    result = results.load(run)
    assert result.ranks.named == (result.dataset in OURS)


def test_there_are_published_runs_of_every_protocol_and_vocabulary():
    found = {(result.protocol, result.vocabulary) for result in map(results.load, RUNS)}
    assert found == {(name, words) for name in ("dual", "entity", "relation") for words in ("present", "slots")}
