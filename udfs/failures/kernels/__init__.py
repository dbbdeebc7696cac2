"""Failure sums over flat arrays of partitions."""
