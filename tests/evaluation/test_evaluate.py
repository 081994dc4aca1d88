import subprocess
import sys
import warnings
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import (
    by_direction,
    counted,
    figures,
    hashed,
    one,
    random_split,
    small,
    splits,
    ties_expected,
    turned,
)

import mtbench
from mtbench.errors import DatasetError, ScoreError, UsageError
from mtbench.evaluation.tasks import Task, evaluate, task
from mtbench.heuristics.figures import BASELINES
from mtbench.names import DIRECTIONS
from mtbench.ranking.candidates import draw
from mtbench.runs.result import MtbenchWarning
from mtbench.settings.table import PROTOCOLS, RECORDED, SAMPLED, VOCABULARIES, setting_of

combinations = pytest.mark.parametrize(
    ("protocol", "vocabulary"), [(protocol, vocabulary) for protocol in PROTOCOLS for vocabulary in VOCABULARIES]
)


def drawn_ids(drawn, side, row):
    ids, valid = drawn.side(side)
    return ids[row, valid[row]].tolist()


def plain_ranks(split, drawn, scores):
    """Rank each target among the candidates of each of its lists, one triple at a time; scores are by direction."""
    found = []
    for direction in drawn.setting.directions:
        score = scores[direction]
        for row, (head, relation, tail) in enumerate(split.targets.tolist()):
            own = score((head, relation, tail))
            if direction == "head":
                others = [score((other, relation, tail)) for other in drawn_ids(drawn, "head", row)]
            else:
                others = [score((head, relation, other)) for other in drawn_ids(drawn, "tail", row)]
            others += [score((head, other, tail)) for other in drawn_ids(drawn, "relation", row)]
            found.append((sum(other > own for other in others), sum(other == own for other in others), len(others)))
    return found


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("protocol", SAMPLED)
@ties_expected
@settings(max_examples=20)
@given(split=splits(), seed=st.integers(0, 2))
def test_ranks_are_those_of_a_plain_loop(protocol, vocabulary, split, seed):
    chosen = task(split, protocol, vocabulary, seed)
    drawn = chosen.candidates
    result = evaluate(hashed, split, protocol, vocabulary, seed)
    assert counted(result.ranks) == plain_ranks(split, drawn, dict.fromkeys(DIRECTIONS, one(hashed)))
    expected = plain_ranks(split, drawn, {"tail": one(hashed), "head": one(turned)})
    for asked in by_direction(split):
        result = chosen.run(asked)
        assert counted(result.ranks) == expected
        means = [mean(1 / rank for rank in orders(above, tied)) for above, tied, _ in expected]
        assert result.metrics["mrr"] == pytest.approx(mean(means))


def orders(above, tied):
    """Return every rank that a target may have as its ties are ordered."""
    return range(above + 1, above + tied + 2)


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("protocol", RECORDED)
@pytest.mark.parametrize("value", [0, 0.0, 1.0, -3.5])
def test_a_constant_scorer_is_exactly_chance(protocol, vocabulary, value):
    with pytest.warns(MtbenchWarning, match=r"(40 of 40 triples|80 of 80 ranks) tie"):
        result = evaluate(lambda triples: np.full(len(triples), value), random_split(5), protocol, vocabulary)
    assert result.metrics == result.chance
    assert result.tie_rate == 1.0
    assert result.metrics["mrr"] < 0.35


