"""The dual-sampling loss and the two regularisers of the task attention."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus


def dual_sampling(positives: Tensor, tails: Tensor, relations: Tensor, weighting: str) -> Tensor:
    """Return the mean loss per positive of logits ``(b,)``, ``(b, n)`` and ``(b, m)``.

    ``paper`` is equation 5: the positive, the mean over tail corruptions and the mean over relation
    corruptions weigh 1 : 1 : 1. ``joint`` is the published code's binary cross-entropy over all logits
    with the positives weighted up, 1 : 1 between positives and negatives.
    """
    positive = softplus(-positives)
    if weighting == "paper":
        return (positive + softplus(tails).mean(dim=1) + softplus(relations).mean(dim=1)).mean()
    negatives = torch.cat([tails, relations], dim=1)
    return (negatives.shape[1] * positive + softplus(negatives).sum(dim=1)).mean() / (1 + negatives.shape[1])


def one_hot_penalty(logits: Tensor) -> Tensor:
    """Return the summed entropy of the attention rows ``(R, K)``: zero when every row is one-hot."""
    log_attention = torch.log_softmax(logits, dim=1)
    return -(log_attention.exp() * log_attention).sum()


def concentration_penalty(logits: Tensor) -> Tensor:
    """Return minus the summed log-gamma of the task sizes: lowest when few tasks hold all relations."""
    return -torch.lgamma(1 + torch.softmax(logits, dim=1).sum(dim=0)).sum()
