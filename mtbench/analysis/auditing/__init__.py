"""The defects of a dataset that its triples show."""
