"""The version of the package, which stored datasets and runs carry."""

__version__ = "0.1.0"
