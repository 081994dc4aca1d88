"""The evaluation settings behind the rows of the paper's tables."""
