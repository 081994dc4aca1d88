"""Comparisons of saved runs and of results: what is gathered, refused and said."""

import csv
import io
import json
import re
import statistics
from dataclasses import replace

import numpy as np
import pytest
from ranking_toys import hashed, random_split, small

import mtbench
from mtbench.analysis.comparison import compare
from mtbench.errors import ResultError, UnknownNameError, UsageError
from mtbench.evaluation.tasks import evaluate, task
from mtbench.ranking.ranks import Counts, Ranks
from mtbench.runs.origin import RunInfo

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
SPLIT = random_split(1, targets=80)
KNOWN = {tuple(row) for row in SPLIT.targets.tolist()}


def scorer(skill, seed):
    """Score like noise that varies with the seed, plus what the skill knows of the truth."""
    noise = np.random.default_rng(seed).random((SPLIT.num_entities, SPLIT.relation_slots, SPLIT.num_entities))

    def score(triples):
        return noise[tuple(triples.T)] + skill * np.array([tuple(row) in KNOWN for row in triples.tolist()])

    return score


def run(model, skill, seed, **info):
    return replace(evaluate(scorer(skill, seed), SPLIT), run=RunInfo(model=model, seed=seed, **info))


@pytest.fixture(scope="module")
def runs():
    """Return three seeds of a good and of a fair model, and two of a poor one."""
    skills = {"good": 0.9, "fair": 0.5, "poor": 0.05}
    return [run(name, skill, seed) for name, skill in skills.items() for seed in range(3 - (name == "poor"))]


def test_means_deviations_and_pairs_are_those_of_the_runs(runs):
    found = mtbench.compare(runs)
    assert [row.model for row in found.rows] == ["good", "fair", "poor"]
    for row, results in zip(found.rows, (runs[:3], runs[3:6], runs[6:]), strict=True):
        values = [result.metrics["mrr"] for result in results]
        assert row.mean == pytest.approx(statistics.fmean(values))
        assert row.deviation == pytest.approx(statistics.stdev(values))
        assert row.per_seed == pytest.approx(values)
        assert row.seeds == tuple(range(len(values)))
        assert 0 <= row.low < row.mean < row.high <= 1
        assert row.adjusted["mr"] == pytest.approx(statistics.fmean(r.adjusted()["mr"].index for r in results))
        assert row.z["mrr"] == pytest.approx(statistics.fmean(r.adjusted()["mrr"].z for r in results))
    names = [(pair.first, pair.second) for pair in found.pairs]
    assert names == [("good", "fair"), ("good", "poor"), ("fair", "poor")]
    for pair in found.pairs:
        means = {row.model: row.mean for row in found.rows}
        assert pair.difference == pytest.approx(means[pair.first] - means[pair.second])
        assert pair.low < pair.difference < pair.high
        assert pair.p_value <= pair.corrected
    assert [(row.best_rank, row.worst_rank, row.group) for row in found.rows] == [(1, 1, "a"), (2, 2, "b"), (3, 3, "c")]
    assert found.detectable == statistics.median(pair.detectable for pair in found.pairs)
    assert (found.cluster, found.targets, found.chance) == ("pair", 80, runs[0].chance["mrr"])


def test_the_order_of_runs_and_of_targets_does_not_matter(runs):
    order = np.random.default_rng(0).permutation(len(runs[0].ranks))

    def shuffled(ranks):
        parts = ((side, part.greater, part.equal, part.count) for side, part in ranks.parts.items())
        sides = {side: Counts(*(column[order] for column in columns)) for side, *columns in parts}
        return Ranks(ranks.heads[order], ranks.relations[order], ranks.tails[order], sides)

    found = compare(runs)
    assert compare(list(reversed(runs))) == found
    assert compare([replace(result, ranks=shuffled(result.ranks)) for result in runs]) == found
    assert compare(runs, seed=1) != found


def test_the_mean_rank_is_best_when_small_and_intervals_stay_within_the_metric(runs):
    found = compare(runs, "mr")
    assert [row.model for row in found.rows] == ["good", "fair", "poor"]
    assert all(pair.difference < 0 for pair in found.pairs)
    assert "AMRI" in found.table()
    few = [run("m", skill, seed) for seed, skill in enumerate((0.8, 0.9))]
    row = compare(few).rows[0]
    assert row.high == 1.0
    assert 0 <= row.low < row.mean
    assert compare(few, "mr").rows[0].low == 1.0


def test_groups_follow_the_corrected_differences():
    close = [run(name, skill, seed) for name, skill in (("a", 0.55), ("b", 0.5), ("c", 0.45)) for seed in range(3)]
    pair = next(pair for pair in compare(close).pairs if pair.p_value < pair.corrected < 0.5)
    for alpha, tied in (((pair.p_value + pair.corrected) / 2, True), (pair.corrected + 1e-6, False)):
        group = {row.model: set(row.group) for row in compare(close, level=1 - alpha).rows}
        assert bool(group[pair.first] & group[pair.second]) is tied


