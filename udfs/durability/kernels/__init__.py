"""Copysets and loss probabilities over flat arrays."""
