"""From entries to a board, beside what the paper reports."""