def test_the_notes_say_what_the_targets_can_tell(runs):
    found = compare(runs, level=0.9)
    smallest = [pair.detectable for pair in found.pairs]
    middle = sorted(smallest)[1]
    assert found.notes == (
        f"80 test triples in {found.clusters} (head, relation) pairs (0.1 level, 80 % power) and these seeds tell "
        f"apart models that differ by {middle:.4f} MRR (median of 3 pairs, {min(smallest):.4f} to {max(smallest):.4f})",
    )


def test_equal_models_are_tied(runs):
    twins = [replace(result, run=replace(result.run, model="twin")) for result in runs[:3]]
    found = compare([*runs, *twins])
    pair = next(pair for pair in found.pairs if {pair.first, pair.second} == {"good", "twin"})
    assert (pair.difference, pair.p_value, pair.corrected) == (0, 1, 1)
    first = [(row.model, row.group, row.best_rank, row.worst_rank) for row in found.rows[:2]]
    assert first == [("good", "a", 1, 2), ("twin", "a", 1, 2)]


def test_directories_results_and_files_are_read_alike(runs, tmp_path):
    directories = [result.save(tmp_path / str(place)) for place, result in enumerate(runs)]
    assert compare(directories) == compare(runs)
    assert compare([str(path / "result.json") for path in directories]) == compare(runs)
    with pytest.raises(UsageError, match=rf"{tmp_path} is no run, but holds some: {tmp_path / '0'}, .* and 3 more"):
        compare([tmp_path])
    with pytest.raises(UsageError, match=r"no run at .*nothing"):
        compare([tmp_path / "nothing"])


def test_an_interval_covers_seeds_only_where_there_are_several(runs):
    assert [row.covers for row in compare(runs[:4]).rows] == ["seeds and triples", "triples"]
    assert compare(runs[:4]).pairs[0].covers == "triples"
    found = compare(runs[0])
    (row,) = found.rows
    assert (row.deviation, row.covers, found.pairs, found.detectable) == (None, "triples", (), None)
    assert found.notes[0] == "one seed only (good): the interval covers the choice of test triples, not that of seeds"
    assert "whose errors are not opposed" in found.notes[-1]
    assert f"differ by {found.bound:.4f} MRR" in found.notes[-1]


def test_hyperparameters_regime_and_graphs_make_different_models():
    settings = [{"tasks": 2, "width": 8}, {"tasks": 4, "width": 8}]
    given = [run("m", 0.5, seed, hyperparameters={**chosen, "seed": seed}) for chosen in settings for seed in (0, 1)]
    assert sorted(row.model for row in compare(given).rows) == ["m (tasks=2)", "m (tasks=4)"]
    assert [row.seeds for row in compare(given).rows] == [(0, 1), (0, 1)]
    tuned = replace(given[0], run=replace(given[0].run, regime="fine-tuned"))
    assert {row.model for row in compare([given[0], tuned]).rows} == {"m (regime=fine-tuned)", "m (regime=zero-shot)"}
    more = replace(given[0], run=replace(given[0].run, pretraining_graphs=("b", "a")))
    labels = {row.model for row in compare([given[0], more]).rows}
    assert labels == {"m (pre-trained on=a + b)", "m (pre-trained on=nothing)"}


def test_the_same_seed_twice_is_refused(runs):
    with pytest.raises(UsageError, match="result 1 and result 3 are both good with seed 0: name each run once"):
        compare([runs[0], runs[1], runs[0]])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"dataset_version": "2.0"}, r"different dataset version \(2.0, not unversioned\);"),
        ({"content_sha256": "f" * 64}, r"different content hash \(ffffffffffff, not "),
        ({"protocol": "entity", "vocabulary": "slots"}, r"protocol \(entity, not dual\), vocabulary \(slots, not pr"),
        ({"candidates_sha256": "0" * 64, "candidate_seed": 2}, r"seed \(2, not 0\), candidates hash \(0{12},"),
        ({"evaluator_version": "0"}, r"different evaluator version"),
        ({"dataset": "other", "split": "valid"}, r"dataset \(other, not random\), split \(valid, not test\);"),
    ],
)
def test_runs_of_another_task_are_refused_by_name(runs, change, expected):
    with pytest.raises(UsageError, match=f"result 2 cannot be compared with result 1: .*{expected}"):
        compare([runs[0], replace(runs[3], **change)])


def test_ranks_of_other_targets_are_refused(runs):
    ranks = runs[3].ranks
    renamed = Ranks(np.roll(ranks.heads, 1), ranks.relations, ranks.tails, ranks.parts)
    with pytest.raises(ResultError, match="result 2: its ranks are of other triples"):
        compare([runs[0], replace(runs[3], ranks=renamed)])


