from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_toys import plainly_drawn, random_split, small, splits, true_triples

from mtbench.data import catalog
from mtbench.data.catalog import Graph, Part
from mtbench.data.splits import Split, encode, vocabulary, with_known
from mtbench.errors import DatasetError, UsageError
from mtbench.files.hashing import CONTENT_HASH_OF_NOTHING
from mtbench.ranking.candidates import CANDIDATES_VERSION, draw, is_known
from mtbench.settings.table import HEADLINE, PROTOCOLS, RECORDED, SAMPLED, VOCABULARIES, setting_of

SIZES = {
    "dual": {"tail": 24, "relation": 26, "head": 24},
    "entity": {"tail": 50, "head": 50},
    "relation": {"relation": 50},
    "dual-tail": {"tail": 24, "relation": 26},
    "dual-head": {"relation": 26, "head": 24},
    "entity-tail": {"tail": 50},
    "entity-head": {"head": 50},
}
COLUMN = {"head": 0, "relation": 1, "tail": 2}
FULL = [name for name in PROTOCOLS if name not in SAMPLED]
combinations = pytest.mark.parametrize(
    ("protocol", "vocabulary"), [(protocol, vocabulary) for protocol in SAMPLED for vocabulary in VOCABULARIES]
)


def moved(target, side, other):
    return (*target[: COLUMN[side]], other, *target[COLUMN[side] + 1 :])


def plain_draw(split, target, side, protocol, vocabulary, seed):
    """Draw one target's candidates with Python integers and sets: slow, and nothing in common with the package."""
    known = true_triples(split)
    ids = range(split.num_entities)
    if side == "relation":
        ids = range(split.relation_slots) if vocabulary == "slots" else sorted(set(split.graph[:, 1].tolist()))
    allowed = [other for other in ids if moved(target, side, other) not in known]
    width = SIZES[protocol].get(side, 0)
    name = protocol.partition("-")[0]
    text = (
        f"mtbench candidates {CANDIDATES_VERSION}\ncontent {split.content_sha256}\nprotocol {name}\n"
        f"vocabulary {vocabulary}\nseed {seed}\nside {side}\n"
    )
    return plainly_drawn(text, target, allowed, width, repeated=vocabulary == "slots")


def rows(drawn, side):
    ids, valid = drawn.side(side)
    return [row[keep].tolist() for row, keep in zip(ids, valid, strict=True)]


@combinations
@settings(max_examples=40)
@given(split=splits(), seed=st.integers(0, 5))
def test_candidates_are_those_of_a_plain_implementation(protocol, vocabulary, split, seed):
    drawn = draw(split, setting_of(protocol, vocabulary), seed)
    for side in COLUMN:
        expected = [
            plain_draw(split, target, side, protocol, vocabulary, seed) for target in map(tuple, split.targets.tolist())
        ]
        assert rows(drawn, side) == expected
        ids, valid = drawn.side(side)
        assert ids.dtype == np.int64
        assert ids.shape == (len(split.targets), SIZES[protocol].get(side, 0))
        assert (ids[~valid] == -1).all()


def test_slots_without_a_single_candidate_counts_none():
    names = ["a", "b"]
    graph = [(head, "r", tail) for head in names for tail in names if (head, tail) != ("a", "b")]
    entities, relations = vocabulary(graph)
    rows_of = [encode(part, entities, relations, "full") for part in (graph, [("a", "r", "b")])]
    drawn = draw(Split("full", "test", *rows_of, entities, relations, 1), setting_of("dual", "slots"))
    assert drawn.lengths.tolist() == [[0], [0]]
    assert all((drawn.side(side)[0] == -1).all() for side in COLUMN)


@combinations
@settings(max_examples=20)
@given(split=splits(), order=st.randoms(use_true_random=False))
def test_permuting_the_targets_permutes_their_candidates(protocol, vocabulary, split, order):
    permutation = list(range(len(split.targets)))
    order.shuffle(permutation)
    ours, theirs = (
        draw(part, setting_of(protocol, vocabulary))
        for part in (split, replace(split, targets=split.targets[permutation]))
    )
    for side, (ids, _) in ours.drawn.items():
        np.testing.assert_array_equal(ids[permutation], theirs.drawn[side][0])
    np.testing.assert_array_equal(ours.lengths[:, permutation], theirs.lengths)
    assert ours.sha256 == theirs.sha256


def test_protocols_vocabularies_and_seeds_have_candidates_of_their_own():
    split = random_split(0)
    hashes = {
        draw(split, setting_of(protocol, vocabulary), seed).sha256
        for protocol in SAMPLED
        for vocabulary in VOCABULARIES
        for seed in range(3)
    }
    assert len(hashes) == 3 * 2 * len(SAMPLED)


def test_the_hash_covers_every_id_and_count():
    drawn = draw(random_split(0))
    for side, (ids, counts) in drawn.drawn.items():
        other = ids.copy()
        other[5, 3] += 1
        assert replace(drawn, drawn={**drawn.drawn, side: (other, counts)}).sha256 != drawn.sha256
        assert replace(drawn, drawn={**drawn.drawn, side: (ids, counts - 1)}).sha256 != drawn.sha256
    assert replace(drawn, content_sha256="0" * 64).sha256 != drawn.sha256


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_draw_is_the_same_on_every_platform(protocol):
    hashes = (draw(small(), setting_of(protocol, vocabulary)).sha256 for vocabulary in VOCABULARIES)
    assert tuple(found[:16] for found in hashes) == FROZEN[protocol]


@pytest.mark.parametrize("seed", [-1, True, np.True_, 2**63, 2**70, "0", 1.0, None])
@pytest.mark.parametrize("setting", [HEADLINE, setting_of("full")])
def test_a_candidate_seed_that_is_none_is_refused(setting, seed):
    with pytest.raises(UsageError, match="the candidate seed must be a whole number from 0 to 9223372036854775807"):
        draw(small(), setting, seed)


