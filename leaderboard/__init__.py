"""The leaderboard: runs of many models on many datasets, what was reported of them, and the pages that show both."""
