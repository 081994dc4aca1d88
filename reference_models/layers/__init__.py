"""Layers and their arithmetic: sums over edges, blocks, attention."""
