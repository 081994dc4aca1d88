"""Tally with weights of its own: how they are made, what they say of themselves, and what they do for a stranger."""

import hashlib
import itertools
import json
import re
from pathlib import Path

import pytest
import torch
from ranking_toys import random_split
from safetensors.torch import load_file, save_file

import mtbench
from mtbench.cli import app as cli
from mtbench.data import catalog
from mtbench.errors import CorruptedFileError, UnknownNameError, UsageError
from mtbench.evaluation.tasks import evaluate
from mtbench.files.hashing import CONTENT_HASH_OF_NOTHING
from mtbench.runs.result import load, verify
from mtbench.training.models import Context
from mtbench.training.predictions import predict
from reference_models.tally import foundation
from reference_models.tally import model as tally
from reference_models.tally.carving import DENSITY, ENTITIES, TRIPLES, carve
from reference_models.tally.foundation import (
    DIETS,
    KEY,
    NAME,
    WEIGHTS,
    Diet,
    Foundation,
    describe,
    pretrain,
    weights_of,
)
from reference_models.tally.model import Recipe
from reference_models.training import fitting
from reference_models.training.recipe import read

TOY = {"epochs": "2", "width": "4", "masks": "2", "lists": "40", "batch": "16"}
ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


@pytest.fixture
def graphs():
    return {f"{name}/train": random_split(seed, graph=90).observable() for seed, name in enumerate(("one", "two"))}


def test_two_graphs_give_the_same_bytes_twice_and_each_counts(graphs, tmp_path):
    made = pretrain(graphs, 3, TOY)
    assert pretrain(graphs, 3, TOY) == made
    (tmp_path / "weights").write_bytes(made)
    told = describe(tmp_path / "weights")
    assert told["recipe"] == read(Recipe, "tally", "", TOY).as_parameters()
    assert (told["seed"], told["versions"]["mtbench-kg"]) == (3, mtbench.__version__)
    assert told["graphs"] == {name: graph.content_sha256 for name, graph in graphs.items()}
    (tmp_path / "one").write_bytes(pretrain(dict([*graphs.items()][:1]), 3, TOY))
    one, two = (load_file(tmp_path / name) for name in ("one", "weights"))
    assert all(not torch.equal(one[name], value) for name, value in two.items())


def test_weights_of_one_graph_are_those_of_tally(graphs, tmp_path):
    train = graphs["one/train"]
    (tmp_path / "one").write_bytes(pretrain({"one/train": train}, 0, TOY))
    model = tally.build(Context("", settings=TOY, device="cpu"))
    model.fit(train, train)
    found = load_file(tmp_path / "one")
    assert all(torch.equal(value, found[name]) for name, value in model.network.state_dict().items())


@pytest.mark.parametrize("name", DIETS)
def test_the_weights_of_the_package_are_small_and_say_what_they_were_made_of(name):
    told, diet = describe(weights_of(name)), DIETS[name]
    assert weights_of(name).stat().st_size < 100_000
    assert told["recipe"] == read(Recipe, "tally", "", diet.settings).as_parameters(), (
        f"python -m reference_models.tally.foundation {name}"
    )
    assert told.get("carved", 0) == diet.carved
    expected = {}
    for name in diet.datasets:
        record = catalog.record(name)
        graph, slots = record.parts["train/graph"].content_sha256, record.graphs["train"].relation_slots
        text = f"graph {graph}\ntargets {CONTENT_HASH_OF_NOTHING}\nslots {slots}\n"
        expected[f"{name}/train"] = hashlib.sha256(text.encode()).hexdigest()
    assert told["graphs"] == expected


def test_parts_are_as_unlike_as_declared_and_the_same_twice():
    graph = random_split(5, entities=2000, relations=20, graph=9000).observable()
    parts = carve(graph, 8, 1)
    assert [part.graph.tolist() for part in carve(graph, 8, 1)] == [part.graph.tolist() for part in parts]
    names = {tuple(row) for row in graph.named(graph.graph)}
    for part in parts:
        assert {tuple(row) for row in part.named(part.graph)} <= names
        assert part.num_entities <= ENTITIES[1]
        assert len(part.graph) <= max(TRIPLES, DENSITY[1] * ENTITIES[1])
        assert len(part.targets) == 0
    assert len({part.num_relations for part in parts}) > 1
    assert carve(graph, 2, 2)[0].graph.tolist() != parts[0].graph.tolist()


