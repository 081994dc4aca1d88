"""The audit on small graphs, against figures counted by hand or by the definition."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import released
from hypothesis import given, settings
from hypothesis import strategies as st

import mtbench
from mtbench.analysis.contents import audit_graph, audit_targets, half_links
from mtbench.analysis.relations import similar_relations, two_hop_patterns
from mtbench.data import catalog
from mtbench.data.catalog import Source
from mtbench.data.splits import Split
from mtbench.errors import UsageError
from mtbench.ranking.candidates import draw
from mtbench.settings.table import setting_of

KIN = [
    ("ann", "parent", "bob"),
    ("bob", "child", "ann"),
    ("ann", "parent", "cat"),
    ("cat", "child", "ann"),
    ("bob", "sibling", "cat"),
    ("cat", "sibling", "bob"),
]


def split_of(graph, targets, entities=4, relations=3, slots=5, tasks=None) -> Split:
    return Split(
        dataset="random",
        name="test",
        graph=np.array(graph, dtype=np.int64).reshape(-1, 3),
        targets=np.array(targets, dtype=np.int64).reshape(-1, 3),
        entities=np.array([f"e{number}" for number in range(entities)]),
        relations=np.array([f"r{number}" for number in range(relations)]),
        relation_slots=slots,
        tasks=tasks or {},
    )


triples = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), max_size=14)


def test_a_family_counted_by_hand():
    test = [("ann", "parent", "x"), ("x", "likes", "y"), ("y", "likes", "x"), ("x", "likes", "x")]
    data = released.named("kin", KIN, [("ann", "parent", "bob")], test, [("ann", "likes", "y")], slots=(4, 2))
    found = mtbench.audit(data)
    assert (found.overlap.entities, found.overlap.relations, found.overlap.triples) == (1, ("parent",), 0)
    assert (found.overlap.targets_on_training_relations, found.overlap.targets_in_training) == (0, 0)
    train, test_graph = found.graphs["train"], found.graphs["test"]
    assert (train.entities, train.triples, train.targets, train.duplicates) == (3, 6, 1, 0)
    assert (train.relation_types, train.relation_slots) == (3, 4)
    assert train.relations == {"parent": 3, "child": 2, "sibling": 2}
    assert train.degrees == ((4, 3),)
    assert (test_graph.self_loops, test_graph.degrees) == (1, ((1, 1), (2, 1), (5, 1)))
    valid = found.targets["valid"]
    assert (valid.targets, valid.in_graph, valid.reversed_pair, valid.reversed_same, valid.same_pair) == (1, 1, 1, 0, 0)
    assert valid.half_links == {"both": 1, "head only": 0, "tail only": 0, "neither": 0}
    assert found.targets["test"].half_links == {"both": 0, "head only": 0, "tail only": 1, "neither": 0}
    pairs = found.similar_relations["train"]
    similar = {(pair.relation, pair.other, pair.kind): (pair.jaccard, pair.pairs) for pair in pairs}
    assert similar == {("child", "parent", "inverse"): (1.0, 2), ("sibling", "sibling", "symmetric"): (1.0, 2)}
    assert "1 entities are in train and test" in found.findings
    assert "train graph: 3 relation types occur, of 4 relation ids" in found.findings
    assert "valid triples: 1 of 1 are in the graph as well" in found.findings
    assert json.loads(json.dumps(found.to_dict()))["graphs"]["train"]["degrees"] == [[4, 3]]


def test_what_is_known_besides_is_counted_and_said():
    test, rows = split_of([(0, 0, 1), (1, 1, 2)], [(0, 1, 2)]), [(1, 0, 2), (2, 0, 3)]
    data = released.named("kin", KIN, [], KIN, [], slots=(4, 4))
    found = mtbench.audit(replace(data, test=replace(test, known=np.array(rows))))
    assert (found.graphs["train"].known, found.graphs["test"].known) == (0, 2)
    assert "test graph: 2 triples more are known, neither observable nor to be predicted" in "; ".join(found.findings)


@pytest.mark.parametrize(
    ("train", "valid", "said"),
    [
        ([], [], "there is no training graph"),
        (KIN, [], "there are no validation triples"),
        (KIN, [("ann", "parent", "bob")], None),
    ],
)
def test_what_a_dataset_lacks_is_said_first_and_nothing_is_found_of_nothing(train, valid, said):
    data = released.named("kin", train, valid, KIN, [("ann", "sibling", "bob")], slots=(4, 4))
    first, *others = mtbench.audit(data).findings
    assert first.startswith(said) if said else not first.startswith("there ")
    assert not [sentence for sentence in others if "of 0" in sentence]


def test_triples_shared_by_name():
    data = released.named("same", KIN, KIN[:1], KIN[:3], [*KIN[2:4], ("ann", "sibling", "bob")], slots=(3, 3))
    overlap = mtbench.audit(data).overlap
    assert (overlap.triples, overlap.targets_in_training, overlap.targets) == (4, 2, 3)
    assert (overlap.entities, overlap.relations) == (3, ("child", "parent", "sibling"))
    assert overlap.targets_on_training_relations == 3


def test_pairs_that_no_path_links_and_halves_seen_on_one_side_alone_are_counted_and_said():
    graph = [("ann", "parent", "bob"), ("cat", "parent", "dan"), ("eve", "likes", "cat")]
    data = released.named("kin", KIN, [], graph, [("ann", "parent", "cat"), ("eve", "likes", "dan")], slots=(3, 2))
    found = mtbench.audit(data)
    assert found.targets["test"].apart == 1
    assert [sentence for sentence in found.findings if sentence.startswith("test triples: ")][:2] == [
        "test triples: for 1 of 2 head and tail lie in two components of the graph, and no path leads from one to the "
        "other",
        "test triples: of all 2 exactly one of the two half-links is seen in the graph",
    ]


def test_of_one_graph_nothing_is_said_twice_or_said_to_be_new():
    data = released.named("kin", KIN[:-1], KIN[-1:], KIN[:-1], KIN[-1:], slots=(3, 3))
    first, second, *others = mtbench.audit(data).findings
    assert first == "the test graph is the training graph: no entity or relation type is new in it"
    assert second == "1 of 1 test triples are training or validation triples"
    assert not [
        sentence for sentence in others if sentence.startswith("train graph") or "in train and test" in sentence
    ]


def test_datasets_of_one_training_graph_are_named_by_its_content_and_without_it_by_its_file(monkeypatch):
    data = released.named("kin", KIN, [], KIN[:2], KIN[:1], slots=(3, 2))
    record = replace(data.measured(), id="a", sources=(Source("train/graph", "https://x", 0, "", git_blob="b"),))
    file = replace(record, id="b", parts={})
    monkeypatch.setattr(catalog, "records", lambda: [record, file, replace(record, id="kin")])
    assert mtbench.audit(data).overlap.same_training == ("a",)
    untrained = replace(released.named("kin", [], [], KIN[:2], KIN[:1], slots=(3, 2)), info=file)
    found = mtbench.audit(untrained)
    assert found.overlap.same_training == ("a", "kin")
    assert "the training graph is that of a, kin as well" in found.findings


@pytest.mark.parametrize("threshold", [0, -1, 1.01, float("nan")])
def test_a_threshold_outside_its_range_is_refused(threshold):
    data = released.named("kin", KIN, KIN[:1], KIN, KIN[:1], slots=(3, 3))
    with pytest.raises(UsageError, match="threshold must be above 0 and at most 1"):
        mtbench.audit(data, threshold=threshold)


def test_relation_frequencies_and_groups():
    split = split_of([(0, 0, 1)] * 98 + [(1, 1, 2)], [(2, 2, 3)], tasks={"r0": "a", "r1": "b", "r2": "b"})
    found = audit_graph(split)
    assert found.relations == {"r0": 98, "r1": 1, "r2": 1}
    assert (found.relations_of_most, found.largest_share, found.duplicates) == (2, 0.98, 97)
    assert found.relation_types == 2
    assert found.effective_relations == pytest.approx(1 / (0.98**0.98 * 0.01**0.02))
    assert found.groups == {"a": 98, "b": 2}


def test_equal_frequencies_are_as_diverse_as_they_are_many_and_an_empty_graph_has_nothing():
    assert audit_graph(split_of([(0, number, 1) for number in range(3)], [])).effective_relations == pytest.approx(3)
    found = audit_graph(split_of([], []))
    assert (found.relations, found.effective_relations, found.relations_of_most) == ({}, 0.0, 0)
    assert two_hop_patterns(split_of([], [])) == ()


@settings(max_examples=50)
@given(triples, triples.filter(bool))
def test_targets_by_definition(graph, targets):
    split = split_of(graph, targets)
    known, pairs = set(graph), {(head, tail) for head, _, tail in graph}
    found = audit_targets(split)
    assert found.in_graph == sum(row in known for row in targets)
    assert found.reversed_pair == sum((tail, head) in pairs for head, _, tail in targets)
    assert found.reversed_same == sum((tail, relation, head) in known for head, relation, tail in targets)
    others = [any((head, other, tail) in known for other in {0, 1, 2} - {rel}) for head, rel, tail in targets]
    assert found.same_pair == sum(others)
    heads, tails = {row[:2] for row in graph}, {row[1:] for row in graph}
    cases = {(True, True): 0, (True, False): 1, (False, True): 2, (False, False): 3}
    expected = [cases[row[:2] in heads, row[1:] in tails] for row in targets]
    assert half_links(split).tolist() == expected
    assert sum(sum(part.values()) for part in found.half_links_by_relation.values()) == len(targets)
    seen = {name for head, _, tail in graph for name in (head, tail)}
    assert found.unseen_entities == sum(not {row[0], row[2]} <= seen for row in targets)
    assert found.unseen_relations == sum(row[1] not in {other for _, other, _ in graph} for row in targets)


@pytest.mark.parametrize(("others", "told"), [(9, True), (10, False)])
def test_reversed_pairs_are_a_finding_from_a_tenth_of_the_targets_on(others, told):
    test = [("bob", "child", "ann"), *(("ann", "parent", f"x{number}") for number in range(others))]
    findings = mtbench.audit(released.named("kin", KIN, KIN[:1], KIN[:1], test, slots=(3, 3))).findings
    sentence = f"test triples: for 1 of {1 + others} a triple from tail to head is in the graph"
    assert any(finding.startswith(sentence) for finding in findings) is told


@settings(max_examples=50)
@given(triples, triples.filter(bool))
def test_relation_candidates_are_those_that_are_drawn(graph, targets):
    split = split_of(graph, targets)
    found = audit_targets(split).candidates
    for protocol in ("dual", "relation"):
        drawn = draw(split, setting_of(protocol, "present")).drawn["relation"]
        assert found[protocol] == pytest.approx(drawn[1].mean())
    assert "entity" not in found


@settings(max_examples=50)
@given(triples, triples, st.sampled_from([0.3, 0.5, 1.0]))
def test_similar_relations_by_definition(graph, targets, threshold):
    of = {name: {(head, tail) for head, rel, tail in graph + targets if rel == name} for name in range(3)}
    expected = set()
    for one in range(3):
        for other in range(one, 3):
            for kind, pairs in (("near-duplicate", of[other]), ("inverse", {row[::-1] for row in of[other]})):
                shared = of[one] & pairs
                if shared and len(shared) / len(of[one] | pairs) >= threshold and (one != other or kind == "inverse"):
                    label = "symmetric" if one == other else kind
                    expected.add((f"r{one}", f"r{other}", label, len(shared)))
    found = similar_relations(split_of(graph, targets), threshold)
    assert {(row.relation, row.other, row.kind, row.pairs) for row in found} == expected
    assert len(found) == len(expected)


@settings(max_examples=50)
@given(triples, triples)
def test_two_hop_patterns_by_definition(graph, targets):
    steps = [(head, f"r{rel}", tail) for head, rel, tail in graph]
    steps += [(tail, f"^r{rel}", head) for head, rel, tail in graph]
    expected: Counter[tuple[str, str, str]] = Counter()
    for head, relation, tail in targets:
        expected.update(
            {
                (f"r{relation}", one, two)
                for start, one, middle in steps
                for again, two, end in steps
                if start == head and middle == again and end == tail and middle not in (head, tail)
            }
        )
    found = two_hop_patterns(split_of(graph, targets))
    assert {(row.relation, row.first, row.second): row.covered for row in found} == expected
    for row in found:
        assert row.targets == sum(f"r{relation}" == row.relation for _, relation, _ in targets)
