"""Node prices of min-cost flows over flat arrays."""
