"""Each setting of the paper against a plain implementation in Python integers and sets, and against closed forms."""

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import hashed, one, plainly_drawn, random_split, scorer, small, splits, ties_expected, true_triples
from scipy.stats import binom

from mtbench.data.splits import inverted
from mtbench.errors import ScoreError, UnknownNameError, UsageError
from mtbench.evaluation import paper
from mtbench.evaluation.paper import read_all, sampled_hits, table
from mtbench.evaluation.tasks import evaluate
from mtbench.heuristics.oracles import blind_oracle
from mtbench.names import HITS
from mtbench.ranking.candidates import CONVENTIONS_VERSION, draw
from mtbench.settings.table import CODES, HEADLINE, MAIN, codes_of, setting_in, setting_of

COLUMN = {"head": 0, "relation": 1, "tail": 2}
# Per setting and protocol: the lists, each the sides in it with their numbers, and the largest integer added.
DECLARED = {
    ("isdea", "dual"): ([{"relation": 26, "tail": 24}, {"head": 24, "relation": 26}], 0),
    ("isdea", "entity"): ([{"tail": 50}, {"head": 50}], 0),
    ("isdea", "relation"): ([{"relation": 50}, {"relation": 50}], 0),
    ("isdea-doubled", "dual"): ([{"relation": 26, "tail": 24}], 0),
    ("isdea-doubled", "entity"): ([{"tail": 50}], 0),
    ("isdea-doubled", "relation"): ([{"relation": 50}], 0),
    ("ingram", "dual"): ([{"head": 12, "relation": 26, "tail": 12}], 0),
    ("ingram", "entity"): ([{"head": 50}, {"tail": 50}], 0),
    ("ingram", "relation"): ([{"relation": 50}], 0),
    ("nbfnet", "dual"): ([{"tail": 25}, {"head": 25}], 25),
    ("nbfnet", "entity"): ([{"tail": 50}, {"head": 50}], 0),
    ("nbfnet", "relation"): ([{"relation": 50}], 0),
}
PAPER = CODES[1:]
PLAIN = [name for name in PAPER if name != "isdea-doubled"]
combinations = pytest.mark.parametrize(("name", "protocol"), [both for both in DECLARED if both[0] in PLAIN])


def read(score, split, name, protocol="dual", seed=0):
    return paper.read(score, split, setting_in(name, protocol), seed)


def candidates(split, name, protocol="dual", seed=0):
    return draw(split, setting_in(name, protocol), seed)


def header(split, name, seed):
    return f"mtbench convention {CONVENTIONS_VERSION}\ncontent {split.content_sha256}\nconvention {name}\nseed {seed}\n"


def replaced(target, side, other):
    triple = list(target)
    triple[COLUMN[side]] = other
    return tuple(triple)


def allowed(split, target, side, name):
    """List what may be drawn for one target, in the order of ids."""
    known = set(map(tuple, split.graph.tolist())) | {target}
    if name == "ingram":
        known = true_triples(split)
    universe = range(split.num_entities)
    if side == "relation":
        present = sorted(set(split.graph[:, 1].tolist()))
        universe = present if name == "ingram" else range(split.relation_slots)
    found = [other for other in universe if replaced(target, side, other) not in known]
    return found[:-1] if name == "ingram" else found


def plain_draw(split, target, side, name, width, seed):
    """Draw one side of one target; the result has repeated candidates where they count repeatedly."""
    pool = allowed(split, target, side, name)
    repeated = name != "nbfnet" or side == "relation"
    drawn = plainly_drawn(f"{header(split, name, seed)}side {side}\n", target, pool, width, repeated=repeated)
    return sorted(set(drawn)) if name == "ingram" else drawn


def plain_integer(split, target, side, name, last, seed):
    text = f"{header(split, name, seed)}integer {side}\ntarget {list(target)}\n"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") % (last + 1)


def plain_counts(split, name, protocol, seed, score):
    """Return (above, tied, added) for every list of every target, list by list."""
    lists, invented = DECLARED[name, protocol]
    found = []
    for sides in lists:
        for target in map(tuple, split.targets.tolist()):
            others = [
                score(replaced(target, side, other))
                for side, width in sides.items()
                for other in plain_draw(split, target, side, name, width, seed)
            ]
            own = score(target)
            added = plain_integer(split, target, next(iter(sides)), name, invented, seed) if invented else 0
            found.append((sum(other >= own for other in others), 0, added))  # no tie is left: it counts as above
    return found


