"""The conventions behind the rows of the paper's tables."""
