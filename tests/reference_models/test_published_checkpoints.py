"""The trained weights that ship with the repository give the figures they are published with."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from leaderboard.board.ranking import rescore, rescored
from leaderboard.entries import entries
from mtbench.errors import CorruptedFileError, UsageError
from mtbench.runs.directory import RunDirectory
from mtbench.training.again import from_weights
from reference_models.training import checkpoint

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


@pytest.mark.parametrize(
    ("changes", "tensors", "message"),
    [
        ({"epoch": None}, (), "epoch must be a valid integer"),
        ({"history": {"a": 1}}, (), "history must be a valid array"),
        ({"identity": 3}, (), "identity must be an object"),
        ({"weights": "../train-finished.safetensors"}, (), "weights must be"),
        ({}, ("evil",), "holds other tensors than were written"),
        ({}, ("best.evil",), "holds other tensors than were written"),
        ({}, ("adam.x.y",), "holds other tensors than were written"),
    ],
)
def test_a_checkpoint_whose_hash_was_forged_as_well_is_refused(changes, tensors, message, tmp_path):
    run = shutil.copytree(PUBLISHED / "isdea" / "metafam" / "seed0", tmp_path / "run")
    weights, told = run / "checkpoints" / "train-finished.safetensors", run / "checkpoints" / "train.json"
    save_file(load_file(weights) | {name: torch.zeros(3) for name in tensors}, weights)
    payload = json.loads(told.read_text(encoding="utf-8")) | changes
    told.write_text(json.dumps(payload | {"sha256": checkpoint._digest(payload, weights)}), encoding="utf-8")
    with pytest.raises(CorruptedFileError, match=rf"train\.json: the checkpoint cannot be read .*{message}"):
        from_weights(run)
