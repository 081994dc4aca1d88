"""A finished evaluation: saved, verified, divided into strata."""
