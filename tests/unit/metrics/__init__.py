"""Loads from metrics."""
