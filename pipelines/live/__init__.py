"""Reads running clusters, and carries out plans on them."""
