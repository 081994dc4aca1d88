"""``mtbench compare``: tables, JSON, the picture, and what a stranger might type."""

import pytest
from ranking_toys import hashed, random_split

from mtbench.evaluation.tasks import evaluate, task
from mtbench.runs.origin import RunInfo

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")


@pytest.fixture
def runs(tmp_path):
    """Return the directories of two seeds of a model, one of another, and one that ran out of memory."""
    split = random_split(1)
    found = []
    for model, seed, levels in (("fine", 0, 1000), ("fine", 1, 900), ("rough", 0, 5)):
        result = evaluate(lambda triples, levels=levels: hashed(triples, levels), split)
        found.append(result.save(tmp_path / f"{model}-{seed}", RunInfo(model=model, seed=seed)))
    found.append(task(split).unfinished("oom").save(tmp_path / "big", RunInfo(model="big", status="oom")))
    return found


def test_tables_and_what_the_targets_can_tell(printed, runs):
    out = printed("compare", *runs)
    assert out.startswith("random/test/dual/present/0: MRR\n")
    assert "95 % from" in out
    assert "p (Holm)" in out
    assert "big seed 0: oom" in out
    assert "one seed only (rough)" in out
    assert out.rstrip().splitlines()[-1].startswith("40 test triples in ")
    assert printed("compare", *reversed(runs)) == out


def test_json_and_formats(run, listed, runs):
    found = listed("compare", *runs, "--metric", "hits@10", "--cluster", "none")
    assert (found["metric"], found["level"], found["cluster"]) == ("hits@10", 0.95, "none")
    assert {row["model"] for row in found["rows"]} == {"fine", "rough"}
    assert found["unfinished"][0]["status"] == "oom"
    assert "| Model" in run("compare", *runs, "--format", "markdown")[1]
    csv = run("compare", *runs, "--format", "csv")[1].splitlines()
    assert len({line.count(",") for line in csv}) == 1
    assert len(csv) == 4


def test_runs_of_several_tasks_are_compared_task_by_task(printed, listed, refused, runs, tmp_path):
    split = random_split(1)
    for seed, levels in enumerate((1000, 900)):
        result = evaluate(lambda triples, levels=levels: hashed(triples, levels), split, "entity")
        runs.append(result.save(tmp_path / f"other-{seed}", RunInfo(model="fine", seed=seed)))
    alone, other = printed("compare", *runs[:4]), printed("compare", *runs[4:])
    assert printed("compare", *runs) == f"{alone}\n\n{other}"
    assert [comparison["protocol"] for comparison in listed("compare", *runs)] == ["dual", "entity"]
    assert "random/test/entity/present/0\n\n| Model" in printed("compare", *runs, "--format", "markdown")
    for more in (("--format", "csv"), ("--plot", tmp_path / "a.png"), ("--data", "toy")):
        message = refused("compare", *runs, *more)
        assert "of one task, and these are of 2: random/test/dual/present/0, random/test/entity/present/0" in message


def test_the_picture(run, printed, runs, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / "intervals.svg"
    assert printed("compare", *runs, "--plot", path).endswith(f"{path} shows the intervals\n")
    first = path.read_bytes()
    assert run("compare", *runs, "--plot", path)[0] == 0
    assert path.read_bytes() == first


def test_one_run_has_no_differences(printed, runs):
    out = printed("compare", runs[0])
    assert "Difference" not in out
    assert "whose errors are not opposed" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "MRR"], "unknown metric 'MRR': did you mean mrr"),
        (["--cluster", "pairs"], "did you mean pair"),
        (["--cluster", "component"], "--data DIR"),
        (["--cluster", "component", "--data", "toy"], "test split of toy is not the one the runs are of"),
        (["--data", "toyy"], "'toyy': did you mean toy"),
        (["--format", "word"], "unknown table format 'word'"),
        (["--format", "csv", "--json"], "either --format or --json"),
        (["--draws", "1"], "draws must be at least 100"),
        (["--plot", "picture.gif"], "must end in .png or .svg"),
    ],
)
def test_wrong_usage(run, runs, options, message):
    code, out, err = run("compare", *runs, *options)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


def test_what_is_no_run(run, runs, tmp_path):
    assert run("compare")[0] == 2
    code, _, err = run("compare", tmp_path)
    assert (code, "is no run, but holds some: " in err) == (2, True)
    code, _, err = run("verify", tmp_path)
    assert (code, "name one of them, as in mtbench verify " in err) == (2, True)
    code, _, err = run("compare", tmp_path / "nothing")
    assert (code, "there is no result.json" in err) == (2, True)
    code, _, err = run("compare", runs[-1])
    assert (code, "no finished run to compare" in err) == (2, True)
