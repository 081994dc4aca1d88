"""``mtbench show`` as it is typed."""

import csv
import io
import json
import sys
from dataclasses import replace

import pytest
import toys
from ranking_toys import hashed, random_split

import mtbench
from mtbench.evaluation.tasks import evaluate, task
from mtbench.heuristics.figures import BASELINES
from mtbench.runs import result as results
from mtbench.runs.origin import RunInfo
from mtbench.runs.strata import STRATA

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two seeds of a model and one of another on the released toy, one run on a split nobody knows."""
    monkeypatch.chdir(tmp_path)
    split = toys.dataset().test
    for name, model, seed in (("a0", "a_b", 0), ("a1", "a_b", 1), ("c", "c|d", 0)):
        scores = evaluate(lambda triples, seed=seed: hashed(triples, 3 + seed), split)
        scores.save(f"runs/{name}", RunInfo(model=model, seed=seed))
    evaluate(hashed, random_split(1)).save("runs/unknown", RunInfo(model="e"))
    return tmp_path / "runs"


def test_one_run_is_printed_as_it_was_when_it_was_made(run, printed, runs):
    out = printed("show", "runs/a0")
    assert out == f"{results.load(runs / 'a0').text('all')}\n"
    assert run("show", "runs/a0/result.json")[1] == out


def test_a_model_of_a_file_beside_is_found_to_explain_its_run(run, runs, tmp_path, monkeypatch):
    name = "told_by_nobody"
    monkeypatch.setattr(sys, "path", [*sys.path])
    lines = "from mtbench.errors import UsageError\ndef Model(context):\n    raise UsageError('not kept')\n"
    (tmp_path / f"{name}.py").write_text(lines, encoding="utf-8")
    evaluate(hashed, toys.dataset().test).save("runs/own", RunInfo(model=f"{name}:Model"))
    code, _, err = run("show", "runs/own", "--explain")
    assert (code, "the model cannot be remade (not kept)" in err) == (2, True)
    assert f"train again with mtbench run {name}:Model --dataset toy --seed 0 --force" in err


def test_several_runs_stand_side_by_side(run, printed, runs):
    out = printed("show", "runs/a0", "runs/a1", "runs/c", "runs/a0", "--format", "markdown")
    rows = out.splitlines()[2:]
    names = [" ".join(row.partition("|")[2].partition("|")[0].split()) for row in rows]
    assert names[0] == r"a\_b"
    assert names[2:] == [*(name.replace("_", " ") for name in BASELINES), "chance"]
    assert "0, 1" in rows[0]
    code, out, _ = run("show", "runs/a0", "runs/a1", "runs/c", "--json")
    first, *_ = json.loads(out)
    assert (code, first["seeds"], first["model"]) == (0, [0, 1], "a_b")
    assert set(first["sd"]) == set(first["mean"])


@pytest.mark.parametrize(("name", "starts"), [("latex", r"\begin{tabular}"), ("csv", "stratum,targets,share,mr,")])
def test_strata_in_other_formats_are_the_table_alone(printed, runs, name, starts):
    assert printed("show", "runs/a0", "--by", "relation", "--format", name).startswith(starts)


def test_strata_of_one_run_and_of_several(printed, listed, runs):
    assert printed("show", "runs/a0", "--by", "relation") == f"{results.load(runs / 'a0').by('relation')}\n"
    several = ("runs/a0", "runs/a1", "runs/c", "--by", "relation", "--metric", "hits@1", "--format", "csv")
    rows = list(csv.reader(io.StringIO(printed("show", *several))))
    assert rows[0][3:] == ["hits@1, a_b (seed 0)", "hits@1, a_b (seed 1)", "hits@1, c|d", "hits@1, chance"]
    assert [row[0] for row in rows[1:]] == ["eats", "hunts [red]", "all"]
    (found,) = listed("show", "runs/a0", "--by", "relation")
    assert [row["label"] for row in found["rows"]] == ["eats", "hunts [red]"]
    assert found["whole"]["metrics"] == pytest.approx(results.load(runs / "a0").metrics)


def test_the_help_names_every_stratum(run):
    words = " ".join(run("show", "--help")[1].replace(",", " ").split())
    assert all(name in words for name in STRATA)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("runs/a0 runs/a1 runs/c --plot deep/a.png", "deep/a.png shows the ranks"),
        ("runs/a0 --plot deep/a.svg --by relation", "deep/a.svg shows the strata"),
        ("runs/a0 runs/c --plot deep/a.svg", "deep/a.svg shows the models"),
    ],
)
def test_a_picture_is_drawn_beside_the_table(printed, runs, options, said):
    pytest.importorskip("matplotlib")
    assert printed("show", *options.split()).endswith(f"\n\n{said}\n")
    (drawn,) = (runs.parent / "deep").iterdir()
    assert drawn.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "Missing argument 'RUN...'"),
        ("runs/aO", "error: no run at runs/aO (there is no result.json): did you mean "),
        ("nowhere/x", "no run at nowhere/x (there is no result.json): mtbench run MODEL --dataset NAME makes one"),
        ("runs", "error: runs is no run, but holds some: runs/a0, runs/a1, runs/c, runs/unknown; type runs/* for all"),
        (".", "error: . is no run, but holds some: runs/a0, runs/a1, runs/c, runs/unknown; type ./*/* for all"),
        ("runs/a0 --by relations", "error: unknown stratum 'relations': did you mean relation"),
        ("runs/a0 --by task", "error: toy test: no ground-truth tasks are known"),
        ("runs/unknown --by relation", "error: random test is not in the catalogue: pass the dataset of the run: "),
        ("runs/a0 --format htm", "error: unknown table format 'htm'"),
        ("runs/a0 --metric mr5", "error: unknown metric 'mr5': did you mean mr"),
        ("runs/a0 --plot a.pdf", "error: a.pdf must end in .png or .svg"),
        ("runs/a0 runs/c --by relation --plot a.png", "error: --plot draws the strata of one run, not 2"),
        ("runs/a0 runs/unknown --plot a.png", "error: "),
        ("runs/a0 --dataset toy", "error: --dataset is for --by STRATUM"),
        ("runs/a0 --by relation --dataset toyy", "error: unknown dataset or directory 'toyy': did you mean toy"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_to_type(refused, runs, arguments, message):
    pytest.importorskip("matplotlib")
    assert message in refused("show", *arguments.split())
    assert not list(runs.parent.glob("*.png"))


def test_a_damaged_run_exits_with_1(run, runs):
    (runs / "a0" / "ranks.parquet").unlink()
    code, out, err = run("show", "runs/a0")
    assert (code, out) == (1, "")
    assert "ranks.parquet: cannot be read" in err


def test_the_dataset_of_an_unreleased_run_can_be_given(run, printed, runs):
    assert run("build", "toy", "--set", "seed=2", "--out", "mine")[0] == 0
    data = mtbench.load("mine")
    evaluate(hashed, data.test).save("runs/mine", RunInfo(model="a"))
    assert run("show", "runs/mine", "--by", "relation_seen")[0] == 2
    assert "relation_seen" in printed("show", "runs/mine", "--by", "relation_seen", "--dataset", "mine")


def test_a_run_that_failed_is_shown_with_its_status(run, printed, runs):
    failed = task(toys.dataset().test).unfinished("oom")
    replace(failed, run=replace(failed.run, model="big")).save("runs/big")
    assert "no ranks: oom" in run("show", "runs/big")[1]
    assert "unfinished: 0" in printed("show", "runs/big", "runs/a0")


@pytest.mark.parametrize("name", ["toy", "--all", "runs"])
def test_only_a_run_can_be_scored_again_from_weights(refused, runs, name):
    message = f"error: --from-weights takes the directory of a run, not {name}: there is no result.json\n"
    assert refused("verify", name, "--from-weights") == message
    assert "--model is for --from-weights" in refused("verify", name, "--model", "isdea")