def test_it_trains_nothing_and_ranks_a_graph_it_never_saw(small):
    data = mtbench.load(small)
    model = foundation.build(Context(data.name, device="cpu"))
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    model.fit(data.train, data.valid)
    result = evaluate(model.scorer(data.test.observable()), data.test)
    assert all(torch.equal(value, before[name]) for name, value in model.network.state_dict().items())
    assert (model.info.regime, model.info.pretraining_graphs) == (
        "zero-shot",
        tuple(f"{name}/train" for name in DIETS[NAME].datasets),
    )
    assert result.metrics["mrr"] > 0.8 > 4 * result.baselines["half_link_memory"]["mrr"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"settings": {"epochs": "3"}}, "trained already: it has no settings; train tally with --set"),
        ({"seed": 1}, "has one set of weights, of seed 0: leave out --seed"),
    ],
)
def test_what_it_cannot_follow_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        foundation.build(Context("metafam", **options))


def test_its_own_settings_are_no_others():
    own = {name: str(value) for name, value in describe(WEIGHTS)["recipe"].items()}
    assert foundation.build(Context("metafam", settings=own)).info.hyperparameters == describe(WEIGHTS)["recipe"]


def test_weights_for_other_statistics_are_refused(tmp_path):
    told = describe(WEIGHTS)
    save_file(load_file(WEIGHTS), tmp_path / "old", {KEY: json.dumps({**told, "statistics": told["statistics"][1:]})})
    with pytest.raises(
        CorruptedFileError,
        match="old was made for other statistics: python -m reference_models",
    ):
        Foundation(Context("metafam"), tmp_path / "old")


def test_the_command_writes_the_weights(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(DIETS, NAME, Diet("none", (str(small),), 3))
    monkeypatch.setattr(foundation, "pretrain", lambda found, settings, carved: json.dumps(list(found)).encode())
    foundation.main(NAME, tmp_path / "new" / "weights")
    with pytest.raises(UnknownNameError, match="did you mean tally-3g"):
        foundation.main("tally-3")
    assert (tmp_path / "new" / "weights").read_text() == json.dumps([f"{small}/train"])
    assert f"weights: {len(str(small)) + 10} bytes, SHA-256 " in capsys.readouterr().out


def test_the_predictions_of_the_page_are_these(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "tally.md").read_text(encoding="utf-8")
    (graph,) = re.findall(r'```tsv title="towns.tsv"\n(.*?)```', text, re.DOTALL)
    ((lines, shown),) = re.findall(r"```console\n((?:mtbench score-with.*\n)+)```\n\n```\n(\(.*?)```", text, re.DOTALL)
    (tmp_path / "towns.tsv").write_text(graph, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for line in lines.splitlines():
        assert call(*line.split()[1:]) == 0
    printed = capsys.readouterr().out
    assert without_scores(printed) == without_scores(shown)


def without_scores(page):
    """Return the lines of a page less their scores, which change with the weights; equal scores have no order."""
    lines = (line for line in page.split("\n") if line)
    tied = itertools.groupby(lines, key=lambda line: re.findall(r" -?\d+\.\d\d", line))
    return [re.sub(r" +-?\d+\.\d+", "", line) for _, rows in tied for line in sorted(rows)]


def towns(countries, capital, lies, borders):
    """Return where towns lie, capitals, and which countries border; and of it what is hidden: a few of each."""
    shown, hidden = [], []
    for number in range(countries):
        country = f"{borders} {number}"
        rows = [(f"{lies} {number}.{town}", lies, country) for town in range(6)]
        rows += [(f"{lies} {number}.0", capital, country), (country, borders, f"{borders} {(number + 1) % countries}")]
        hidden += [rows.pop(6)] if number % 4 == 1 else [rows.pop(3)] if number % 4 == 3 else []
        shown += rows
    return shown, hidden


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A fully inductive dataset as a stranger has it: no entity and no relation of the test graph is in training."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    folder.mkdir()
    for names, parts in (
        (("train", "valid"), towns(9, "capitalOf", "liesIn", "borders")),
        (("msg", "test"), towns(8, "hauptstadtVon", "liegtIn", "grenztAn")),
    ):
        for name, rows in zip(names, parts, strict=True):
            (folder / f"{name}.txt").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def call(*words):
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(word) for word in words])
    return stopped.value.code