def test_a_perfect_scorer_is_perfect_and_says_nothing():
    split = random_split(6)
    known = {tuple(row) for row in split.targets.tolist()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate(lambda triples: [float(tuple(row) in known) for row in triples.tolist()], split)
    assert result.metrics == result.optimistic == result.pessimistic
    assert (result.metrics["mr"], result.metrics["mrr"], result.metrics["hits@1"]) == (1, 1, 1)
    assert (result.tie_rate, result.warnings) == (0.0, ())


@pytest.mark.parametrize(
    "chosen",
    [task(random_split(7, entities=15), "dual", "slots"), task(small(), "dual", "present")],
    ids=["repeated candidates", "padded candidates"],
)
def test_triples_are_distinct_sorted_and_exactly_what_is_ranked(chosen):
    triples = [tuple(row) for row in chosen.triples.tolist()]
    assert triples == sorted(set(triples))
    wanted = {tuple(row) for row in chosen.split.targets.tolist()}
    drawn = chosen.candidates
    sides = [drawn.side(side)[0].tolist() for side in ("head", "relation", "tail")]
    for (head, relation, tail), heads, relations, tails in zip(chosen.split.targets.tolist(), *sides, strict=True):
        wanted |= {(other, relation, tail) for other in heads if other >= 0}
        wanted |= {(head, relation, other) for other in tails if other >= 0}
        wanted |= {(head, other, tail) for other in relations if other >= 0}
    assert set(triples) == wanted
    chosen.triples[:] = 0
    assert [tuple(row) for row in chosen.triples.tolist()] == triples


@ties_expected
def test_a_scorer_may_reuse_its_buffer_and_overwrite_its_input():
    buffer = np.empty(64)

    def score(triples):
        buffer[: len(triples)] = hashed(triples)
        triples[:] = -1
        return buffer[: len(triples)]

    split = random_split(9)
    assert figures(evaluate(score, split, batch_size=64)) == figures(evaluate(lambda t: hashed(t) * 1.0, split))


def test_what_cannot_score_is_refused():
    with pytest.raises(UsageError, match="str cannot score: pass a function of triples or an object with a score"):
        evaluate("model", small())


def test_an_error_inside_the_scorer_is_left_alone():
    error = ZeroDivisionError("mine")

    def score(triples):
        raise error

    with pytest.raises(ZeroDivisionError) as caught:
        evaluate(score, small())
    assert caught.value is error
    assert caught.value.__cause__ is None


def test_bad_scores_in_a_later_batch_are_named():
    chosen = task(random_split(11))
    last = tuple(chosen.triples[-1].tolist())

    def score(triples):
        return np.array([np.nan if tuple(row) == last else 0.5 for row in triples.tolist()])

    named = ", ".join(chosen.split.named(chosen.triples[-1:])[0])
    with pytest.raises(ScoreError, match=rf"random test: 1 of \d+ scores of a batch, .*\({named}\) scored nan"):
        chosen.run(score, batch_size=50)
    with pytest.raises(ScoreError, match=rf"random test: 1 of {len(chosen.triples)} scores are not finite"):
        chosen.evaluate(score(chosen.triples))


def test_one_row_is_not_broadcast_in_a_batch_of_one():
    with pytest.raises(ScoreError, match=r"shape \(1, 1\), expected \(1,\)"):
        evaluate(lambda triples: np.zeros((len(triples), 1)), small(), batch_size=1)
    with pytest.raises(ScoreError, match=r"shape \(\), expected \(\d+,\)"):
        evaluate(lambda triples: 0.0, small())


def test_batches_of_different_types_are_refused():
    kinds = iter([np.float32, np.float64])
    with pytest.raises(ScoreError, match="type float32 before triple 5 and float64 from there on"):
        evaluate(lambda triples: np.zeros(len(triples), next(kinds)), small(), batch_size=5)


@pytest.mark.parametrize(("size", "message"), [(0, "at least 1, not 0"), (-5, "at least 1"), (2.5, "integer, not 2.5")])
def test_batch_sizes_that_cannot_be(size, message):
    with pytest.raises(UsageError, match=message):
        evaluate(hashed, small(), batch_size=size)


def test_candidates_of_another_split_are_refused():
    split = random_split(12)
    for other in (random_split(13), replace(split, relation_slots=30), replace(split, targets=split.targets[::-1])):
        with pytest.raises(UsageError, match="the candidates were drawn for another split"):
            Task(other, draw(split))


def test_more_triples_than_int64_are_refused():
    # Four entities: 4 * 4 * 2**59 triples are one more than int64 counts.
    chosen = task(replace(small(), relation_slots=2**59), "entity")
    with pytest.raises(DatasetError, match=f"4 entities and {2**59} relation slots give more triples than int64"):
        chosen.run(hashed)


def sentences(score, split=None, **arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = evaluate(score, split or random_split(14), **arguments)
    assert [str(entry.message).partition(": ")[2] for entry in caught] == list(result.warnings)
    assert all(entry.category is MtbenchWarning and entry.filename == __file__ for entry in caught)
    return result.warnings


def test_wide_bounds_are_flagged_with_both():
    (sentence,) = sentences(lambda triples: np.zeros(len(triples)))
    assert sentence.startswith("80 of 80 ranks tie with a candidate, whose order moves the MRR from 0.0")


def one_tie(chosen, value):
    """Return different probabilities for all triples but the first target and its first tail, which have one value."""
    head, relation, tail = chosen.split.targets[0].tolist()
    tied = {(head, relation, tail), (head, relation, int(chosen.candidates.side("tail")[0][0, 0]))}

    def score(triples):
        told = [tuple(row) in tied for row in triples.tolist()]
        return np.where(told, value, (1 + hashed(triples, 1000003)) / 1000005)

    return score


def test_narrow_bounds_are_not_flagged():
    chosen = task(random_split(14), "entity-tail")
    result = chosen.run(one_tie(chosen, -1))
    assert result.tie_rate == 1 / 40
    assert 0 < result.optimistic["mrr"] - result.pessimistic["mrr"] < 0.02
    assert result.warnings == ()


def test_half_precision_that_creates_ties_is_flagged():
    def spread(triples):
        return 1 + hashed(triples, 1000003) / 1e9

    assert sentences(spread) == ()
    found = sentences(lambda triples: spread(triples).astype(np.float16))
    assert any("tie with a candidate in float16 scores; return float32" in sentence for sentence in found)


def test_saturated_probabilities_are_flagged():
    def sigmoid(scale):
        return lambda triples: 1 / (1 + np.exp(-scale * (hashed(triples, 1000003) / 1000003 - 0.5)))

    assert sentences(sigmoid(1.0)) == ()
    found = sentences(sigmoid(500.0))
    assert any("exactly 0 or 1" in sentence and "return logits" in sentence for sentence in found)
    binary = sentences(lambda triples: (hashed(triples) > 3) * 1.0)
    assert not any("logits" in sentence for sentence in binary)


@pytest.mark.parametrize("value", [0, 1])
def test_one_saturated_probability_is_flagged(value):
    split = random_split(14)
    (sentence,) = sentences(one_tie(task(split, "entity"), value), split, protocol="entity")
    assert "exactly 0 or 1" in sentence


def test_targets_without_candidates_are_flagged():
    found = sentences(lambda triples: hashed(triples, 1000003), small(), protocol="relation")
    assert found == ("1 of 3 triples have no candidate (all are known triples) and rank first for free",)


def test_a_result_says_what_it_is_of():
    split = random_split(15)
    result = evaluate(lambda triples: hashed(triples, 1000003), split, "entity", "slots", 2)
    drawn = draw(split, setting_of("entity", "slots"), 2)
    assert (result.dataset, result.split, result.dataset_version) == ("random", "test", "unversioned")
    assert (result.protocol, result.vocabulary, result.candidate_seed) == ("entity", "slots", 2)
    assert (result.content_sha256, result.candidates_sha256) == (split.content_sha256, drawn.sha256)
    assert task(split, "entity", "slots", 2).name == "random/test/entity/slots/2"
    assert task(split, dataset_version="3.1").dataset_version == "3.1"
    lines = result.text("all").splitlines()
    assert lines[0] == "random test: protocol entity, slots relations, candidate seed 2"
    assert lines[1] == "40 triples to rank, 50.0 candidates in each direction, 0.0% of ranks tied"
    rows = ["unnamed", "tails, (h, r, ?)", "heads, (?, r, t)", "ties optimistic", "ties pessimistic"]
    rows += [name.replace("_", " ") for name in BASELINES] + ["chance"]
    assert [line.split("  ")[0] for line in lines[5:]] == rows


def test_ranks_carry_the_names_of_the_targets():
    split = small()
    frame = task(split).rank(hashed(task(split).triples)).to_frame()
    assert list(frame[["head", "relation", "tail"]].itertuples(index=False, name=None)) == split.named(split.targets)
    assert frame["tail_count"].tolist() == [2, 3, 3]


def test_the_evaluator_needs_neither_torch_nor_pandas_nor_pyarrow():
    heavy = {"torch", "pandas", "pyarrow"}
    code = f"import sys, mtbench.evaluation.tasks; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "call", [lambda: mtbench.evaluate(constant, SPLIT), lambda: mtbench.task(SPLIT).evaluate(TIED)]
)
def test_a_warning_is_about_the_line_that_called_the_public_function(call):
    with pytest.warns(MtbenchWarning) as caught:
        call()
    assert {entry.filename for entry in caught} == {__file__}


SPLIT = random_split(14)
TIED = np.zeros(len(task(SPLIT).triples))


def constant(triples):
    return np.zeros(len(triples))
