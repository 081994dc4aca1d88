"""From a scorer to rank counts: candidates, answers that are accepted, counts."""
