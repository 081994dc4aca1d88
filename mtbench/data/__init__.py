"""The catalogue, the splits it declares, and the store they are loaded from."""
