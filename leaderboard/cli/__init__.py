"""The verbs of the leaderboard, which the command line finds as entry points of the group ``mtbench.verbs``."""
