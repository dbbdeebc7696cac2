"""Placement and failure analytics as functions over batches: kernels on arrays, and thin adapters for Spark."""
