"""Which stratum a target belongs to, on graphs small enough to check by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mtbench.data.splits import Split, encode, vocabulary
from mtbench.runs.strata import STRATA, _deciles


def split_of(graph, targets, tasks=None):
    entities, relations = vocabulary(graph, targets)
    ids = [encode(rows, entities, relations, "drawn") for rows in (graph, targets)]
    return Split("drawn", "test", *ids, entities, relations, len(relations), tasks or {})


def labels(name, graph, targets, train=None, tasks=None):
    """The stratum of each target."""
    found = STRATA[name](split_of(graph, targets, tasks), train)
    return [found.names[case] for case in found.case.tolist()]


GRAPH = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "d"), ("e", "s", "a"), ("x", "r", "y")]
TARGETS = [("a", "r", "d"), ("a", "s", "b"), ("b", "r", "a"), ("c", "s", "d"), ("b", "t", "x"), ("a", "r", "a")]


def test_half_links_are_the_four_cases():
    assert labels("half_link", GRAPH, TARGETS) == ["both", "neither", "neither", "neither", "neither", "head only"]
    assert labels("half_link", GRAPH, [("e", "r", "y"), ("e", "s", "x")]) == ["tail only", "head only"]


def test_the_inverse_is_visible_whatever_its_relation():
    assert labels("inverse_visible", GRAPH, TARGETS) == [
        "not visible",
        "not visible",
        "visible",
        "not visible",
        "not visible",
        "not visible",
    ]


def test_distances_ignore_directions_and_name_what_cannot_be_reached():
    assert labels("distance", GRAPH, TARGETS) == ["3", "1", "1", "1", "unreachable", "0"]
    chain = [(f"n{i}", "r", f"n{i + 1}") for i in range(9)]
    assert labels("distance", chain, [("n0", "r", "n6"), ("n0", "r", "n7")]) == ["6", "more than 6"]


def test_relations_come_with_most_targets_first():
    found = STRATA["relation"](split_of(GRAPH, TARGETS), None)
    assert list(found.names) == ["r", "s", "t"]
    assert found.case.tolist() == [0, 1, 0, 1, 2, 0]


def test_relations_are_seen_by_their_name_in_the_training_triples():
    train = split_of([("p", "z", "q"), ("p", "s", "q")], [("p", "r", "q")])
    assert labels("relation_seen", GRAPH, TARGETS, train) == [
        *("new", "in training", "new", "in training", "new", "new"),
    ]


def test_tasks_are_the_patterns_of_the_relations():
    tasks = {"r": "parent", "t": "child"}
    assert labels("task", GRAPH, TARGETS, tasks=tasks) == ["parent", "no task", "parent", "no task", "child", "parent"]


def test_the_degree_is_that_of_the_poorer_end_or_of_the_end_asked_for():
    graph = [("a", "r", "b"), ("a", "r", "c"), ("a", "r", "d"), ("b", "r", "c"), ("e", "r", "e")]
    targets = [("a", "r", "b"), ("d", "r", "a"), ("e", "r", "a")]
    assert labels("degree", graph, targets) == ["2", "1", "2"]
    assert labels("head_degree", graph, targets) == ["3", "1", "2"]
    assert labels("tail_degree", graph, targets) == ["2", "3", "3"]


def test_deciles_hold_a_tenth_each_where_no_degree_is_shared():
    found = _deciles(np.arange(40)[::-1])
    assert list(found.names) == [f"{low} to {low + 3}" for low in range(0, 40, 4)]
    assert np.bincount(found.case).tolist() == [4] * 10


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200))
def test_deciles_are_ranges_that_keep_equal_values_together(values):
    found = _deciles(np.array(values))
    assert len(found.names) <= 10
    for value, case in zip(values, found.case.tolist(), strict=True):
        low, _, high = found.names[case].partition(" to ")
        assert int(low) <= value <= int(high or low)
    assert len(set(found.case.tolist())) == len(found.names)
