"""``mtbench baselines``: tables, JSON, and refusals before any work."""

import json
import re
from pathlib import Path

import pytest

import mtbench
from mtbench.files import tables
from mtbench.heuristics.figures import BASELINES
from mtbench.settings.table import PROTOCOLS, VOCABULARIES


def test_baselines_prints_one_table_per_task(printed):
    out = printed("baselines", "toy", "--protocol", "dual", "--protocol", "relation")
    titles = [line for line in out.splitlines() if line.startswith("toy ")]
    tasks = [f"protocol {protocol}, present relations, candidate seed 0" for protocol in ("dual", "relation")]
    assert titles == [f"toy test: {task}" for task in tasks]
    chosen = mtbench.task("toy")
    rows = [(name.replace("_", " "), figures) for name, figures in chosen.baselines.items()]
    assert tables.render(rows) in out
    assert out.count("\nchance ") == 2


def test_baselines_as_json(listed):
    found = listed("baselines", "toy", "--protocol", "all", "--vocabulary", "all")
    tasks = [mtbench.task("toy", row["protocol"], row["vocabulary"]) for row in found]
    assert len({chosen.name for chosen in tasks}) == len(PROTOCOLS) * len(VOCABULARIES)
    for row, chosen in zip(found, tasks, strict=True):
        assert row["candidates_sha256"] == chosen.candidates.sha256
        assert (row["dataset"], row["dataset_version"], row["split"]) == ("toy", "2.0.0", "test")
        assert {name: row["baselines"][name] for name in BASELINES} == dict(chosen.baselines)
        assert list(row["baselines"]) == [*BASELINES, "chance"]


def test_baselines_of_a_directory_as_markdown(run, tmp_path):
    mtbench.build("toy", out=tmp_path / "made")
    code, out, _ = run("baselines", tmp_path / "made", "--format", "markdown")
    assert (code, "present relations, candidate seed 0\n\n| " in out) == (0, True)


def test_a_group_has_the_means_that_its_table_shows(two, printed, listed):
    words = ("baselines", "--group", "entities", "--protocol", "full", "--protocol", "dual")
    found = listed(*words)
    assert [row["dataset"] for row in found["datasets"]] == ["toy"] * 2 + ["toy[seed=2]"] * 2
    assert (list(found["means"]), found["errors"]) == (["full-present", "dual-present"], {})
    full = [row["baselines"]["chance"]["mr"] for row in found["datasets"] if row["protocol"] == "full"]
    mean = found["means"]["full-present"]["chance"]["mr"]
    assert (mean["mean"], mean["graphs"]) == (pytest.approx(sum(full) / 2), 2)
    out = printed(*words)
    for means in found["means"].values():
        mrr = means["chance"]["mrr"]
        assert re.search(rf"^chance +{mrr['mean']:.4f} \[{mrr['low']:.4f}, {mrr['high']:.4f}\]$", out, re.MULTILINE)


def test_a_graph_of_a_group_that_cannot_be_had_leaves_the_means_of_the_others(two, command):
    graph = Path("other/test/graph.parquet")
    graph.write_bytes(graph.read_bytes()[:-9])
    code, out, err = command("baselines", "--group", "entities", "--json")
    found = json.loads(out)
    assert (code, found["means"]["dual-present"]["chance"]["mrr"]["graphs"], list(found["errors"])) == (1, 1, ["other"])
    assert "error: 1 of 2 datasets have no figure, and the means are without them: other: " in err
    assert command("baselines", "toy", "other")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tooy"], "did you mean toy?"),
        (["toy", "--protocol", "duall"], "unknown protocol 'duall': did you mean dual"),
        (["toy", "--vocabulary", "slot"], "unknown vocabulary 'slot': did you mean slots?"),
        (["toy", "--format", "markdwon"], "unknown table format 'markdwon': did you mean markdown?"),
    ],
)
def test_baselines_refuses(refused, cache, arguments, message):
    assert message in refused("baselines", *arguments)
    assert not cache.exists()
