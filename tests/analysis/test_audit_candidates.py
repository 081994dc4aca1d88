"""The audit of candidates: against plain counts, with a planted false negative, and on all ten benchmark datasets."""

import json
from dataclasses import replace

import numpy as np
import pytest
import released
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import random_split, small, splits, true_triples

import mtbench
from mtbench.analysis import contents
from mtbench.analysis.contents import SEEDS, audit_candidates, examine
from mtbench.data import catalog
from mtbench.data.splits import Dataset
from mtbench.metrics import closed as metrics
from mtbench.ranking.candidates import draw
from mtbench.settings.table import MAIN, SAMPLED, VOCABULARIES, setting_of

COLUMN = {"head": 0, "relation": 1, "tail": 2}


def rows_of(drawn, side):
    ids, valid = drawn.side(side)
    return [row[keep].tolist() for row, keep in zip(ids, valid, strict=True)]


def planted(split, drawn, side, row, place, value):
    """Return the draw with one candidate replaced."""
    ids, counts = drawn.drawn[side]
    changed = ids.copy()
    changed[row, place] = value
    return replace(drawn, drawn={**drawn.drawn, side: (changed, counts)})


@settings(max_examples=30)
@given(splits(), st.sampled_from(SAMPLED), st.sampled_from(VOCABULARIES), st.sampled_from(SEEDS))
def test_an_audit_is_that_of_plain_counts(split, protocol, vocabulary, seed):
    drawn = draw(split, setting_of(protocol, vocabulary), seed)
    found = examine(split, drawn)
    assert (found.protocol, found.vocabulary, found.seed) == (protocol, vocabulary, seed)
    asked = {side: number for side in COLUMN if (number := setting_of(protocol).number(side))}
    assert found.asked == asked
    rows = {side: rows_of(drawn, side) for side in asked}
    assert found.drawn == pytest.approx({side: np.mean([len(row) for row in part]) for side, part in rows.items()})
    distinct = {side: np.mean([len(set(row)) for row in part]) for side, part in rows.items()}
    assert found.distinct == pytest.approx(distinct)
    numbers = list(zip(*([len(row) for row in part] for part in rows.values()), strict=True))
    short = [any(got < number for got, number in zip(part, asked.values(), strict=True)) for part in numbers]
    assert found.short == pytest.approx(np.mean(short))
    none = [[]] * len(split.targets)
    lengths = [
        [len(one) + len(other) for one, other in zip(rows.get(way, none), rows.get("relation", none), strict=True)]
        for way in setting_of(protocol).directions
    ]
    assert found.without == sum(0 in of_target for of_target in zip(*lengths, strict=True))
    assert found.false_negatives == 0
    assert found.chance == metrics.chance(np.array(lengths).ravel())
    assert found.sha256 == drawn.sha256


@pytest.mark.parametrize("side", COLUMN)
def test_a_planted_false_negative_is_reported(side):
    split = random_split(1, entities=30, relations=5, graph=1500, targets=50)
    drawn = draw(split, setting_of("dual", "slots"))
    observable = {tuple(row) for row in split.graph.tolist()}
    before, after = split.targets[3, : COLUMN[side]].tolist(), split.targets[3, COLUMN[side] + 1 :].tolist()
    known = [other for other in range(30) if (*before, other, *after) in observable]
    assert known
    assert examine(split, planted(split, drawn, side, 3, 0, known[0])).false_negatives == 1
    own = split.targets[3, COLUMN[side]]
    twice = planted(split, planted(split, drawn, side, 3, 0, known[0]), side, 3, 1, own)
    assert examine(split, twice).false_negatives == 2


def dataset_of(split) -> Dataset:
    record = catalog.record("metafam")
    return Dataset("made", "0", split.observable(), replace(split, name="valid"), split, record)


def test_the_audit_of_a_dataset_holds_every_draw(monkeypatch):
    split = small()
    found = mtbench.audit(dataset_of(split))
    named = [(part.protocol, part.vocabulary, part.seed) for part in found.candidates]
    assert named == [(protocol, vocabulary, seed) for protocol in MAIN for vocabulary in VOCABULARIES for seed in SEEDS]
    lonely = (
        "1 test triples have no candidate and rank first for free (protocol relation; present relations; seeds 0, 1, 2)"
    )
    assert lonely in found.findings
    assert not any("known triples" in sentence for sentence in found.findings)
    assert len(json.loads(json.dumps(found.to_dict()))["candidates"]) == 18
    assert audit_candidates(split.observable()) == ()

    def wrong(split, setting, seed):
        drawn = draw(split, setting, seed)
        side = "relation" if "relation" in drawn.drawn else "tail"
        return planted(split, drawn, side, 0, 0, split.targets[0, COLUMN[side]])

    monkeypatch.setattr(contents, "draw", wrong)
    sentences = mtbench.audit(dataset_of(split)).findings
    assert sentences[0].startswith("1 test candidates are known triples, and cost whoever is right (protocols dual, ")
    assert sum("are known triples, and cost" in sentence for sentence in sentences) == 1


@pytest.mark.once
@pytest.mark.parametrize("name", released.NAMES)
def test_no_candidate_of_a_released_dataset_is_a_known_triple(name, mirror, audited):
    split = released.dataset(name, mirror).test
    known = true_triples(split)
    parts = audited(name).candidates
    assert len(parts) == 18
    for part in parts:
        assert (part.false_negatives, part.without) == (0, 0)
        if part.vocabulary == "slots":
            assert part.short == 0
            assert part.drawn == part.asked
            assert part.chance["mrr"] == pytest.approx(0.0886, abs=5e-5)
            assert part.distinct.get("relation", 0) <= split.relation_slots
        else:
            assert part.drawn == part.distinct
    drawn = draw(split, setting_of("dual", "present"), 1)
    for side, column in COLUMN.items():
        for target, row in zip(split.targets.tolist()[:300], rows_of(drawn, side)[:300], strict=True):
            corrupted = {(*target[:column], other, *target[column + 1 :]) for other in row}
            assert known.isdisjoint(corrupted)


@pytest.mark.parametrize(
    ("name", "drawn", "mrr", "hits"),
    [("metafam", 27, 0.1403, 0.3571), ("wikitopics-mt1/health", 6, 0.3704, 1.0), ("fbnell", 50, 0.0886, 0.1961)],
)
def test_how_hard_chance_makes_the_relation_protocol(name, drawn, mrr, hits, audited):
    for part in audited(name).candidates:
        if (part.protocol, part.vocabulary) == ("relation", "present"):
            assert part.drawn["relation"] == pytest.approx(drawn, abs=0.01)
            assert part.short == (drawn < 50)
            assert (part.chance["mrr"], part.chance["hits@10"]) == pytest.approx((mrr, hits), abs=1e-4)
