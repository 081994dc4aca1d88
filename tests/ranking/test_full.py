"""Rankings against every candidate, and scorers of whole rows under every protocol."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import (
    by_direction,
    counted_parts,
    figures,
    hashed,
    one,
    random_split,
    scorer,
    small,
    splits,
    ties_expected,
    true_triples,
    turned,
)

from mtbench.errors import ScoreError, UsageError
from mtbench.evaluation import tasks as module
from mtbench.evaluation.tasks import evaluate, task
from mtbench.names import PARTS
from mtbench.runs import result as results
from mtbench.settings.table import PROTOCOLS, SAMPLED, VOCABULARIES, setting_of

FULL = [name for name in PROTOCOLS if name not in SAMPLED]
ROWS = ("score_tails", "score_heads", "score_relations")
KINDS = [("score",), ROWS, ("score", *ROWS), *((name,) for name in ROWS), ("score_tails", "score_relations")]
protocols, vocabularies = st.sampled_from(PROTOCOLS), st.sampled_from(VOCABULARIES)


def serves(protocol, methods):
    """Whether a scorer with these methods can be ranked: full heads and tails need rows of their own, or triples."""
    needed = {f"score_{side}s" for side in setting_of(protocol).sides if side != "relation"}
    return "score" in methods or not setting_of(protocol).full or needed <= set(methods)


def plain(split, side, vocabulary, score):
    """Rank every target with Python sets: nothing in common with the package."""
    known = true_triples(split)
    column = ("head", "relation", "tail").index(side)
    ids = range(split.num_entities)
    if side == "relation":
        ids = range(split.relation_slots) if vocabulary == "slots" else sorted(set(split.graph[:, 1].tolist()))
    found = []
    for target in map(tuple, split.targets.tolist()):
        others = [(*target[:column], other, *target[column + 1 :]) for other in ids]
        scores = [score(other) for other in others if other not in known]
        own = score(target)
        found.append((sum(s > own for s in scores), sum(s == own for s in scores), len(scores)))
    return found


def by_parts(split, protocol, vocabulary, tail, head):
    """Rank every target in every part of a protocol, by one function of triples for each direction."""
    functions = {"tail": one(tail), "head": one(head)}
    parts = {part: PARTS[part] for part in setting_of(protocol).parts}
    counts = {part: plain(split, side, vocabulary, functions[way]) for part, (way, side) in parts.items()}
    if protocol != "full-ultra":
        return counts
    return {part: [(above + tied, 0, number) for above, tied, number in rows] for part, rows in counts.items()}


@ties_expected
def test_full_ultra_counts_as_its_published_script_does():
    # Each line of the test file, repeats too, has a rank for its tail and one for its head: 1 + the entities that make
    # no known triple and score as high or higher.
    split = random_split(3, known=20)
    split = replace(split, targets=np.concatenate((split.targets, split.targets[5:9])))
    known, ranks = true_triples(split), []
    for head, relation, tail in split.targets.tolist():
        for score, others in (
            (one(hashed), [(head, relation, other) for other in range(split.num_entities)]),
            (one(turned), [(other, relation, tail) for other in range(split.num_entities)]),
        ):
            own = score((head, relation, tail))
            ranks.append(1 + sum(score(other) >= own for other in others if other not in known))
    for asked in by_direction(split):
        result, averaged = evaluate(asked, split, "full-ultra"), evaluate(asked, split, "full")
        assert result.metrics["mrr"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
        assert result.metrics["hits@10"] == pytest.approx(np.mean([rank <= 10 for rank in ranks]))
        assert result.metrics == result.optimistic == averaged.pessimistic != averaged.metrics
        assert (len(result.ranks), result.candidates_sha256) == (44, averaged.candidates_sha256)
    baselines = [task(split, protocol).baselines["entity_degree"]["mrr"] for protocol in ("full-ultra", "full")]
    assert baselines[0] < baselines[1]


@ties_expected
def test_full_ultra_asks_for_the_validation_triples_of_a_test_graph_of_grail(tmp_path):
    split = random_split(3, known=20)
    grail = replace(split, dataset="grail-toy")
    for asked, number in ((grail, 60), (replace(grail, name="valid"), 40), (split, 40)):
        result = evaluate(hashed, asked, "full-ultra")
        together = replace(asked, targets=np.concatenate((split.targets, split.known[: number - 40])), dataset="other")
        assert len(result.ranks) == number
        assert counted_parts(result.ranks) == counted_parts(evaluate(hashed, together, "full-ultra").ranks)
        assert len(evaluate(hashed, asked, "full").ranks) == 40
        loaded = results.load(result.save(tmp_path / f"{asked.dataset} {asked.name}"))
        assert loaded.by("half_link", split=asked).whole.targets == number


@ties_expected
@settings(max_examples=30)
@given(split=splits(), protocol=st.sampled_from(FULL), vocabulary=vocabularies)
def test_full_rankings_are_those_of_a_plain_loop(split, protocol, vocabulary):
    result = evaluate(hashed, split, protocol, vocabulary)
    assert counted_parts(result.ranks) == by_parts(split, protocol, vocabulary, hashed, hashed)
    for asked in by_direction(split):
        result = evaluate(asked, split, protocol, vocabulary)
        expected = by_parts(split, protocol, vocabulary, hashed, turned)
        assert counted_parts(result.ranks) == expected
        ranks = [
            [greater + 1 + place for place in range(equal + 1)]
            for counts in expected.values()
            for greater, equal, _ in counts
        ]  # every order of the ties
        mrr = np.mean([np.mean([1 / rank for rank in places]) for places in ranks])
        assert result.metrics["mrr"] == pytest.approx(mrr, rel=1e-12)
        assert result.pessimistic["mr"] == pytest.approx(np.mean([places[-1] for places in ranks]), rel=1e-12)


@ties_expected
@settings(max_examples=30)
@given(
    split=splits(),
    protocol=protocols,
    vocabulary=vocabularies,
    methods=st.sampled_from(KINDS),
    size=st.integers(1, 60),
    seed=st.integers(0, 2),
)
def test_every_kind_of_scorer_and_every_batch_size_gives_the_same_figures(
    split, protocol, vocabulary, methods, size, seed
):
    chosen = task(split, protocol, vocabulary, seed)
    expected = chosen.run(hashed)
    asked = scorer(split, *methods)
    if not serves(protocol, methods):
        with pytest.raises(UsageError, match=r"ranking against every (head|tail) needs score_(head|tail)s\("):
            chosen.run(asked)
        return
    for found in (chosen.run(asked), chosen.run(asked, batch_size=size), chosen.evaluate(hashed(chosen.triples))):
        assert figures(found) == figures(expected)
        assert counted_parts(found.ranks) == counted_parts(expected.ranks)


@ties_expected
@pytest.mark.parametrize("protocol", ["dual", *FULL])
def test_every_needed_triple_is_asked_for_once_in_bounded_batches(protocol):
    split, seen, reported = random_split(8, entities=30), [], []
    chosen = task(split, protocol)

    def score(triples):
        assert triples.dtype == np.int64
        assert len(triples) <= 50
        seen.append(list(map(tuple, triples.tolist())))
        triples[:] = -1
        return hashed(np.array(seen[-1]))

    chosen.run(score, batch_size=50, progress=lambda done, total: reported.append((done, total)), ask_again=False)
    asked = [triple for batch in seen for triple in batch]
    assert set(asked) == set(map(tuple, chosen.triples.tolist()))
    # Full sides are apart: a triple that two need is compared with the others of its own side, in both directions.
    apart = [protocol] if protocol in SAMPLED else [f"full-{side}" for side in setting_of(protocol).sides]
    assert len(asked) == sum(len(task(split, one_side).triples) for one_side in apart)
    assert [done for done, _ in reported] == np.cumsum([len(batch) for batch in seen]).tolist()
    assert {total for _, total in reported} == {len(asked)}


@ties_expected
@pytest.mark.parametrize("size", [1, 75, 10**6])
@pytest.mark.parametrize("protocol", ["full-tail", "entity", "dual", "full"])
def test_every_row_is_asked_for_once_in_bounded_batches(protocol, size):
    split, pairs, reported = random_split(9, entities=30), [], []
    rows = scorer(split, "score_tails", "score_relations")

    def score_tails(heads, relations):
        assert len(heads) <= max(1, size // 30)
        assert heads.dtype == relations.dtype == np.int64
        pairs.extend(zip(heads.tolist(), relations.tolist(), strict=True))
        return rows.score_tails(heads, relations)

    asked = scorer(split, "score_heads", "score_relations")
    asked.score_tails = score_tails
    told = lambda done, total: reported.append((done, total))  # noqa: E731
    task(split, protocol).run(asked, batch_size=size, progress=told, ask_again=False)
    wanted = {(head, relation) for head, relation, _ in split.targets.tolist()}
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == wanted
    assert reported[-1][0] == reported[-1][1]
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)


@ties_expected
@pytest.mark.parametrize("protocol", ["full", "full-relation", "dual", "entity", "relation"])
def test_a_target_is_compared_within_one_forward_pass(protocol):
    """Every row is off by an amount of its own, as rounding is between two passes: no rank may depend on it."""
    split, rng = random_split(10), np.random.default_rng(0)
    exact = scorer(split, *ROWS)

    def off(rows):
        return lambda first, second: rows(first, second) + rng.random((len(first), 1))

    noisy = SimpleNamespace(**{name: off(getattr(exact, name)) for name in ROWS})
    chosen = task(split, protocol)
    assert counted_parts(chosen.run(noisy, ask_again=False).ranks) == counted_parts(chosen.run(hashed).ranks)


@ties_expected
def test_a_result_says_what_each_direction_was_asked():
    split = random_split(11)
    triples, rows = by_direction(split)
    three = SimpleNamespace(**vars(triples), score_between=hashed)
    tails, heads, relations = (
        "score_tails(heads, relations)",
        "score_heads(relations, tails)",
        "score_relations(heads, tails)",
    )
    for asked, protocol, expected in (
        (hashed, "dual", ("score(triples)", "score(triples)")),
        (triples, "dual", ("score(triples)", "score_inverses(triples)")),
        (triples, "full", ("score(triples)", "score_inverses(triples)")),
        (three, "dual", ("score(triples), score_between(triples)", "score_inverses(triples), score_between(triples)")),
        (three, "full-relation", ("score_between(triples)",)),
        (rows, "dual", (tails, heads)),
        (rows, "relation", (tails,)),
        (rows, "entity-head", (heads,)),
        (scorer(split, *ROWS), "full", (tails, heads)),
        (scorer(split, *ROWS, "score"), "full", (tails, heads)),  # whole rows are preferred in full rankings
        (scorer(split, *ROWS, "score"), "dual", ("score(triples)", "score(triples)")),  # and triples in sampled ones
        (scorer(split, *ROWS), "full-relation", (relations,)),
    ):
        found = evaluate(asked, split, protocol)
        assert found.asked == dict(zip(setting_of(protocol).directions, expected, strict=True)), protocol


@ties_expected
@pytest.mark.parametrize("protocol", ["dual", "relation", "full-relation", "full"])
def test_relations_are_scored_by_their_own_query_and_compared_with_a_target_by_that(protocol):
    split = random_split(11)
    plain, mirrored = SimpleNamespace(score=hashed), SimpleNamespace(score=turned)
    apart = evaluate(SimpleNamespace(score=hashed, score_between=turned), split, protocol).ranks.parts
    ends, relations = (evaluate(one, split, protocol).ranks.parts for one in (plain, mirrored))
    for part, counts in apart.items():
        expected = (relations if PARTS[part][1] == "relation" else ends)[part]
        np.testing.assert_array_equal(counts.greater, expected.greater)
        np.testing.assert_array_equal(counts.equal, expected.equal)


@ties_expected
def test_a_module_that_can_be_called_is_asked_through_its_methods():
    split = random_split(12)
    tails = scorer(split, "score_tails").score_tails

    class Module:
        def __call__(self, graph):
            raise AssertionError

        def score_tails(self, heads, relations):
            return tails(heads, relations)

    assert figures(evaluate(Module(), split, "entity")) == figures(evaluate(hashed, split, "entity"))


@ties_expected
def test_relations_may_come_without_the_empty_slots_where_none_is_a_candidate():
    split = random_split(13)
    narrow = scorer(split, "score_relations", slots=False)
    for protocol in ("full-relation", "relation"):
        assert figures(evaluate(narrow, split, protocol)) == figures(evaluate(hashed, split, protocol))
        with pytest.raises(ScoreError, match=r"shape \(\d+, 8\), .*\(\d+, 20\) with a column per relation slot"):
            evaluate(narrow, split, protocol, "slots")


@pytest.mark.parametrize("protocol", ["full-tail", "entity-tail"])
def test_rows_of_a_wrong_shape_are_refused(protocol):
    split = small()
    for answer in (np.zeros((3, 5)), np.zeros((2, 4)), np.zeros(4), np.zeros((3, 4, 1))):
        asked = scorer(split)
        asked.score_tails = lambda heads, relations, answer=answer: answer
        with pytest.raises(ScoreError, match=r"toy test: scores have the shape .*: \(3, 4\) with a column per entity"):
            evaluate(asked, split, protocol)


@ties_expected
@pytest.mark.parametrize("methods", [("score",), ("score_tails",)])
def test_a_score_that_is_not_finite_is_named(methods):
    split = small()
    bad = split.targets[1]

    def score(triples):
        return np.where((triples == bad).all(axis=1), np.nan, hashed(triples))

    named = ", ".join(split.named(bad[None])[0])
    with pytest.raises(ScoreError, match=rf"toy test: 1 of \d+ scores .*\(1 NaN, 0 infinite\): \({named}\) scored nan"):
        evaluate(scorer(split, *methods, function=score), split, "full-tail")


@ties_expected
@pytest.mark.parametrize("protocol", ["full-tail", "entity"])
def test_what_is_not_read_need_not_be_finite(protocol):
    """A model may give the observable triples no score at all: they are no candidates."""
    split = random_split(14)
    known = {tuple(row) for row in split.graph.tolist()}

    def masked(triples):
        observable = np.array([tuple(row) in known for row in triples.tolist()])
        return np.where(observable, -np.inf, hashed(triples))

    masking = scorer(split, "score_tails", function=masked)
    plainly = scorer(split, "score_tails", function=lambda triples: hashed(triples) * 1.0)
    assert figures(evaluate(masking, split, protocol)) == figures(evaluate(plainly, split, protocol))


@ties_expected
def test_rows_of_different_types_are_refused_within_a_side_only():
    split = random_split(15)
    kinds = iter([np.float32, np.float64])
    asked = scorer(split, "score_tails", function=lambda triples: hashed(triples).astype(next(kinds)))
    with pytest.raises(ScoreError, match=r"type float32 before triple \d+ and float64 from there on"):
        evaluate(asked, split, "full-tail", batch_size=60)
    ends = ("score_tails", "score_heads")
    mixed = scorer(split, *ends, function=lambda triples: hashed(triples).astype(np.float32))
    mixed.score_relations = scorer(split, "score_relations").score_relations
    assert figures(evaluate(mixed, split, "dual")) == figures(evaluate(hashed, split, "dual"))


@ties_expected
def test_tensors_serve_as_arrays_do(torch):
    split = random_split(16)
    for kind in (torch.float32, torch.bfloat16):
        asked = scorer(
            split, "score_tails", function=lambda triples, kind=kind: torch.tensor(hashed(triples), dtype=kind)
        )
        for protocol in ("full-tail", "entity"):
            assert figures(evaluate(asked, split, protocol)) == figures(evaluate(hashed, split, protocol))


@ties_expected
def test_repeated_targets_are_ranked_each():
    split = small()
    twice = replace(split, targets=np.concatenate((split.targets, split.targets)))
    for methods in (("score",), ROWS):
        result = evaluate(scorer(split, *methods), twice, "full-tail")
        rows = counted_parts(result.ranks)["tail"]
        assert rows[:3] == rows[3:]


@pytest.mark.parametrize("protocol", ["full", "full-tail", "full-head", "full-relation"])
def test_too_many_candidates_are_not_listed_but_ranked(protocol, monkeypatch):
    split = random_split(18)
    monkeypatch.setattr(module, "LISTED", 100)
    chosen = task(split, protocol)
    with pytest.raises(
        UsageError, match=rf"random/test/{protocol}/present/0: [\d,]+ candidates are too many to list; "
    ):
        _ = chosen.triples
    with pytest.raises(UsageError, match=r"pass a scorer to run or evaluate.* or use a sampled protocol: dual, entity"):
        chosen.evaluate(np.zeros(10))
    with pytest.warns(UserWarning, match="tie"):
        assert len(chosen.run(hashed).ranks) == 40
    assert chosen.baselines["relation_frequency"]["mrr"] > 0
