"""Is one model better than another."""
