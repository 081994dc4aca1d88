"""The trained weights that ship with the repository give the figures they are published with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mtbench.experiments.run import Plan, run
from mtbench.results.result import load

PUBLISHED = Path(__file__).resolve().parents[2] / "leaderboard" / "results"
TRAINED = sorted(path.parent for path in PUBLISHED.rglob("checkpoints"))


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Return a cache in which every dataset is built once."""
    return tmp_path_factory.mktemp("datasets")


@pytest.mark.filterwarnings("ignore::mtbench.results.result.MtbenchWarning")
@pytest.mark.parametrize("trained", TRAINED, ids=[str(path.relative_to(PUBLISHED)) for path in TRAINED])
def test_a_published_checkpoint_scores_as_published(trained, datasets, tmp_path, monkeypatch, request):
    monkeypatch.setenv("MTBENCH_CACHE", str(datasets))
    expected, seen = load(trained), []
    if expected.dataset != "metafam":
        monkeypatch.setenv("MTBENCH_MIRROR", str(request.getfixturevalue("mirror")))
    model = expected.run.model.partition("-k")[0]
    settings = {key: str(value) for key, value in expected.run.hyperparameters.items()}
    plan = Plan(model, expected.dataset, (expected.protocol,), seed=expected.run.seed, device="cpu", settings=settings)
    _, (found,) = run(replace(plan, out=tmp_path / "run", start=trained), seen.append)
    assert seen == []
    assert found.run.hyperparameters == expected.run.hyperparameters
    # Another machine adds up in another order; weights of another model would be far off.
    assert found.metrics["mrr"] == pytest.approx(expected.metrics["mrr"], abs=0.005)


def test_some_are_published_and_they_are_small():
    files = [path for directory in TRAINED for path in (directory / "checkpoints").iterdir()]
    assert len(TRAINED) >= 3
    assert sum(path.stat().st_size for path in files) < 2_000_000
