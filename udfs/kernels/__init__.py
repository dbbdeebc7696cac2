"""Numpy only: arrays in, arrays out. Nothing here knows of Spark, files or settings."""
