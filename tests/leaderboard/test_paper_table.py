"""``mtbench table``: what a paper prints of finished runs, beside published models, baselines and printed figures."""

import csv
import io
import shutil
import statistics
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from forging import PUBLISHED, copy_entry, edit_all, published
from site_toys import EMPTY, offline

from leaderboard.board import reported
from leaderboard.board.rows import Column, of_entry
from leaderboard.entries import entries as entries_of
from mtbench.analysis.comparison import compare
from mtbench.analysis.groups import p_value_over
from mtbench.analysis.significance import holm
from mtbench.data import catalog
from mtbench.runs.directory import RunDirectory
from mtbench.runs.result import load
from mtbench.settings.table import setting_of

DOCUMENT = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}\input{table}\end{document}"


@pytest.fixture
def grid(tmp_path):
    """Return the folder of a grid with ISDEA, as a user's model, on MetaFam with three seeds."""
    for seed in range(3):
        shutil.copytree(published("isdea", seed=seed), tmp_path / "grid" / "isdea" / "metafam" / f"seed{seed}")
    return tmp_path / "grid"


@pytest.fixture
def entries(tmp_path):
    copy_entry(tmp_path / "published", "mtdea-k2", (0, 1, 2))
    copy_entry(tmp_path / "published", "nbfnet-homo", (0,))
    return tmp_path / "published"


