"""Sampling: what must hold for any graph and any seed, checked on random ones against networkx-free definitions."""

from collections import Counter, deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtbench.builders.dumps.sampling import Stream, forest_fire, hold_out, largest_component, neighbours
from mtbench.errors import DatasetError

FROZEN = [804, 559, 762, 917, 911, 2, 1, 1, 2, 1]
"""What the first draws of a seed are, on every platform and with every version of NumPy."""

ids = st.integers(0, 29)
edges = st.lists(st.tuples(ids, ids), min_size=1, max_size=60)


def columns(pairs):
    array = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return array[:, 0].copy(), array[:, 1].copy()


def components(pairs, count):
    """Return the weakly connected components, by repeated union of sets."""
    parts = [{entity} for entity in range(count)]
    for head, tail in pairs:
        one = next(part for part in parts if head in part)
        other = next(part for part in parts if tail in part)
        if one is not other:
            parts.remove(other)
            one |= other
    return parts


@given(edges)
def test_neighbours_are_both_directions_without_loops_and_repeats(pairs):
    graph = neighbours(*columns(pairs), 30)
    for entity in range(30):
        expected = {b for a, b in pairs if a == entity} | {a for a, b in pairs if b == entity}
        found = graph.ids[graph.starts[entity] : graph.starts[entity + 1]].tolist()
        assert found == sorted(expected - {entity})


@given(edges)
def test_component_is_the_largest(pairs):
    found = set(largest_component(neighbours(*columns(pairs), 30)).tolist())
    parts = components(pairs, 30)
    assert found in parts
    assert len(found) == max(map(len, parts))
    assert min(found) == min(min(part) for part in parts if len(part) == len(found))


@given(edges, st.integers(0, 5), st.data())
def test_fire_burns_exactly_so_many_of_the_component(pairs, seed, data):
    graph = neighbours(*columns(pairs), 30)
    members = largest_component(graph)
    count = data.draw(st.integers(1, len(members)))
    sample = forest_fire(graph, members, count, Stream(seed, "fire"))
    assert len(sample) == count == len(set(sample.tolist()))
    assert set(sample.tolist()) <= set(members.tolist())
    assert np.array_equal(sample, forest_fire(graph, members, count, Stream(seed, "fire")))
    with pytest.raises(DatasetError, match="too large"):
        forest_fire(graph, members, len(members) + 1, Stream(seed, "fire"))


def plain_fire(graph, members, count, stream):
    """The forest fire without any shortcut, drawing in the same order."""
    sampled, passed, fire = set(), deque(maxlen=100), deque()
    while len(sampled) < count:
        if not fire:
            fire.extend(passed.popleft() for _ in range(min(10, len(passed))))
        if not fire:
            fire.append(int(members[stream.below(len(members))]))
        entity = fire.popleft()
        if entity in sampled:
            continue
        sampled.add(entity)
        around = graph.ids[graph.starts[entity] : graph.starts[entity + 1]].tolist()
        unburnt = [other for other in around if other not in sampled]
        if len(unburnt) < 2:
            fire.extend(unburnt)
            continue
        spread = min(stream.geometric(0.8), len(unburnt))
        for place in range(spread):
            other = place + stream.below(len(unburnt) - place)
            unburnt[place], unburnt[other] = unburnt[other], unburnt[place]
        fire.extend(unburnt[:spread])
        if rest := unburnt[spread:]:
            first = stream.below(len(rest))
            passed.extendleft((rest[first:] + rest[:first])[:100])
    return sorted(sampled)


@pytest.mark.parametrize("seed", range(3))
def test_fire_burns_what_the_plain_one_burns(seed):
    rng = np.random.default_rng(seed)
    # A few hubs with hundreds of neighbours, many entities with a handful.
    pairs = np.stack((2000 * rng.random(5000) ** 4, 2000 * rng.random(5000)), axis=1).astype(np.int32)
    graph = neighbours(pairs[:, 0], pairs[:, 1], 2000)
    members = largest_component(graph)
    assert np.diff(graph.starts).max() > 300
    for count in (200, len(members) - 5):
        sample = forest_fire(graph, members, count, Stream(seed, "fire"))
        assert sample.tolist() == plain_fire(graph, members, count, Stream(seed, "fire"))


def plain_hold_out(pairs, share, stream):
    """The hold-out as it is described: triple after triple, whatever stays has to keep every entity."""
    uses, hidden = Counter(entity for pair in pairs for entity in pair), []
    for row in stream.order(len(pairs)).tolist():
        fewer = uses - Counter(pairs[row])
        if len(hidden) < max(1, int(share * len(pairs))) and all(fewer[entity] for entity in pairs[row]):
            uses = fewer
            hidden.append(row)
    return sorted(hidden)


@given(edges, st.floats(0.01, 0.9), st.integers(0, 5))
def test_hidden_triples_are_those_of_the_plain_hold_out(pairs, share, seed):
    expected = plain_hold_out(pairs, share, Stream(seed, "hidden"))
    try:
        hidden = hold_out(*columns(pairs), share, Stream(seed, "hidden"))
    except DatasetError:
        assert len(expected) < max(1, int(share * len(pairs)))
    else:
        assert np.flatnonzero(hidden).tolist() == expected


def test_only_eligible_triples_are_hidden():
    head, tail = columns([(a, b) for a in range(10) for b in range(10)])
    eligible = np.arange(100) % 2 == 0
    hidden = hold_out(head, tail, 0.2, Stream(0, "x"), eligible)
    assert hidden.sum() == 10
    assert not (hidden & ~eligible).any()


def test_a_star_has_nothing_to_hide():
    with pytest.raises(DatasetError, match="only 0 of 5 triples"):
        hold_out(*columns([(0, number) for number in range(1, 6)]), 0.2, Stream(0, "x"))


def test_the_stream_of_a_seed_is_frozen():
    stream = Stream(88564, "v1/health/test/fire")
    drawn = [stream.below(1000) for _ in range(5)] + [stream.geometric(0.8) for _ in range(5)]
    assert drawn == FROZEN
    assert Stream(88564, "another").below(2**64) != Stream(88564, "v1/health/test/fire").below(2**64)


def test_draws_follow_their_distributions():
    stream = Stream(0, "distributions")
    counts = Counter(stream.geometric(0.8) for _ in range(20_000))
    for value, expected in ((1, 0.8), (2, 0.16), (3, 0.032)):
        assert abs(counts[value] / 20_000 - expected) < 0.01
    places = Counter(stream.below(4) for _ in range(20_000))
    assert set(places) == {0, 1, 2, 3}
    assert max(places.values()) < 5_400
    chosen = Counter(tuple(stream.choose([0, 1, 2], 2)) for _ in range(12_000))
    assert len(chosen) == 6
    assert max(chosen.values()) < 2_250
    assert sorted(stream.order(50).tolist()) == list(range(50))
