"""Balance measures and leader counts over flat arrays."""
