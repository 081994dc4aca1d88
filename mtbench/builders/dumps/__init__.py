"""Raw files of triples, of any size, and samples drawn from them."""
