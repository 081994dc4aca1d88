"""Models trained, scored and kept: one run, or every topic on every other."""