def test_a_split_is_read_only_and_what_somebody_wrote_into_is_named(monkeypatch):
    targets = np.array([[0, 0, 1], [1, 1, 2]])
    split = replace(small(), targets=targets, known=targets[:, ::-1].copy())
    for name in ("graph", "targets", "known", "entities", "relations"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(split, name)[0] = 0
    draw(split)
    targets[0] = 0, 0, 2
    published = replace(catalog.record("metafam"), candidates={"test/dual/present/0": "0" * 64})
    monkeypatch.setitem(vars(split), "release", published)
    with pytest.raises(DatasetError, match="something has written into targets since the dataset was loaded: load it"):
        draw(split)


def test_what_is_known_besides_is_filtered_hashed_and_never_shown():
    rows = [("dee", "knows", "ann"), ("bob", "likes", "cem"), ("dee", "knows", "ann"), ("eve", "knows", "ann")]
    split, left_out = with_known(small(), rows)
    assert split.named(split.known) == rows[:1]  # the second is to be predicted, and nobody is called eve
    assert left_out == 1
    assert is_known(split, split.known).all()
    assert not is_known(small(), split.known).any()
    assert split.content_sha256 != small().content_sha256 == replace(split, known=split.known[:0]).content_sha256
    assert not len(split.observable().known)
    assert "3 to predict, 1 known besides" in repr(split)
    for broken in (split.known.astype(np.int32), np.array([[0, 9, 0]])):
        with pytest.raises(DatasetError, match=r"toy test: .*known"):
            replace(split, known=broken)


def test_a_draw_that_differs_from_the_published_hash_is_refused(monkeypatch):
    split = small()
    graph, targets = Part(4, split.graph_sha256), Part(4, split.targets_sha256)
    others = Part(4, split.targets_sha256[::-1])
    record = replace(
        catalog.record("metafam"),
        id="toy",
        graphs=dict.fromkeys(("train", "test"), Graph(4, 3, 6)),
        parts={"train/graph": graph, "valid/targets": others, "test/graph": graph, "test/targets": targets},
        candidates={"test/dual/present/0": draw(split).sha256, "test/dual/slots/1": "0" * 64},
    )
    monkeypatch.setattr(catalog, "by_id", {"toy": record}.get)
    split = replace(split)
    assert split.release is record
    draw(split)
    with pytest.raises(DatasetError, match=r"toy test: the candidates test/dual/slots/1 have the hash .* published"):
        draw(split, setting_of("dual", "slots"), 1)
    for other in (
        replace(split, relation_slots=7),
        replace(split, targets=split.targets[1:]),
        replace(split, graph=split.graph[1:]),
        replace(split, known=split.graph[:1]),
        replace(split, name="valid"),
        replace(split, dataset="toy[seed=3]"),
    ):
        assert other.release is None
        draw(other, setting_of("dual", "slots"), 1)


@pytest.mark.parametrize("protocol", FULL)
def test_the_hash_of_a_full_protocol_is_that_of_its_numbers(protocol):
    split = random_split(0)
    drawn = draw(split, setting_of(protocol))
    assert draw(split, setting_of(protocol), seed=7).sha256 == drawn.sha256
    assert (draw(split, setting_of(protocol), seed=7).seed, len(drawn.sha256)) == (0, 64)
    others = {draw(split, setting_of(other, name)).sha256 for other in PROTOCOLS for name in VOCABULARIES}
    assert len(others) == 2 * len(RECORDED)
    assert replace(drawn, content_sha256="0" * 64).sha256 != drawn.sha256
    for side, (ids, counts) in drawn.drawn.items():
        for swapped in (counts[::-1], counts - 1):
            assert replace(drawn, drawn={**drawn.drawn, side: (ids, swapped)}).sha256 != drawn.sha256
    order = np.random.default_rng(0).permutation(len(split.targets))
    assert draw(replace(split, targets=split.targets[order]), setting_of(protocol)).sha256 == drawn.sha256


def test_arrays_are_read_only():
    for protocol in ("dual", "full"):
        for array in (
            array for arrays in draw(small(), setting_of(protocol)).drawn.values() for array in arrays if array.size
        ):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_a_split_without_targets_names_those_that_have_some():
    split = small().observable()
    assert split.targets_sha256 == CONTENT_HASH_OF_NOTHING
    with pytest.raises(UsageError, match=r"toy test: there are no triples to rank.*data\.valid.*data\.test"):
        draw(split)


FROZEN = {
    "dual": ("506edb42f7e2977c", "c72f070c6ca5acf9"),
    "entity": ("a896cd6b978d1469", "aff30f5490f60e29"),
    "relation": ("e68c11662fc484f5", "d7ad212c683bb2ba"),
    "dual-tail": ("65efdec59b0afbcb", "430911227e096807"),
    "dual-head": ("0cab9f8e597b4832", "f48d9d2d48ce0423"),
    "entity-tail": ("7c99d00570e0cb15", "2445af26331d1b81"),
    "entity-head": ("0a0380e494e7bb04", "56df1efb9cc0abaa"),
    "full": ("cc02980d7333cfb1", "e06f59b7ac9786c6"),
    "full-tail": ("5f0c3727ff0b763a", "e228e41a4a2f4079"),
    "full-head": ("79220d834adc64fc", "ac6fdb649ffd1b5f"),
    "full-relation": ("bec915cbc3cf871a", "35abbf969149459b"),
    "full-ultra": ("cc02980d7333cfb1", "e06f59b7ac9786c6"),
}
"""How the hashes begin among present relations and among all slots."""