@pytest.fixture
def table(command, tmp_path, entries, monkeypatch):
    """Run ``mtbench table`` without a network; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    with offline(tmp_path / "cache"):
        yield partial(command, "table", "--entries", entries)


@pytest.fixture
def cells(table):
    """Return the lines of the table as CSV, by model and column."""

    def read(*arguments):
        code, out, err = table(*arguments, "--format", "csv")
        assert (code, err) == (0, "")
        return {(row["model"], row["graphs"], row["protocol"]): row for row in csv.DictReader(io.StringIO(out))}

    return read


def mrr(slug, protocol="dual", seeds=range(3), dataset="metafam"):
    below = "" if protocol == "dual" else f"{protocol}-present"
    return [load(published(slug, dataset, seed) / below).metrics["mrr"] for seed in seeds]


def test_every_figure_is_the_mean_over_seeds_of_what_the_runs_say(cells, grid):
    found = cells(grid, "--against", "mtdea-k2,half-link,paper:isdea")
    assert {key[1:] for key in found} == {("metafam", protocol) for protocol in ("dual", "entity", "relation")}
    for slug, name in (("isdea", "isdea"), ("mtdea-k2", "MTDEA, K = 2")):
        for protocol in ("dual", "entity", "relation"):
            row = found[name, "metafam", protocol]
            assert float(row["mean"]) == pytest.approx(statistics.fmean(mrr(slug, protocol)))
            assert float(row["deviation"]) == pytest.approx(statistics.stdev(mrr(slug, protocol)))
            assert row["seeds"] == "3"
    known = catalog.record("metafam").baselines_of(setting_of("entity").key("test", 0))
    assert float(found["half link memory", "metafam", "entity"]["mean"]) == known["half_link_memory"]["mrr"]
    best = max(each["mrr"] for each in known.values())
    assert float(found["best heuristic baseline", "metafam", "entity"]["mean"]) == best
    printed = reported.of("metafam", "isdea")["dual", "mrr"]
    assert float(found["isdea (printed)", "metafam", "dual"]["mean"]) == printed.mean


def test_what_differs_is_what_the_paired_test_says_corrected_for_all_tests_of_the_table(cells, grid):
    found = cells(grid, "--against", "mtdea-k2,nbfnet-homo")
    wanted = {}
    for protocol in ("dual", "entity", "relation"):
        for slug, seeds in (("mtdea-k2", range(3)), ("nbfnet-homo", (0,))):
            below = "" if protocol == "dual" else f"{protocol}-present"
            runs = [published("isdea", seed=seed) / below for seed in range(3)]
            (pair,) = compare([*runs, *(published(slug, seed=seed) / below for seed in seeds)]).pairs
            wanted[protocol, slug] = pair.p_value
    corrected = dict(zip(wanted, holm(list(wanted.values())), strict=True))
    names = {"mtdea-k2": "MTDEA, K = 2", "nbfnet-homo": "NBFNet-homo"}
    for protocol in ("dual", "entity", "relation"):
        differs = [names[slug] for slug in names if corrected[protocol, slug] < 0.05]
        assert found["isdea", "metafam", protocol]["differs_from"] == "; ".join(differs)
    assert {row["differs_from"] for (name, *_), row in found.items() if name != "isdea"} == {""}


def test_the_best_is_bold_unless_it_has_few_seeds(table, grid):
    asked = (grid, "--protocol", "entity", "--against")
    _, out, _ = table(*asked, "mtdea-k2,paper:mtdea-k2")
    assert "**0.820**" in next(line for line in out.splitlines() if line.startswith("best heuristic baseline"))
    assert out.count("**") == 2
    mean = statistics.fmean(mrr("nbfnet-homo", "entity", (0,)))
    assert mean > 0.820 > max(statistics.fmean(mrr(slug, "entity")) for slug in ("isdea", "mtdea-k2"))
    _, out, _ = table(*asked, "nbfnet-homo")
    assert f" {mean:.3f} (1 seed)" in out
    assert "**" not in out


def test_what_trained_with_its_questions_in_sight_is_never_bold(table, grid):
    asked = (grid, "--protocol", "dual")
    _, out, _ = table(*asked)
    assert f"**{statistics.fmean(mrr('isdea')):.3f}" in out
    assert "in sight" not in out
    for leak in ({"mask": "none"}, {"recipe": "as-run"}):
        edit_all(grid, hyperparameters=leak)
        _, out, _ = table(*asked)
        assert "**" in next(line for line in out.splitlines() if line.startswith("best heuristic baseline"))
        assert out.count("**") == 2
        assert "isdea: trained with what is asked in sight, a leak: not to be reported; 1 of 1 figures" in out


def test_a_note_says_what_a_reader_has_to_know(table, grid):
    _, out, _ = table(grid, "--against", "mtdea-k2,half-link")
    notes = out.partition("\n\n")[2]
    for promised in (
        "evaluator version 2",
        "differs from a: half link memory, b: MTDEA, K = 2 at the level 0.05 (paired bootstrap",
        "Holm's correction for 6 tests",
        "Trained on the pair's training graph: isdea.",
        "Adapted to the inference graph: MTDEA, K = 2.",
        "isdea: 3 of 3 figures; seeds: 3; at most",
        "The best heuristic baseline by MRR is ",
    ):
        assert promised in notes


def test_over_a_group_a_seed_has_the_mean_over_its_graphs(tmp_path):
    for name in ("metafam", "fbnell"):
        copy_entry(tmp_path, "isdea", (0, 1, 2), dataset=name)
    column = Column(setting_of("dual"), ("metafam", "fbnell"), "both")
    row = of_entry(entries_of.load(tmp_path / "isdea"), "ISDEA", "own", [column], "mrr")
    means = list(map(statistics.fmean, zip(mrr("isdea"), mrr("isdea", dataset="fbnell"), strict=True)))
    figure = row.figure(column)
    assert (figure.mean, figure.deviation) == pytest.approx((statistics.fmean(means), statistics.stdev(means)))
    shutil.rmtree(tmp_path / "isdea" / "fbnell" / "seed2")
    row = of_entry(entries_of.load(tmp_path / "isdea"), "ISDEA", "own", [column], "mrr")
    assert (row.figure(column).deviation, row.figure(column).seeds) == (None, 2)
    assert row.figure(replace(column, graphs=("metafam", "fbnell", "fbnell-strict"))) is None


def test_a_group_compares_runs_with_entries_and_with_what_others_measured(command):
    group = "entities+relations"
    arguments = ("--against", "motif,elsewhere:ultra-3g", "--group", group, "--format", "csv", "--entries", PUBLISHED)
    code, out, _ = command("table", PUBLISHED / "ultra-3g", *arguments)
    assert code == 0
    rows = {row["model"]: row for row in csv.DictReader(io.StringIO(out)) if row["protocol"] == "full"}
    full = setting_of("full")
    values = {
        slug: [
            RunDirectory(published(slug, name.replace("/", "-"))).read().results[full].metrics["mrr"]
            for name in catalog.names(group)
        ]
        for slug in ("ultra-3g", "motif")
    }
    assert float(rows["ultra-3g"]["mean"]) == pytest.approx(statistics.fmean(values["ultra-3g"]))
    p_value = p_value_over(values["ultra-3g"], values["motif"])
    assert rows["ultra-3g"]["differs_from"] == "MOTIF" * (p_value < 0.05)
    printed = [reported.elsewhere()["ultra-3g"].figures[name][0] for name in catalog.names(group)]
    assert float(rows["ULTRA 3g (elsewhere)"]["mean"]) == pytest.approx(statistics.fmean(printed))


def test_what_lacks_is_a_dash_and_one_command_makes_it(table, grid):
    shutil.rmtree(grid / "isdea" / "metafam" / "seed1" / "entity-present")
    _, out, _ = table(grid, "--dataset", "metafam,fbnell")
    row = next(line for line in out.splitlines() if line.startswith("isdea "))
    assert row.split()[-3:] == ["-", "-", "-"]
    assert "2 seeds)" in row
    assert "isdea: 3 of 6 figures; seeds: 2 to 3" in out
    assert "not run on fbnell" in out
    assert out.endswith(
        "What lacks is made by\nmtbench grid isdea --dataset metafam,fbnell --seeds 0-2 --protocol dual "
        f"--protocol entity --protocol relation --out {grid}\n"
    )


def test_a_run_out_of_memory_is_said_and_its_seed_is_in_no_mean(table, grid):
    for seed in (1, 2):
        run = grid / "isdea" / "metafam" / f"seed{seed}"
        for path in run.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        edit_all(run, **EMPTY)
        (run / "ranks.parquet").unlink()
    _, out, _ = table(grid)
    assert f" {mrr('isdea')[0]:.3f} (1 seed)" in out
    assert "oom on metafam, seed 1; oom on metafam, seed 2" in out
    shutil.rmtree(grid / "isdea" / "metafam" / "seed0")
    _, out, _ = table(grid, "--protocol", "dual")
    assert next(line for line in out.splitlines() if line.startswith("isdea ")).split() == ["isdea", "OOM"]


def test_settings_make_two_models_and_tasks_in_several_folders_one_run(table, grid, tmp_path):
    shutil.copytree(grid / "isdea", grid / "wide")
    edit_all(grid / "wide", hyperparameters={"width": 8})
    entity = grid / "isdea" / "metafam" / "seed0" / "entity-present"
    entity.rename(tmp_path / "entity-alone")
    _, out, _ = table(grid, tmp_path / "entity-alone")
    assert sum(line.startswith("isdea (") and "width=8" in line for line in out.partition("\n\n")[0].splitlines()) == 1
    assert f"{statistics.fmean(mrr('isdea', 'entity')):.3f} ({statistics.stdev(mrr('isdea', 'entity')):.3f})" in out
    assert "What lacks" not in out


def test_without_the_data_nothing_is_tested_and_the_table_says_so(table, tmp_path):
    shutil.copytree(published("isdea", "fbnell"), tmp_path / "run")
    copy_entry(tmp_path / "published", "isdea-homo", (0,), dataset="fbnell")
    code, out, _ = table(tmp_path / "run", "--against", "isdea-homo")
    assert code == 0
    assert "Not tested, because the data are not here: fbnell (mtbench fetch fbnell)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name finished runs, or published models: mtbench table"),
        (["nowhere"], "nowhere does not exist: name what mtbench run --out or mtbench grid --out wrote"),
        (["empty/file"], "empty/file is a file: name what"),
        (["grid", "--against", "isdea", "--entries", "grid"], "no entries are in grid: --entries DIR names"),
        (["empty"], "empty holds no finished run (a folder with result.json)"),
        (["grid", "--against", "mtdea-k3"], "unknown name in --against 'mtdea-k3': did you mean mtdea-k2"),
        (["grid", "--against", "half_lnk"], "did you mean half-link"),
        (["grid", "--against", "paper:isdaa"], "did you mean paper:isdea"),
        (["grid", "--against", "isdea", "--entries", "nowhere"], "nowhere holds no entries"),
        (["grid", "grid/../twice"], "are both isdea on metafam with seed 0 ("),
        (["grid", "--dataset", "metafan"], "unknown dataset 'metafan': did you mean metafam"),
        (["grid", "--dataset", "metafam", "--group", "entities"], "give either --dataset or --group"),
        (["grid", "--protocol", "duel"], "unknown protocol 'duel': did you mean dual"),
        (["grid", "--format", "html"], "unknown table format 'html'"),
        (["grid", "--out", "empty"], "empty exists: add --force to replace it"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_to_type(table, grid, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "file").touch()
    shutil.copytree(published("isdea"), tmp_path / "twice")
    code, out, err = table(*arguments)
    assert code in (1, 2)
    assert out == ""
    assert message in err
    assert err.count("\n") == 1 or err.startswith("Usage")


def test_latex_compiles_whatever_names_hold(table, grid, tmp_path):
    (tmp_path / "published" / "mtdea-k2" / "card.toml").write_text(
        (tmp_path / "published" / "mtdea-k2" / "card.toml").read_text().replace("MTDEA, K = 2", "MTDEA_2 & 50% {#1}")
    )
    asked = (grid, "--against", "mtdea-k2,half-link,paper:isdea,elsewhere:ultra-3g", "--format", "latex")
    assert table(*asked, "--out", "table.tex")[0] == 0
    text = Path("table.tex").read_text(encoding="utf-8")
    assert text.count(r"\midrule") == 4
    assert r"\toprule" in text
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not here")
    Path("document.tex").write_text(DOCUMENT, encoding="utf-8")
    made = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout[-2000:]