def above_tied_added(found):
    return list(zip(found.greater.tolist(), found.equal.tolist(), found.added.tolist(), strict=True))


def plain_figures(ranks, sampled):
    found = {"mr": np.mean(ranks), "mrr": np.mean([1 / rank for rank in ranks])}
    for k in HITS:
        plain = [rank <= k for rank in ranks]
        found[f"hits@{k}"] = np.mean(binom.cdf(k - 1, 49, (np.array(ranks) - 1) / 50) if sampled else plain)
    return found


@combinations
@settings(max_examples=25)
@given(split=splits(), seed=st.integers(0, 3))
def test_every_setting_is_that_of_a_plain_implementation(name, protocol, split, seed):
    found = read(hashed, split, name, protocol, seed)
    plain = plain_counts(split, name, protocol, seed, one(hashed))
    assert above_tied_added(found) == plain
    ranks = [1 + above + tied + added for above, tied, added in plain]
    assert found.metrics == pytest.approx(plain_figures(ranks, name == "nbfnet"))
    invented = DECLARED[name, protocol][1]
    every = [1 + above + tied + added for above, tied, _ in plain for added in range(invented + 1)]
    assert found.expected == pytest.approx(plain_figures(every, name == "nbfnet"))
    if not invented:
        assert found.expected == found.metrics


class BothWays:
    """Scores an inverse relation otherwise than the relation."""

    def __call__(self, triples):
        return hashed(triples)

    def score_inverses(self, triples):
        return hashed(triples[:, ::-1], 97)


@combinations
@settings(max_examples=10)
@given(split=splits(), seed=st.integers(0, 3))
def test_a_scorer_of_inverses_is_asked_for_them_where_a_target_is_its_inverse(name, protocol, split, seed):
    found = read(BothWays(), split, name, protocol, seed)
    plain = plain_counts(split, name, protocol, seed, one(hashed))
    if name != "ingram":  # ISDEA's code doubles targets, NBFNet's turns a query for the head into one for the tail
        turned = plain_counts(split, name, protocol, seed, one(BothWays().score_inverses))
        plain[len(split.targets) :] = turned[len(split.targets) :]
    assert above_tied_added(found) == plain


def twofold(split):
    """Return a split with the inverses of all triples, one by one, and of all slots."""
    slots = split.relation_slots
    named = [*split.relations.tolist(), *(f"<empty slot {slot}>" for slot in range(split.num_relations, slots))]
    parts = {
        part: np.array([*rows, *([tail, relation + slots, head] for head, relation, tail in rows)], int).reshape(-1, 3)
        for part in ("graph", "targets", "known")
        for rows in [getattr(split, part).tolist()]
    }
    relations = np.array([*named, *(f"{name} (inverse)" for name in named)])
    return replace(split, **parts, relations=relations, relation_slots=2 * slots)


def test_a_split_with_inverses_has_the_inverse_of_every_triple_under_a_slot_of_its_own():
    split = replace(small(), known=np.array([[3, 1, 0]]))
    ours, theirs = split.with_inverses(), twofold(split)
    assert ours.relation_slots == ours.num_relations == 12
    assert ours.relations.tolist()[5:8] == ["<empty slot 5>", "hates (inverse)", "knows (inverse)"]
    assert ours.content_sha256 == theirs.content_sha256
    assert ours.named(ours.targets)[3:] == [
        ("cem", "knows (inverse)", "ann"),
        ("bob", "hates (inverse)", "dee"),
        ("cem", "likes (inverse)", "bob"),
    ]
    assert ours.named(ours.known) == [("dee", "knows", "ann"), ("ann", "knows (inverse)", "dee")]
    assert inverted(ours.graph, 6).tolist() == [*ours.graph[4:].tolist(), *ours.graph[:4].tolist()]


