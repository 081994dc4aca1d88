"""``mtbench run`` as it is typed, with a model of somebody else's that needs no PyTorch."""

from __future__ import annotations

import json
import shutil

import pytest
import thirdparty

from mtbench.cli import groups, running
from mtbench.errors import DatasetError, MtbenchError
from mtbench.runs.result import load, verify

MODEL = f"{thirdparty.NAME}:Hashing"


@pytest.fixture(autouse=True)
def module(somebodys_models, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return somebodys_models


def test_a_run_prints_its_table_and_where_it_is(printed, tmp_path):
    out = printed("run", MODEL, "--dataset", "toy", "--out", "kept")
    assert "protocol dual, present relations" in out
    assert "hashing" in out
    assert out.endswith("kept holds the result; mtbench verify kept recomputes it\n")
    assert verify(tmp_path / "kept").ok
    assert "verified, all metrics match the ranks" in printed("verify", "kept")


def test_a_group_is_run_graph_by_graph_has_a_mean_and_goes_on_where_it_was(two, module, command, tmp_path):
    words = ("run", MODEL, "--group", "entities", "--protocol", "full", "--protocol", "dual")
    code, out, err = command(*words)
    assert (code, err) == (0, "1 of 2: toy\n2 of 2: other\n")
    assert "hashing: full, present relations" in out
    assert out.count("mean over 2") == out.count("above the best heuristic baseline") == 2
    place = tmp_path / f"runs/{MODEL.replace(':', '-')}-entities-seed0"
    shutil.rmtree(place / "toy")
    assert command(*words) == (0, out, "1 of 2: toy\n")
    calls = len(module.calls)
    means = json.loads(command(*words, "--json")[1])["means"]
    mrr = [load(place / name).metrics["mrr"] for name in ("toy", "other")]
    assert means["full-present"]["mrr"]["mean"] == pytest.approx(sum(mrr) / 2)
    assert len(module.calls) == calls
    assert command(*words, "--set", "depth=2", "--out", str(place))[0] == 1
    shutil.rmtree(place / "toy")
    shutil.copytree(place / "other", place / "toy")
    code, _, err = command(*words)
    assert code == 1, "the run of another dataset must not stand for it"
    assert f"toy: {(place / 'toy').relative_to(tmp_path)} exists already" in err


def test_a_graph_of_a_group_that_cannot_be_had_is_named_and_the_others_are_shown(two, monkeypatch, command):
    load_dataset = running.load

    def missing(name):
        if name == "toy":
            raise DatasetError("no such file anywhere")
        return load_dataset(name)

    monkeypatch.setattr(running, "load", missing)
    code, out, err = command("run", MODEL, "--group", "entities")
    assert (code, "mean over 1" in out) == (1, True)
    assert "1 of 2 datasets have no figure, and the means are without them: toy: no such file anywhere" in err
    out = command("run", MODEL, "--group", "entities", "--json")[1]
    mean = json.loads(out, parse_constant=pytest.fail)["means"]["dual-present"]["mrr"]
    assert (mean["low"], mean["high"], mean["graphs"]) == (None, None, 1)


def test_all_graphs_without_a_figure_are_named_and_the_first_few_with_the_reason():
    errors = {f"g{number}": f"reason {number}" for number in range(7)}
    with pytest.raises(
        MtbenchError, match=r"^7 of 9 datasets have no figure.*: g0: reason 0; .*g4: reason 4; also g5, g6$"
    ):
        groups.expect_all(errors, 9)
    groups.expect_all({}, 9)


def test_a_dataset_or_a_group_is_run_and_never_both(refused):
    for words in (), ("--dataset", "toy", "--group", "entities"):
        assert "give either --dataset NAME or --group NAME" in refused("run", MODEL, *words)


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_what_is_to_be_typed_next_is_quoted_for_the_shell(printed, command, tmp_path):
    printed("export", "toy", "--out", "my files")
    for words, suggested in (
        (("import", "my files", "--out", "my data"), "mtbench run tally --dataset 'my data' trains"),
        (
            ("import", "--inference", "my files/msg.txt", "--test", "my files/test.txt", "--out", "bare"),
            "mtbench run tally-foundation --dataset bare ranks",  # as no other model can
        ),
        (("info", "my data"), "(mtbench audit 'my data' has the figures)"),
        (("run", MODEL, "--dataset", "my data", "--out", "my run"), "mtbench verify 'my run' recomputes it"),
        (
            ("score", "--template", "my t.csv", "--task", "my data/dual"),
            "mtbench score 'my t.csv' --task 'my data/dual'\n",
        ),
    ):
        assert suggested in printed(*words)
    for words, suggested in (
        (("verify", "my files"), "mtbench info 'my files' shows"),
        (("show", "my run", "--target", "x 1 eats z"), "mtbench show 'my run' --explain --target 'x 1 eats z'"),
    ):
        assert suggested in command(*words)[2]


def test_paper_writes_the_papers_settings_too(run, printed, tmp_path):
    out = printed("run", MODEL, "--dataset", "toy", "--out", "kept", "--paper")
    assert "conventions.json holds the model in the evaluation settings of the paper's tables\n" in out
    written = json.loads((tmp_path / "kept" / "conventions.json").read_text(encoding="utf-8"))
    assert list(written["protocols"]) == ["dual"]
    assert run("run", MODEL, "--dataset", "toy", "--out", "kept", "--paper", "--force")[0] == 0


def test_without_out_the_run_lies_below_runs(printed, tmp_path):
    printed("run", MODEL, "--dataset", "toy", "--seed", 4, "--set", "depth=2")
    (made,) = [path for path in (tmp_path / "runs").iterdir() if not path.name.startswith(".")]
    assert made.name == f"{thirdparty.NAME}-Hashing-toy-depth=2-seed4"
    assert load(made).run.hyperparameters == {"width": 3, "depth": "2"}


def test_json_holds_every_task_with_both_tie_bounds(listed, tmp_path):
    payload = listed(
        *("run", MODEL, "--dataset", "toy", "--out", "kept"),
        *("--protocol", "relation", "--protocol", "entity", "--vocabulary", "all", "--candidate-seed", 2),
    )
    assert (payload["directory"], payload["model"]) == ("kept", "hashing")
    tasks = [f"{part['protocol']}-{part['vocabulary']}" for part in payload["results"]]
    assert tasks == ["relation-present", "relation-slots", "entity-present", "entity-slots"]
    headline = load(tmp_path / "kept")
    for figures in ("metrics", "optimistic", "pessimistic", "tie_rate"):
        assert payload["results"][0][figures] == getattr(headline, figures)
    assert headline.candidate_seed == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"run {MODEL}", "give either --dataset NAME or --group NAME"),
        ("run --dataset toy", "'MODEL'"),
        (f"run {MODEL} --dataset toyy", "error: unknown dataset or directory 'toyy': did you mean toy"),
        ("run mtdae --dataset toy", "error: unknown model 'mtdae': did you mean mtdea"),
        (f"run {thirdparty.NAME}:missing --dataset toy", f"error: cannot import the model '{thirdparty.NAME}:missing'"),
        (f"run {MODEL} --dataset toy --seed -1", "--seed"),
        (f"run {MODEL} --dataset toy --seed one", "--seed"),
        (f"run {MODEL} --dataset toy --candidate-seed -1", "--candidate-seed"),
        (f"run {MODEL} --dataset toy --set depth", "error: --set takes KEY=VALUE, not 'depth'"),
        (f"run {MODEL} --dataset toy --set a=2 --set a=3", "error: --set takes KEY=VALUE: a is given twice"),
        (f"run {MODEL} --dataset toy --set =2", "error: --set takes KEY=VALUE, not '=2'"),
        (f"run {MODEL} --dataset toy --protocol duals", "error: unknown protocol 'duals': did you mean dual"),
        (f"run {MODEL} --dataset toy --vocabulary slot", "error: unknown vocabulary 'slot': did you mean slots?"),
    ],
)
def test_wrong_usage_exits_with_2_and_does_nothing(refused, module, tmp_path, arguments, message):
    err = refused(*arguments.split())
    assert message in err
    assert "Traceback" not in err
    assert module.calls == []
    assert not (tmp_path / "runs").exists()


