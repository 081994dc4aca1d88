"""The leaderboard: what was reported, what was submitted, what holds of it, and the page that shows all of it."""