@pytest.mark.parametrize("protocol", MAIN)
@settings(max_examples=25)
@given(split=splits(), seed=st.integers(0, 3))
def test_with_inverses_every_target_is_ranked_both_ways_among_all_slots_and_their_inverses(protocol, split, seed):
    def plain(triple):
        head, relation, tail = triple
        turned = relation >= split.relation_slots
        known = np.array([(tail, relation - split.relation_slots, head) if turned else triple])
        return int((BothWays().score_inverses if turned else BothWays())(known)[0])

    found = read(BothWays(), split, "isdea-doubled", protocol, seed)
    counts = plain_counts(twofold(split), "isdea-doubled", protocol, seed, plain)
    assert above_tied_added(found) == counts
    assert found.metrics == pytest.approx(plain_figures([1 + above + tied for above, tied, _ in counts], False))


def test_a_scorer_of_rows_and_inverses_is_read_with_inverses():
    split = random_split(12)
    rows = scorer(split, "score_tails", "score_relations")
    rows.score_inverses = BothWays().score_inverses
    for protocol in MAIN:
        ours, theirs = (read(one, split, "isdea-doubled", protocol) for one in (rows, BothWays()))
        assert (ours.greater.tolist(), ours.equal.tolist()) == (theirs.greater.tolist(), theirs.equal.tolist())


@pytest.mark.parametrize("name", ["isdea", "ingram"])
def test_relations_are_read_by_a_query_of_their_own_where_there_is_one(name):
    split = random_split(12)
    three = BothWays()
    three.score_between = three.score_inverses
    ours, theirs = (read(one, split, name, "relation") for one in (three, three.score_between))
    assert (ours.greater.tolist(), ours.equal.tolist()) == (theirs.greater.tolist(), theirs.equal.tolist())


@pytest.mark.parametrize(("name", "protocol"), DECLARED)
@settings(max_examples=15)
@given(split=splits(), seed=st.integers(0, 3))
def test_the_candidates_are_those_of_a_plain_implementation(name, protocol, split, seed):
    drawn = candidates(split, name, protocol, seed)
    lists, _ = DECLARED[name, protocol]
    split = twofold(split) if name == "isdea-doubled" else split
    assert set(drawn.drawn) == {side for sides in lists for side in sides}
    for sides in lists:
        for side, width in sides.items():
            ids, valid = drawn.side(side)
            for row, target in enumerate(map(tuple, split.targets.tolist())):
                assert ids[row, valid[row]].tolist() == plain_draw(split, target, side, name, width, seed)
                assert (ids[row, ~valid[row]] == -1).all()


@ties_expected
@pytest.mark.parametrize("protocol", MAIN)
def test_the_standard_setting_is_the_evaluator(protocol):
    split = random_split(1)
    found, result = read(hashed, split, "standard", protocol, 2), evaluate(hashed, split, protocol, "present", 2)
    assert found.metrics == found.expected == result.metrics
    assert found.candidates_sha256 == result.candidates_sha256
    assert found.candidates == result.ranks.count.mean()


def many_relations(seed=3, targets=60):
    """Return a split with more than 50 relation types, so that every protocol finds all it asks for."""
    return random_split(seed, entities=200, relations=70, slots=90, graph=4000, targets=targets)


def homogeneous(triples):
    """Score pairs of entities with next to no ties, and every relation alike."""
    return hashed(triples * np.array([1, 0, 1]), 1_000_003)


@ties_expected
def test_a_homogeneous_model_among_relations():
    split = many_relations()
    result = evaluate(homogeneous, split, "relation", "present")
    harmonic = sum(1 / rank for rank in range(1, 52))
    assert result.metrics == pytest.approx({"mr": 26, "mrr": harmonic / 51} | {f"hits@{k}": k / 51 for k in HITS})
    assert (round(result.metrics["mrr"], 4), round(result.metrics["hits@1"], 4)) == (0.0886, 0.0196)
    for name in ("isdea", "nbfnet"):
        found = read(homogeneous, split, name, "relation").metrics
        assert (found["mr"], found["mrr"]) == (51, pytest.approx(1 / 51, abs=1e-15))
        assert all(found[f"hits@{k}"] == pytest.approx(0, abs=1e-12) for k in HITS)
    collapsed = read(homogeneous, split, "ingram", "relation")
    assert collapsed.metrics["mr"] == 1 + collapsed.candidates < 51