def test_scores_that_are_not_numbers_exit_with_1(run, tmp_path):
    code, out, err = run("run", f"{thirdparty.NAME}:Broken", "--dataset", "toy", "--out", "kept")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert "NaN" in err
    assert not (tmp_path / "kept").exists()


def test_an_existing_run_is_refused_without_force(run, refused):
    arguments = ("run", MODEL, "--dataset", "toy", "--out", "kept")
    assert run(*arguments)[0] == 0
    message = "error: kept exists already: name another with --out DIR, or replace it with --force\n"
    assert refused(*arguments) == message
    assert run(*arguments, "--force")[0] == 0


def test_an_interruption_exits_with_130_and_says_how_to_go_on(run, tmp_path):
    code, out, err = run("run", f"{thirdparty.NAME}:Interrupted", "--dataset", "toy", "--out", "kept")
    assert (code, out) == (130, "")
    place = ".kept.partial/checkpoints"
    assert err == f"error: interrupted; the same command goes on from what {place} holds\n"
    assert not (tmp_path / "kept").exists()
    code, _, err = run("run", MODEL, "--dataset", "toy", "--out", "kept")
    assert (code, err) == (0, f"goes on from what {place} holds; --restart begins anew\n")


def test_an_interruption_before_any_checkpoint_says_that_the_command_begins_anew(run, printed, module, monkeypatch):
    def fit(self, train, valid):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.Hashing, "fit", fit)
        code, _, err = run("run", MODEL, "--dataset", "toy", "--out", "kept")
    assert (code, err) == (130, "error: interrupted; there was no checkpoint yet: the same command begins anew\n")
    printed("run", MODEL, "--dataset", "toy", "--out", "kept")  # without a word on what it would go on with


def test_warnings_about_ties_are_part_of_the_table_not_of_stderr(printed, module, monkeypatch):
    monkeypatch.setattr(module.Hashing, "scorer", lambda self, observable: lambda triples: triples[:, 0] * 0.0)
    assert "warning: " in printed("run", MODEL, "--dataset", "toy", "--out", "kept")


def test_a_model_that_runs_out_of_memory_exits_with_1_and_leaves_a_result(run, module, monkeypatch, tmp_path):
    def fit(self, train, valid):
        raise MemoryError("no room")

    monkeypatch.setattr(module.Hashing, "fit", fit)
    code, out, err = run("run", MODEL, "--dataset", "toy", "--set", "batch=8", "--out", "kept")
    assert code == 1
    assert "no ranks: oom" in out
    assert err.startswith("error: hashing ran out of memory on toy (device abacus, peak ")
    assert err.endswith("kept holds the result with the status oom, --force replaces it\n")
    assert err.count("\n") == 1
    assert load(tmp_path / "kept").run.status == "oom"
    code, out, _ = run("run", MODEL, "--dataset", "toy", "--out", "kept", "--force", "--json")
    assert code == 1
    (part,) = json.loads(out)["results"]
    assert (part["status"], part["tie_rate"], part["metrics"]) == ("oom", None, {})
