"""``mtbench show RUN --explain`` of runs of tally, as it is typed."""

import json
import shutil

import numpy as np
import pytest

import mtbench
from mtbench.runs.result import load
from reference_models.tally.statistics import FAMILIES, Statistics

TOY = ("epochs=2", "width=8", "masks=2", "lists=80")
ADAPTED = (*TOY, "adaptation_epochs=1")
pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


@pytest.fixture
def typed(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return command


@pytest.fixture
def run(typed, small):
    """Train a model and return what is typed to have its run explained."""

    def made(model, settings, *more):
        options = [word for setting in settings for word in ("--set", setting)]
        assert typed("run", model, "--dataset", small, "--out", "kept", *options, *more)[0] == 0
        return "show", "kept", "--explain", "--dataset", small

    return made


def state(directory):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.rglob("*") if path.is_file()}


MODELS = [("tally", TOY), ("tally-adapted", ADAPTED), ("tally-foundation", ())]


@pytest.mark.parametrize(("model", "settings"), MODELS)
def test_a_run_is_explained_without_training_or_writing(typed, run, small, tmp_path, monkeypatch, model, settings):
    words = run(model, settings)
    before = state(tmp_path / "kept")
    monkeypatch.setattr("reference_models.training.loop.State.descend", lambda *_: pytest.fail("it trained"))
    split = mtbench.load(small).test
    target = " ".join(split.named(split.targets[[3]])[0])
    code, out, err = typed(*words, "--target", target, "--json")
    assert (code, err) == (0, "")
    assert state(tmp_path / "kept") == before
    found = json.loads(out)
    result = load(tmp_path / "kept")
    assert (found["model"], found["protocol"], found["changed"]) == (model, "dual", 0)
    assert found["importance"]["mrr"] == pytest.approx(result.metrics["mrr"])
    assert {name: len(falls) for name, falls in found["importance"]["falls"].items()} == dict.fromkeys(FAMILIES, 5)
    assert [question["direction"] for question in found["questions"]] == ["tail", "head"]
    statistics = Statistics(split.observable())
    entity, relation = ({name: row for row, name in enumerate(names)} for names in (split.entities, split.relations))
    for question in found["questions"]:
        assert " ".join(question["target"]) == target
        assert question["target"] in (question["first"]["triple"], question["other"]["triple"])
        ahead = question["first"]["score"] - question["other"]["score"]
        assert sum(question["moves"].values()) == pytest.approx(ahead, abs=1e-4)
        for scored in (question["first"], question["other"]):
            head, slot, tail = scored["triple"]
            triple = np.array((entity[head], relation[slot], entity[tail]))
            rules = {(rule.family, *rule.named(split, triple)): rule for rule in statistics.rules(triple)}
            for reason in scored["reasons"]:
                rule = rules[reason.pop("family"), reason.pop("of"), reason.pop("rule")]
                assert reason == {"hits": rule.hits, "cases": rule.cases, "confidence": rule.confidence}


def test_the_text_names_the_rules_and_says_what_they_are_worth(typed, run, small):
    words = run("tally", TOY, "--protocol", "dual", "--protocol", "dual-head")
    split = mtbench.load(small).test
    head, relation, tail = split.named(split.targets[[0]])[0]
    code, out, err = typed(*words, "--target", f"{head} {relation} {tail}")
    assert (code, err) == (0, "")
    assert f"({head}, {relation}, ?): rank " in out
    assert f"(?, {relation}, {tail}): rank " in out
    assert (
        f"    pair   sonOf^-1(h, t) => {relation}: " in out or f"    pair   daughterOf^-1(h, t) => {relation}: " in out
    )
    assert all(f"\n  {name:5} " in out for name in FAMILIES)
    code, out, err = typed("show", "kept/dual-head-present", *words[2:])
    assert (code, err) == (0, "")
    assert "protocol dual-head" in out


def test_the_worth_is_drawn(typed, run, drawn, tmp_path):
    words = run("tally", TOY)
    if not drawn:
        pytest.skip("matplotlib is not installed")
    code, out, err = typed(*words, "--plot", "deep/a.png")
    assert (code, err) == (0, "")
    assert out.endswith("\n\ndeep/a.png shows what the families are worth\n")
    assert (tmp_path / "deep" / "a.png").stat().st_size > 1000


def test_checkpoints_of_other_options_are_refused(typed, run, tmp_path):
    words = run("tally", TOY)
    path = tmp_path / "kept" / "result.json"
    text = path.read_text(encoding="utf-8")
    for other, message in (('"width": 9', "belongs to another run (width: 8 there, 9 here)"), ('"wide": 8', "'wide'")):
        path.write_text(text.replace('"width": 8', other), encoding="utf-8")
        code, out, err = typed(*words)
        assert (code, out) == (2, "")
        assert "error: kept: the model cannot be remade (" in err
        assert message in err
        assert "train again with mtbench run tally --dataset DIR --seed 0 --force" in err


def test_without_its_checkpoints_a_run_has_to_be_made_again(typed, run, tmp_path):
    words = run("tally", TOY)
    shutil.rmtree(tmp_path / "kept" / "checkpoints")
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert "error: kept: the model cannot be remade (its checkpoints are not of a finished training, which" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("kept kept2 --explain", "error: --explain explains one run, in text or --json: leave out other runs"),
        ("kept --explain --by relation", "error: --explain explains one run"),
        ("kept --explain --format csv", "error: --explain explains one run"),
        ("kept --explain --metric mr", "error: --explain explains one run"),
        ("kept --target a_b_c", "error: --target is for --explain: mtbench show kept --explain --target a_b_c"),
        ("kept --dataset x", "error: --dataset is for --by STRATUM"),
        ("kept --explain --plot a.pdf", "error: a.pdf must end in .png or .svg"),
        ("kept --explain", "error: no run at kept (there is no result.json): "),
    ],
)
def test_options_that_do_not_go_together_are_refused(typed, drawn, arguments, message):
    code, out, err = typed("show", *arguments.split())
    assert (code, out) == (2, "")
    assert message in err
