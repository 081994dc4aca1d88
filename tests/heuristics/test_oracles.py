from __future__ import annotations

import numpy as np
import pytest
from ranking_toys import random_split, small

from mtbench.evaluation.tasks import evaluate
from mtbench.heuristics import oracles
from mtbench.heuristics.oracles import SCORERS

TRIPLES = np.array([[0, 1, 2], [0, 0, 2], [2, 1, 0], [3, 2, 2], [0, 1, 1], [0, 5, 1]])


def scores(name):
    """Score known, missing, reversed and unknown triples of four people; relation 5 is an empty slot."""
    return oracles.SCORERS[name](small())(TRIPLES).tolist()


def test_scorers_on_a_graph_counted_by_hand():
    split = small()
    named = [*split.named(TRIPLES[:5]), ("ann", "<empty slot 5>", "bob")]
    assert named[0] == ("ann", "knows", "cem")
    assert scores("oracle") == [1, 0, 0, 0, 1, 0]
    assert scores("blind-oracle") == [1, 1, 0, 0, 0, 0]
    assert scores("relation-frequency") == [2, 0, 2, 2, 2, 0]
    assert scores("entity-degree") == [3, 3, 2, 1, 3, 3]


@pytest.mark.parametrize("protocol", ["dual", "entity", "relation"])
def test_the_oracle_is_perfect_under_the_standard_protocol(protocol):
    split = random_split(1)
    assert evaluate(oracles.oracle(split), split, protocol).metrics["mrr"] == 1


def test_the_blind_oracle_ties_all_relations_and_degree_does_too():
    split = random_split(2, entities=300)
    for make in (oracles.blind_oracle, SCORERS["entity-degree"]):
        with pytest.warns(UserWarning, match="40 of 40 triples tie"):
            result = evaluate(make(split), split, "relation")
        assert result.metrics == result.chance


@pytest.mark.parametrize("name", ["relation-frequency", "entity-degree"])
def test_two_do_not_look_at_the_targets(name):
    split = random_split(3)
    make = oracles.SCORERS[name]
    np.testing.assert_array_equal(make(split)(split.targets), make(split.observable())(split.targets))
