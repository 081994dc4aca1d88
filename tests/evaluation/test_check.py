"""Each check fails for the scorer that is broken in its way, and for no other."""

import re

import numpy as np
import pytest
from ranking_toys import FakeTensor, random_split, scorer, small

from mtbench.errors import UsageError
from mtbench.evaluation import check as check_module
from mtbench.evaluation.check import TARGETS, TRIAL, check, synthetic

NAMES = ("shape and type", "finiteness", "determinism", "batch size", "order")
NAMES += ("entity names", "relation names", "targets", "decoys", "ties")


def sound(split):
    """Score by degrees and paths: blind to names, to batches and to targets."""
    nodes, graph = split.num_entities, split.graph
    tails, relations = np.bincount(graph[:, 2], minlength=nodes), np.bincount(graph[:, 1], minlength=20)
    paths = np.zeros((nodes, nodes))
    np.add.at(paths, (graph[:, 0], graph[:, 2]), 1)
    paths = paths @ paths @ paths

    def score(triples):
        head, relation, tail = triples.T
        return np.log1p(paths[head, tail]) + 0.1 * tails[tail] + 0.01 * relations[relation]

    return score


class Sound:
    def __init__(self, split):
        self.score = sound(split)


def known(split, triples):
    targets = {tuple(row) for row in split.targets.tolist()}
    return np.array([float(tuple(row) in targets) for row in triples.tolist()])


def bent(change):
    """Return a factory of the sound scorer, whose scores of some triples are changed."""

    def build(split):
        base = sound(split)
        return lambda triples: change(base(triples), triples)

    return build


normalising = bent(lambda scores, triples: scores - scores.mean())
squeezing = bent(lambda scores, triples: np.squeeze(scores[:, None]))
growing_wider = bent(lambda scores, triples: scores.astype(np.float64 if len(triples) > 1 else np.float32))
ordered = bent(lambda scores, triples: scores - 1e-3 * np.arange(len(triples)))
by_entity = bent(lambda scores, triples: scores - triples[:, 2])
by_relation = bent(lambda scores, triples: scores - triples[:, 1])
half = bent(lambda scores, triples: scores.astype(np.float16))
brain_floating = bent(lambda scores, triples: FakeTensor(np.round(scores, 1).astype(np.float32), "bfloat16"))
slow_start = bent(lambda scores, triples: scores + 0.1 * (1 < len(triples) < 1000))
saturated = bent(lambda scores, triples: 1 / (1 + np.exp(-50 * (scores - 4))))


def peeking(split):
    base = sound(split)
    return lambda triples: base(triples) + known(split, triples)


def sorting(split):
    if split.graph[0, 0] != synthetic().graph[0, 0]:
        raise LookupError("never seen")
    return sound(split)


def noisy(split):
    base, rng = sound(split), np.random.default_rng(0)
    return lambda triples: base(triples) + rng.normal(size=len(triples))


def featured(split, seed):
    """Score by features drawn for each entity and relation, summed over neighbours: equivariant in distribution."""
    rng, graph = np.random.default_rng(seed), split.graph
    drawn = rng.normal(size=(split.num_entities, 8))
    nodes, relations = drawn.copy(), rng.normal(size=(split.relation_slots, 8))
    np.add.at(nodes, graph[:, 0], drawn[graph[:, 2]])
    np.add.at(nodes, graph[:, 2], drawn[graph[:, 0]])
    return lambda triples: (nodes[triples[:, 0]] * nodes[triples[:, 2]] * (1 + 0.1 * relations[triples[:, 1]])).sum(1)


def featured_by(column, weight):
    """Return a factory of the scorer by features, whose scores also depend on the ids of a column."""

    def build(split, seed):
        base = featured(split, seed)
        return lambda triples: 0.1 * base(triples) - weight * triples[:, column]

    return build


def featured_peeking(split, seed):
    # Another number of targets changes the draw as well, so that only the ranks can tell.
    base = featured(split, seed + 1000 * len(split.targets))
    return lambda triples: base(triples) + 30 * known(split, triples)


def featured_by_targets(split, seed):
    return featured(split, seed + 1000 * len(split.targets))


def verdicts(report, verdict):
    assert tuple(finding.name for finding in report.findings) == NAMES
    return {finding.name: finding.message for finding in report.findings if finding.verdict == verdict}


