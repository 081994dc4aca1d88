"""The grid: models x datasets x seeds, each run once, in one process or on Ray, however often it is stopped."""
