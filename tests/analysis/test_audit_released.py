"""The audit finds by itself what is known to be wrong with the released data."""

import pytest
import released

from mtbench.analysis.relations import two_hop_patterns

pytestmark = pytest.mark.once
MT2_HEALTH = ("P289", "P509", "P1050", "P1057", "P1196", "P1995", "P2293", "P2597")
MT3_TAXONOMY = ("P460", "P1365", "P2670")


@pytest.mark.parametrize(
    ("name", "entities", "train_types", "train_slots", "test_types", "test_slots"),
    [
        ("metafam", 0, 28, 29, 28, 29),
        ("fbnell", 3, 100, 100, 183, 200),
        ("wikitopics-mt1/health", 116, 34, 35, 7, 8),
        ("wikitopics-mt1/taxonomy", 42, 34, 35, 9, 10),
        ("wikitopics-mt2/location", 43, 11, 19, 11, 11),
        ("wikitopics-mt2/science", 3, 11, 19, 16, 17),
        ("wikitopics-mt3/art", 31, 29, 99, 45, 65),
        ("wikitopics-mt3/infrastructure", 4, 29, 99, 27, 37),
        ("wikitopics-mt4/health", 3, 49, 94, 20, 31),
        ("wikitopics-mt4/science", 34, 49, 94, 42, 65),
    ],
)
def test_overlap_and_slots(audited, name, entities, train_types, train_slots, test_types, test_slots):
    found = audited(name)
    train, test = found.graphs["train"], found.graphs["test"]
    assert found.overlap.entities == entities
    assert (train.relation_types, train.relation_slots) == (train_types, train_slots)
    assert (test.relation_types, test.relation_slots) == (test_types, test_slots)
    assert found.overlap.triples == 0
    assert bool(found.overlap.relations) == (name in {"metafam", "fbnell"})
    assert all(part.in_graph == part.duplicates == part.unseen_entities == 0 for part in found.targets.values())
    assert train.duplicates == test.duplicates == 0


def test_metafam(audited, mirror):
    found = audited("metafam")
    for part in found.targets.values():
        assert part.reversed_pair == part.targets > 0
        assert part.reversed_same == 0
    assert len(found.overlap.relations) == found.graphs["train"].relation_types == 28
    assert found.overlap.targets_on_training_relations == 184
    valid = two_hop_patterns(released.dataset("metafam", mirror).valid)
    children, parents = {"sonOf", "daughterOf"}, {"motherOf", "fatherOf"}
    siblings = {"sisterOf", "brotherOf", "^sisterOf", "^brotherOf"}
    assert sum(row.targets for row in {row.relation: row for row in valid}.values() if row.relation in children) == 414
    assert not [row for row in valid if row.relation in children and {row.first, row.second} & children]
    kept = [row for row in valid if row.relation in parents and row.first == row.relation and row.second in siblings]
    assert {row.relation for row in kept} == parents
    assert any("none of daughterOf, sonOf is reached" in sentence for sentence in found.findings)
    assert not any("motherOf is reached" in sentence for sentence in found.findings)


def test_fbnell_targets_on_relations_of_training(audited):
    found = audited("fbnell")
    assert (found.overlap.targets_on_training_relations, found.overlap.targets) == (195, 592)
    other = "for 133 of 592 another relation leads from head to tail in the graph"
    assert any(other in line for line in found.findings)
    assert found.findings[0].startswith("195 of 592 test triples are on relation types that occur in training")


def test_the_combined_graphs_are_unbalanced(audited):
    second, third = audited("wikitopics-mt2/location").graphs["train"], audited("wikitopics-mt3/art").graphs["train"]
    assert (second.relations_of_most, len(second.relations)) == (4, 11)
    assert (third.relation_types, round(third.effective_relations, 1)) == (29, 9.2)
    for name, share, relations, triples, total in (
        ("wikitopics-mt2/location", "4 of 11", MT2_HEALTH, 94, 48364),
        ("wikitopics-mt3/art", "of 29", MT3_TAXONOMY, 1107, 64237),
    ):
        assert any(f"{share} relation types hold 99 %" in line for line in audited(name).findings)
        train = audited(name).graphs["train"]
        assert sum(train.relations.get(relation, 0) for relation in relations) == triples
        assert train.triples + train.targets == total


def test_there_are_too_few_relations_to_rank_against_and_a_validation_target_on_an_unseen_one(audited):
    candidates = audited("wikitopics-mt1/health").targets["test"].candidates
    assert candidates == pytest.approx({"dual": 6, "relation": 6}, abs=0.05)
    assert audited("wikitopics-mt3/infrastructure").targets["valid"].unseen_relations == 1
    assert audited("wikitopics-mt3/art").targets["valid"].unseen_relations == 0
