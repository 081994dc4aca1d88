"""Scorers that look at their batch are refused, those that round differently in another are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import by_direction, hashed, random_split, scorer, splits, ties_expected

from mtbench.data.splits import Split
from mtbench.errors import BatchError
from mtbench.evaluation.check import check
from mtbench.evaluation.tasks import evaluate, task
from mtbench.ranking.again import BATCHES, apart, passed
from mtbench.settings.table import PROTOCOLS

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def group_sizes(triples):
    """Score a triple by how many of its batch share two names with it: it knows no graph and learns nothing."""
    sizes = np.ones(len(triples))
    for columns in ([0, 1], [0, 2], [1, 2]):
        _, inverse, counts = np.unique(triples[:, columns], axis=0, return_inverse=True, return_counts=True)
        sizes *= counts[inverse.reshape(-1)]
    return sizes


def hidden(triples):
    """Score as `group_sizes` does, in steps as small as the rounding of sums in float32."""
    return (1 + 1e-6 * np.log(group_sizes(triples))).astype(np.float32)


def normalising(triples):
    """Score as a layer of batch normalisation in training mode does."""
    scores = hashed(triples, 1009).astype(np.float32)
    return (scores - scores.mean()) / (scores.std() + 1e-5)


def softmax(triples):
    scores = np.exp(hashed(triples, 1009) / 1009)
    return scores / scores.sum()


def rounding(triples):
    """Sum in float32 in an order that depends on the size of the batch, as a matrix product does."""
    weights = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    terms = np.sin(triples.astype(np.float32) @ weights.T)
    return terms.sum(axis=1) if len(triples) > 40 else np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]


@ties_expected
@pytest.mark.parametrize("protocol", ["dual", "entity", "dual-tail", "dual-head"])
@pytest.mark.parametrize("score", [group_sizes, hidden])
def test_a_scorer_that_learns_nothing_finds_the_targets_by_their_batch(protocol, score):
    split = random_split(1, entities=300, relations=40, slots=40, graph=1500)
    assert evaluate(score, split, protocol, ask_again=False).metrics["mrr"] > 0.95
    with pytest.raises(BatchError):
        evaluate(score, split, protocol)


@ties_expected
@pytest.mark.parametrize("outliers", [0, 0.01, 0.3])
def test_outliers_hide_no_difference_that_moves_ranks(outliers):
    def score(triples):
        base = np.where(hashed(triples, 1009) < outliers * 1009, -2000.0, 8.0 * (hashed(triples, 97) % 10))
        return (1e8 + base + 100 * (group_sizes(triples) > 2000)).astype(np.float32)

    split = random_split(1, entities=300, relations=40, slots=40, graph=1500)
    assert evaluate(score, split, ask_again=False).metrics["mrr"] > 0.5
    with pytest.raises(
        BatchError, match=r"differ by up to 1e\+02, which carries one past \d+ of \d+: a score must not"
    ):
        evaluate(score, split)


def test_a_score_passes_what_lies_on_its_way_and_what_it_comes_to_tie_with():
    first = np.array([1.0, 2.0, 2.0, 3.0, 4.0])
    assert passed(first, first).tolist() == [0, 0, 0, 0, 0]
    assert passed(first, np.array([3.0, 2.5, 1.5, 0.5, 4.5])).tolist() == [3, 0, 0, 3, 0]


@ties_expected
@every_protocol
@pytest.mark.parametrize("score", [group_sizes, normalising, softmax])
def test_a_scorer_that_looks_at_its_batch_is_refused(protocol, score):
    message = (
        r"random test: \d+ triples were asked for again in other batches, and scores of score\(triples\) differ by up "
        r"to [\d.e+-]+, (where rounding explains [\d.e+-]+|which carries one past \d+ of \d+): a score must not depend "
        r"on what else is scored with it; .* call model\.eval\(\), or give batch_size=1"
    )
    with pytest.raises(BatchError, match=message):
        evaluate(score, random_split(1), protocol)


@ties_expected
@pytest.mark.parametrize("protocol", ["dual", "entity-head", "full"])
@pytest.mark.parametrize(("place", "name"), [(0, "score_inverses"), (1, "score_heads")])
def test_what_is_asked_in_one_direction_alone_is_asked_again_too(protocol, place, name):
    asked = by_direction(random_split(1))[place]
    honest = getattr(asked, name)
    result = evaluate(asked, random_split(1), protocol)
    assert result.asked["head"].startswith(f"{name}(")
    assert result.asked_again == "the same"

    def by_length(*ids):
        return honest(*ids) + 1 / len(ids[0])

    setattr(asked, name, by_length)
    with pytest.raises(BatchError, match=rf"scores of {name}\("):
        evaluate(asked, random_split(1), protocol)


@ties_expected
@every_protocol
def test_scores_that_differ_by_rounding_pass_and_it_is_told(protocol):
    result = evaluate(rounding, random_split(1), protocol)
    words, _, largest = result.asked_again.partition(": ")
    assert words == "the same within rounding"
    assert 0 < float(largest.removesuffix(" apart")) < 1e-5
    assert f"{result.asked_again}" not in str(result.warnings)
    assert evaluate(hashed, random_split(1), protocol).asked_again == "the same"


def test_what_rounding_explains_is_of_the_type_of_the_scores():
    def score(kind, step=0.5, levels=1009):
        return lambda triples: (hashed(triples, levels) + (step if len(triples) > 40 else 0)).astype(kind)

    chosen = task(random_split(1))
    assert chosen.run(score("float16")).asked_again == "the same within rounding: 5.0e-01 apart"
    with pytest.raises(BatchError, match=r"differ by up to 0\.5, where rounding explains 0\.0061"):
        chosen.run(score("float32"))
    with pytest.raises(BatchError, match="differ by up to 1, where rounding explains 0: "):
        chosen.run(score("int64", 1, 10**6))


@pytest.mark.parametrize("score", [group_sizes, normalising])
def test_in_batches_of_one_there_is_nothing_to_see(score):
    with pytest.warns(UserWarning, match="80 of 80 ranks tie"):
        result = evaluate(score, random_split(1), batch_size=1)
    assert (result.metrics, result.asked_again) == (result.chance, "the same")


@pytest.mark.parametrize("protocol", ["dual", "full"])
def test_without_the_question_the_result_tells(protocol):
    with pytest.warns(UserWarning, match="tie"):
        result = evaluate(hashed, random_split(1), protocol, ask_again=False)
    assert result.asked_again == "not asked for again"


@settings(max_examples=30)
@given(split=splits(), seed=st.integers(0, 100))
def test_no_batch_has_two_triples_of_one_targets_lists(split, seed):
    rng = np.random.default_rng(seed)
    sizes = (split.num_entities, split.relation_slots, split.num_entities)
    triples = np.unique(np.stack([rng.integers(size, size=60) for size in sizes], axis=1), axis=0)
    lists = [
        {tuple(row) for row in triples.tolist() if sum(a == b for a, b in zip(row, target, strict=True)) >= 2}
        for target in split.targets.tolist()
    ]
    found = apart(split, triples)
    assert len(found) <= BATCHES
    rows = [row for batch in found for row in batch.tolist()]
    assert len(rows) == len(set(rows))
    for batch in found:
        there = {tuple(row) for row in triples[batch].tolist()}
        assert all(len(there & listed) <= 1 for listed in lists)
    if len(found) < BATCHES:
        assert len(rows) == len(triples)


@ties_expected
@pytest.mark.parametrize("protocol", ["dual", "entity", "full"])
@pytest.mark.parametrize("methods", [("score",), ("score_tails", "score_heads", "score_relations")])
def test_the_second_question_is_small(protocol, methods):
    split = random_split(1, entities=200, graph=3000, targets=600)
    asked = scorer(split, *methods)
    scored = []

    def counted(function):
        return lambda *ids: (scored.append(len(ids[0])), function(*ids))[1]

    for name in methods:
        setattr(asked, name, counted(getattr(asked, name)))
    numbers = []
    for again in (False, True):
        scored.clear()
        task(split, protocol).run(asked, ask_again=again)
        numbers.append(sum(scored))
    assert numbers[0] < numbers[1] < 1.07 * numbers[0]


class Remembering:
    """Score as `group_sizes` does, and give every later question about a triple the first answer."""

    def __init__(self):
        self.answers = {}

    def score(self, triples):
        rows = list(map(tuple, triples.tolist()))
        for row, size in zip(rows, group_sizes(triples), strict=True):
            self.answers.setdefault(row, size)
        return np.array([self.answers[row] for row in rows])


@ties_expected
@pytest.mark.parametrize("protocol", ["dual", "entity", "dual-tail", "dual-head"])
def test_a_scorer_that_remembers_what_its_batch_gave_away_is_refused(protocol):
    split = random_split(1, entities=300, relations=40, slots=40, graph=1500)
    assert evaluate(Remembering(), split, protocol, ask_again=False).metrics["mrr"] > 0.95
    with pytest.raises(BatchError, match=r"6 triples that nobody stated were ranked like targets, and score"):
        evaluate(Remembering(), split, protocol)
    assert [each.name for each in check(Remembering(), split).findings if each.verdict == "fail"] == ["decoys"]


@ties_expected
@every_protocol
def test_an_answer_that_depends_on_what_was_asked_before_is_refused(protocol):
    questions = []

    def drifting(triples):
        questions.append(len(triples))
        return hashed(triples, 1009) + 1e-3 * len(questions)

    with pytest.raises(BatchError, match="were asked for again in other batches"):
        evaluate(drifting, random_split(1), protocol)


@ties_expected
@every_protocol
def test_an_honest_scorer_ranks_decoys_by_chance(protocol):
    """Scorers that know much of the graph, and those that tie all, pass on every one of many graphs."""
    for seed in range(10):
        split = random_split(seed, entities=40, graph=300, targets=40)
        popular = np.bincount(split.graph[:, 2], minlength=40)
        for score in (lambda triples: np.zeros(len(triples)), lambda triples: popular[triples[:, 2]]):  # noqa: B023
            assert evaluate(score, split, protocol).asked_again == "the same"


@pytest.mark.filterwarnings("ignore::mtbench.runs.result.MtbenchWarning")
def test_no_scorer_is_refused_where_few_relations_are_drawn_often():
    split = Split(
        "random",
        "test",
        np.array([[1, 5, 0]]),
        np.array([[0, 4, 1], [1, 2, 1], [0, 3, 0], [0, 5, 0], [1, 1, 1], [1, 0, 0]]),
        np.array(["a", "b"]),
        np.array([f"r{number}" for number in range(6)]),
        6,
        known=np.array([[0, 1, 1], [0, 2, 1], [0, 5, 1], [1, 3, 1], [1, 5, 1], [0, 2, 0]]),
    )
    for seed in range(300):
        weights = np.random.default_rng(seed).random((2, 6, 2))
        evaluate(lambda triples, weights=weights: weights[tuple(triples.T)], split, "relation", "slots")
