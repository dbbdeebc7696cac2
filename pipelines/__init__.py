"""The way the data flows: sources -> bronze -> silver -> gold, one module a stage."""

__version__ = "0.1.0"