@pytest.mark.parametrize(
    ("scorer", "failed"),
    [
        (sound, {}),
        (Sound, {}),
        (peeking, {"targets": "71 of 80 ranks change: the model reads split.targets"}),
        (
            normalising,
            {"batch size": "54 of 80 ranks change: .* what else is scored with it; look for batch statistics"},
        ),
        (squeezing, {"batch size": "raised ScoreError: .*a single value is not broadcast.*squeeze"}),
        (growing_wider, {"batch size": "1 triples are scored in float32, all in float64"}),
        (ordered, {"batch size": "scores differ", "order": "up to 1.9, 71 of 80 ranks change: "}),
        (by_entity, {"entity names": "up to 58, .*look for embeddings or sorting by entity id"}),
        (by_relation, {"relation names": "look for embeddings or sorting by relation id"}),
        (sorting, {"entity names": "raised LookupError: never seen"}),
        (noisy, {"determinism": "switch off dropout"}),
        (slow_start, {"batch size": "scores differ by up to 0.1, "}),
        (half, {"ties": "in float16 scores; return float32"}),
        (brain_floating, {"ties": "in bfloat16 scores; return float32"}),
        (saturated, {"ties": "return logits"}),
        (featured, {}),
        (featured_by(2, 1), {"entity names": r"over 16 of them the MRR is 0\.\d+ ± .* with entity names changed"}),
        (featured_by(1, 20), {"relation names": "with relation names changed"}),
        (featured_peeking, {"targets": "with targets changed .*the model reads split.targets"}),
        (featured_by_targets, {}),
    ],
)
def test_only_what_is_broken_fails(scorer, failed):
    report = check(scorer)
    found = verdicts(report, "fail")
    assert set(found) == set(failed)
    assert report.ok is not bool(failed)
    for name, message in failed.items():
        assert re.search(message, found[name])


def test_what_is_random_but_fair_passes_in_distribution():
    passed = verdicts(check(featured), "pass")
    assert passed["entity names"].startswith("the same in distribution: builds differ by chance; over 16 of them")
    assert passed["targets"] == "exactly the same scores"


def test_scores_that_are_rounded_otherwise_in_a_batch_pass_and_say_so():
    def adding(split):
        base, weights = sound(split), np.random.default_rng(0).normal(size=64).astype(np.float32)

        def score(triples):
            column = base(triples).astype(np.float32)[:, None]
            return (column * weights).sum(axis=1) if len(triples) > 1 else np.cumsum(column * weights)[-1:]

        return score

    passed = verdicts(check(adding), "pass")
    assert passed["batch size"].startswith("the same scores within rounding: they differ by at most ")
    assert "of 80 ranks change" in passed["batch size"]
    assert passed["order"] == "exactly the same scores"


@pytest.mark.parametrize("kind", ["function", "object"])
def test_a_scorer_without_a_factory_is_told_how_to_be_checked_in_full(kind):
    def score(triples):
        return triples @ np.array([1.0, 0.1, 0.37])

    class Scorer:
        def score(self, given):
            return score(given)

    report = check(score if kind == "function" else Scorer())
    assert report.ok
    without = verdicts(report, "not applicable")
    assert set(without) == {"entity names", "relation names", "targets"}
    assert all("name a function of the split that returns the scorer" in message for message in without.values())


def test_a_difference_no_larger_than_rounding_fails_where_it_moves_ranks():
    def hiding(split):
        base = sound(split)

        def score(triples):
            return (1e8 + 160 * base(triples) + 400 * (len(triples) == 1)).astype(np.float32)

        return score

    failed = verdicts(check(hiding), "fail")
    assert re.match(
        r"scores differ by up to 4e\+02, [1-9]\d* of 80 ranks change: a score must not", failed["batch size"]
    )


def test_after_a_failed_determinism_batches_are_not_compared():
    assert set(verdicts(check(noisy), "not applicable")) == {"batch size", "order"}


