import hashlib
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranking_toys import splitmix

from mtbench.analysis.fingerprints import KINDS, canonical, collect, of_columns, of_named, of_names, of_split
from mtbench.data.ragged import splitmix64
from mtbench.data.splits import Split

NAMES = {
    "Q42": "Q42",
    " Q42\t": "Q42",
    "http://www.wikidata.org/entity/Q42": "Q42",
    "<http://www.wikidata.org/entity/Q42>": "Q42",
    "https://www.wikidata.org/wiki/Q42": "Q42",
    "https://m.wikidata.org/wiki/Special:EntityData/Q42": "Q42",
    "https://www.wikidata.org/wiki/Property:P31": "P31",
    "http://www.wikidata.org/prop/direct/P31": "P31",
    "wd:Q42": "Q42",
    "wdt:P31": "P31",
    "Property:P31": "P31",
    "/m/02mjmr": "/m/02mjmr",
    "m.02mjmr": "/m/02mjmr",
    "ns:m.02mjmr": "/m/02mjmr",
    "<http://rdf.freebase.com/ns/g.11b6_x>": "/g/11b6_x",
    "http://rdf.freebase.com/ns/people.person.nationality": "/people/person/nationality",
    "/people/person/nationality": "/people/person/nationality",
    "/a/b./c/d": "/a/b./c/d",
    "concept:city:são_paulo": "concept:city:são_paulo",
    "cafe\u0301": "caf\u00e9",
    "q42": "q42",
    "Q042x y": "Q042x y",
    "m.p. baker": "m.p. baker",
    "http://www.wikidata.org/entity/Q0": "http://www.wikidata.org/entity/Q0",
    "http://example.org/entity/Q42": "http://example.org/entity/Q42",
    "<>": "",
}


@pytest.mark.parametrize(("name", "form"), NAMES.items())
def test_canonical_names(name, form):
    assert canonical(name) == form


@given(st.text())
def test_canonical_names_are_their_own(name):
    once = canonical(name)
    assert unicodedata.is_normalized("NFC", once)
    assert of_names([name]).tolist() == of_names([canonical(name)]).tolist()


def mix(state):
    return splitmix(state, 0)


def plain(name):
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def test_fingerprints_are_what_the_page_says():
    (found,) = of_named([("Q42", "wdt:P31", "Q5")])
    head, relation, tail = map(plain, ("Q42", "P31", "Q5"))
    assert found.triple.tolist() == [mix(mix(mix(head) ^ relation) ^ tail)] == [11306250994107382802]
    assert found.pair.tolist() == [mix(mix(head) ^ tail)]
    assert found.entity.tolist() == sorted([head, tail])
    assert (found.relation.tolist(), found.lines) == ([relation], 1)
    assert {getattr(found, kind).dtype for kind in KINDS} == {np.dtype(np.uint64)}


def test_splitmix64_gives_the_published_sequence():
    state = np.array([1234567], dtype=np.uint64)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(splitmix64(state, number)[0]) for number in range(4)] == expected


def test_order_and_ends_of_a_triple_count():
    rows = [("a", "r", "b"), ("b", "r", "a"), ("a", "b", "r"), ("r", "a", "b"), ("ab", "r", "b"), ("a", "r", "bb")]
    found = collect(of_named(rows))
    assert len(found.triple) == 6
    assert len(found.pair) == len({(head, tail) for head, _, tail in rows})


def test_a_collection_is_sorted_distinct_and_counts_every_line():
    rows = [("b", "r", "a"), ("a", "s", "b"), ("b", "r", "a"), ("a", "r", "b")]
    found = collect(part for row in rows for part in of_named([row]))
    assert found.lines == 4
    for kind, number in zip(KINDS, (3, 2, 2, 2), strict=True):
        values = getattr(found, kind)
        assert len(values) == number
        assert (values[:-1] < values[1:]).all()
    assert collect([]).lines == 0
    assert all(not len(getattr(collect([]), kind)) for kind in KINDS)


def test_ids_and_names_give_the_same():
    names = np.array(["Q1", "Q2", "http://www.wikidata.org/entity/Q3"])
    triples = np.array([[0, 0, 1], [2, 0, 0]])
    split = Split("toy", "test", triples, triples[:1], names, np.array(["P1"]), 3)
    (by_id,), (by_name,) = of_split(split, triples), of_named([("Q1", "P1", "Q2"), ("Q3", "P1", "Q1")])
    for kind in KINDS:
        assert getattr(by_id, kind).tolist() == getattr(by_name, kind).tolist()
    empty = np.empty(0, dtype=np.uint64)
    assert of_columns(empty, empty, empty).lines == 0