QUICK = ("--set", "epochs=4", "--set", "lists=200")


@pytest.mark.parametrize(
    ("model", "more"),
    [("tally", QUICK), ("tally-adapted", (*QUICK, "--set", "adaptation_epochs=2")), ("tally-foundation", ())],
)
def test_a_strangers_dataset_is_trained_on_and_scored_by_the_same_command(stranger, model, more, capsys):
    assert call("run", model, "--dataset", "mine", "--out", "run", *more) == 0, capsys.readouterr().err
    result = load("run")
    assert verify("run").ok
    assert (result.dataset, result.run.model, result.run.status) == ("mine", model, "ok")
    own = ("mine/train",)
    assert result.run.pretraining_graphs == (tuple(describe(WEIGHTS)["graphs"]) if "found" in model else own)
    assert result.metrics["mrr"] > result.baselines["half_link_memory"]["mrr"]


def test_a_stranger_asks_for_what_is_missing(stranger, capsys):
    asked = ("--head", "liegtIn 1.0", "--relation", "hauptstadtVon", "--json")
    assert call("score-with", "tally", "mine", *asked) == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    assert [row["tail"] for row in found[:1]] == ["grenztAn 1"]
    assert [row.tail for row in predict("tally", "mine/msg.txt", "liegtIn 1.0", "hauptstadtVon", top=1)] == [
        "grenztAn 1"
    ]
    assert call("run", "tally", "--dataset", "mine", "--out", "run", *QUICK) == 0
    capsys.readouterr()
    assert call("score-with", "tally", "mine", *asked, "--run", "run") == 2
    assert "mine test is not in the catalogue: pass the dataset of the run" in capsys.readouterr().err
    assert call("score-with", "tally", "mine", *asked, "--run", "run", "--dataset", "mine") == 0
    other = json.loads(capsys.readouterr().out)["predictions"]
    assert other[0]["tail"] == "grenztAn 1"
    assert other[0]["score"] != found[0]["score"]
    assert call("score-with", "tally-adapted", "mine", *asked, "--run", "run", "--dataset", "mine") == 2
    assert "run is a run of tally, not of tally-adapted" in capsys.readouterr().err


def test_a_model_that_adapts_is_trained_for_another_graph_than_that_of_its_run(stranger, monkeypatch, capsys):
    few = (*QUICK, "--set", "adaptation_epochs=2")
    assert call("run", "tally-adapted", "--dataset", "mine", "--out", "run", *few) == 0
    kept = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    begun, train = [], fitting.train

    def noting(state, work, *, stage, **more):
        begun.append((stage, state.epoch))
        train(state, work, stage=stage, **more)

    monkeypatch.setattr(fitting, "train", noting)
    words, run = ("score-with", "tally-adapted"), ("--run", "run", "--dataset", "mine")
    own = (*words, "mine", "--head", "liegtIn 1.0", "--relation", "hauptstadtVon", *run)
    assert call(*own) == 0
    assert call(*words, "mine/train.txt", "--head", "liesIn 1.0", "--relation", "capitalOf", *run) == 0
    assert begun == [("train", 4), ("adapt", 2), ("train", 4), ("adapt", 0)]
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == kept
    figures = {key: {} for key in ("metrics", "optimistic", "pessimistic", "chance", "floors")}
    nothing = {"status": "failed", "tie_rate": None, "ranks_sha256": None, "targets": 0, **figures}
    for result in Path("run").rglob("result.json"):
        failed = json.loads(result.read_text(encoding="utf-8")) | nothing
        result.write_text(json.dumps(failed), encoding="utf-8")
        result.with_name("ranks.parquet").unlink()
    capsys.readouterr()
    assert call(*own) == 2
    assert "run did not finish (failed): run its command again" in capsys.readouterr().err
    assert len(begun) == 4
