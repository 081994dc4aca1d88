"""MetaFam: family trees, an ontology, and the rules that hide triples."""
