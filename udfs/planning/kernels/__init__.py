"""Waves of a reassignment over flat arrays."""
