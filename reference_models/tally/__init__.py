"""Tally, our model: it learns to rank by counts. Statistics, lists to learn from, the model, its weights, why."""
