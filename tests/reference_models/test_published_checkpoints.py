"""The trained weights that ship with the repository give the figures they are published with."""

import json
import shutil
from pathlib import Path

import pytest

from leaderboard.board.ranking import rescore, rescored
from leaderboard.entries import entries
from mtbench.errors import UsageError
from mtbench.runs.directory import RunDirectory
from mtbench.training.again import from_weights

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


@pytest.mark.parametrize(
    ("model", "setting", "size"),
    [
        ("isdea", "hops", 10**12),
        ("isdea", "width", 10**9),
        ("isdea", "gin_layers", 1_000),
        ("nbfnet-homo", "width", 10_000),
        ("tally", "width", 10_000),
    ],
)
def test_a_network_that_its_file_of_weights_cannot_hold_is_not_built(model, setting, size, tmp_path):
    shutil.copytree(PUBLISHED / model / "metafam" / "seed0", tmp_path / "run")
    for path in (tmp_path / "run").rglob("result.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        found["hyperparameters"][setting] = size
        path.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(UsageError, match=r"the weights in .* have [\d,]+ bytes, too few for a network of "):
        from_weights(tmp_path / "run")
