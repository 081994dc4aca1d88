from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import gammaln

from reference_models.training.batches import concentration_penalty, dual_sampling, one_hot_penalty


def softplus(number):
    return math.log1p(math.exp(number))


POSITIVES, TAILS, RELATIONS = [0.5, -1.0], [[0.0, 1.0], [2.0, -2.0]], [[0.25, -0.5, 3.0], [0.0, 0.0, -1.0]]


def logits():
    return (torch.tensor(part, dtype=torch.float64) for part in (POSITIVES, TAILS, RELATIONS))


def test_the_papers_loss_weighs_positives_to_negatives_as_one_to_two():
    expected = 0.0
    for positive, tails, relations in zip(POSITIVES, TAILS, RELATIONS, strict=True):
        expected += softplus(-positive) + sum(map(softplus, tails)) / 2 + sum(map(softplus, relations)) / 3
    assert float(dual_sampling(*logits(), "paper")) == pytest.approx(expected / 2, rel=1e-12)


def test_the_joint_loss_is_a_cross_entropy_that_weighs_one_to_one():
    scores = torch.cat([part.reshape(2, -1) for part in logits()], dim=1)
    labels = torch.zeros_like(scores)
    labels[:, 0] = 1
    expected = torch.nn.functional.binary_cross_entropy_with_logits(
        scores, labels, pos_weight=torch.tensor(5.0, dtype=torch.float64)
    )
    assert float(dual_sampling(*logits(), "joint")) == pytest.approx(float(expected), rel=1e-12)
    by_hand = 0.0
    for positive, tails, relations in zip(POSITIVES, TAILS, RELATIONS, strict=True):
        by_hand += 5 * softplus(-positive) + sum(map(softplus, [*tails, *relations]))
    assert float(expected) == pytest.approx(by_hand / 12, rel=1e-12)


@pytest.mark.parametrize(("weighting", "share"), [("paper", 2.0), ("joint", 1.0)])
def test_at_zero_the_negatives_pull_as_often_as_their_weight_says(weighting, share):
    parts = [torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in ((4,), (4, 2), (4, 2))]
    dual_sampling(*parts, weighting).backward()
    pulls = [float(part.grad.sum()) for part in parts]
    assert (pulls[1] + pulls[2]) / -pulls[0] == pytest.approx(share)
    assert pulls[1] == pytest.approx(pulls[2])


@pytest.mark.parametrize("weighting", ["paper", "joint"])
def test_extreme_logits_give_finite_losses_and_gradients(weighting):
    parts = [
        torch.full(shape, value, requires_grad=True) for shape, value in (((1,), -1e4), ((1, 2), 1e4), ((1, 2), 1e4))
    ]
    loss = dual_sampling(*parts, weighting)
    loss.backward()
    assert math.isfinite(loss.item())
    assert all(bool(torch.isfinite(part.grad).all()) for part in parts)


def numpy_softmax(values):
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_the_regularisers_are_entropy_and_log_gamma(tasks):
    values = np.random.default_rng(tasks).normal(size=(7, tasks))
    attention = numpy_softmax(values)
    logits = torch.from_numpy(values)
    entropy = -(attention * np.log(attention)).sum()
    assert float(one_hot_penalty(logits)) == pytest.approx(entropy, rel=1e-12, abs=1e-14)
    assert float(concentration_penalty(logits)) == pytest.approx(-gammaln(1 + attention.sum(axis=0)).sum(), rel=1e-12)


def test_the_regularisers_prefer_one_hot_rows_in_few_tasks():
    sharp, even = torch.tensor([[200.0, 0.0]] * 4), torch.zeros(4, 2)
    spread = torch.tensor([[200.0, 0.0]] * 2 + [[0.0, 200.0]] * 2)
    assert float(one_hot_penalty(sharp)) == 0
    assert float(one_hot_penalty(even)) == pytest.approx(4 * math.log(2))
    assert float(concentration_penalty(sharp)) == pytest.approx(-math.log(24))
    assert float(concentration_penalty(spread)) == pytest.approx(-2 * math.log(2))
