"""Runs side by side: seeds are averaged, and nothing else is."""

import csv
import io
import statistics
from dataclasses import replace

import pytest
from ranking_toys import hashed, random_split

from mtbench.analysis.overview import overview, table
from mtbench.evaluation.tasks import evaluate, task
from mtbench.heuristics.figures import BASELINES
from mtbench.runs.origin import RunInfo

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
SPLIT = random_split(1)


def run(model="m_1", seed=0, protocol="dual", candidates=0, **info):
    found = evaluate(lambda triples: hashed(triples, 7 + seed), SPLIT, protocol, seed=candidates)
    return replace(found, run=RunInfo(model=model, seed=seed, **info))


def test_seeds_are_averaged_with_their_deviation():
    runs = [run(seed=seed) for seed in (2, 0, 1)]
    row, *baselines, chance = overview(runs)
    values = [result.metrics["mrr"] for result in runs]
    assert (row.label, row.seeds, row.unfinished) == ("m_1", (0, 1, 2), ())
    assert row.mean["mrr"] == pytest.approx(statistics.fmean(values))
    assert row.sd["mrr"] == pytest.approx(statistics.stdev(values))
    assert row.optimistic["mrr"] == pytest.approx(statistics.fmean(result.optimistic["mrr"] for result in runs))
    assert row.pessimistic["mrr"] == pytest.approx(statistics.fmean(result.pessimistic["mrr"] for result in runs))
    assert [baseline.model for baseline in baselines] == [name.replace("_", " ") for name in BASELINES]
    assert baselines[1].mean == runs[0].baselines["relation_frequency"]
    assert (chance.model, chance.mean, chance.sd) == ("chance", runs[0].chance, {})
    assert f"{row.mean['mrr']:.4f} ({row.sd['mrr']:.4f})" in table([row])


def test_one_seed_has_no_deviation():
    row = overview([run()])[0]
    assert row.sd == {}
    assert "(" not in table([row]).splitlines()[-1]


@pytest.mark.parametrize(
    ("other", "label"),
    [
        (lambda: run(seed=1, hyperparameters={"layers": 2}), "m_1 (layers=2)"),
        (lambda: run(seed=1, regime="supervised"), "m_1 (regime=supervised)"),
        (lambda: run(seed=1, commit="abc"), "m_1 (commit=abc)"),
        (lambda: replace(run(seed=1), evaluator_version="0"), "m_1 (evaluator=0)"),
        (lambda: replace(run(seed=1), dataset_version="9"), "m_1 (version=9)"),
    ],
)
def test_whatever_else_differs_is_a_row_of_its_own_and_named(other, label):
    rows = overview([run(), other()])
    assert [row.seeds for row in rows[:2]] == [(0,), (1,)]
    assert rows[1].label == label


def test_other_candidates_are_another_task():
    rows = overview([run(), run(seed=1, candidates=1), run(protocol="entity")])
    one = ["m_1", *(name.replace("_", " ") for name in BASELINES), "chance"]
    assert [row.model for row in rows] == one * 3
    assert "candidate seed=1" in rows[len(one)].label
    assert rows[2 * len(one)].label == "m_1"


def test_rows_of_one_task_stand_together():
    rows = overview([run(), run(protocol="entity"), run(model="other")])
    found = [(row.model, row.protocol) for row in rows if row.seeds]
    assert found == [("m_1", "dual"), ("other", "dual"), ("m_1", "entity")]


def test_one_seed_twice_is_not_averaged():
    assert [row.seeds for row in overview([run(), run(), run(seed=1)]) if row.seeds] == [(0, 1), (0,)]


def test_unfinished_seeds_are_named_and_not_averaged():
    failed = task(SPLIT).unfinished("oom")
    failed = replace(failed, run=RunInfo(model="m_1", seed=1, status="oom"))
    row = overview([run(), failed])[0]
    assert (row.seeds, row.unfinished, row.mean) == ((0,), (1,), run().metrics)
    assert "0; unfinished: 1" in table([row])
    alone = overview([failed])[0]
    assert (alone.seeds, alone.mean) == ((), {})
    assert "unfinished: 1" in table(overview([failed]))


def test_csv_has_a_column_for_every_figure():
    rows = overview([run(seed=seed, hyperparameters={"a": chosen}) for seed, chosen in enumerate((1, 2, 2))])
    first, second, *_, chance = csv.DictReader(io.StringIO(table(rows, "csv")))
    assert (first["model"], first["details"], first["seeds"], first["mrr_sd"]) == ("m_1", "a=1", "0", "")
    assert (second["details"], second["seeds"]) == ("a=2", "1 2")
    assert float(second["mrr_sd"]) == rows[1].sd["mrr"]
    assert float(second["hits@10_pessimistic"]) == rows[1].pessimistic["hits@10"]
    assert (chance["model"], float(chance["mrr"]), chance["mrr_optimistic"]) == ("chance", rows[-1].mean["mrr"], "")
