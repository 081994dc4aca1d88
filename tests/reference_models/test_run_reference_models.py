"""``mtbench run`` with the models of this repository, as it is typed."""

import json
from importlib import metadata

import pytest
import torch

import mtbench
from mtbench.export.writers import write
from mtbench.runs.result import load, verify

QUICK = ("--set", "epochs=2", "--set", "width=4")


@pytest.fixture
def command(command, monkeypatch, tmp_path, small):
    monkeypatch.chdir(tmp_path)
    return lambda model, *more, dataset=small: command("run", model, "--dataset", dataset, "--device", "cpu", *more)


@pytest.mark.parametrize(
    ("model", "name", "regime"),
    [
        ("isdea", "isdea", "zero-shot"),
        ("mtdea", "mtdea-k2", "test-time-adaptation"),
        ("mtdea --set tasks=3 --set adaptation_epochs=0", "mtdea-k3", "zero-shot"),
        ("mtdea --set positives=graph --set inverses=false", "mtdea-k2", "test-time-adaptation"),
        ("isdea --set loss=joint --set hops=0 --set mask=none --set gin_layers=2", "isdea", "zero-shot"),
    ],
)
def test_a_model_runs_and_records_what_it_did(command, tmp_path, model, name, regime):
    code, out, err = command(*model.split(), *QUICK, "--set", "batch=2000", "--out", "kept", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["model"] == name
    info = load(tmp_path / "kept").run
    assert (info.model, info.regime, info.device) == (name, regime, "cpu")
    assert info.hyperparameters["epochs"] == 2
    assert info.environment["torch"] == metadata.version("torch")
    assert verify(tmp_path / "kept").ok


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        *((name, ["width=4", "epochs=3", "patience=1"]) for name in ("mtdea", "isdea", "isdea-homo", "nbfnet-homo")),
        ("mtdea-search", ["width=4", "epochs=3", "patience=1", "positives=graph"]),
        *((name, ["width=4", "steps=3", "every=1", "patience=1"]) for name in ("ingram", "deq-ingram")),
    ],
)
def test_without_validation_triples_all_epochs_are_trained_and_that_is_said(command, tmp_path, small, model, settings):
    write(mtbench.load(small), tmp_path / "own", "tsv")
    (tmp_path / "own" / "valid.txt").unlink()
    options = [word for setting in settings for word in ("--set", setting)]
    code, _, err = command(model, *options, "--out", "kept", dataset=tmp_path / "own")
    said = "warning: own has no validation triples: training goes through all epochs, without early stopping\n"
    assert (code, err) == (0, said)
    history = json.loads((tmp_path / "kept" / "history.json").read_text())
    assert [{*record} for record in history["train"]] == [{*history["train"][0]} - {"valid_mrr"}] * 3


@pytest.mark.parametrize(
    ("model", "settings"),
    [("nbfnet-homo", ["width=4", "epochs=3"]), ("ingram", ["width=4", "steps=3", "every=1"])],
)
def test_selection_none_takes_the_last_epoch_and_asks_for_no_validation(command, tmp_path, small, model, settings):
    words = [word for setting in [*settings, "patience=1", "selection=none"] for word in ("--set", setting)]
    code, _, err = command(model, *words, "--out", "kept", dataset=small)
    assert (code, err) == (0, "")
    history = json.loads((tmp_path / "kept" / "history.json").read_text())
    assert [{*record} for record in history["train"]] == [{*history["train"][0]} - {"valid_mrr"}] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("isdea --set epoch=3", "error: unknown hyper-parameter 'epoch': did you mean epochs"),
        ("mtdea --set epochs=few", "error: epochs must be int, not 'few'"),
        ("mtdea --set mask=all", "error: mask must be one of none, pair, triple, not 'all'"),
        ("mtdea --set tasks=0", "error: tasks must be at least 1, not 0"),
        (
            "reference_models.mtdea:build_search --set reassign=false",
            "error: mtdea-search has reassign=true only: for other values run mtdea",
        ),
        ("isdea --device tpu", "error: --device must be auto, cpu or cuda, not 'tpu'"),
    ],
)
def test_a_wrong_option_is_refused_before_any_training(command, tmp_path, arguments, message):
    code, out, err = command(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert [path for path in tmp_path.rglob("*") if path.name in ("result.json", "checkpoints")] == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_a_device_that_is_not_there_is_refused(command):
    code, _, err = command("isdea", "--device", "cuda")
    assert code == 2
    assert err == "error: --device cuda: PyTorch sees no CUDA device here; use --device cpu or auto\n"


def test_a_training_graph_that_cannot_be_held_out_says_what_to_do_instead(command):
    code, _, err = command("isdea", *QUICK, "--set", "holdout=0.01")
    assert code == 1
    assert "--set positives=graph" in err
    assert err.count("\n") == 1


def test_what_was_learned_is_kept_and_compared_with_the_true_tasks(command, tmp_path, drawn):
    searched = "reference_models.mtdea:build_search"
    code, out, _ = command(searched, *QUICK, "--set", "adaptation_epochs=3", "--out", "kept")
    assert code == 0
    history = json.loads((tmp_path / "kept" / "history.json").read_text(encoding="utf-8"))
    assert {stage: len(records) for stage, records in history.items()} == {"train": 2, "adapt": 3}
    assert set(history["train"][0]) == {"epoch", "loss", "valid_mrr", "moves"}
    assert set(history["adapt"][0]) == {"epoch", "loss", "moves"}
    info = load(tmp_path / "kept").run
    assert (info.model, info.hyperparameters["reassign"]) == ("mtdea-search-k2", True)
    graphs = json.loads((tmp_path / "kept" / "tasks.json").read_text(encoding="utf-8"))["graphs"]
    assert list(graphs) == ["train", "test"]
    assert "train graph: " in out
    assert "test graph: " in out
    for told in graphs.values():
        assert all(name.startswith("<empty slot ") or name.endswith("(inverse)") for name in told["without_truth"])
        assert told["compared"] == 2 * 29 - len(told["without_truth"]) > 20
        assert -1 <= told["hard"]["ari"] <= 1
        assert all(sum(row["alpha"]) == pytest.approx(1, abs=1e-4) for row in told["relations"].values())
    pictures = {path.name for path in (tmp_path / "kept").glob("*.png")}
    assert pictures == ({"training.png", "alpha.png"} if drawn else set())


def test_a_model_without_tasks_has_a_history_alone(command, tmp_path):
    assert command("isdea", *QUICK, "--out", "kept")[0] == 0
    assert (tmp_path / "kept" / "history.json").exists()
    assert not (tmp_path / "kept" / "tasks.json").exists()