@ties_expected
def test_all_entities_right_and_all_relations_tied():
    """The figures of one model under four tie rules: 1.0/1.0, 0.037/0, 0.071/0 and 0.144/0.370."""
    split = many_relations()
    # With one target per head, no candidate is the pair of another target.
    split = replace(split, targets=split.targets[np.unique(split.targets[:, 0], return_index=True)[1]])
    tails = blind_oracle(split)
    result = evaluate(tails, split, "dual", "present")
    assert (result.optimistic["mrr"], result.optimistic["hits@10"]) == (1, 1)
    assert result.pessimistic["mrr"] == pytest.approx(1 / 27)
    assert result.pessimistic["hits@10"] == 0
    assert result.metrics["mr"] == 14
    assert 1 / result.metrics["mr"] == pytest.approx(0.0714, abs=5e-5)
    assert result.metrics["mrr"] == pytest.approx(sum(1 / rank for rank in range(1, 28)) / 27)
    assert (round(result.metrics["mrr"], 3), round(result.metrics["hits@10"], 3)) == (0.144, 0.370)
    paper = read(tails, split, "isdea", "dual").metrics
    assert (paper["mr"], paper["mrr"], paper["hits@10"]) == (27, pytest.approx(1 / 27), 0)


def test_the_random_integer_of_a_model_that_knows_all_entities():
    expected = {"hits@1": 0.061, "hits@3": 0.135, "hits@5": 0.212, "hits@10": 0.404}
    found = {name: part.mean() for name, part in sampled_hits(np.zeros(3, dtype=np.int64), 50, 25).items()}
    assert {name: round(value, 3) for name, value in found.items()} == expected
    result = read(lambda triples: np.zeros(len(triples)), small(), "nbfnet").expected
    assert result["mr"] > 13.5
    perfect = read(oracle_of(many_relations()), many_relations(), "nbfnet")
    assert perfect.expected["mr"] == 13.5
    assert round(perfect.expected["mrr"], 3) == 0.148
    assert perfect.expected["mrr"] == pytest.approx(sum(1 / rank for rank in range(1, 27)) / 26)
    assert {name: round(perfect.expected[name], 3) for name in expected} == expected
    assert set(perfect.added.tolist()) <= set(range(26))
    assert len(set(perfect.added.tolist())) > 20
    assert perfect.metrics["mr"] == 1 + perfect.added.mean()
    assert sampled_hits(np.array([80]), 50)["hits@10"].tolist() == [0]  # more above than were drawn


def oracle_of(split):
    own = set(map(tuple, split.targets.tolist()))
    return lambda triples: [float(tuple(triple) in own) for triple in triples.tolist()]


def test_a_seed_names_the_draw():
    split = random_split(7)
    for name in PAPER:
        first, again, other = (read(BothWays(), split, name, "dual", seed) for seed in (0, 0, 1))
        assert first.candidates_sha256 == again.candidates_sha256 != other.candidates_sha256
        assert first.metrics == again.metrics
        assert (first.seed, other.seed) == (0, 1)
    assert read(hashed, split, "nbfnet", seed=0).added.tolist() != read(hashed, split, "nbfnet", seed=1).added.tolist()


def test_a_comparison_has_the_standard_first_and_reads_one_scorer_under_all():
    split = random_split(8)
    results = read_all(hashed, split, "dual", 1)
    assert [result.setting.code for result in results] == ["standard", *PLAIN]
    inverses = read_all(BothWays(), split, "dual", 1)
    assert [result.setting.code for result in inverses] == list(CODES)
    assert inverses[2].metrics == read(BothWays(), split, "isdea-doubled", "dual", 1).metrics != inverses[1].metrics
    for result in results:
        alone = paper.read(hashed, split, result.setting, 1)
        assert (alone.metrics, alone.expected) == (result.metrics, result.expected)
    labels = ["standard", "isdea (isdea-homo, isdea, mtdea)", "ingram (ingram)", "nbfnet (nbfnet-homo)"]
    labels.append("nbfnet, mean over its random integer")
    assert [line.split("  ")[0] for line in table(results).splitlines()[2:]] == labels
    assert table(results, "markdown").count("\n") == 6
    assert "mean over" not in table(read_all(hashed, split, "entity"))
    payload = json.loads(json.dumps([result.to_dict() for result in results]))
    assert payload[3]["metrics"] == results[3].metrics
    assert payload[1]["rows"] == ["isdea-homo", "isdea", "mtdea"]
    assert payload[0]["differs"] == []
    assert all(part["differs"] and part["source"] for part in payload[1:])


