"""``mtbench score`` as it is typed: the triples out, the scores in, and what a stranger gets wrong."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from ranking_toys import hashed

from mtbench.evaluation import tasks
from mtbench.runs.result import load, verify


@pytest.fixture
def scored(printed, tmp_path, monkeypatch):
    """Return a file of scores of the toy's dual task, made from the written triples."""
    monkeypatch.chdir(tmp_path)
    out = printed("score", "--template", "triples.csv", "--task", "toy")
    assert out.startswith("triples.csv holds the ")
    assert "mtbench score triples.csv --task toy/test/dual/present/0\n" in out
    frame = pd.read_csv("triples.csv")
    frame["score"] = hashed(frame[["head_id", "relation_id", "tail_id"]].to_numpy())
    frame[::-1].to_parquet("scores.parquet")
    return "scores.parquet"


def expected():
    chosen = tasks.task("toy")
    return chosen.evaluate(hashed(chosen.triples))


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_a_table_is_printed_and_nothing_is_kept_unasked(printed, scored, tmp_path):
    before = sorted(tmp_path.iterdir())
    out = printed("score", scored, "--task", "toy")
    assert "toy test: protocol dual, present relations, candidate seed 0" in out
    assert f"{expected().metrics['mrr']:.4f}" in out
    assert out.endswith("not saved: --out DIR keeps the result as a run directory\n")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_a_run_directory_records_what_was_said_about_the_model(run, printed, refused, scored, tmp_path):
    arguments = ("score", scored, "--task", "toy/test/dual/present/0", "--out", "kept")
    about = ("--model", "mine", "--seed", 3, "--regime", "fine-tuned")
    more = ("--pretraining-graph", "fbnell", "--pretraining-graph", "nell")
    assert printed(*arguments, *about, *more).endswith("kept holds the result; mtbench verify kept recomputes it\n")
    assert verify(tmp_path / "kept").ok
    info = load(tmp_path / "kept").run
    assert (info.model, info.seed, info.regime) == ("mine", 3, "fine-tuned")
    assert info.pretraining_graphs == ("fbnell", "nell")
    assert load(tmp_path / "kept").metrics == expected().metrics
    assert "exists already" in refused(*arguments)
    assert run(*arguments, "--force")[0] == 0
    assert load(tmp_path / "kept").run.model == "scores"


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_json(listed, scored):
    payload = listed("score", scored, "--task", "toy")
    assert (payload["task"], payload["model"], payload["directory"]) == ("toy/test/dual/present/0", "scores", None)
    assert payload["metrics"] == expected().metrics
    assert payload["warnings"] == list(expected().warnings)
    written = {"task": "toy/valid/dual/present/0", "file": "t.tsv", "triples": len(tasks.task("toy/valid").triples)}
    assert listed("score", "--template", "t.tsv", "--task", "toy/valid") == written


def test_a_template_by_direction_counts_its_rows_and_is_read_back(run, scored):
    code, out, _ = run("score", "--template", "t.parquet", "--task", "toy", "--by-direction", "--json")
    frame = pd.read_parquet("t.parquet")
    assert (code, json.loads(out)["triples"]) == (0, len(frame))
    assert set(frame["direction"]) == {"tail", "head"}
    frame["score"] = hashed(frame[["head_id", "relation_id", "tail_id"]].to_numpy())
    frame.to_csv("s.csv", index=False)
    code, out, _ = run("score", "s.csv", "--task", "toy", "--json")
    assert (code, json.loads(out)["metrics"]) == (0, dict(expected().metrics))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--task", "toy"), 2, "give either FILE, with scores, or --template FILE"),
        (("scores.parquet", "--template", "t.csv", "--task", "toy"), 2, "give either FILE"),
        (("scores.parquet",), 2, "give --task NAME, or --group NAME for a file of each of its datasets"),
        (("scores.parquet", "--task", "tou"), 2, "unknown dataset or directory 'tou': did you mean toy"),
        (("scores.parquet", "--task", "toy/duel"), 2, "'duel': did you mean dual"),
        (("scores.parquet", "--task", "toy", "--regime", "zeroshot"), 2, "regime 'zeroshot': did you mean zero-shot"),
        (("scores.parquet", "--task", "toy/train"), 2, "there are no triples to rank"),
        (("scors.parquet", "--task", "toy"), 2, "scors.parquet is no file: check the path"),
        (("triples.csv", "--task", "toy"), 1, "triples.csv: the column score is missing"),
        (("scores.parquet", "--task", "toy/valid"), 1, "has unknown names"),
        (("--template", "triples.csv", "--task", "toy"), 2, "triples.csv already exists: choose another name"),
        (("--template", "triples.xlsx", "--task", "toy"), 2, "unknown file suffix '.xlsx'"),
    ],
)
def test_what_a_stranger_gets_wrong(run, scored, arguments, code, message):
    found, out, err = run("score", *arguments)
    assert (found, out) == (code, "")
    assert message in err


