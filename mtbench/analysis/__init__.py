"""What runs and datasets say when they are looked at again: compared, audited, drawn."""