def test_scores_that_cannot_be_ranked_end_the_checks():
    report = check(lambda triples: np.where(triples[:, 0] == 3, np.nan, 1.0))
    assert set(verdicts(report, "fail")) == {"finiteness"}
    assert "(entity03, relation0, entity03) scored nan" in verdicts(report, "fail")["finiteness"]
    assert set(verdicts(report, "not applicable")) == set(NAMES[2:])
    report = check(lambda triples: np.ones((len(triples), 2)))
    assert "return one number per triple" in verdicts(report, "fail")["shape and type"]
    assert set(verdicts(report, "not applicable")) == set(NAMES[1:])


def test_a_constant_fails_and_honest_ties_do_not():
    def relation_only(split):
        frequency = np.bincount(split.graph[:, 1], minlength=split.relation_slots)
        return lambda triples: frequency[triples[:, 1]]

    assert "those of chance" in verdicts(check(lambda triples: np.zeros(len(triples))), "fail")["ties"]
    assert "moves the MRR" in verdicts(check(relation_only), "pass")["ties"]


def test_the_first_targets_of_a_split_are_used():
    asked = []

    def recording(split):
        asked.append(len(split.targets))
        return sound(split)

    split = random_split(0, targets=150)
    assert check(recording, split).dataset == "random"
    assert set(asked) == {0, TARGETS}
    assert check(sound, small()).dataset == "toy"


def test_the_split_made_on_the_fly_is_always_the_same_and_leaves_no_entity_alone():
    one, other = synthetic(), synthetic()
    assert one.content_sha256 == other.content_sha256 != synthetic(1).content_sha256
    assert (one.graph.shape, one.targets.shape) == ((400, 3), (40, 3))
    assert len(np.unique(one.graph[:, [0, 2]])) == one.num_entities
    assert len(np.unique(np.concatenate((one.graph, one.targets)), axis=0)) == 440


@pytest.mark.parametrize("method", ["score_tails", "score_heads", "score_relations"])
def test_rows_of_scores_are_checked_triple_by_triple(method):
    def whole(split):
        return scorer(split, method, function=sound(split))

    def by_id(split):
        return scorer(split, method)

    assert [row.name for row in check(whole).findings if row.verdict != "pass"] == []
    assert {row.name for row in check(by_id).findings if row.verdict == "fail"} >= {"entity names", "relation names"}


def test_what_cannot_score():
    with pytest.raises(UsageError, match="int cannot score: give a function of triples, an object with a score method"):
        check(5)
    with pytest.raises(UsageError, match=r"lame\(split\) returned an object of type int, which cannot score"):
        check(lame)


def lame(split):
    return len(split.graph)


def test_an_error_of_a_factory_is_left_alone_with_a_note_on_the_rule():
    def score(rows):
        return rows + 1

    with pytest.raises(TypeError) as caught:
        check(score)
    assert "a function that scores triples calls its parameter 'triples'" in caught.value.__notes__[0]


class Clock:
    """A scorer that takes a second for every target it is asked about, and the clock that says so."""

    def __init__(self, triples_of_a_target: float) -> None:
        self.now, self.length = 0.0, triples_of_a_target

    def monotonic(self) -> float:
        return self.now

    def build(self, split):
        score = sound(split)

        def slow(triples):
            self.now += len(triples) / self.length
            return score(triples)

        return slow


@pytest.fixture
def clock(monkeypatch):
    split = synthetic()
    made = Clock(len(check_module.Task.of(split).triples) / len(split.targets))
    monkeypatch.setattr(check_module.time, "monotonic", made.monotonic)
    return made


def test_of_a_slow_scorer_fewer_targets_are_asked_and_every_check_is_done(clock):
    steps = []
    found = check(clock.build, seconds=240, report=steps.append)
    assert 10 <= found.targets < (every := min(TARGETS, len(synthetic().targets)))
    assert found.ok
    assert {finding.verdict for finding in found.findings} == {"pass"}
    assert steps == [name for name in NAMES if name != "finiteness"]
    assert clock.now <= 300
    assert check(clock.build).targets == every


def test_what_there_is_no_time_for_is_left_out_and_says_so(clock):
    found = check(clock.build, seconds=8)
    assert (found.targets, found.ok) == (TRIAL, True)
    verdicts = {finding.name: finding.verdict for finding in found.findings}
    assert [verdicts[name] for name in ("shape and type", "finiteness", "ties")] == ["pass", "pass", "not applicable"]
    assert "the 8 seconds are over, allow more (--seconds" in found.findings[-1].message
