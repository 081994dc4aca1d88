"""The verbs of the leaderboard, registered in ``mtbench.cli.app.VERBS``."""