def test_unfinished_runs_are_shown_but_not_compared(runs, tmp_path):
    failed = task(SPLIT).unfinished("oom").save(tmp_path / "big", RunInfo(model="big", seed=4, status="oom"))
    found = compare([*runs, failed])
    assert replace(found, unfinished=()) == compare(runs)
    assert [(row.model, row.seed, row.status) for row in found.unfinished] == [("big", 4, "oom")]
    assert "big seed 4: oom" in found.table()
    assert f"{failed} (big, seed 4) ended as oom and is not compared" in found.notes
    with pytest.raises(UsageError, match=rf"no finished run to compare: {failed} is oom"):
        compare([failed])
    with_ranks = replace(runs[3], run=replace(runs[3].run, status="failed"))
    assert [row.model for row in compare([*runs[:3], with_ranks]).rows] == ["good"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 10}, "draws must be at least 100 and a whole number, not 10"),
        ({"draws": 100.5}, "and a whole number, not 100.5"),
        ({"seed": -1}, "seed must be a whole number from 0 to"),
        ({"level": 0.05}, "not 0.05"),
        ({"level": 95}, "level must be at least 0.5 and below 1, not 95"),
        ({"cluster": "component"}, "need the graph of random: give the split"),
        ({"split": small()}, "test split of toy is not the one the runs are of"),
        ({"cluster": "component", "split": small()}, "test split of toy is not the one the runs are of"),
        ({"metric": "hit@10"}, "unknown metric 'hit@10': did you mean hits@10"),
        ({"runs": []}, "no runs to compare"),
    ],
)
def test_options_that_cannot_be_meant(runs, options, message):
    with pytest.raises(UsageError, match=message):
        compare(**{"runs": runs, **options})


def test_a_table_of_no_format_is_refused(runs):
    with pytest.raises(UnknownNameError, match="table format"):
        compare(runs).table("word")


def test_the_kind_of_cluster_is_used(runs):
    single = compare(runs[0], cluster="none")
    assert (single.cluster, single.clusters) == ("none", 80)
    assert "taken as independent" in single.notes[-1]
    pairs = {(head, relation) for head, relation, _ in KNOWN}
    assert compare(runs[0]).clusters == len(pairs)


def test_a_component_is_a_family_tree_and_the_graph_is_loaded():
    data = mtbench.load("metafam")
    result = evaluate(hashed, data.test)
    found = compare([result])
    assert (found.cluster, found.clusters, found.targets) == ("component", data.info.parameters["test_trees"], 184)
    assert compare([result], split=data.test) == found
    with pytest.raises(UsageError, match="the valid split of metafam is not the one"):
        compare([result], split=data.valid)


def test_everything_is_there_as_plain_values(runs):
    found = compare(runs)
    plain = json.loads(json.dumps(found.to_dict()))
    assert set(plain["rows"][0]["adjusted"]) == set(runs[0].metrics)
    assert plain["detectable"] == found.detectable
    assert plain["notes"] == list(found.notes)
    assert plain["pairs"][0]["covers"] == "seeds and triples"


@pytest.mark.parametrize("format", ["text", "markdown", "latex"])
def test_tables_show_every_model_and_pair(runs, format):  # noqa: A002
    found = compare(runs)
    models, pairs = found.table(format), found.pair_table(format)
    for row in found.rows:
        line = next(line for line in models.splitlines() if row.model in line)
        assert f"{row.mean:.4f}" in line
        assert f"{row.low:.4f}" in line
        assert row.group in line
    assert f"{found.pairs[0].difference:.4f}" in pairs
    assert "0.0001" in pairs
    assert found.task in str(found)


def test_names_of_models_are_escaped_in_every_table():
    some = [run(name, skill, 0) for name, skill in {"a|b*": 0.9, "c_d%&": 0.3}.items()]
    broken = replace(task(SPLIT).unfinished("oom"), run=RunInfo(model="e|f", status="oom"))
    found = compare([*some, broken])
    for table in (found.table("markdown"), found.pair_table("markdown")):
        lines = table.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert lines[2].startswith(r"| a\|b\* ")
        assert r"c\_d%&" in table
    assert r"| e\|f seed 0: oom " in found.table("markdown")
    for table in (found.table("latex"), found.pair_table("latex")):
        assert r"c\_d\%\&" in table


def test_csv_is_for_programs(runs):
    failed = replace(task(SPLIT).unfinished("failed"), run=RunInfo(model="broken, again", status="failed"))
    found = compare([*runs, failed])
    rows = list(csv.DictReader(io.StringIO(found.table("csv"))))
    assert [row["model"] for row in rows] == ["good", "fair", "poor", "broken, again"]
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "failed"]
    for row, expected in zip(rows, found.rows, strict=False):
        assert [float(row[name]) for name in ("mean", "low", "high")] == [expected.mean, expected.low, expected.high]
        assert float(row["adjusted"]) == expected.adjusted["mrr"]
        assert (int(row["seeds"]), row["group"]) == (len(expected.seeds), expected.group)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda first, second: mtbench.compare(first, second), r"as one list: mtbench\.compare\(\[first, second\]\)"),
        (lambda first, second: mtbench.compare([first, 3]), "int is no run: pass run directories"),
        (lambda first, second: mtbench.audit(first), "Result is no dataset: mtbench.audit"),
        (lambda first, second: first.by(3), "unknown stratum 'int': known: "),
    ],
)
def test_what_was_meant_is_told_where_something_else_is_passed(runs, wrong, message):
    with pytest.raises(UsageError, match=message):
        wrong(*runs[:2])
