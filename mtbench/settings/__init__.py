"""Settings: what a figure is of, declared once: protocols, vocabularies, and the settings of the paper's rows."""
