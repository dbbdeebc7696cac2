"""Replica counts and copysets over flat arrays."""
