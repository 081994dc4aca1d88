"""Metrics by stratum: every target in exactly one, figures that average to the whole, the right split or none."""

from dataclasses import replace

import numpy as np
import pytest
import released
import toys
from hypothesis import given
from hypothesis import strategies as st
from ranking_toys import hashed, optimistic, pessimistic, random_split, small, splits, ties_expected

from mtbench.data import catalog
from mtbench.data.splits import Split, encode, vocabulary
from mtbench.errors import DatasetError, ResultError, UnknownNameError, UsageError
from mtbench.evaluation.tasks import evaluate, task
from mtbench.metrics import closed as metrics
from mtbench.names import METRICS
from mtbench.runs import result as results
from mtbench.runs.origin import RunInfo
from mtbench.runs.strata import KINDS, QUERIES, STRATA, _deciles, by, side_by_side
from mtbench.settings.table import PROTOCOLS, setting_of

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
NEEDS_MORE = {"relation_seen": "pass the dataset", "task": "no ground-truth tasks"}


@pytest.fixture
def catalogued(monkeypatch, tmp_path):
    """The toy, released: its name is enough to find its split."""
    toys.install(monkeypatch.setattr)
    monkeypatch.setenv("MTBENCH_CACHE", str(tmp_path / "cache"))
    return toys.dataset()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", sorted(set(STRATA) - {"task"}))
def test_the_weighted_mean_of_the_strata_is_the_whole(protocol, name):
    split = random_split(3)
    result = evaluate(hashed, split, protocol)
    data = replace(toys.dataset(info=catalog.record("metafam")), test=split, train=random_split(4, relations=4))
    found = result.by(name, split=data)
    assert sum(row.targets for row in found) == len(result.ranks)
    assert sum(row.share for row in found) == pytest.approx(1)
    for kind in KINDS:
        for metric in METRICS:
            weighted = sum(row.targets * getattr(row, kind)[metric] for row in found) / len(result.ranks)
            assert weighted == pytest.approx(getattr(result, kind)[metric], rel=1e-12), (kind, metric)
            assert getattr(found.whole, kind)[metric] == pytest.approx(getattr(result, kind)[metric], rel=1e-12)


@given(split=splits(), name=st.sampled_from(sorted(set(STRATA) - set(NEEDS_MORE))))
def test_a_stratum_has_the_figures_of_its_targets_alone(split, name):
    result = evaluate(hashed, split)
    found = by(result, name, split)
    case = STRATA[name](split, None)
    assert [row.label for row in found] == [label for i, label in enumerate(case.names) if (case.case == i).any()]
    for row in found:
        rows = case.case == list(case.names).index(row.label)
        assert row.targets == rows.sum()
        rows = np.tile(rows, 2)  # of both lists
        greater, equal = result.ranks.greater[rows], result.ranks.equal[rows]
        assert row.metrics == pytest.approx(metrics.expected(greater, equal))
        assert row.optimistic == pytest.approx(optimistic(greater, equal))
        assert row.pessimistic == pytest.approx(pessimistic(greater, equal))
        assert row.chance == pytest.approx(metrics.chance(result.ranks.count[rows]))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_directions_are_those_of_the_one_sided_protocols(protocol):
    split = random_split(3)
    found = evaluate(hashed, split, protocol).by("direction")
    alone = {"tails, (h, r, ?)": f"{protocol}-tail", "heads, (?, r, t)": f"{protocol}-head"}
    if protocol in ("dual", "entity", "full"):
        assert [row.label for row in found] == list(alone)
        for row in found:
            expected = evaluate(hashed, split, alone[row.label])
            for kind in KINDS:
                assert getattr(row, kind) == pytest.approx(getattr(expected, kind), rel=1e-12), kind
    directions = setting_of(protocol).directions
    assert [row.label.partition("s,")[0] for row in found] == list(directions)
    assert {(row.targets, row.share) for row in found} == {(len(split.targets), 1 / len(directions))}
    whole = evaluate(hashed, split, protocol)
    assert found.whole.targets == len(directions) * len(split.targets)
    for name, row in zip(directions, found, strict=True):
        if len(directions) > 1:
            assert whole.by_direction()[name] == pytest.approx(row.metrics, rel=1e-12)


@ties_expected
def test_queries_are_divided_by_which_half_of_them_and_of_the_answer_is_observable(tmp_path):
    split = random_split(3, graph=120)
    heads, tails = ({tuple(row) for row in split.graph[:, [column, 1]].tolist()} for column in (0, 2))
    result, ranks = evaluate(hashed, split, "full"), {name: [] for name in QUERIES}
    for way, seen in (("tail", (heads, tails)), ("head", (tails, heads))):
        counts = result.ranks.parts[way]
        for (head, relation, tail), above, tied in zip(
            split.targets.tolist(), counts.greater.tolist(), counts.equal.tolist(), strict=True
        ):
            asked, answer = (head, tail) if way == "tail" else (tail, head)
            case = 2 * ((asked, relation) not in seen[0]) + ((answer, relation) not in seen[1])
            ranks[QUERIES[case]].append(np.mean([1 / (above + 1 + place) for place in range(tied + 1)]))
    assert min(map(len, ranks.values())) > 0
    for asked in (result, results.load(result.save(tmp_path / "run")), evaluate(hashed, split, "full-ultra")):
        found = asked.by("query_half_link", split=split)
        assert {row.label: row.targets for row in found} == {name: len(values) for name, values in ranks.items()}
        assert found.whole.metrics == pytest.approx(asked.metrics)
        if asked.protocol == "full":
            assert {row.label: row.metrics["mrr"] for row in found} == pytest.approx(
                {name: np.mean(values) for name, values in ranks.items()}
            )
    with pytest.raises(UsageError, match="protocol full-relation asks for relations: it has no query"):
        evaluate(hashed, split, "full-relation").by("query_half_link", split=split)


