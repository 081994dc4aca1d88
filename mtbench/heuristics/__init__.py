"""Scorers that learn nothing, and what they reach."""
