"""Models that live in checkouts of others, asked for the leaderboard: nothing of theirs is here, nothing is fetched."""