def test_a_loaded_run_and_one_in_another_order_have_the_same_strata(tmp_path):
    split = random_split(1)
    result = evaluate(hashed, split)
    loaded = results.load(result.save(tmp_path / "run"))
    assert loaded.by("half_link", split=split) == result.by("half_link", split=split)
    order = np.random.default_rng(0).permutation(len(split.targets))
    shuffled = replace(split, targets=split.targets[order])
    assert shuffled.content_sha256 == split.content_sha256
    assert result.by("relation", split=shuffled).rows == result.by("relation", split=split).rows


def test_a_released_split_is_found_by_its_name_and_version(catalogued):
    result = evaluate(hashed, catalogued.test)
    assert result.by("relation_seen") == result.by("relation_seen", split=catalogued)
    assert [row.label for row in result.by("relation_seen")] == ["new"]
    assert [row.label for row in result.by("inverse_visible")] == ["visible"]


def test_another_version_or_content_is_refused(catalogued):
    result = evaluate(hashed, catalogued.test)
    with pytest.raises(UsageError, match=r"the run has version 1\.9, here is 2\.0\.0: pass the dataset of the run"):
        replace(result, dataset_version="1.9").by("relation")
    with pytest.raises(ResultError, match=f"made on content {'0' * 12}, toy test has"):
        replace(result, content_sha256="0" * 64).by("relation")
    with pytest.raises(ResultError, match=r"toy test: the run was made on content .*, random test has"):
        result.by("relation", split=random_split(1))


def test_an_unreleased_split_has_to_be_given():
    result = evaluate(hashed, small())
    with pytest.raises(UsageError, match=r"toy test is not in the catalogue: .*split=mtbench\.load\(DIR\)"):
        result.by("half_link")
    assert len(result.by("half_link", split=small())) == 2


def test_ranks_of_other_targets_are_refused():
    split = small()
    result = evaluate(hashed, split)
    ranks = replace(result.ranks, heads=np.array(["ann", "zoe", "bob"]))
    with pytest.raises(DatasetError, match=r"1 of 3 triples name an entity .* \('zoe', 'hates', 'bob'\)"):
        replace(result, ranks=ranks).by("half_link", split=split)


@pytest.mark.parametrize(("name", "message"), NEEDS_MORE.items())
def test_what_a_stratum_needs_is_named(name, message):
    with pytest.raises(UsageError, match=message):
        evaluate(hashed, small()).by(name, split=small())


def test_an_unknown_name_gets_the_nearest():
    result = evaluate(hashed, small())
    with pytest.raises(UnknownNameError, match="unknown stratum 'halflinks': did you mean half_link"):
        result.by("halflinks", split=small())
    with pytest.raises(UnknownNameError, match="unknown stratum of half_link 'bath': did you mean both"):
        result.by("half_link", split=small())["bath"]


def test_a_run_without_ranks_has_no_strata():
    with pytest.raises(UsageError, match="unnamed on toy: the run is oom and has no ranks"):
        task(small()).unfinished("oom").by("half_link", split=small())


def test_the_table_and_the_frame_hold_rows_and_the_whole():
    split = random_split(1)
    result = replace(evaluate(hashed, split), run=RunInfo(model="my_model"))
    found = result.by("relation", split=split)
    frame = found.to_frame()
    assert frame["stratum"].tolist() == [*(row.label for row in found), "all"]
    assert frame["targets"].tolist() == [*(row.targets for row in found), len(split.targets)]
    assert frame["mrr_pessimistic"].iloc[0] == found[found.rows[0].label].pessimistic["mrr"]
    assert frame["hits@10"].iloc[-1] == found.whole.metrics["hits@10"]
    lines = found.table().splitlines()
    assert lines[0].split()[:3] == ["relation", "Triples", "Share"]
    assert len(lines) == 2 + len(found) + 1
    low, high = found.whole.pessimistic["mrr"], found.whole.optimistic["mrr"]
    assert f"{low:.4f} to {high:.4f}" in lines[-1]
    assert str(found).startswith("my_model on random test, protocol dual, present relations, by relation\n\n")
    assert "stratum,targets,share,mr,mr_optimistic,mr_pessimistic,mr_chance,mrr," in found.table("csv")
    assert repr(found.whole.metrics["mrr"]) in found.table("csv")


