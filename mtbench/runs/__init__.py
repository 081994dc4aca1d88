"""Finished evaluations: results and the directories that keep them, verified, divided into strata."""
