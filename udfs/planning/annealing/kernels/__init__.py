"""Moves and costs of the annealing over flat arrays."""
