from __future__ import annotations

import literal
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_models.graphs.graph import TypedGraph
from reference_models.training.batches import Negatives


def edges_of(graph):
    return torch.stack([graph.heads, graph.slots, graph.tails], dim=1).numpy()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(0, 3), st.integers(0, 3))
def test_no_corruption_is_observed_or_the_positive_and_tails_come_first(seed, tails, relations):
    graph = literal.random_graph(seed, nodes=9, slots=6, edges=20)
    positives = np.concatenate([edges_of(graph), [[8, 5, 0]]])
    kept = positives.copy()
    found = Negatives(graph).draw(positives, tails, relations, np.random.default_rng(seed))
    assert found.shape == (len(positives), tails + relations, 3)
    np.testing.assert_array_equal(positives, kept)
    known = set(map(tuple, edges_of(graph).tolist()))
    for positive, drawn in zip(positives, found, strict=True):
        for place, negative in enumerate(drawn):
            assert tuple(negative) not in known
            column = 2 if place < tails else 1
            changed = negative != positive
            assert changed.nonzero()[0].tolist() == [column]
            assert 0 <= negative[column] < (graph.num_nodes if column == 2 else graph.num_slots)


def test_a_graph_without_edges_has_corruptions():
    graph = literal.random_graph(0, nodes=3, slots=4, edges=0)
    found = Negatives(graph).draw(np.array([[0, 1, 2]]), 2, 2, np.random.default_rng(0))
    assert (found[0, :2, 2] != 2).all()
    assert (found[0, 2:, 1] != 1).all()


def test_the_same_generator_draws_the_same():
    graph = literal.random_graph(3)
    first, second, other = (
        Negatives(graph).draw(edges_of(graph), 2, 2, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


@pytest.mark.parametrize(("column", "tails", "relations"), [(2, 4, 0), (1, 0, 4)])
def test_corruptions_are_uniform_over_all_that_are_allowed(column, tails, relations):
    """Chi-square over the eight or seven values left; 26 lies beyond the 99.9th percentile of both."""
    heads, slots, ends = torch.tensor([0, 0]), torch.tensor([3, 5]), torch.tensor([4, 1])
    graph = TypedGraph(heads, slots, ends, 10, 9, torch.float32)
    size = {2: graph.num_nodes, 1: graph.num_slots}[column]
    allowed = set(range(size)) - {2: {1, 4}, 1: {3, 5}}[column]
    positives = np.tile([[0, 5, 4]], (2000, 1))
    drawn = Negatives(graph).draw(positives, tails, relations, np.random.default_rng(0))[..., column].ravel()
    counts = np.bincount(drawn, minlength=size)
    assert {value for value in range(size) if counts[value]} == allowed
    expected = len(drawn) / len(allowed)
    chi_square = sum((counts[value] - expected) ** 2 / expected for value in allowed)
    assert chi_square < 26


def nearly_complete(free):
    """All triples of 60 nodes and 50 types with head 0, but for tail ``free`` under type 0 and types of tail 7."""
    rows = [(0, 0, v) for v in range(60) if v != free] + [(0, r, 7) for r in range(1, 50) if r != free]
    return TypedGraph(*torch.tensor(rows).unbind(dim=1), 60, 50)


def test_what_is_hard_to_corrupt_repeats_a_valid_corruption_of_its_own(monkeypatch):
    monkeypatch.setattr("reference_models.training.batches.ROUNDS", 3)
    graph, positives = nearly_complete(free=9), np.tile([[0, 0, 7]], (40, 1))
    drawn = Negatives(graph).draw(positives, 12, 12, np.random.default_rng(0))
    for column, part in ((2, drawn[:, :12]), (1, drawn[:, 12:])):
        found = (part[..., column] == 9).any(axis=1)
        assert found.any()
        assert not found.all()
        assert (part[found][..., column] == 9).all()


def test_what_cannot_be_corrupted_ends_and_stays_in_range():
    graph = TypedGraph(torch.tensor([0, 0]), torch.tensor([0, 0]), torch.tensor([0, 1]), 2, 1)
    drawn = Negatives(graph).draw(np.array([[0, 0, 1]]), 2, 2, np.random.default_rng(0))
    assert set(drawn[..., 2].ravel().tolist()) <= {0, 1}
    assert set(drawn[..., 1].ravel().tolist()) == {0}
