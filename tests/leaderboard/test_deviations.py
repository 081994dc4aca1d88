"""Every figure of the paper beside ours: verdicts, which entry stands for a row, and what explains a difference."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from forging import PUBLISHED, copy_entry, drop_doubled

from leaderboard.board import reported
from leaderboard.board.board import Figure
from leaderboard.board.deviations import (
    AS_RUN,
    EPOCHS,
    ERRATUM,
    HALF_DIGIT,
    MEMORY,
    REPLICATION,
    SEEDS,
    TIES,
    Deviation,
    Ours,
    _judged,
    deviations,
    markdown,
    reach,
    replication,
)
from leaderboard.entries import checks, entries
from mtbench.data import catalog

CELL = reported.Cell("table", "appendix", "metafam", "dual", "isdea", "mrr", 0.3, 0.02, "ok")


def runs(*seeds, cell=CELL, **settings):
    return Ours(settings, {cell.protocol: [{cell.metric: seed} for seed in seeds]})


def judged(ours, cell=CELL, **settings):
    found = _judged(cell, runs(ours, cell=cell, **settings))
    return found.verdict, found.reason.key if found.reason else ""


def test_what_a_perfect_replication_could_give_is_within():
    # Student's quantile of two degrees of freedom is 4.3027; one seed of ours against three.
    wide = 4.3027 * 0.02 * (1 / 3 + 1) ** 0.5 + HALF_DIGIT
    assert reach(0.02, 1) == pytest.approx(wide, abs=1e-5)
    assert reach(0.02, 3) == pytest.approx(4.3027 * 0.02 * (2 / 3) ** 0.5 + HALF_DIGIT, abs=1e-5)
    assert judged(0.3 + 0.999 * wide) == judged(0.3 - 0.999 * wide) == ("within", "")
    assert judged(0.3 + 1.001 * wide) == judged(0.3 - 1.001 * wide) == ("open", "")
    alone = replace(CELL, std=None)
    assert (judged(0.3004, alone), judged(0.301, alone)) == (("within", ""), ("open", ""))


def test_what_explains_a_figure_is_asked_only_of_those_that_are_not_within():
    wrong = replace(CELL, erratum="printed twice")
    assert judged(0.3, wrong, inverses=False) == ("within", "")
    assert judged(0.5, wrong, inverses=False) == ("explained", ERRATUM.key)
    assert judged(0.4, replace(CELL, mean=None, std=None, status="oom")) == ("explained", MEMORY.key)


@pytest.mark.parametrize(("key", "inverses"), [("inverses", False), ("", True)])
def test_a_run_without_inverses_is_explained_by_them(key, inverses):
    assert judged(0.5, inverses=inverses) == ("explained" if key else "open", key)


@pytest.mark.parametrize(("metric", "scatter"), [("mr", 7.5), ("mrr", 0.1996), ("hits@10", 0.4245)])
def test_a_figure_of_random_integers_may_lie_as_far_off_as_their_draw_and_no_farther(metric, scatter):
    """0 to 25 have the variance 25 x 27 / 12; 1 / rank and the estimate of Hits@10 those of a model right about all."""
    cell = replace(CELL, model="nbfnet-homo", metric=metric, mean=0.1, std=0.001)
    draws = 1.96 * scatter / (2 * catalog.record("metafam").parts["test/targets"].triples) ** 0.5
    wide = (reach(0.001, 1) ** 2 + draws**2) ** 0.5

    def verdict(gap, cell=cell):
        return _judged(replace(cell, mean=0.1 - gap), runs(0.1, cell=cell)).verdict

    assert [verdict(times * wide) for times in (0.0, 0.999, 1.001)] == ["within", "within", "open"]
    assert verdict(0.999 * wide, replace(cell, protocol="entity")) == "open"  # no integer is drawn there


def test_runs_that_show_a_reason_explain_what_they_agree_with_and_no_more():
    found = _judged(CELL, runs(0.5), {TIES: runs(0.6), AS_RUN: runs(0.31)})
    assert (found.verdict, found.reason, str(found)) == (
        "explained",
        AS_RUN,
        "0.500, paper 0.300 ± 0.020; as run 0.310",
    )
    assert _judged(CELL, runs(0.3), {AS_RUN: runs(0.3)}).verdict == "within"
    missed = _judged(CELL, runs(0.5), {AS_RUN: runs(0.5)})
    assert (missed.verdict, str(missed)) == ("open", "0.500, paper 0.300 ± 0.020; open")


def test_a_choice_explains_a_figure_that_it_moves_across_the_papers():
    def verdict(reason, ours, shown):
        return _judged(CELL, runs(ours), {reason: runs(shown)}).verdict

    assert [verdict(EPOCHS, 0.5, shown) for shown in (0.1, 0.31, 0.45, 0.9)] == [*["explained"] * 2, *["open"] * 2]
    assert [verdict(EPOCHS, 0.1, shown) for shown in (0.5, 0.0)] == ["explained", "open"]
    assert [verdict(AS_RUN, 0.5, shown) for shown in (0.1, 0.31)] == ["open", "explained"]


def test_seeds_explain_a_figure_if_more_than_one_draw_of_three_in_twenty_agrees():
    def found(reason, *near, row=(CELL,)):
        return _judged(CELL, runs(0.9), {reason: runs(*near, *[0.9] * (10 - len(near)))}, row)

    # Of 120 draws 4 are of four near seeds alone, and 10 of five; those with one far seed are .2 off, and not near.
    assert [found(SEEDS, *[0.3] * near).verdict for near in (0, 3, 4, 5)] == [*["open"] * 3, "explained"]
    assert str(found(SEEDS, *[0.3] * 5)) == "0.900, paper 0.300 ± 0.020; seeds 8% of draws"
    assert found(AS_RUN, *[0.3] * 5).verdict == "open"
    # A draw has to agree with every figure of the row: here never.
    assert found(SEEDS, *[0.3] * 5, row=(CELL, replace(CELL, mean=0.9))).verdict == "open"
    assert found(SEEDS, *[0.3] * 5, row=(CELL, replace(CELL, mean=0.9, erratum="printed twice"))).verdict == "explained"
    assert _judged(CELL, runs(0.9), {SEEDS: runs(0.9, 0.9)}, (CELL,)).verdict == "open"


def test_seeds_that_lie_farther_apart_than_chance_are_marked():
    # The 97.5 % quantile of F with 2 and 2 degrees of freedom is 39: a ratio of deviations of 6.245.
    def scattered(deviation):
        ours = Figure(0.3, deviation, seeds=3)
        return Deviation(CELL, ours, "within").scattered

    assert [scattered(ratio * (0.02 + HALF_DIGIT)) for ratio in (6.2, 6.3)] == [False, True]
    assert str(Deviation(CELL, Figure(0.31, 0.2, seeds=3), "within")) == "0.310, paper 0.300 ± 0.020; seeds apart"


@pytest.fixture
def folder(tmp_path):
    copy_entry(tmp_path, "isdea", (0, 1))
    return tmp_path


def load(folder):
    return [entries.load(one) for one in checks.folders(folder)]


def test_every_printed_figure_has_one_verdict_in_the_order_of_the_tables(folder):
    found = deviations(load(folder))
    assert tuple(one.cell for one in found) == reported.cells()
    assert {(one.cell.model, one.cell.dataset) for one in found if one.verdict != "not run"} == {("isdea", "metafam")}
    text = markdown(load(folder))
    counts = Counter(one.verdict for one in found)
    table = text.partition("\n\n")[0]
    for words, number in (("within", counts["within"]), ("open", counts["open"]), ("", 560)):
        assert re.search(rf"^\| {words} *\| {number} *\|", table, re.MULTILINE), words
    assert [line for line in text.splitlines() if line.startswith("### ")] == ["### metafam"]
    own = [one for one in found if one.cell.model == "isdea" and one.cell.dataset == "metafam"]
    judged = Counter(one.verdict for one in own)
    assert f"| isdea   {'':20}| {judged['within']} / {judged['explained']} / {judged['open']} |" in text
    assert all(str(one) in text for one in own)
    near = next(one for one in own if one.verdict == "within")
    beside = f"{near.ours.mean:.3f}, paper {near.cell.mean:.3f} ± {near.cell.std:.3f}"
    assert str(near) == f"{beside}; seeds apart" if near.scattered else beside
    assert "mtbench grid mtdea:tasks=6 --dataset metafam --dataset wikitopics-mt1/health " in text
    assert "mtbench grid isdea --dataset wikitopics-mt1/health " in text


def test_the_runs_that_show_reasons_hold_and_stand_beside_the_entries():
    shown = replication(PUBLISHED)
    assert {"isdea-rounded", "no-training"} <= {entry.slug for entry in shown}
    for entry in shown:
        problems = checks.check(PUBLISHED.parent / REPLICATION / entry.slug)
        leaks = {"as_run"} if entry.slug.endswith("-as-run") or entry.card.model.startswith("mtdea") else set()
        assert {problem.name for problem in problems if not problem.remark} == leaks
        # Nobody ranks them: they lack the tasks that a place needs.
        assert all(run.missing for runs in entry.runs.values() for run in runs)


def test_a_reading_of_an_older_version_of_a_setting_does_not_count(folder):
    for path in (folder / "isdea").glob("*/*/conventions.json"):
        told = json.loads(path.read_text(encoding="utf-8"))
        for reading in (one for readings in told["protocols"].values() for one in readings):
            reading["source"] = "as it was"
        path.write_text(json.dumps(told), encoding="utf-8")
    assert {one.verdict for one in deviations(load(folder))} == {"not run"}


def test_the_entry_of_a_row_is_the_one_read_as_the_paper_ranked_then_the_one_of_its_name(folder):
    def ours():
        found = deviations(load(folder))
        return next(one.ours.mean for one in found if one.cell.table == "synth-dual-results" and one.ours is not None)

    def edit(slug, name, mr):
        for path in (folder / slug).glob("*/*/conventions.json"):
            told = json.loads(path.read_text(encoding="utf-8"))
            (of_slots,) = (one for one in told["protocols"]["dual"] if one["convention"] == "isdea")
            if name == "isdea":
                of_slots["expected"]["mr"] = mr
            else:
                doubled = of_slots | {"convention": name, "expected": of_slots["expected"] | {"mr": mr}}
                told["protocols"]["dual"].insert(2, doubled)
            path.write_text(json.dumps(told), encoding="utf-8")

    for path in (folder / "isdea").glob("*/*/conventions.json"):
        drop_doubled(path)
    shutil.copytree(folder / "isdea", folder / "another")
    edit("another", "isdea", 5.0)
    edit("isdea", "isdea", 6.0)
    assert ours() == 6
    edit("another", "isdea-doubled", 7.0)
    assert ours() == 7
