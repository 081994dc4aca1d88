"""The standard evaluator: one task, one way to rank, whatever the model is made of."""
