"""Graphs as the models see them."""
