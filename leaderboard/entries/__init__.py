"""What an entry is, and whether it is what it says."""
