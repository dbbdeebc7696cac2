"""Sums of network traffic over flat arrays of partitions."""