def test_every_row_of_the_paper_has_a_setting_and_isdeas_a_second_for_models_without_inverses():
    rows = {row for name in PAPER for row in setting_in(name).rows}
    isdea = dict.fromkeys(("isdea-homo", "isdea", "mtdea"), ("isdea-doubled", "isdea"))
    assert {row: codes_of(row) for row in rows} == isdea | {"ingram": ("ingram",), "nbfnet-homo": ("nbfnet",)}


@pytest.mark.parametrize(
    ("model", "codes"),
    [
        ("mtdea-k4", ("isdea-doubled", "isdea")),
        ("ingram-kgc", ()),  # somebody's own: only its name begins as a row of the paper does
        ("mtdea-search-k2", ()),
        ("tally", ()),
    ],
)
def test_a_model_is_a_row_of_the_paper_only_by_its_whole_name(model, codes):
    assert codes_of(model) == codes


def test_a_setting_says_which_protocol_of_ours_its_dual_is_nearest_to():
    nearest = {name: setting_in(name).nearest for name in PAPER}
    assert nearest == {"isdea": "dual", "isdea-doubled": "dual", "ingram": "dual", "nbfnet": "entity"}
    for name, protocol in nearest.items():
        if name != "isdea-doubled":  # where an inverse target's tail is the head
            assert setting_in("standard", protocol).sides == setting_in(name).sides


def test_what_cannot_be_read():
    with pytest.raises(UnknownNameError, match="unknown evaluation setting 'isde': did you mean isdea"):
        read(hashed, small(), "isde")
    with pytest.raises(UnknownNameError, match="unknown protocol 'duall': did you mean dual"):
        read(hashed, small(), "ingram", "duall")
    with pytest.raises(UsageError, match=r"toy test: there are no triples to rank"):
        read(hashed, small().observable(), "nbfnet")
    with pytest.raises(UsageError, match=r"the candidate seed must be a whole number from 0 .*, not 0\.5"):
        read(hashed, small(), "isdea", seed=0.5)
    with pytest.raises(ScoreError, match="not finite"):
        read(lambda triples: np.full(len(triples), np.nan), small(), "isdea")
    with pytest.raises(UsageError, match="a setting with inverses needs a scorer that has score_inverses"):
        read(hashed, small(), "isdea-doubled")
    for change in ({"known": "graph"}, {"empty_slots": True}):
        with pytest.raises(UsageError, match=r"setting ingram:dual: last_excluded needs known=.all. and relations"):
            replace(setting_in("ingram"), **change)
    with pytest.raises(UsageError, match="setting nbfnet:dual: sampled hits and invented candidates need ties"):
        replace(setting_in("nbfnet"), ties="expected")
    with pytest.raises(UsageError, match="setting dual-present: sampled hits and invented candidates need ties"):
        replace(HEADLINE, sampled_hits=True)


@ties_expected
def test_a_variant_of_the_standard_changes_one_thing_at_a_time():
    split = random_split(9)
    worst = paper.read(hashed, split, replace(HEADLINE, ties="pessimistic"))
    wide = paper.read(hashed, split, setting_of(vocabulary="slots"))
    theirs = paper.read(hashed, split, replace(setting_of("full"), code="somebody", ties="pessimistic"))
    assert theirs.metrics == evaluate(hashed, split, "full").pessimistic
    assert worst.metrics == evaluate(hashed, split).pessimistic
    assert wide.metrics == evaluate(hashed, split, vocabulary="slots").metrics


def test_present_relations_are_those_of_the_whole_graph_under_any_filter():
    split = random_split(11)
    variant = replace(setting_in("isdea", "relation"), empty_slots=False, repeated=())
    ids, valid = draw(split, variant).side("relation")
    for target, row, keep in zip(map(tuple, split.targets.tolist()), ids, valid, strict=True):
        assert row[keep].tolist() == [other for other in allowed(split, target, "relation", "isdea") if other < 8]


def test_no_warning_and_no_possible_candidate():
    full = random_split(10, entities=2, relations=1, slots=1, graph=7, targets=1)
    for name in PAPER:
        found = read(BothWays(), full, name)
        assert math.isfinite(found.metrics["mrr"])
        assert found.candidates <= 50
        assert found.metrics["mr"] >= 1