def test_several_runs_stand_side_by_side():
    split = random_split(1)
    runs = [
        replace(evaluate(lambda triples, seed=seed: hashed(triples, 11 + seed), split), run=RunInfo("a", seed=seed))
        for seed in (0, 1)
    ]
    found = [run.by("half_link", split=split) for run in runs]
    lines = side_by_side(found, "hits@1").splitlines()
    assert "Hits@1, a (seed 0)" in lines[0]
    assert "Hits@1, chance" in lines[0]
    assert lines[-1].split()[-3:] == [f"{run.metrics['hits@1']:.4f}" for run in runs] + [
        f"{runs[0].chance['hits@1']:.4f}"
    ]
    assert side_by_side(found, format="csv").splitlines()[0] == (
        'stratum,targets,share,"mrr, a (seed 0)","mrr, a (seed 1)","mrr, chance"'
    )
    other = evaluate(hashed, split, "entity").by("half_link", split=split)
    with pytest.raises(UsageError, match=r"runs of different tasks have no strata in common: .*dual.*entity"):
        side_by_side([found[0], other])


def test_half_links_of_a_released_dataset(mirror):
    data = released.dataset("fbnell", mirror)
    result = evaluate(hashed, data.test)
    half_links = {"both": 221, "head only": 146, "tail only": 179, "neither": 46}
    for name, expected in (("half_link", half_links), ("relation_seen", {"in training": 195, "new": 397})):
        assert {row.label: row.targets for row in result.by(name, split=data)} == expected
    assert result.by("distance", split=data.test)["unreachable"].targets == 5


def split_of(graph, targets, tasks=None):
    entities, relations = vocabulary(graph, targets)
    ids = [encode(rows, entities, relations, "drawn") for rows in (graph, targets)]
    return Split("drawn", "test", *ids, entities, relations, len(relations), tasks or {})


def labels(name, graph, targets, train=None, tasks=None):
    """The stratum of each target."""
    found = STRATA[name](split_of(graph, targets, tasks), train)
    return [found.names[case] for case in found.case.tolist()]


GRAPH = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("e", "s", "a"), ("x", "r", "y")]
TARGETS = [("a", "r", "d"), ("a", "s", "b"), ("b", "r", "a"), ("c", "s", "d"), ("b", "t", "x"), ("a", "r", "a")]


def test_half_links_are_the_four_cases():
    assert labels("half_link", GRAPH, TARGETS) == ["both", "neither", "neither", "neither", "neither", "head only"]
    assert labels("half_link", GRAPH, [("e", "r", "y"), ("e", "s", "x")]) == ["tail only", "head only"]


def test_the_inverse_is_visible_whatever_its_relation():
    visible = [label == "visible" for label in labels("inverse_visible", GRAPH, TARGETS)]
    assert visible == [False, False, True, False, False, False]


def test_distances_ignore_directions_and_name_what_cannot_be_reached():
    assert labels("distance", GRAPH, TARGETS) == ["3", "1", "1", "1", "unreachable", "0"]
    chain = [(f"n{i}", "r", f"n{i + 1}") for i in range(9)]
    assert labels("distance", chain, [("n0", "r", "n6"), ("n0", "r", "n7")]) == ["6", "more than 6"]


def test_relations_come_with_most_targets_first():
    found = STRATA["relation"](split_of(GRAPH, TARGETS), None)
    assert list(found.names) == ["r", "s", "t"]
    assert found.case.tolist() == [0, 1, 0, 1, 2, 0]


def test_relations_are_seen_by_their_name_in_the_training_triples():
    train = split_of([("p", "z", "q"), ("p", "s", "q")], [("p", "r", "q")])
    seen = [label == "in training" for label in labels("relation_seen", GRAPH, TARGETS, train)]
    assert seen == [False, True, False, True, False, False]


def test_tasks_are_the_patterns_of_the_relations():
    tasks = {"r": "parent", "t": "child"}
    assert labels("task", GRAPH, TARGETS, tasks=tasks) == ["parent", "no task", "parent", "no task", "child", "parent"]


def test_the_degree_is_that_of_the_poorer_end_or_of_the_end_asked_for():
    graph = [("a", "r", "b"), ("a", "r", "c"), ("a", "r", "d"), ("b", "r", "c"), ("e", "r", "e")]
    targets = [("a", "r", "b"), ("d", "r", "a"), ("e", "r", "a")]
    assert labels("degree", graph, targets) == ["2", "1", "2"]
    assert labels("head_degree", graph, targets) == ["3", "1", "2"]
    assert labels("tail_degree", graph, targets) == ["2", "3", "3"]


def test_deciles_hold_a_tenth_each_where_no_degree_is_shared():
    found = _deciles(np.arange(40)[::-1])
    assert list(found.names) == [f"{low} to {low + 3}" for low in range(0, 40, 4)]
    assert np.bincount(found.case).tolist() == [4] * 10


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200))
def test_deciles_are_ranges_that_keep_equal_values_together(values):
    found = _deciles(np.array(values))
    assert len(found.names) <= 10
    for value, case in zip(values, found.case.tolist(), strict=True):
        low, _, high = found.names[case].partition(" to ")
        assert int(low) <= value <= int(high or low)
    assert len(set(found.case.tolist())) == len(found.names)
