"""A dataset as files of other tools."""
