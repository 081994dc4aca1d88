"""Adapters: splits as other libraries' objects, and those libraries' models as scorers."""
