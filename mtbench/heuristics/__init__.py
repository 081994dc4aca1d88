"""Heuristic baselines and oracles, and what they reach."""
