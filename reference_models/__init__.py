"""The reference models: each a file, with its recipe, found by ``mtbench run`` through entry points."""
