"""Explanations of a scorer whose arithmetic is known, and which targets are explained."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import toys
from ranking_toys import random_split

from mtbench.errors import ResultError, UsageError
from mtbench.evaluation.tasks import evaluate, task
from mtbench.metrics import closed
from mtbench.names import COLUMN
from mtbench.ranking.candidates import draw
from mtbench.runs.origin import RunInfo
from mtbench.settings.table import setting_of
from mtbench.training.models import Model, ModelInfo
from mtbench.training.predictions import explain, rows_of
from reference_models.tally import explanation
from reference_models.tally.explanation import AGAINST, giveaways
from reference_models.tally.statistics import FAMILIES, FAMILY, NAMES, WIDTH, Statistics

pytestmark = pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
PLACE = {name: np.flatnonzero(place == FAMILY) for place, name in enumerate(FAMILIES)}
NAME = f"{__name__}:Weigher"


class Weigher(Model):
    """Scores by half-links times types plus twice the pair rules, by nothing else."""

    info = ModelInfo(NAME)
    asked: list = []  # noqa: RUF012

    def __init__(self, context):
        assert context is None or context.workdir.name == "checkpoints"

    def fit(self, train, valid):
        assert train.name == "train"

    def scorer(self, observable):
        self.statistics = Statistics(observable)
        return self

    def explain(self, scorer, test, result, rows):
        return explanation.explain(scorer, test, result, rows)

    def score(self, triples):
        return self.score_statistics(self.statistics.of(triples), triples)

    def score_statistics(self, statistics, triples):
        assert statistics.shape == (len(triples), WIDTH)
        self.asked.append(statistics)
        parts = {name: np.round(statistics[:, columns], 3).sum(axis=1) for name, columns in PLACE.items()}
        return (parts["half"] * parts["type"] + 2 * parts["pair"]).astype(np.float64)


@pytest.fixture
def data(monkeypatch):
    toys.install(monkeypatch.setattr)
    monkeypatch.setattr(Weigher, "asked", [])
    split = random_split(1, entities=25, relations=5, slots=6, graph=250, targets=30)
    train = replace(split, dataset="random", name="train", targets=split.targets[:0])
    return replace(toys.dataset(), train=train, valid=replace(split, name="valid"), test=split)


@pytest.fixture
def run(data, tmp_path):
    """Return the directory of a run with checkpoints, and its result."""

    def made(protocol="dual", name=NAME):
        score = Weigher(None).scorer(data.test.observable()).score
        result = evaluate(score, data.test, protocol, dataset_version="1.0.0")
        result.save(tmp_path / "run", RunInfo(model=name), force=True)
        (tmp_path / "run" / "checkpoints").mkdir()
        return tmp_path / "run", result

    return made


def named(split):
    return [" ".join(name) for name in split.named(split.targets)]


def test_the_first_and_what_it_is_compared_with_are_those_of_the_list(run, data):
    directory, result = run()
    found = explain(directory, named(data.test), data)
    assert found.changed == 0
    drawn, score = task(data.test).candidates, Weigher(None).scorer(data.test.observable()).score
    assert len(found.questions) == 2 * len(data.test.targets)
    firsts = 0
    for number, question in enumerate(found.questions):
        row, column = number // 2, (2, 0)[number % 2]
        assert question.direction == ("tail", "head")[number % 2]
        listed = [data.test.targets[row]]
        for side, place in ((question.direction, column), ("relation", 1)):
            ids, valid = drawn.side(side)
            for one in ids[row][valid[row]].tolist():
                listed.append(listed[0].copy())
                listed[-1][place] = one
        scores = dict(zip(data.test.named(np.array(listed)), score(np.array(listed)).tolist(), strict=True))
        target, *others = scores
        assert (question.target, question.length) == (target, len(listed))
        counts = result.ranks.lists[question.direction]
        assert question.rank == counts.greater[row] + 1 + counts.equal[row] / 2
        best = max(scores, key=scores.get)
        second = max(others, key=scores.get) if best == target else target
        firsts += best == target
        assert (question.first.triple, question.other.triple) == (best, second)
        assert (question.first.score, question.other.score) == (scores[best], scores[second])
    assert 0 < firsts < len(found.questions)


def test_moves_are_shapley_values(run, data):
    directory, _ = run()
    place = {name: row for row, name in enumerate(data.test.entities)}
    slot = {name: row for row, name in enumerate(data.test.relations)}
    statistics = Statistics(data.test.observable())
    for question in explain(directory, named(data.test), data).questions:
        rows = [(place[h], slot[r], place[t]) for h, r, t in (question.first.triple, question.other.triple)]
        values = np.round(statistics.of(np.array(rows)), 3)
        half, kind, pair = (values[:, PLACE[name]].sum(axis=1) for name in ("half", "type", "pair"))
        expected = {
            "half": (half[0] - half[1]) * kind.mean(),
            "type": (kind[0] - kind[1]) * half.mean(),
            "pair": 2 * (pair[0] - pair[1]),
        }
        assert question.moves == pytest.approx(dict.fromkeys(FAMILIES, 0) | expected, abs=1e-3)
        assert sum(question.moves.values()) == pytest.approx(question.first.score - question.other.score)


def test_importance_permutes_one_family_within_each_list(run, data):
    directory, result = run()
    Weigher.asked.clear()
    found = explain(directory, named(data.test)[:1], data).importance
    assert found.mrr == pytest.approx(result.metrics["mrr"])
    assert found.targets == len(data.test.targets)
    whole, *permuted = [asked for asked in Weigher.asked if len(asked) == result.ranks.count.sum() + 2 * found.targets]
    owner = np.repeat(np.arange(2 * found.targets), result.ranks.count + 1)
    assert len(permuted) == explanation.REPEATS * len(FAMILIES)
    for number, statistics in enumerate(permuted):
        own = number % len(FAMILIES) == FAMILY
        np.testing.assert_array_equal(statistics[:, ~own], whole[:, ~own])
        before, after = (np.column_stack((owner, part[:, own])) for part in (whole, statistics))
        assert (before != after).any()
        np.testing.assert_array_equal(*(part[np.lexsort(part.T)] for part in (before, after)))
    for name, falls in found.falls.items():
        assert len(falls) == explanation.REPEATS
        assert any(falls) == (name in ("half", "type", "pair"))
    means = [mean for _, mean, _ in found.ordered]
    assert means == sorted(means, reverse=True)
    assert dict(found.falls) == explain(directory, [], data).importance.falls


def test_of_many_targets_some_are_permuted_and_three_are_explained(run, data, monkeypatch):
    monkeypatch.setattr(explanation, "MOST", 7)
    directory, result = run()
    found = explain(directory, [], data)
    assert found.importance.targets == 7
    names, order = named(data.test), np.argsort(result.ranks.mean, kind="stable")
    chosen = [names[order[place]] for place in (0, round((len(names) - 1) / 2), -1)]
    assert list(dict.fromkeys(" ".join(question.target) for question in found.questions)) == chosen


@pytest.mark.parametrize("protocol", ["full", "full-relation"])
def test_a_full_ranking_is_explained_by_the_lists_of_a_few_targets_among_all_candidates(
    run, data, monkeypatch, protocol
):
    monkeypatch.setattr(explanation, "TRIPLES", 120)
    directory, result = run(protocol)
    names = named(data.test)
    found = explain(directory, names, data)
    assert (found.protocol, found.changed) == (protocol, 0)
    assert 1 < found.importance.targets < len(names)
    sampled = np.linspace(0, len(names) - 1, found.importance.targets).round().astype(int)
    greater, equal = (
        np.concatenate([getattr(c, kind)[sampled] for c in result.ranks.lists.values()])
        for kind in ("greater", "equal")
    )
    assert found.importance.mrr == pytest.approx(closed.expected(greater, equal)["mrr"])
    for question in found.questions:
        counts, place = result.ranks.lists[question.direction], names.index(" ".join(question.target))
        assert question.rank == 1 + counts.greater[place] + counts.equal[place] / 2
        assert question.length == 1 + counts.count[place]


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_more_heads_than_tails_may_be_candidates(seed):
    split = random_split(seed, relations=1)
    scorer = Weigher(None).scorer(split.observable())
    lists = explanation._Lists(split, scorer, setting_of("full"), 0, [0])
    assert 0 < lists.importance().mrr <= 1


def test_ranks_that_are_no_longer_those_of_the_run_are_told(run, data, monkeypatch):
    directory, _ = run()
    monkeypatch.setattr(Weigher, "score_statistics", lambda self, statistics, triples: -statistics[:, 9])
    found = explain(directory, [], data)
    assert found.changed > 0
    assert f"warning: {found.changed} test triples rank otherwise than the run recorded" in str(found)


def test_a_protocol_of_one_direction_has_one_question_a_target(run, data):
    directory, _ = run("dual-head")
    found = explain(directory, named(data.test)[:2], data)
    assert [question.direction for question in found.questions] == ["head", "head"]
    assert found.changed == 0


@pytest.mark.parametrize("form", ["{} {} {}", "({}, {}, {})", "  {}   {} {} "])
@pytest.mark.parametrize("tail", [None, "Paris (Texas)", "Rome, Italy", "(a)"])
def test_a_target_may_be_written_as_it_is_printed_whatever_its_name_has(data, form, tail):
    names = data.test.entities.astype("U20")
    if tail is not None:
        names[data.test.targets[4, 2]] = tail
    split = replace(data.test, entities=names)
    (name,) = split.named(split.targets[[4]])
    assert rows_of(split, [form.format(*name)]) == [4]


def test_what_is_no_target_is_refused_with_one_that_is(run, data):
    directory, _ = run()
    observable = " ".join(data.test.named(data.test.graph[[0]])[0])
    first = named(data.test)[0]
    for text, message in (
        (first.replace("e0", "E0"), f"unknown target '.*': did you mean {first}"),
        (observable, "is an observable triple of random test, which is not ranked: name a target"),
        ("?", f'unknown target .*: write "HEAD RELATION TAIL", as in --target "{first}"'),
    ):
        with pytest.raises(UsageError, match=message):
            explain(directory, [text], data)


class Silent(Weigher):
    explain = Model.explain


INSTEAD = "--explain is for runs of tally: mtbench run tally --dataset random"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mtdea-k2", f"is a run of mtdea-k2, which no installed model is called; {INSTEAD}"),
        (f"{__name__}:Silent", f"is a run of {__name__}:Silent, which does not explain its scores; {INSTEAD}"),
    ],
)
def test_a_run_of_another_model_is_refused_with_what_to_type(run, data, name, message):
    with pytest.raises(UsageError, match=message):
        explain(run(name=name)[0], [], data)


def test_a_run_on_another_dataset_is_refused(run, data):
    with pytest.raises(ResultError, match="the run was made on content"):
        explain(run()[0], [], replace(data, test=random_split(2)))


def test_a_run_that_failed_has_nothing_to_explain(data, tmp_path):
    task(data.test).unfinished("oom").save(tmp_path / "run", RunInfo(model=NAME, status="oom"))
    with pytest.raises(UsageError, match="the run is oom and has no ranks to explain"):
        explain(tmp_path / "run", [], data)


def counted_auc(split, value, against, side, column):
    """The AUC of one statistic and the number of targets, one candidate after the other."""
    ids, valid = draw(split, setting_of(AGAINST[against])).side(side)
    place, found = COLUMN[side], []
    for target, row, there in zip(split.targets, ids, valid, strict=True):
        wins = []
        for other in row[there].tolist():
            candidate = target.copy()
            candidate[place] = other
            seen = (split.graph[:, 1] == target[1]) & (split.graph[:, place] == other)
            if against == "same type" and not seen.any():
                continue
            own, its = (value(*triple.tolist())[column] for triple in (target, candidate))
            wins.append((own > its) + (own == its) / 2)
        if wins:
            found.append(sum(wins) / len(wins))
    return math.fsum(found) / len(found), len(found)


def test_an_auc_is_what_a_loop_counts():
    split = random_split(3, entities=20, relations=4, slots=5, graph=60, targets=5)
    rows, statistics = giveaways(split), Statistics(split.observable())
    value = cache(lambda *triple: statistics.of(np.array([triple]))[0].tolist())
    assert [row.gain for row in rows] == sorted((row.gain for row in rows), reverse=True)
    for against, protocol in AGAINST.items():
        for side in setting_of(protocol).sides:
            some = {(row.family, row.statistic): row for row in rows if (row.against, row.side) == (against, side)}
            assert set(some) == set(NAMES)
            for column in (0, 37):
                row = some[NAMES[column]]
                auc, targets = counted_auc(split, value, against, side, column)
                assert (row.auc, row.targets) == (pytest.approx(auc), targets)


def test_a_graph_without_targets_is_refused():
    with pytest.raises(UsageError, match="there are no triples to rank"):
        giveaways(random_split(3).observable())