@pytest.fixture
def folder(two, printed):
    """Return the folder of a score file for each dataset of a group, one CSV and one Parquet, made of its template."""
    out = printed("score", "--template", "triples/NAME.csv", "--group", "entities", "--task", "dual")
    assert out.endswith("then\nmtbench score triples --group entities --task dual\n")
    Path("scores").mkdir()
    for name in ("toy", "other"):
        frame = pd.read_csv(f"triples/{name}.csv")
        frame["score"] = hashed(frame[["head_id", "relation_id", "tail_id"]].to_numpy())
        frame.to_csv(f"scores/{name}.csv", index=False)
    frame.to_parquet("scores/other.parquet")
    Path("scores/other.csv").unlink()
    return ("score", "scores", "--group", "entities", "--task", "dual")


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_the_scores_of_a_group_have_a_row_each_and_a_mean(printed, listed, refused, folder, tmp_path):
    tasks_of = [tasks.task("toy", "dual"), tasks.task("other", "dual")]
    mrr = [each.evaluate(hashed(each.triples)).metrics["mrr"] for each in tasks_of]
    out = printed(*folder)
    assert "scores: dual, present relations" in out
    assert re.search(rf"^mean over 2 +{sum(mrr) / 2:.4f} \[", out, re.MULTILINE)
    assert out.endswith("not saved: --out DIR keeps the runs\n")
    found = listed(*folder, "--out", "kept", "--model", "mine")
    assert (found["directory"], list(found["runs"]), found["errors"]) == ("kept", ["toy", "other"], {})
    assert found["means"]["dual-present"]["mrr"]["mean"] == pytest.approx(sum(mrr) / 2)
    for name, expected_mrr in zip(found["runs"], mrr, strict=True):
        assert verify(tmp_path / "kept" / name).ok
        kept = load(tmp_path / "kept" / name)
        assert (kept.metrics["mrr"], kept.run.model) == (expected_mrr, "mine")
    assert "kept/toy exists already" in refused(*folder, "--out", "kept")


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_a_dataset_of_a_group_without_scores_is_named_and_the_means_are_without_it(run, folder):
    Path("scores/toy.csv").rename("scores/toi.csv")
    code, out, err = run(*folder)
    assert (code, "mean over 1 " in out) == (1, True)
    assert "1 of 2 datasets have no figure, and the means are without them: toy: scores has no file toy.parquet" in err
    assert "(of no dataset: toi.csv)" in err
    Path("scores/other.parquet").write_bytes(b"PAR1")
    code, out, err = run(*folder, "--json")
    assert (code, json.loads(out)["means"], list(json.loads(out)["errors"])) == (1, {}, ["toy", "other"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "--group", "entities"), "nowhere is no folder: a group has a file of scores for each dataset"),
        (
            ("other", "--group", "entities"),
            "other has no file of scores of any dataset of the group, such as toy.parquet",
        ),
        (("scores", "--group", "entities", "--task", "toy/dual"), "unknown part of a task's name 'toy'"),
        (("twice", "--group", "entities"), "twice has two files of toy, toy.parquet and toy.csv: keep one of them"),
        (("--template", "t.csv", "--group", "entities"), "t.csv is one file, and a group has a file for each dataset"),
        (("--template", "t/NAME.xls", "--group", "entities"), "unknown file suffix '.xls'"),
        (("--template", "triples/NAME.csv", "--group", "entities"), "triples/toy.csv already exists"),
        (("--template", "t", "--group", "entities", "--task", "full"), "candidates are too many to list"),
    ],
)
def test_what_a_stranger_gets_wrong_with_a_group(refused, folder, monkeypatch, tmp_path, arguments, message):
    (tmp_path / "twice").mkdir()
    for suffix in ("parquet", "csv"):
        (tmp_path / "twice" / f"toy.{suffix}").touch()
    monkeypatch.setattr(tasks, "LISTED", 1)
    assert message in refused("score", *arguments)
    assert not (tmp_path / "t").exists()
