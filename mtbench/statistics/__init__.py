"""Structural statistics of a triple: what the counts of a graph say of its half-links, types, rules and paths."""
