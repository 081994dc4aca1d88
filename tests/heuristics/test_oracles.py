import numpy as np
import pytest
from ranking_toys import random_split, small

from mtbench.evaluation.tasks import evaluate
from mtbench.heuristics import oracles
from mtbench.heuristics.figures import baseline

TRIPLES = np.array([[0, 1, 2], [0, 0, 2], [2, 1, 0], [3, 2, 2], [0, 1, 1], [0, 5, 1]])


def test_scorers_on_a_graph_counted_by_hand():
    split = small()
    named = [*split.named(TRIPLES[:5]), ("ann", "<empty slot 5>", "bob")]
    assert named[0] == ("ann", "knows", "cem")
    for scorer, expected in (
        (oracles.oracle(split), [1, 0, 0, 0, 1, 0]),
        (oracles.blind_oracle(split), [1, 1, 0, 0, 0, 0]),
        (baseline("relation_frequency", split), [2, 0, 2, 2, 2, 0]),
        (baseline("entity_degree", split), [3, 3, 2, 1, 3, 3]),
    ):
        assert scorer(TRIPLES).tolist() == expected  # of known, missing, reversed and unknown triples of four people


@pytest.mark.parametrize("protocol", ["dual", "entity", "relation"])
def test_the_oracle_is_perfect_under_the_standard_protocol(protocol):
    split = random_split(1)
    assert evaluate(oracles.oracle(split), split, protocol).metrics["mrr"] == 1


def test_the_blind_oracle_ties_all_relations():
    split = random_split(2, entities=300)
    with pytest.warns(UserWarning, match="40 of 40 triples tie"):
        result = evaluate(oracles.blind_oracle(split), split, "relation")
    assert result.metrics == result.chance
