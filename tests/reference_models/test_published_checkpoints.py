"""The trained weights that ship with the repository give the figures they are published with."""

from pathlib import Path

import pytest

from leaderboard.board.ranking import rescore, rescored
from leaderboard.entries import entries
from mtbench.runs.directory import RunDirectory

PUBLISHED = Path(__file__).resolve().parents[2] / "leaderboard" / "results"
TRAINED = sorted({path.parents[2] for path in PUBLISHED.rglob("checkpoints")})


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Return a cache in which every dataset is built once."""
    return tmp_path_factory.mktemp("datasets")


@pytest.mark.parametrize("entry", TRAINED, ids=[path.name for path in TRAINED])
def test_published_weights_score_as_published(entry, datasets, monkeypatch, request):
    monkeypatch.setenv("MTBENCH_CACHE", str(datasets))
    monkeypatch.setattr(RunDirectory, "places", lambda run: [run.path])  # the headline alone, for the time it takes
    found = entries.load(entry)
    if any(list(entry.glob("fbnell/*/checkpoints"))):
        monkeypatch.setenv("MTBENCH_MIRROR", str(request.getfixturevalue("mirror")))
    scored = list(rescore(found))
    assert [wrong for _, _, wrong in scored] == [[]] * len(scored)
    assert rescored(found) == [run for run, _, _ in scored]


def test_some_are_published_and_they_are_small():
    files = list(PUBLISHED.rglob("checkpoints/*"))
    assert len(TRAINED) >= 3
    assert sum(path.stat().st_size for path in files) < 2_000_000
