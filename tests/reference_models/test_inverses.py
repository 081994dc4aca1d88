"""Models with inverse relations score an inverse by representations of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import mtbench
from mtbench.names import InverseScorer
from mtbench.training.models import Context, factory

MODELS = ("isdea", "isdea-homo")


def scorer_of(model, split, **settings):
    made = factory(model)(Context("metafam", 0, "cpu", None, {"width": "8", "gin_layers": "2", **settings}))
    return made.scorer(split.observable())


def turned(triples):
    return triples[:, [2, 1, 0]]


@pytest.mark.parametrize("hops", ["0", "2"])
@pytest.mark.parametrize("model", MODELS)
def test_inverses_are_the_relations_of_the_graph_with_every_edge_turned(small, model, hops):
    split = mtbench.load(small).test
    own = scorer_of(model, split, inverses="true", hops=hops)
    other = replace(split, graph=turned(split.graph), targets=turned(split.targets))
    opposite = scorer_of(model, other, inverses="true", hops=hops)
    triples = split.targets
    found = own.score_inverses(triples)
    torch.testing.assert_close(found, opposite(turned(triples)), rtol=1e-4, atol=1e-4)
    assert (found - own(triples)).abs().max() > 1e-3
    np.testing.assert_array_equal(triples, split.targets)


@pytest.mark.parametrize("model", MODELS)
def test_without_inverse_relations_there_is_nothing_to_ask_for(small, model):
    split = mtbench.load(small).test
    assert isinstance(scorer_of(model, split, inverses="true"), InverseScorer)
    assert not isinstance(scorer_of(model, split, inverses="false"), InverseScorer)
