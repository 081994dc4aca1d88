"""How much of a split a pre-training graph has already shown."""
