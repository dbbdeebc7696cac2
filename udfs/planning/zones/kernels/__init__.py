"""Search and sums of the goal zones over flat arrays."""
